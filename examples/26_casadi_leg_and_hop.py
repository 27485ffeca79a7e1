"""CasADi plans for a closed-chain leg and for a hop.

A leg whose knee is driven through a four-bar swings its crank by half a turn, and a mass on a leg crouches and hops:
both are planned by CasADi's ``nlpsol`` with Ipopt. What to learn: ``wt.control.external`` hands CasADi machine code.
Of the leg it gets dynamics in minimal coordinates (``embedded_dynamics``): loops are closed inside, the plan has one
velocity. Of the hop it gets a whole step with contact (``contact_step``): the plan decides itself when the foot leaves
the ground. Both come with exact and sparse Jacobians, and no Python runs inside the solver.
"""

import shutil
import sys
import time

import numpy as np
from picture import BLUE, GREEN, ORANGE, save, subplots

import whippletree as wt

try:
    import casadi
except ImportError:
    print("needs casadi", file=sys.stderr)
    sys.exit(77)
if not (shutil.which("cc") or shutil.which("gcc")):
    print("needs a C compiler", file=sys.stderr)
    sys.exit(77)
IPOPT = {"print_level": 0, "sb": "yes", "hessian_approximation": "limited-memory", "tol": 1e-6, "max_iter": 300}
OPTIONS = {"print_time": False, "ipopt": IPOPT}

# --- the leg: trapezoidal collocation in (q, y), y = velocity of the crank
leg = wt.mechanisms.four_bar(lengths=(1.0, 0.3, 0.9, 0.8), masses=(0.5, 1.0, 2.0))
crank, n = leg.slice("crank").start, leg.nv
dynamics = wt.control.external(leg, "embedded_dynamics", "crank")
print(dynamics)
STEPS, H = 40, 0.02
q, y, u = casadi.MX.sym("q", n, STEPS + 1), casadi.MX.sym("y", 1, STEPS + 1), casadi.MX.sym("u", 1, STEPS + 1)
torque = casadi.vertcat(*[u if i == crank else casadi.MX.zeros(1, STEPS + 1) for i in range(n)])
v, rate = dynamics.map(STEPS + 1)(q, y, torque)
halves = H / 2 * (v[:, :-1] + v[:, 1:]), H / 2 * (rate[:, :-1] + rate[:, 1:])
equations = [q[:, 1:] - q[:, :-1] - halves[0], y[:, 1:] - y[:, :-1] - halves[1]]
start = leg.home.q
equations += [q[:, 0] - start, y[0], y[-1], q[crank, -1] - start[crank] - np.pi]
g = casadi.vertcat(*[casadi.vec(e) for e in equations])
x = casadi.vertcat(casadi.vec(q), casadi.vec(y), casadi.vec(u))
solver = casadi.nlpsol("leg", "ipopt", {"x": x, "f": H * casadi.sumsqr(u) / 100, "g": g}, OPTIONS)
guess = [wt.assemble(leg, start, hold={"crank": start[crank] + np.pi * k / STEPS}) for k in range(STEPS + 1)]
first = np.concatenate([np.ravel(guess), np.full(STEPS + 1, np.pi / STEPS / H), np.zeros(STEPS + 1)])
begun = time.process_time()
plan = solver(x0=first, lbg=0, ubg=0)
took, stats = time.process_time() - begun, solver.stats()
assert stats["success"], stats["return_status"]
found = plan["x"].full().ravel()
Q, U = found[: n * (STEPS + 1)].reshape(STEPS + 1, n), found[(n + 1) * (STEPS + 1) :]
gaps = np.abs(wt.compile(leg).constraint_residual(Q)).max()
print(f"leg: {stats['iter_count']} iterations, {took:.2f} s, at most {np.abs(U).max():.1f} N m, loop within {gaps:.0e}")
assert gaps < 5e-3  # what the trapezoidal rule leaves in steps of 20 ms

