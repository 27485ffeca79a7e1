"""When is the answer noise? The conditioning of a chain.

The condition number κ₂ of a chain's mass matrix grows with the fourth power of its length; the ratio of its diagonal
entries, which costs nothing, follows it while the chain swings. What to learn: two questions that are often mixed. κ₂
tells how sensitive the *problem* is to errors in forces and masses. How wrong the *answer* is depends on the route: the
recursion over bodies keeps its sixteen digits on chains where solving with the mass matrix has lost five of them.
"""

import mpmath as mp
import numpy as np
from picture import BLUE, GREEN, ORANGE, RED, save, subplots

import whippletree as wt

# κ₂, δ and the scaled ratio of a swinging chain of ten rods
swinging = wt.mechanisms.chain(10)
run = wt.simulate(swinging, duration=2.0, output_dt=0.01, rtol=1e-6)
report = wt.conditioning(swinging, run.q.values)

# errors of two routes on longer and longer chains, against forty digits
lengths = (4, 8, 16, 32, 48)
kappa, recursive, factorised = [], [], []
mp.mp.dps = 40
for n in lengths:
    chain = wt.mechanisms.chain(n)
    q = np.full(n, 0.1)
    zero = np.zeros(n)
    ref = wt.reference(chain)
    exact = ref.forward_dynamics(*(np.array([mp.mpf(x) for x in y]) for y in (q, zero, zero)))
    exact = exact.astype(float)
    by_recursion = ref.forward_dynamics(q, zero, zero)
    by_factor = np.linalg.solve(ref.mass_matrix(q), -ref.bias(q, zero))
    size = np.linalg.norm(exact)
    kappa.append(wt.conditioning(chain, q).kappa.item())
    recursive.append(np.linalg.norm(by_recursion - exact) / size)
    factorised.append(np.linalg.norm(by_factor - exact) / size)
    print(f"{n:3d} rods: κ₂ = {kappa[-1]:.1e}, error {recursive[-1]:.0e} by recursion, {factorised[-1]:.0e} through M")

figure, (left, right) = subplots(1, 2, width=9.5, height=3.8)
left.semilogy(run.time, report.kappa, color=BLUE, label="κ₂")
left.semilogy(run.time, report.diagonal_ratio, color=GREEN, label="δ, the diagonal ratio")
scaled = report.scaled_diagonal_ratio(report.reference_scale.flat[0])
left.semilogy(run.time, scaled, "--", color=ORANGE, label="δ, scaled once at the start")
left.set(title="ten rods, let go level", xlabel="time, s")
left.legend()
right.loglog(lengths, kappa, "o-", color=BLUE, label="κ₂")
right.loglog(lengths, factorised, "s-", color=RED, label="error through the mass matrix")
right.loglog(lengths, recursive, "o-", color=GREEN, label="error of the recursion")
right.set(title="longer chains", xlabel="rods", xticks=lengths, xticklabels=lengths)
right.minorticks_off()
right.legend(loc="center left")
save(figure)
