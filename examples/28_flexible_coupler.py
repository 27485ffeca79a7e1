"""A four-bar whose coupler bends.

The same four-bar twice, with a rigid and with a flexible coupler, from the same start. What to learn: modes suit their
frame. The coupler is pinned at both ends, so its reference frame lies along the chord and its modes are those of a
pinned beam: the loop closes at the bent frame ``coupler/tip`` as it does for the rigid bar, and inertia alone makes the
bar bow.
"""

import numpy as np
from picture import BLUE, ORANGE, save, subplots

import whippletree as wt

CRANK, COUPLER, ROCKER, GROUND = 0.25, 1.0, 0.7, 1.0
BAR = wt.flexible.beam(
    length=COUPLER, bending_stiffness=30.0, mass_per_length=0.5, modes=3, ends="pinned-pinned", damping_ratio=0.01,
    polar_inertia=1e-4, frames={"middle": COUPLER / 2, "tip": COUPLER},
)  # fmt: skip


def four_bar(flexible):
    """Three bars in the x–y plane, uniform, 1 kg/m; the coupler 0.5 kg/m."""
    builder = wt.Builder("four-bar with a thin coupler", (0, -9.81, 0))
    for name, length in (("crank", CRANK), ("rocker", ROCKER)):
        about = length**3 / 12
        builder.body(name, length, center=(length / 2, 0, 0), inertia=(1e-4, about, about))
    if flexible:
        builder.flexible_body("coupler", BAR)
    else:
        about = 0.5 * COUPLER**3 / 12
        builder.body("coupler", 0.5 * COUPLER, center=(COUPLER / 2, 0, 0), inertia=(1e-4, about, about))
    builder.joint("drive", "revolute", "world", "crank", start=1.5)
    builder.joint("knee", "revolute", "crank", "coupler", position=(CRANK, 0, 0), start=-1.2)
    builder.joint("pivot", "revolute", "world", "rocker", position=(GROUND, 0, 0), start=1.8)
    end = "coupler/tip" if flexible else "end"
    if not flexible:
        builder.frame("end", "coupler", position=(COUPLER, 0, 0))
    builder.frame("far", "rocker", position=(ROCKER, 0, 0)).constraint("pin", "pin", end, "far")
    return builder.build()


# the rigid linkage says how its joints turn together; both start like that, the flexible bar straight and unbent
rigid = four_bar(flexible=False)
rates = wt.compile(rigid).project_velocity(rigid.home.q, np.array([12.0, 0.0, 0.0]))

figure, (left, right) = subplots(1, 2, width=10.0, height=4.2)
for flexible, color, label in ((False, ORANGE, "rigid coupler"), (True, BLUE, "flexible coupler")):
    model = four_bar(flexible)
    v = np.zeros(model.nv)
    for joint in ("drive", "knee", "pivot"):
        v[model.slice(joint)] = rates[rigid.slice(joint)]
    run = wt.simulate(model, model.home.q, v, duration=1.0, rtol=1e-6, atol=1e-8)
    right.plot(run.time, run.q.sel(coordinate="pivot"), color=color, label=label)
    print(f"{label}: {run.attrs['steps']} steps, energy drift {run.attrs['energy_drift']:.1e} J")
bend = run.q.values[:, model.q_slice("coupler/modes")] @ BAR.frame("middle").shapes[:, 1].astype(float)
left.plot(run.time, 1e3 * bend, color=BLUE)
left.set(title="deflection of the coupler's middle", xlabel="time, s", ylabel="mm")
right.set(title="angle of the rocker", xlabel="time, s", ylabel="rad")
right.legend()
save(figure, model, run)
