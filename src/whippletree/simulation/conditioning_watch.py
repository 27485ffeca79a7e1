"""A run watched for its conditioning: δ_s along the way, tolerances that the model can meet, one warning with names.

Document 004 proposes the scaled diagonal ratio as a guard during simulation and leaves tolerances that adapt to it as
future work. Here the tolerance follows what limits it, the predicted rounding error of the accelerations: an
integrator that is asked for less than that halves its steps chasing noise.

A prediction takes longer than many a run. So the compiled accelerations are first asked how they answer to changes of
the last digit of the state: only where that comes near to the tolerance is the error predicted. Elsewhere all that is
said of it is that it is below ``CLEAR`` times the tolerance.

On the way the tolerance follows that answer: every so many steps, and where a step fails, it is asked for again. What
the prediction at the start says beyond it, as a factor, holds for the whole run. All steps that machine code takes in
one call are looked at together, so that an excursion between two questions is reported.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from whippletree.accuracy.measures import measures
from whippletree.accuracy.predicted_error import default_route, predicted_errors
from whippletree.accuracy.report import conditioning
from whippletree.arithmetic.arrays import Array, spread_signs
from whippletree.compiler.compiled import Compiled
from whippletree.errors import ConditioningWarning, WhippletreeError, warn_caller
from whippletree.functions.reference import reference
from whippletree.model import Model
from whippletree.simulation.motion import Motion
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism

SUSPICIOUS = 1e12
"""δ_s from which a run warns: accelerations keep at most four digits of the forces' sixteen."""

MATRIX_UP_TO = 200
"""Velocities up to which κ of the start is computed, which forms the mass matrix."""

WATCHED_UP_TO = 64
"""Velocities up to which the rounding error of the start is predicted."""


CHANGES, ULP = 8, float(np.finfo(float).eps)
"""How many changes of the state are tried, and their size, relative to it and to 1."""

CHANGES_OF_MANY = 2
"""How many changes of each are tried where all states of many steps are looked at."""

CLEAR = 1e-3
"""Share of the tolerance that errors of accelerations may have without being looked at. They are not where the last
digits of the state do less than this share of this share."""

A_DIGIT = 10.0
"""Times the tolerance of the start that rounding must allow on the way before a run warns: what it leaves is not known
any better. ``largest_rtol`` tells of less."""

SINGULAR_START = 1e-3
"""Predicted error from which no tolerance is raised to it: either the start is a singular configuration, a matter of
other routes, or its accelerations are noise, which is told."""


_LAST_STARTS: WeakKeyDictionary[Model, dict[str, tuple[tuple[Any, ...], float]]] = WeakKeyDictionary()
"""Of each model: what was found out about the start of its last run, with where that was and by which functions."""


@cache
def _signs(size: int) -> Array:
    """Every component up and down in another pattern, so that no two changes undo each other in all of them."""
    return spread_signs(np.arange(1, CHANGES + 1)[:, None] * np.arange(1, size + 1))


