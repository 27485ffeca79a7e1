"""A run watched for its conditioning: δ_s along the way, tolerances that the model can meet, one warning with names.

Document 004 proposes the scaled diagonal ratio as a guard during simulation and leaves tolerances that adapt to it as
future work. Here the tolerance follows what limits it, the predicted rounding error of the accelerations: an
integrator that is asked for less than that halves its steps chasing noise.
"""

from __future__ import annotations

import warnings
from functools import reduce
from typing import Any

import numpy as np

from whippletree.accuracy.predicted_error import default_route, predicted_errors
from whippletree.accuracy.report import Conditioning, conditioning
from whippletree.arithmetic.arrays import Array
from whippletree.errors import WhippletreeError
from whippletree.model import Model

SUSPICIOUS = 1e12
"""δ_s from which a run warns: accelerations keep at most four digits of the forces' sixteen."""

MATRIX_UP_TO = 200
"""Velocities up to which κ of the start is computed, which forms the mass matrix."""

PREDICTED_UP_TO = 64
"""Velocities up to which the rounding error of the start is predicted."""


SINGULAR = 1e-3
"""Predicted error from which the start counts as a singular configuration: a matter of other routes."""


class ConditioningWarning(UserWarning):
    """A run whose accelerations keep few digits, or whose tolerance was raised to what the model can give."""


class Watch:
    """The conditioning of one run; ``rtol`` is infinite for a method without tolerances."""

    def __init__(self, model: Model, q: Array, v: Array, rtol: float) -> None:
        self.model = model
        self.asked = rtol
        self.start: Conditioning | None = conditioning(model, q) if model.nv <= MATRIX_UP_TO else None
        self.predicted = self._prediction(q, v) if np.isfinite(rtol) else np.nan
        self.rtol = rtol if np.isnan(self.predicted) else max(rtol, self.predicted)
        scale = np.nan if self.start is None else float(self.start.reference_scale)
        self.scale = scale if np.isfinite(scale) else np.nan

    def _prediction(self, q: Array, v: Array) -> float:
        """Of the default route at the start; accelerations below 1 rad/s² count as this large. NaN if not known."""
        if not 0 < self.model.nv <= PREDICTED_UP_TO:
            return np.nan
        route = default_route(self.model)
        try:
            error = float(predicted_errors(self.model, q, v, routes=(route,), smallest=1.0)[route])
        except WhippletreeError:
            return np.nan  # the run itself will tell what is wrong
        return error if error < SINGULAR else np.nan

    def attributes(self) -> dict[str, Any]:
        """What was found before the run."""
        if not np.isfinite(self.asked):
            return {}
        return {"predicted_error": self.predicted, "rtol_asked": self.asked, "rtol": self.rtol}

    def warned(self, times: Array, diagonal: Array, scaled: Array) -> dict[str, Any]:
        """At most one warning about the run, its text as an attribute.

        From the diagonal of M (k, nv) and δ_s (k,) at times (k,).
        """
        messages = [*self._raised(), *self._ill(scaled, times, diagonal)]
        if not messages:
            return {}
        text = f"model {self.model.name!r}: {'; '.join(messages)}. {self._cure()}"
        warnings.warn(text, ConditioningWarning, stacklevel=4)
        return {"conditioning": text}

    def _raised(self) -> list[str]:
        if self.rtol <= self.asked:
            return []
        return [
            f"rtol = {self.asked:.1e} asks for digits that the accelerations do not have (predicted rounding error "
            f"{self.predicted:.1e}); rtol = {self.rtol:.1e} was used"
        ]

    def _ill(self, scaled: Array, times: Array, diagonal: Array) -> list[str]:
        known = np.where(np.isnan(scaled), 0.0, scaled)
        if not known.size or known.max() < SUSPICIOUS:
            return []
        k = int(np.argmax(known))
        heavy, light = (self._owner(int(i)) for i in (np.argmax(diagonal[k]), np.argmin(diagonal[k])))
        return [
            f"the scaled diagonal ratio reaches {known[k]:.1e} at t = {times[k]:.4g} s, between {heavy} and "
            f"{light}: accelerations magnify errors of forces by about that"
        ]

    def _owner(self, i: int) -> str:
        owners = zip(self.model.joints, self.model.v_slices, strict=True)
        joint = next(joint for joint, part in owners if part.start <= i < part.stop)
        return f"joint {joint.name!r} (body {joint.child!r})"

    def _cure(self) -> str:
        names = ""
        if self.start is not None and self.start.lightest is not None:
            names = f"merge {self.start.lightest.body!r} with a neighbour or give its joint a rotor, "
        return f"Cures: {names}use other units or coordinates, another route; see wt.conditioning(model, q)"


def ratio(diagonal: Array) -> Array:
    """δ (k,), the largest over the smallest entry of each diagonal (k, nv)."""
    if not diagonal.shape[-1]:
        return np.ones(len(diagonal))  # nothing moves
    columns = diagonal.T  # column by column: NumPy is slow at reducing a short last axis
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(reduce(np.maximum, columns) / reduce(np.minimum, columns))