# --- the hop: multiple shooting through steps with contact
builder = wt.Builder("hopper", gravity=(0, 0, -9.81)).geometry("ground", "world", "half_space")
builder.body("foot", 0.5).geometry("sole", "foot", "point").body("trunk", 4.0)
builder.geometry("weight", "trunk", "sphere", radius=0.1).geometry("shoe", "foot", "sphere", radius=0.03)
builder.joint("up", "prismatic", "world", "foot", axis=(0, 0, 1))
builder.joint("leg", "prismatic", "foot", "trunk", axis=(0, 0, 1), start=0.5)
builder.contact("sole on ground", "sole", "ground", friction=0.8)
hopper = builder.build()
step = wt.control.external(hopper, "contact_step", sweeps=1)  # exact for one contact
print(step)
HOPS, DT, APEX = 50, 0.01, 0.25
state, push = casadi.MX.sym("s", 4, HOPS + 1), casadi.MX.sym("u", 1, HOPS)
forces = casadi.vertcat(casadi.MX.zeros(1, HOPS), push)
q_next, v_next, _ = step.map(HOPS)(state[:2, :-1], state[2:, :-1], forces, DT * np.ones((1, HOPS)))
home = np.array([0.0, 0.5, 0.0, 0.0])
equations = [casadi.vec(state[:, 1:] - casadi.vertcat(q_next, v_next)), state[:, 0] - home]
bounds = [state[0, -1], state[3, -1]]  # at the end the foot is up, and the leg is at rest
x = casadi.vertcat(casadi.vec(state), casadi.vec(push))
problem = {"x": x, "f": DT * casadi.sumsqr(push) / 1000, "g": casadi.vertcat(*equations, *bounds)}
solver = casadi.nlpsol("hop", "ipopt", problem, OPTIONS)
rows = 4 * HOPS + 4
low = np.concatenate([np.tile([-1e-6, 0.25, -20, -20], HOPS + 1), np.full(HOPS, -200.0)])
high = np.concatenate([np.tile([2, 0.75, 20, 20], HOPS + 1), np.full(HOPS, 200.0)])
guess, tried = [home], np.where(np.arange(HOPS) < 8, 20.0, np.where(np.arange(HOPS) < 26, 100.0, 0.0))
for k in range(HOPS):
    s = guess[-1]
    end = step(s[:2], s[2:], [0, tried[k] if 0.3 < s[1] < 0.7 else 39.0 - 30 * s[3]], DT)
    guess.append(np.concatenate([end[0].full().ravel(), end[1].full().ravel()]))
begun = time.process_time()
plan = solver(
    x0=np.concatenate([np.ravel(guess), tried]), lbx=low, ubx=high,
    lbg=[*np.zeros(rows), APEX, 0], ubg=[*np.zeros(rows), 2, 0],
)  # fmt: skip
took, stats = time.process_time() - begun, solver.stats()
found = plan["x"].full().ravel()
S, F = found[: 4 * (HOPS + 1)].reshape(HOPS + 1, 4), found[4 * (HOPS + 1) :]
print(f"hop: {stats['iter_count']} iterations, {took:.2f} s; foot at {S[-1, 0]:.3f} m at the end")
assert S[-1, 0] > 0.9 * APEX

# --- the plan of the hop, run by the simulation
run = wt.simulate(
    hopper, home[:2], duration=HOPS * DT, method="time_stepping", step=DT, output_dt=DT,
    controller=lambda t, q, v: np.array([0.0, F[min(int(t / DT + 0.5), HOPS - 1)]]),
)  # fmt: skip
print(f"simulated: foot at {float(run.q[-1, 0]):.3f} m")
assert abs(float(run.q[-1, 0]) - S[-1, 0]) < 0.01

figure, (left, right) = subplots(1, 2, width=10.0, height=3.6)
times = H * np.arange(STEPS + 1)
left.plot(times, Q[:, crank] - start[crank], color=BLUE, label="crank, rad")
left.plot(times, U / 10, color=ORANGE, label="torque, 10 N m")
left.set(title="a leg with a closed chain: half a turn", xlabel="time, s")
left.legend()
times = DT * np.arange(HOPS + 1)
right.plot(times, S[:, 0], color=BLUE, label="foot, m")
right.plot(times, S[:, 0] + S[:, 1], color=GREEN, label="trunk, m")
right.step(times[:-1], F / 200, color=ORANGE, label="leg force, 200 N", where="post")
right.set(title="crouch, push, fly", xlabel="time, s")
right.legend()
save(figure, hopper, run)
