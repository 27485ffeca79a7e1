"""A humanoid keeps its balance under pushes.

Somebody pushes the trunk: forwards, sideways, backwards. What to learn: inverse dynamics as a quadratic program. The
controller asks for the centre of mass above the feet, an upright trunk and a posture, and finds torques, accelerations
and contact forces together, so that no foot pulls, no friction cone is left and no motor gives more than it can. The
centre of pressure stays under the soles because every corner only pushes. When the contacts cannot do what is asked,
the answer says which.
"""

import os

import numpy as np
from picture import PALETTE, save, subplots

import whippletree as wt

SECONDS, STEP = float(os.environ.get("EXAMPLE_SECONDS", 4.0)), 2e-3
PUSHES = ((0.3, 0.4, (90.0, 0.0, 0.0)), (1.3, 1.4, (0.0, 70.0, 0.0)), (2.3, 2.4, (-80.0, 30.0, 0.0)))

man = wt.mechanisms.humanoid()
dyn = wt.compile(man)
friction = wt.contact_set(man).friction
center = dyn.center_of_mass(man.home.q)

task = wt.control.task
tasks = [
    task("center_of_mass", weight=100.0, stiffness=60.0),
    task("momentum.rotation", weight=1.0, damping=5.0),
    task("trunk.rotation", weight=20.0, stiffness=80.0),
    task("posture", weight=0.2, stiffness=60.0),
]
control = wt.control.whole_body(man, tasks, dyn=dyn)
print(control)
beyond, effort, unmet = [], [], []


def push(t):
    """Force on the trunk, N, which the controller knows nothing of."""
    return sum((np.array(force) for begin, end, force in PUSHES if begin <= t < end), np.zeros(3))


def controller(t, q, v):
    touching = dyn.contact_gaps(q) < 2e-3
    found = control(q, v, touching=touching.astype(float))
    forces = found.contact_forces.reshape(-1, 3)
    beyond.append((np.hypot(forces[:, 1], forces[:, 2]) - friction * forces[:, 0])[touching].max(initial=-np.inf))
    effort.append(np.abs(found.tau).max())
    unmet.append(found.report[1])
    wrench = np.concatenate([np.zeros(3), dyn.pose("trunk")(q)[:3, :3].T @ push(t)])
    return found.tau + dyn.jacobian("trunk")(q).T @ wrench


run = wt.simulate(man, duration=SECONDS, method="time_stepping", step=STEP, output_dt=0.02, controller=controller)
assert not run.attrs["failure"]
way = np.asarray(dyn.center_of_mass(run.q.values)) - center
print(f"{SECONDS:g} s: centre of mass within {np.abs(way).max():.3f} m, at the end {np.abs(way[-1]).max():.4f} m")
print(f"furthest out of a friction cone {max(beyond):.1e} N, largest effort {max(effort):.0f} N m")
assert np.abs(way[:, 2]).max() < 0.1
assert max(beyond) < 0
assert max(effort) <= 150.0 * (1 + 1e-9)
p = run.contact_force.values
assert np.all(np.hypot(p[..., 1], p[..., 2]) <= friction * p[..., 0] + 1e-6)  # in the simulation too

lost = control(man.home.q, man.home.v, touching=np.zeros(8))  # in the air it falls, and nothing is NaN
assert np.all(np.isfinite(lost.tau))
print("\n".join(map(str, control.explain(lost))))

figure, (left, right) = subplots(1, 2, width=10.0, height=3.6)
for k, name in enumerate("xyz"):
    left.plot(run.time, 100 * way[:, k], color=PALETTE[k], label=name)
for begin, end, _ in PUSHES:
    left.axvspan(begin, end, color="0.85")
left.set(title="centre of mass, and pushes", xlabel="time, s", ylabel="cm")
left.legend()
for side, color in (("left", PALETTE[0]), ("right", PALETTE[1])):
    mine = [k for k, name in enumerate(wt.contact_set(man).names) if name.startswith(side)]
    right.plot(run.time, p[:, mine, 0].sum(axis=1), color=color, label=f"{side} foot")
right.set(title="normal force of each foot", xlabel="time, s", ylabel="N")
right.legend()
save(figure, man, run)