class Watch:
    """The conditioning of one run; ``rtol`` is infinite for a method without tolerances."""

    def __init__(self, motion: Motion, q: Array, v: Array, rtol: float) -> None:
        self.motion, self.model, self._q = motion, motion.model, q
        self.asked = rtol
        self._v = v
        self._apart: Motion | None = None
        self.predicted = np.nan
        if np.isfinite(rtol):
            self.predicted = self._predicted_at_start()
        self.rtol = max(rtol, self.predicted) if np.isfinite(self.predicted) else rtol
        self.largest_rtol = self.rtol

    def _predicted_at_start(self) -> float:
        """Rounding error of the accelerations at the start, or what it is surely below."""

        def predict() -> float:
            if not self._is_determined:
                return np.nan
            calm = self._noise_at_start < CLEAR * CLEAR * self.asked
            return CLEAR * self.asked if calm else self._prediction(self._q, self._v)

        return self._of_start("error", predict, self.asked)

    def _of_start(self, what: str, find: Callable[[], float], *more: Any) -> float:
        """A number of the accelerations at the start, by the functions of this run."""
        dyn = self.motion.of_run(0).dyn
        return self._known_number(what, (self._v.tobytes(), dyn.route, dyn.dtype, *more), find)

    def follow(self, motion: Motion, y: Array) -> float:
        """The relative tolerance that a state y (nq + nv,) on the way allows, of this run or another of its batch; or
        that the worst of several states (k, nq + nv) does.

        It depends on the states and on the start alone, so that it does not matter where a run was taken up.
        """
        if not self._is_determined:
            return self.asked
        noise = self._noise(motion, *motion.split(y))
        # what is known of the start, a prediction or what its error is surely below, grown as the noise has
        grown = noise * max(1.0, self.predicted / self._noise_at_start)
        if noise < CLEAR * CLEAR * self.asked or grown <= self.asked:
            return self.asked
        error = noise * self._beyond_noise
        return max(self.asked, error) if error < SINGULAR_START else self.asked

    @cached_property
    def _beyond_noise(self) -> float:
        """How many times larger the predicted error of the start is than its noise; 1 if it is not known."""
        predicted = self._of_start("prediction", lambda: self._prediction(self._q, self._v))
        return max(1.0, predicted / self._noise_at_start) if np.isfinite(predicted) else 1.0

    @cached_property
    def _noise_at_start(self) -> float:
        return self._of_start("noise", lambda: self._noise(self.motion, self._q, self._v))

    @property
    def _is_determined(self) -> bool:
        """Whether the model by itself has accelerations at the start: a massless foot has none before it touches, and
        then there is no error of theirs to follow."""
        return bool(np.isfinite(self._noise_at_start))

    def hear(self, account: Mapping[str, Any]) -> None:
        """Take over which tolerances a run was held to."""
        self.largest_rtol = max(self.rtol, float(account.get("largest_rtol", 0.0)))

    def _known_number(self, what: str, more: tuple[Any, ...], find: Callable[[], float]) -> float:
        """A number of the start; from the last run of the model, if that began at the same q and with the same more."""
        known, start = _LAST_STARTS.setdefault(self.model, {}), (self._q.tobytes(), *more)
        if what not in known or known[what][0] != start:
            known[what] = start, find()
        return known[what][1]

    @cached_property
    def scale(self) -> float:
        """κ / δ of the mass matrix at the start, by which δ becomes δ_s (004 eq. 15); NaN if it is not known."""
        return np.nan if self.model.nv > MATRIX_UP_TO else self._known_number("scale", (), self._scale)

    def _scale(self) -> float:
        m = Mechanism.of(self.model)
        found = measures(inertia.mass_matrix(m.tree, m.sweep, m.still(self._q.astype(object))).astype(float))
        with np.errstate(invalid="ignore"):
            scale = float(found.kappa / found.diagonal_ratio)
        return scale if np.isfinite(scale) else np.nan

    def _noise(self, motion: Motion, q: Array, v: Array) -> float:
        """How much accelerations change, relative to themselves, with the last digits of the state: about their error
        from rounding. Those below 1 rad/s² count as this large. Of several states (k, …) the most that one of them
        has."""
        if not self.model.nv:
            return ULP
        y = np.concatenate([q, v], axis=-1)
        signs = _signs(self.model.nq + self.model.nv)
        signs = signs if y.ndim == 1 else signs[:CHANGES_OF_MANY, None]
        states = np.concatenate([y[None], y + ULP * np.maximum(np.abs(y), 1.0) * signs])
        at, speed = motion.split(states.reshape(-1, states.shape[-1]))
        try:
            inputs = {"q": at, "v": speed, "t": np.zeros(len(at)), "tau": np.zeros(speed.shape)}
            a = (
                self._undriven(motion.of_run(0).dyn)
                .evaluate("forward_dynamics", **inputs)
                .reshape(*states.shape[:-1], -1)
            )
        except WhippletreeError:
            return np.inf  # the run itself will tell what is wrong
        a = a.reshape(*states.shape[:-1], -1)
        changes, sizes = np.square(a[1:] - a[0]).sum(axis=-1), np.square(a[0]).sum(axis=-1)
        return max(ULP, math.sqrt((changes / np.maximum(sizes, 1.0)).max()))

    def _undriven(self, dyn: Compiled) -> Motion:
        """A motion by these functions apart from the run, whose branches are not those that it meets near a state."""
        if self._apart is None or self._apart.dyn is not dyn:
            self._apart = Motion(dyn)
        return self._apart

    def _prediction(self, q: Array, v: Array) -> float:
        """Predicted error of the default route at the start; accelerations below 1 rad/s² count as this large. NaN if
        not known, infinite where no digit is certain, and digits are lost that the last ones of the state do not
        explain."""
        if not 0 < self.model.nv <= WATCHED_UP_TO:
            return np.nan
        route = default_route(self.model)
        try:
            error = float(predicted_errors(self.model, q, v, routes=(route,), smallest=1.0)[route])
        except WhippletreeError:
            return np.nan  # the run itself will tell what is wrong
        if error < SINGULAR_START:
            return error
        return np.inf if self._has_lost_digits(q, v) else np.nan

    def _has_lost_digits(self, q: Array, v: Array) -> bool:
        """Whether a direct call for the accelerations would warn (:mod:`whippletree.functions.lost_digits`)."""
        function: Any = reference(self.model).forward_dynamics
        given = {"q": q, "v": v}
        inputs = {
            name: given.get(name, (np.ones if name == "active" else np.zeros)(shape))
            for name, shape in function.shapes.items()
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConditioningWarning)
            try:
                function(**inputs)
            except WhippletreeError:
                return False  # the run itself will tell what is wrong
        return bool(function.digits_lost)

    def attributes(self) -> dict[str, Any]:
        """Findings before the run."""
        if not np.isfinite(self.asked):
            return {}
        return {"predicted_error": self.predicted, "rtol_asked": self.asked, "rtol": self.rtol}

    def warn(self, times: Array, diagonal: Array, scaled: Array) -> dict[str, Any]:
        """At most one warning about the run, its text as an attribute.

        From the diagonal of M (k, nv) and δ_s (k,) at times (k,).
        """
        messages = [*self._reasons(), *self._ill(scaled, times, diagonal)]
        if not messages:
            return {}
        text = f"model {self.model.name!r}: {'; '.join(messages)}. {self._cure()}"
        warn_caller(text, ConditioningWarning)
        return {"conditioning": text}

    def _reasons(self) -> list[str]:
        found = []
        if np.isinf(self.predicted):
            found.append("rounding leaves no digit of the accelerations at the start for certain")
        if self._loses_digits:
            found.append(
                f"rtol = {self.asked:.1e} asks for digits that the accelerations lose on the way: rounding allows "
                f"rtol = {self.largest_rtol:.1e} there"
            )
        elif self.rtol > self.asked:
            found.append(
                f"rtol = {self.asked:.1e} asks for digits that the accelerations do not have (predicted rounding error "
                f"{self.predicted:.1e}); rtol = {self.rtol:.1e} was used"
            )
        return found

    @property
    def _loses_digits(self) -> bool:
        """Whether accelerations lose digits on the way that were asked for."""
        return self.largest_rtol > A_DIGIT * self.rtol

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
        if self.rtol > self.asked and not self._prediction(self._q, 0 * self._v) > self.asked:
            return "At rest they would have them: the terms of the velocities cancel. Ask for a larger rtol"
        names = ""
        start = conditioning(self.model, self._q) if self.model.nv <= MATRIX_UP_TO else None
        if start is not None and start.lightest is not None and start.lightest != start.heaviest:
            names = f"merge {start.lightest.body!r} with a neighbour or give its joint a rotor, "
        larger = "ask for a larger rtol, " if self._loses_digits else ""
        return f"Cures: {larger}{names}use other units or coordinates, another route; see wt.conditioning(model, q)"


def ratio(diagonal: Array) -> Array:
    """δ (k,), the largest over the smallest entry of each diagonal (k, nv)."""
    if not diagonal.shape[-1]:
        return np.ones(len(diagonal))  # nothing moves
    columns = np.ascontiguousarray(diagonal.T)  # NumPy is slow at reducing a short last axis
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(columns.max(axis=0) / columns.min(axis=0))
