"""Coupler curves of a four-bar.

Every point of the coupler draws its own closed curve while the crank turns; engineers choose the point to get the
motion they need. What to learn: a loop is closed by a constraint of the model, and ``wt.assemble`` closes it at any
crank angle, starting from the configuration before, so that the linkage stays on its branch. No masses, no simulation:
only geometry, and poses of all angles in one call.
"""

import numpy as np
from picture import GREEN, PALETTE, save, subplots

import whippletree as wt

linkage = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5))  # ground, crank, coupler, rocker

# one full turn of the crank
q = [linkage.home.q]
for angle in linkage.home.q[0] + np.linspace(0, 2 * np.pi, 181)[1:]:
    guess = q[-1].copy()
    guess[0] = angle
    q.append(wt.assemble(linkage, guess, hold={"crank": angle}))
q = np.stack(q)
dyn = wt.compile(linkage)
pose = dyn.pose("coupler rod")(q)  # (181, 4, 4): where the coupler is, at all angles at once

figure, axes = subplots(width=8, height=5.2)
for k, offset in enumerate(np.linspace(-0.9, 0.9, 7)):
    curve = pose @ np.array([0.95, offset, 0, 1])
    axes.plot(curve[:, 0], curve[:, 1], color=PALETTE[k], linewidth=2)
    axes.plot(*curve[0, :2], "o", color=PALETTE[k], markersize=6, zorder=4)

# the linkage at the start: pins at ground, crank, coupler, rocker
ends = [np.zeros(2), pose[0, :2, 3], dyn.pose("coupler end")(q[0])[:2, 3], np.array([2.0, 0.0])]
axes.plot(*np.transpose(ends), "-", color="0.25", linewidth=5, solid_capstyle="round", zorder=3)
axes.plot(*np.transpose(ends), "o", color="white", markeredgecolor="0.25", markersize=9, zorder=4)
plate = (pose[0] @ np.array([[0.95, 0.95], [-0.9, 0.9], [0, 0], [1, 1]]))[:2]
axes.plot(*plate, color=GREEN, linewidth=1, linestyle=":", zorder=2)
axes.set(
    title="curves of seven points across the coupler", xlabel="x, m", ylabel="y, m", xlim=(-0.7, 2.3), aspect="equal"
)

residual = np.abs(dyn.constraint_residual(q)).max()
print(f"the loop is closed to {residual:.1e} m at all {len(q)} angles")
save(figure)
