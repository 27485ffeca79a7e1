"""Through the dead point.

A parallelogram of five rods folds flat twice in every swing. There all rods lie in one line, the Jacobian loses rank,
and the equations of first order no longer say how to go on. What to learn: such points are crossed, not avoided. The
rank-revealing route takes over, the branch that the velocity points along is followed, and after ten seconds the
published position is met to nine digits.
"""

import numpy as np
from picture import BLUE, GREEN, RED, save, subplots

import whippletree as wt

model = wt.mechanisms.n_four_bar(2)
run = wt.simulate(model, duration=10.0, output_dt=0.02, rtol=1e-10, points=["B0"])
found, published = run.points[-1, 0, :2].values, np.array([0.328458111540815, 0.944518538178601])
print(f"B0 at 10 s: {found}, published {published}, {np.abs(found - published).max():.0e} m apart")

ref = wt.reference(model)
smallest = [np.linalg.svd(ref.constraint_jacobian(q), compute_uv=False)[-1] for q in run.q.values]

figure, (left, right) = subplots(1, 2, width=9.5, height=3.8)
short = run.isel(time=slice(0, 71))
wt.plot(short, "strobe", model=model, count=8, ax=left, layers=("bodies", "closures", "ground"))
left.set_title("1.4 s from upright, through flat, to hanging")
right.semilogy(run.time, smallest, color=BLUE, label="smallest singular value of A")
residual = np.abs(run.constraint_residual).max("position_row")
right.semilogy(run.time, np.maximum(residual, 1e-17), color=GREEN, label="how far loops are open, m")
energy = run.kinetic_energy + run.potential_energy
right.semilogy(run.time, np.maximum(np.abs(energy - energy[0]), 1e-17), color=RED, label="energy error, J")
right.set(title="singular again and again, and closed throughout", xlabel="time, s", ylim=(1e-17, 1e4))
right.legend(loc="upper right")
save(figure)
