"""Collocation of slips that turn: the angle of every slip at every point of a step is an unknown of its own.

Friction −μ fₙ d acts along d = (cos θ, sin θ). The slip u = T v has no part across it, along e = (−sin θ, cos θ):

    e(θ) · T v = 0

A slow slip turns as fast as friction can turn it, at a rate of μ fₙ eᵀ T M† Tᵀ e / |u|: without bound where slip begins
and ends. Iterating over d = u / |u| needs steps that are short against that. But nothing in the equation above is
large: Newton's method on all angles at once, with ∂v̇/∂θ from the block matrix, takes steps as long as the motion is
smooth, and starts from u = 0 at the onset of slip. What is left to Picard iteration is how forces depend on the state,
which is not stiff.
"""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.simulation.events.phase import Phase, Turning

LARGEST_TURN = 0.5
"""Largest turn of a direction in one iteration, rad."""

RANK_OF_TURNS = 1e-14
"""Relative singular value below which an equation of the angles says nothing: a slip that does not move at all."""


class SlipCorrection:
    """One step: slopes ẏ (s, n) at its points are corrected together with the angles of slip (s, k)."""

    def __init__(self, phase: Phase, times: Array, y: Array, weights: Array, slopes: Array) -> None:
        """A :class:`whippletree.simulation.adaptive.integrator.Corrector` of a phase."""
        self.phase, self.times, self.start, self.weights = phase, times, y, weights
        self.directions = phase.slip_directions(*phase.scene.motion.split(y + weights @ slopes))

    def __call__(self, slopes: Array) -> Array:
        """The slopes after one iteration."""
        turning = self.phase.turn_slips(self.times, self.start + self.weights @ slopes, self.directions)
        turns = self._turns(turning)
        self._turn(turns)
        n = turning.by_angle.shape[1]
        slopes = turning.rates.copy()
        slopes[:, -n:] += np.einsum("snk,sk->sn", turning.by_angle, turns)
        return slopes

    def _turns(self, turning: Turning) -> Array:
        """δθ (s, k) after which every slip is along its direction, to first order."""
        s, n, k = turning.by_angle.shape
        v = self.start[-n:] + self.weights @ turning.rates[:, -n:]
        u = np.einsum("skjn,sn->skj", turning.slip_rows, v)
        d = self.directions[:, self.phase.turning]
        along = np.sum(d * u, axis=2)
        across_rows = d[..., 0, None] * turning.slip_rows[:, :, 1] - d[..., 1, None] * turning.slip_rows[:, :, 0]
        across = d[..., 0] * u[..., 1] - d[..., 1] * u[..., 0]
        # e(θ + δθ) · (u + δu) = e · u − (d · u) δθ + e · T δv, with δv at a point from the turns at all of them
        matrix = -np.einsum("skn,sr,rnl->skrl", across_rows, self.weights, turning.by_angle).reshape(s * k, s * k)
        matrix[range(s * k), range(s * k)] += along.reshape(-1)
        if not (np.isfinite(matrix).all() and np.isfinite(across).all()):
            return np.full((s, k), np.nan)  # an iteration that diverges: the step is taken back
        turns = np.linalg.lstsq(matrix, across.reshape(-1), rcond=RANK_OF_TURNS)[0].reshape(s, k)
        return np.asarray(turns * min(1.0, LARGEST_TURN / max(float(np.abs(turns).max()), LARGEST_TURN)))

    def _turn(self, turns: Array) -> None:
        d = self.directions[:, self.phase.turning]
        c, s = np.cos(turns), np.sin(turns)
        turned = np.stack([c * d[..., 0] - s * d[..., 1], s * d[..., 0] + c * d[..., 1]], axis=2)
        self.directions = self.directions.copy()
        self.directions[:, self.phase.turning] = turned
