"""One source, many kinds of numbers.

Every function of a model is plain NumPy code that never asks what its numbers are. What to learn: give
``wt.reference`` complex numbers and a derivative falls out, exact to rounding with a step of 1e-200, where finite
differences lose half the digits at best; give it fifty-digit numbers and it is its own judge; give it symbols and it
writes the equation down; fractions stay fractions. The compiler is one more such number: it records what is done to it.
"""

from fractions import Fraction

import mpmath as mp
import numpy as np
import sympy
from picture import BLUE, GREEN, ORANGE, RED, save, subplots

import whippletree as wt

model = wt.mechanisms.double_pendulum()
ref, dyn = wt.reference(model), wt.compile(model)
q, v, tau = np.array([0.3, 1.1]), np.array([0.5, -2.0]), np.zeros(2)
e = np.array([0.0, 1.0])  # the derivative of the accelerations by the elbow's angle

# the judge: fifty digits
mp.mp.dps = 50
wide = [np.array([mp.mpf(x) for x in y]) for y in (q, v, tau)]
h = mp.mpf(10) ** -20
exact = (ref.forward_dynamics(wide[0] + h * e, *wide[1:]) - ref.forward_dynamics(wide[0] - h * e, *wide[1:])) / (2 * h)
exact = exact.astype(float)


def error(derivative):
    return max(np.linalg.norm(derivative - exact) / np.linalg.norm(exact), 1e-17)


steps = 10.0 ** np.arange(0, -17, -0.5)
forward = [error((dyn.forward_dynamics(q + h * e, v, tau) - dyn.forward_dynamics(q, v, tau)) / h) for h in steps]
central = [
    error((dyn.forward_dynamics(q + h * e, v, tau) - dyn.forward_dynamics(q - h * e, v, tau)) / (2 * h)) for h in steps
]
complex_step = [error(ref.forward_dynamics(q + 1j * h * e, v, tau).imag / h) for h in steps]
compiled = error(dyn.jvp("forward_dynamics")(q, v, tau, e, np.zeros(2), np.zeros(2)))
print(f"complex step 1e-200: {error(ref.forward_dynamics(q + 1e-200j * e, v, tau).imag / 1e-200):.0e}")

# symbols: the mass matrix, written down
elbow = sympy.Symbol("theta_2")
symbols = ref.mass_matrix(np.array([sympy.Symbol("theta_1"), elbow]))
written = [[sympy.latex(sympy.nsimplify(sympy.simplify(x))) for x in row] for row in symbols]

# fractions: a ball joint turned by the rational rotation (3, 4, 5)
top = wt.Builder("top", gravity=(0, 0, Fraction(-981, 100)))
top.body("top", Fraction(2), (0, 0, Fraction(1, 2)), (1, 1, 2))
top = top.joint("pivot", "spherical", "world", "top").build()
turned = np.array([Fraction(3, 5), Fraction(4, 5), Fraction(0), Fraction(0)])
rest = np.array([Fraction(0)] * 3)
fall = wt.reference(top).forward_dynamics(turned, rest, rest)
print("accelerations of a top, exactly:", *fall)

figure, (left, right) = subplots(1, 2, width=9.5, height=3.8, width_ratios=[1.3, 1])
left.loglog(steps, forward, color=RED, label="forward differences")
left.loglog(steps, central, color=ORANGE, label="central differences")
left.loglog(steps, complex_step, color=BLUE, label="complex numbers")
left.axhline(compiled, color=GREEN, linestyle="--", label="compiled jvp, no step at all")
left.invert_xaxis()
left.set(title="error of a derivative of the accelerations", xlabel="step, rad")
left.legend(fontsize=7)
right.set_axis_off()
right.set_title("what symbols give: the mass matrix")
for y, text in zip(
    (0.8, 0.62, 0.44), (f"M_{{11}} = {written[0][0]}", f"M_{{12}} = {written[0][1]}", f"M_{{22}} = {written[1][1]}")
):
    right.text(0.02, y, rf"${text}$", fontsize=14)
right.text(0.02, 0.22, "and fractions, for a top:", fontsize=9, weight="bold")
right.text(0.02, 0.06, rf"$\dot\omega = ({', '.join(str(x) for x in fall)})$", fontsize=13)
save(figure)
