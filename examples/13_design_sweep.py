"""A design sweep without compiling again.

Which counterweights on crank and rocker make a pump linkage run with the smallest peak torque? What to learn:
``wt.compile(model, parameters=[…])`` leaves numbers of the model open, as inputs that broadcast like all others, so
2500 designs × 120 crank angles are one call. And the motor's torque is a constraint force: prescribe the motion of the
crank, and the force of that row is what the motor has to give.
"""

import time

import numpy as np
from picture import BLUE, RED, save, subplots

import whippletree as wt

turning = 3.0  # rad/s
bars = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5), angle=0.0)

# the same linkage with two counterweights and a drive
builder = wt.Builder("pump", bars.gravity)
for body in bars.bodies:
    builder.body(body.name, body.mass, body.center, body.inertia)
for joint, start in zip(bars.joints, bars.home.q):
    builder.joint(joint.name, joint.kind, joint.parent, joint.child, position=joint.pose[:3, 3], start=start)
for frame in bars.frames:
    builder.frame(frame.name, frame.body, position=frame.pose[:3, 3])
for link in ("crank", "rocker"):
    builder.body(f"{link} weight").joint(
        f"{link} mount", "weld", f"{link} rod", f"{link} weight", position=(-0.4, 0, 0)
    )
builder.constraint("pin", "pin", "rocker end", "coupler end")
builder.constraint("drive", "prescribed", "crank", motion=lambda t: turning * t)
pump = builder.build()

# one turn: configurations, and velocities at unit crank rate
angles = np.linspace(0, 2 * np.pi, 121)
q = [wt.assemble(pump, hold={"crank": 0.0})]
for angle in angles[1:]:
    q.append(wt.assemble(pump, q[-1], hold={"crank": angle}, t=angle / turning))
q = np.stack(q)
dyn = wt.compile(pump, parameters=["bodies.crank weight.mass", "bodies.rocker weight.mass"])
A = wt.compile(bars).constraint_jacobian(q)
v = turning * np.concatenate([np.ones((121, 1)), -np.linalg.solve(A[..., 1:], A[..., :1])[..., 0]], axis=1)

rows = wt.constraint_set(pump).row_names
drive = next(k for k, name in enumerate(rows) if name.startswith("drive"))
crank_mass, rocker_mass = np.meshgrid(np.linspace(0, 6, 50), np.linspace(0, 8, 50))
zero = np.zeros(3)
begun = time.perf_counter()
forces = dyn.constraint_forces(q, v, zero, angles / turning, crank_mass[..., None], rocker_mass[..., None])
print(f"{forces[..., 0].size} evaluations in {time.perf_counter() - begun:.2f} s, compilation included")
torque = forces[..., drive]  # (50, 50, 121)
peak = np.abs(torque).max(axis=-1)
best = np.unravel_index(peak.argmin(), peak.shape)
print(f"peak torque {peak[0, 0]:.1f} N m without weights, {peak[best]:.1f} N m with the best")

figure, (left, right) = subplots(1, 2, width=9.5, height=3.8)
shades = left.contourf(crank_mass, rocker_mass, peak, levels=24, cmap="viridis")
left.plot(crank_mass[best], rocker_mass[best], "*", color="white", markersize=14)
figure.colorbar(shades, ax=left, label="peak torque, N m")
left.set(title="2500 designs", xlabel="weight on the crank, kg", ylabel="weight on the rocker, kg")
right.plot(np.degrees(angles), torque[0, 0], color=RED, label="no weights")
right.plot(np.degrees(angles), torque[best], color=BLUE, label="the best weights")
right.set(title="torque over one turn", xlabel="crank, °", ylabel="N m", xticks=range(0, 361, 90))
right.legend()
save(figure)
