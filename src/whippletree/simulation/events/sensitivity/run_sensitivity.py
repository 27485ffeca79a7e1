"""The derivative of a run by its start state: variational equations along its steps, saltation matrices at its events.

    Φ̇ = F(t) Φ,    F = ∂ẏ/∂y in the tangent space (δq, δv);       Φ⁺ = S Φ⁻ at an event

Along a step y(t) is known, so F is, and the collocation of Φ is one linear system: the same points, the same order as
the motion's. A step that is too long for Φ is halved.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.step_control import COLLOCATION_ITERATIONS
from whippletree.errors import UnsupportedError
from whippletree.simulation.adaptive.collocation import Polynomial, Rule, gauss_rule, radau_rule
from whippletree.simulation.adaptive.integrator import MotionPiece
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.massless_feet.foot_slip_derivatives import tangent_of
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.events.sensitivity.phase_sensitivity import PhaseTangent, differentiable

STEP_HALVINGS = 12
"""Of one step."""

FOUND_SENSITIVITY = 1e-15
"""Change of Φ, relative to its largest entry, at which it is found."""


class Variation:
    """Φ, brought forward with the run."""

    matrix: Array
    """Φ (2nv, 2nv) at the time that has been reached."""

    def __init__(self, scene: EventEquations, tolerance: float) -> None:
        """``tolerance``: of one step, relative to the largest entry of Φ.

        Raises:
            UnsupportedError: where shapes touch whose contact has no closed form.
        """
        if not differentiable(scene):
            raise UnsupportedError(
                f"simulate: sensitivity of model {scene.model.name!r}: some of its contacts have no closed form, and "
                f"so no derivatives: leave it out, or give the bodies spheres, capsules or points"
            )
        self.matrix = np.eye(2 * scene.model.nv)
        self.tolerance = tolerance

    def begin(self, derivative: Array) -> None:
        """From a start state: what the start makes of its changes."""
        self.matrix = derivative

    def jump(self, saltation: Array) -> None:
        """Through an event."""
        self.matrix = saltation @ self.matrix

    def along(self, phase: Phase, piece: MotionPiece, end: float, wanted: Array) -> Array:
        """Φ at the wanted times (m, 2nv, 2nv) of a step; it is at the step's ``end`` then."""
        tangent, size = tangent_of(phase), self.matrix.shape
        rule = radau_rule() if phase.turning else gauss_rule()
        found: list[Array] = []
        spans = [(piece.start, end, 0)]
        while spans:
            start, stop, halved = spans.pop()
            if stop <= start:
                break
            curve = self._collocated(rule, tangent, piece.interpolant, start, stop)
            scale = self.tolerance * float(np.abs(curve.origin).max(initial=0.0))
            if halved < STEP_HALVINGS and float(curve.truncation().max(initial=0.0)) > scale:
                middle = (start + stop) / 2
                spans += [(middle, stop, halved + 1), (start, middle, halved + 1)]
                continue
            inside = wanted[(wanted > start) & (wanted <= stop)]
            found += [curve(t).reshape(size) for t in inside.tolist()]
            self.matrix = curve(stop).reshape(size)
        return np.array(found).reshape(len(found), *size)

    def _collocated(self, rule: Rule, tangent: PhaseTangent, path: Polynomial, start: float, stop: float) -> Polynomial:
        """Φ over a part of a step: (1 − h W F) Φ = Φ₀ at the collocation points."""
        h = stop - start
        times = start + h * rule.nodes
        F = tangent.flow(times, path.states(times))
        values = _solved(h * rule.weights, F, self.matrix)
        slopes = (F @ values).reshape(len(F), -1)
        return Polynomial(start, h, self.matrix.reshape(-1), rule.to_coefficients @ slopes)


def _solved(W: Array, F: Array, start: Array) -> Array:
    """Φ (s, n, n) of Φ = Φ₀ + W F Φ: iterated as the motion is, or at once where that does not converge."""
    values: Array = np.broadcast_to(start, F.shape)
    size = float(np.abs(start).max(initial=0.0))
    for _ in range(COLLOCATION_ITERATIONS):
        new = start + np.einsum("ij,jkl->ikl", W, F @ values)
        change, values = float(np.abs(new - values).max(initial=0.0)), new
        if not change > FOUND_SENSITIVITY * size:
            return values
    points, n = F.shape[:2]
    matrix = np.eye(points * n) - np.einsum("ij,jkl->ikjl", W, F).reshape(points * n, points * n)
    return np.asarray(np.linalg.solve(matrix, np.tile(start, (points, 1))).reshape(F.shape))
