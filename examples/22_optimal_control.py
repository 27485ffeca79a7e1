"""Two rods on a cart swing up.

They hang; one force on the cart brings both upright and keeps them there. What to learn: trajectory optimisation needs
the dynamics and its derivatives at every moment of a plan, and compiled functions take all moments in one call. Around
``forward_dynamics`` and ``forward_dynamics_derivatives`` a few lines of differential dynamic programming do the rest:
backwards for the gains, forwards along them, with all step lengths tried side by side as a batch. The same gains then
hold the rods against a push that the plan knew nothing of.
"""

import numpy as np
from picture import BLUE, GREEN, ORANGE, save, subplots

import whippletree as wt

along_y = [[1, 0, 0], [0, 0, -1], [0, 1, 0]]  # the axis of a capsule is z
builder = wt.Builder("two rods on a cart", gravity=(0, -9.81, 0))
builder.body("cart", mass=1.0).geometry("box", "cart", "box", size=(0.4, 0.2, 0.2))
builder.joint("rail", "prismatic", "world", "cart", axis=(1, 0, 0))
for joint, parent, rod, height in (("lower", "cart", "lower rod", 0.0), ("upper", "lower rod", "upper rod", 0.6)):
    builder.body(rod, mass=0.3, center=(0, 0.3, 0), inertia=(0.009, 1e-4, 0.009))
    builder.geometry(rod, rod, "capsule", radius=0.03, length=0.6, position=(0, 0.3, 0), rotation=along_y)
    builder.joint(joint, "revolute", parent, rod, position=(0, height, 0))
cart = builder.build()
dyn = wt.compile(cart)

STEP, STEPS = 0.02, 160
HANGS, UPRIGHT = np.array([0, np.pi, 0, 0, 0, 0]), np.zeros(6)
STAGE, EFFORT = STEP * np.diag([1.0, 1.0, 1.0, 0.1, 0.1, 0.1]), STEP * 0.02
END = np.diag([200.0, 800.0, 800.0, 20.0, 80.0, 80.0])


def forces(u):
    """Joint forces (..., 3) of a push u (...) on the cart."""
    return np.stack([u, 0 * u, 0 * u], axis=-1)


def next_state(x, u):
    """One step of semi-implicit Euler, of one state or many."""
    v = x[..., 3:] + STEP * dyn.forward_dynamics(x[..., :3], x[..., 3:], forces(u))
    return np.concatenate([x[..., :3] + STEP * v, v], axis=-1)


def cost(x, u):
    """Of plans (..., STEPS + 1, 6) and (..., STEPS)."""
    stages = np.einsum("...ti,ij,...tj", x[..., :-1, :], STAGE, x[..., :-1, :])
    return stages + EFFORT * (u**2).sum(axis=-1) + np.einsum("...i,ij,...j", x[..., -1, :], END, x[..., -1, :])


def improved(x, u, damping):
    """Feedback K (steps, 6) and changes k (steps,) of the pushes, from the end to the start of a plan."""
    dq, dv, dtau = dyn.forward_dynamics_derivatives(x[:-1, :3], x[:-1, 3:], forces(u))  # all moments in one call
    steps = len(u)
    A, B = np.zeros((steps, 6, 6)), np.zeros((steps, 6))
    A[:, 3:, :3], A[:, 3:, 3:], B[:, 3:] = STEP * dq, np.eye(3) + STEP * dv, STEP * dtau[:, :, 0]
    A[:, :3], B[:, :3] = STEP * A[:, 3:] + np.eye(6)[:3], STEP * B[:, 3:]
    K, k = np.zeros((steps, 6)), np.zeros(steps)
    slope, V = 2 * END @ x[-1], 2 * END
    for t in reversed(range(steps)):
        Qx, Qu = 2 * STAGE @ x[t] + A[t].T @ slope, 2 * EFFORT * u[t] + B[t] @ slope
        Qxx, Quu, Qux = 2 * STAGE + A[t].T @ V @ A[t], 2 * EFFORT + B[t] @ V @ B[t] + damping, B[t] @ V @ A[t]
        K[t], k[t] = -Qux / Quu, -Qu / Quu
        slope = Qx + K[t] * Quu * k[t] + K[t] * Qu + Qux * k[t]
        V = Qxx + np.outer(K[t], Qux)
        V = (V + V.T) / 2  # rounding that is not symmetric would grow
    return K, k


u = 2.0 * np.sin(4.0 * STEP * np.arange(STEPS))
x = np.empty((STEPS + 1, 6))
x[0] = HANGS
for t in range(STEPS):
    x[t + 1] = next_state(x[t], u[t])
lengths, damping, costs = 0.6 ** np.arange(12), 1.0, [float(cost(x, u))]
for _ in range(400):
    K, k = improved(x, u, damping)
    tried, pushes = np.tile(x, (12, 1, 1)), np.tile(u, (12, 1))
    for t in range(STEPS):  # twelve step lengths side by side
        pushes[:, t] += lengths * k[t] + (tried[:, t] - x[t]) @ K[t]
        tried[:, t + 1] = next_state(tried[:, t], pushes[:, t])
    with np.errstate(all="ignore"):
        found = cost(tried, pushes)
    best = int(np.nanargmin(found))
    if found[best] < costs[-1]:
        x, u, damping = tried[best], pushes[best], max(damping / 3, 1e-6)
        costs.append(float(found[best]))
        if costs[-2] - costs[-1] < 1e-6 * costs[-1]:
            break
    elif damping > 1e6:
        break
    else:
        damping *= 10
print(
    f"{len(costs) - 1} improvements: cost {costs[0]:.0f} to {costs[-1]:.2f}; at the end {np.abs(x[-1]).max():.1e} off"
)
assert np.abs(x[-1]).max() < 0.05

# the plan was made in coarse steps; it is run in fine ones, with its feedback, and with a push against the upper rod
K, _ = improved(x, u, 0.0)
hold, _ = improved(np.zeros((1001, 6)), np.zeros(1000), 0.0)  # upright for good


def controller(t, q, v):
    now, k = np.concatenate([q, v]), int(t / STEP)
    push = u[k] + K[k] @ (now - x[k] - (t / STEP - k) * (x[k + 1] - x[k])) if k < STEPS else hold[0] @ now
    return np.array([push, 0.0, 0.08 if 3.8 <= t < 3.9 else 0.0])


run = wt.simulate(cart, HANGS[:3], duration=8.0, method="rk4", step=5e-3, output_dt=0.02, controller=controller)
print(f"after the push: {float(np.abs(run.q[-1]).max()):.1e} off")
assert np.abs(run.q[-1]).max() < 0.1

figure, (left, middle, right) = subplots(1, 3, width=11.0, height=3.8, width_ratios=[1.5, 1.2, 1])
wt.plot(run.isel(time=slice(0, 161)), "strobe", model=cart, count=14, ax=left, layers=("bodies",))
left.set_title("3.2 s: from hanging to upright")
left.set_axis_off()
for column, color, name in ((0, BLUE, "cart, m"), (1, ORANGE, "lower rod, rad"), (2, GREEN, "upper rod, rad")):
    middle.plot(run.time, run.q[:, column], color=color, label=name)
middle.axvspan(3.8, 3.9, color="0.85")
middle.set(title="a push at 3.8 s, not planned", xlabel="time, s")
middle.legend()
right.loglog(range(1, len(costs) + 1), costs, color=BLUE)
right.set(title="cost of the plan", xlabel="improvements")
save(figure, cart, run)
