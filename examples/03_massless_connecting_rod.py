"""A crank-slider whose rod has no mass.

The mass matrix is singular, and that is fine: the loop carries the rod. What to learn: a massless link is no
approximation trick but the limit of a light one. The motion with a rod of mass m approaches the massless one in
proportion to m. Solving through the inverse of the mass matrix, as textbooks do, loses digits all the way; the
route that this library takes for light links does not notice that the mass becomes zero.
"""

import numpy as np
from picture import BLUE, GREEN, RED, save, subplots

import whippletree as wt


def run_with(mass):
    """Two seconds from rest."""
    model = wt.mechanisms.crank_slider(rod_mass=mass)
    return model, wt.simulate(model, duration=2.0, output_dt=0.02, rtol=1e-10)


massless, ideal = run_with(0.0)
print(wt.diagnose(massless))
masses = 10.0 ** np.arange(0, -13, -1)
some = masses[:7:2]
distance = [np.abs(run_with(mass)[1].q - ideal.q).max().item() for mass in some]


def lost(mass):
    """Relative error of the textbook's way through M⁻¹, against the block matrix."""
    model = wt.mechanisms.crank_slider(rod_mass=mass)
    ref, q, rest = wt.reference(model), model.home.q, np.zeros(3)
    M, A = ref.mass_matrix(q), ref.constraint_jacobian(q)
    free = np.linalg.solve(M, -ref.bias(q, rest))
    W = np.linalg.solve(M, A.T)
    textbook = free - W @ np.linalg.solve(A @ W, A @ free)
    a = ref.forward_dynamics(q, rest, rest)
    return np.linalg.norm(textbook - a) / np.linalg.norm(a)


figure, (left, right) = subplots(1, 2, width=9.5, height=3.8, width_ratios=[1.1, 1])
wt.plot(ideal, "strobe", model=massless, count=5, ax=left)
left.set_title("the rod is dashed: it has no mass")
right.loglog(some, distance, "o-", color=BLUE, label="motion: distance to the massless one")
right.loglog(masses, np.maximum([lost(m) for m in masses], 1e-17), "s-", color=RED, label="textbook's M⁻¹: digits lost")
right.loglog(some, distance[0] * some, ":", color=GREEN, label="in proportion to the mass")
right.invert_xaxis()
right.set(
    title="a light rod against none", xlabel="mass of the rod, kg (crank and slider: 1 kg)", ylabel="rad, m; or 1"
)
right.legend()
save(figure)
