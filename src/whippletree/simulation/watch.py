"""A run watched for its conditioning: δ_s along the way, tolerances that the model can meet, one warning with names.

Document 004 proposes the scaled diagonal ratio as a guard during simulation and leaves tolerances that adapt to it as
future work. Here the tolerance follows what limits it, the predicted rounding error of the accelerations: an
integrator that is asked for less than that halves its steps chasing noise.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.compiler.compiled import Compiled
from whippletree.errors import WhippletreeError
from whippletree.model import Model
from whippletree.monitor.prediction import default_route, predicted_errors
from whippletree.monitor.report import Conditioning, conditioning

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]

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
    """The conditioning of one run."""

    def __init__(self, model: Model, q: Array, v: Array, rtol: float) -> None:
        self.model = model
        self.asked = rtol
        self.start: Conditioning | None = conditioning(model, q) if model.nv <= MATRIX_UP_TO else None
        self.predicted = self._prediction(q, v)
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

    def reported(self, run: xarray.Dataset, dyn: Compiled) -> xarray.Dataset:
        """The run with δ and δ_s over time, what was found in its attributes, and at most one warning."""
        across = run["kinetic_energy"].dims
        diagonal = np.ones((*run["kinetic_energy"].shape, 1))  # nothing moves
        if self.model.nv:
            diagonal = np.asarray(dyn.diagonal_of_mass_matrix(run["q"].values))
        with np.errstate(divide="ignore", invalid="ignore"):
            # column by column: NumPy is slow at reducing a short last axis
            columns = list(np.moveaxis(diagonal, -1, 0))
            delta = np.maximum.reduce(columns) / np.minimum.reduce(columns)
        run["diagonal_ratio"] = (across, delta, {"long_name": "diagonal ratio δ of the mass matrix", "units": "1"})
        meaning = {"long_name": "scaled diagonal ratio δ_s, an estimate of κ₂", "units": "1", "scale": self.scale}
        run["scaled_diagonal_ratio"] = (across, self.scale * delta, meaning)
        run.attrs |= {"predicted_error": self.predicted}
        if np.isfinite(self.asked):
            run.attrs |= {"rtol_asked": self.asked, "rtol": self.rtol}
        messages = [*self._raised(), *self._ill(self.scale * delta, run.time.values, diagonal)]
        if messages:
            text = f"model {self.model.name!r}: {'; '.join(messages)}. {self._cure()}"
            run.attrs["conditioning"] = text
            warnings.warn(text, ConditioningWarning, stacklevel=3)
        return run

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
        k = np.unravel_index(int(np.argmax(known)), known.shape)
        heavy, light = (self._owner(int(i)) for i in (np.argmax(diagonal[k]), np.argmin(diagonal[k])))
        return [
            f"the scaled diagonal ratio reaches {known[k]:.1e} at t = {times[k[0]]:.4g} s, between {heavy} and "
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
