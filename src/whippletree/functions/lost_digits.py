"""Direct calls watched for lost digits: a warning where an answer has fewer than its inputs explain.

A status of 0 says that there is an answer, not how many of its digits are right. They are looked at in two stages:

1. The answer is compared with that of the same function in the reference on long doubles
   (:mod:`whippletree.arithmetic.rounding_tape`), which have eleven bits more: answers that agree have not lost any
   digit that matters. This takes one evaluation in Python. (Other last digits in the inputs would not make it safer:
   what they change may undo the error.)
2. Where they do not agree, or the machine has no long doubles, the operations are recorded
   (:mod:`whippletree.arithmetic.rounding_tape`): Δ bounds what rounding does to the answer, and ε what one unit in the
   last place of the inputs does. Digits are lost where Δ is more than ``LOSSY`` of the answer and more than
   ``EXPLAINED`` times ε. At a dead point, where the problem itself is sensitive, they are explained.

Where every call is to be looked at, so are matrices, column by column, derivatives, and models of any size. Operations
are too many to be recorded there: the error is the difference from long doubles, and what the inputs explain is what
other last digits in state and model do to these. Single precision is looked at in the same way, against doubles. Where
Δ is infinite, since something is divided by a number of which rounding leaves no digit for certain, that difference
tells whether digits are lost; then all of them count as lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree import functions
from whippletree.arithmetic import rounding_tape
from whippletree.arithmetic.arrays import Array, spread_signs
from whippletree.arithmetic.rounding_tape import HALF_UNIT, RoundingTape
from whippletree.errors import ConditioningWarning, WhippletreeError
from whippletree.model import Model
from whippletree.model.input_checks import warn_user
from whippletree.model.parameters import with_scalars

if TYPE_CHECKING:
    from whippletree.functions.reference import ReferenceFunction
    from whippletree.functions.registry import Function

LOSSY = 1e-9
"""Relative error of an answer that its user should know of."""

SMALLEST_SIZE = 1.0
"""In SI units: errors of a smaller result are compared with this. A body that is held, or in balance, has accelerations
of zero, in which no digit is right and none is missed."""

EXPLAINED = 1e3
"""How many times larger errors from rounding may be than those that the last digits of the inputs make anyway: the
bound adds up hundreds of operations, of which most do not happen to err by the most that they can."""

SUSPICIOUS_SHARE = 2.5e-10
"""Relative difference from an answer on long doubles from which operations are recorded: a quarter of what counts as
lossy. Such an answer errs two thousand times less, so the difference is the
error; bounds alone would warn of what is sound (Cassie's velocities by the block matrix: bound 2e-9, error 1e-10)."""

SHAKEN = 2.0**-50
"""Relative change of every number, up to four units in its last place: each operation rounds anew."""

UNEXPLAINED = 2.0
"""How many times larger a difference from long doubles may be than what other last digits of state and model do to
them: a difference is an error, and no bound."""

RECORDED_VELOCITIES = 64
"""Velocities up to which operations are recorded: the bounds of all results take time with the square of them."""

LOSSY_SINGLE = 1e-3
"""Relative error of an answer in single precision that its user should know of."""

EVERY, FIRST, VECTORS, NEVER = "every", "first", "vectors", "never"
"""Which calls are watched: all, the first ones, those with numbers or vectors for results, none."""

NOT_WATCHED = "not watched"
"""What a function says of its calls where none is looked at."""


class Precision(NamedTuple):
    """Numbers in which an answer was computed, and those that know better."""

    unit: float
    """Half a unit in the last place of 1."""
    digits: int
    lossy: float
    """Relative error of an answer that its user should know of."""
    shaken: float
    """Relative change of every number, up to four units in its last place."""
    better: Callable[[Any], Any]
    """Converts a number to one with more digits."""


DOUBLE = Precision(HALF_UNIT, 16, LOSSY, SHAKEN, np.longdouble)
SINGLE = Precision(float(np.finfo(np.float32).eps) / 2, 7, LOSSY_SINGLE, 2.0**-21, float)

FIRST_STATES = 16
"""States of a first call that are watched, spread over all of them."""


def is_watched(function: Function, *, every: bool = False) -> bool:
    """Whether calls of a function are looked at: those with numbers or vectors for results, or all where ``every`` one
    is.

    Derivatives and matrices take the reference up to seconds.
    """
    return every or not (function.derived or any(len(shape) > 1 for shape in function.outputs.values()))


def watch_call(
    function: ReferenceFunction,
    inputs: Mapping[str, Any],
    results: Sequence[Any],
    states: int | None = None,
    *,
    has_status: bool = False,
    large: bool = False,
    precision: Precision = DOUBLE,
) -> Any:
    """Digits lost by each state of a call (*batch), with a warning if there are any.

    Of at most so many ``states``, and 0 for the others. All of them where a function that solves for something answers
    to a finite state with NaN, unless a status tells of that already. ``large``: models of any size.
    """
    sizes = functions.sizes(function.owner.model)
    ranks = [len(functions.resolve(shape, sizes)) for shape in function.function.outputs.values()]
    batch = np.shape(results[0])[: np.ndim(results[0]) - ranks[0]]
    full = {name: np.broadcast_to(x, (*batch, *function.shapes[name])) for name, x in inputs.items()}
    lost = np.zeros(batch, dtype=int)
    indices = list(np.ndindex(*batch))
    count = len(indices) if states is None else min(states, len(indices))
    for number in range(count):
        index = indices[number * len(indices) // count]
        state = {name: value[index] for name, value in full.items()}
        answer = [np.asarray(y)[index] for y in results]
        silent = function.function.may_fail and not has_status and any(np.isnan(y).any() for y in answer)
        nowhere = silent and all(np.isfinite(np.asarray(x, dtype=float)).all() for x in state.values())
        lost[index] = precision.digits if nowhere else _digits_lost(function, state, answer, precision, large=large)
    if lost.any():
        _warn_of_lost_digits(function.function.name, function.owner.model, lost, precision.digits)
    return lost[()]


def _digits_lost(
    function: ReferenceFunction, state: Mapping[str, Array], answer: Sequence[Any], precision: Precision, *, large: bool
) -> int:
    """How many of its digits the answer to one state has lost to rounding, as far as its inputs do not explain it.

    0 where none that matter are lost, where the answer is not finite, or for models too large to be recorded, unless
    ``large`` ones are to be looked at all the same.
    """
    model = function.owner.model
    sizes = [max(float(np.linalg.norm(np.asarray(y, dtype=float))), SMALLEST_SIZE) for y in answer]
    if not all(np.isfinite(sizes)):
        return 0
    knows_better = rounding_tape.HAS_LONG_DOUBLES or precision is SINGLE
    if model.nv > RECORDED_VELOCITIES or any(np.ndim(y) > 1 for y in answer) or precision is SINGLE:
        looked_at = large and knows_better
        return _lost_against_more_digits(function, state, answer, precision) if looked_at else 0
    try:
        seen = _differences(function, state, answer) if knows_better else [np.inf] * len(answer)
        if all(difference <= SUSPICIOUS_SHARE * size for difference, size in zip(seen, sizes, strict=True)):
            return 0
        bounds = recorded_bounds(function, state)
    except (WhippletreeError, ArithmeticError):
        return 0  # next to a singular state, which the equations of motion tell of
    worst = 0.0
    for size, (error, effect), difference in zip(sizes, bounds, seen, strict=True):
        # no digit is certain where the bound is infinite; whether any is missed the difference tells
        lost = error if np.isfinite(error) else difference
        if lost > max(LOSSY * size, EXPLAINED * effect):
            worst = max(worst, error / size)
    return _digits(worst, precision)


def _digits(error: float, precision: Precision) -> int:
    """Digits that a relative error takes."""
    return min(precision.digits, math.ceil(math.log10(min(error, 1.0) / precision.unit))) if error else 0


def _lost_against_more_digits(
    function: ReferenceFunction, state: Mapping[str, Array], answer: Sequence[Any], precision: Precision
) -> int:
    """Digits lost of vectors, and of the columns of matrices, by their difference from answers on better numbers."""
    model, worst = function.owner.model, 0.0
    plain = {name: value if name == "active" else _convert(value, precision) for name, value in state.items()}
    moved = {name: value if name == "active" else _shaken_array(value, precision) for name, value in state.items()}
    try:
        with np.errstate(all="ignore"):
            truth = function.of_model(_better_model(model, precision), plain)
            others = function.of_model(_shaken_model(model, precision), moved)
    except (WhippletreeError, ArithmeticError):
        return 0  # next to a singular state, which the equations of motion tell of
    for y, exact, other in zip(answer, truth, others, strict=True):
        columns, right, near = (
            np.asarray(x, dtype=np.longdouble).reshape(len(np.atleast_1d(x)), -1) for x in (y, exact, other)
        )
        errors, effects = (np.linalg.norm(np.asarray(x - right, dtype=float), axis=0) for x in (columns, near))
        sizes = np.maximum(np.linalg.norm(columns.astype(float), axis=0), SMALLEST_SIZE)
        lossy = (errors > precision.lossy * sizes) & (errors > UNEXPLAINED * effects)
        worst = max(worst, float((errors / sizes)[lossy].max(initial=0.0)))
    return _digits(worst, precision)


def _warn_of_lost_digits(name: str, model: Model, lost: Array, digits: int) -> None:
    """One warning for a call with results that have lost digits of so many, ``lost`` of each state."""
    several = f"in {int((lost > 0).sum())} of {lost.size} states, " if lost.ndim else ""
    worst = int(lost.max())
    left = f"up to {worst} of {digits} digits" if worst < digits else "all digits"
    warn_user(
        f"{name} of model {model.name!r}: {several}{left} of the result are lost to rounding, which the last digits of "
        f"the inputs do not explain ({name}.digits_lost tells of each state). Masses or lengths of very different size "
        f"next to each other, or speeds whose terms cancel, do this: wt.conditioning(model, q) names the bodies and "
        f"compares the routes, and rounding_error({name!r}) bounds the error of each number",
        ConditioningWarning,
    )


def _differences(function: ReferenceFunction, state: Mapping[str, Array], answer: Sequence[Any]) -> list[float]:
    """Norms of the differences of each result from that on long doubles; infinite for one that is not finite."""
    plain = {name: value if name == "active" else _convert(value, DOUBLE) for name, value in state.items()}
    with np.errstate(all="ignore"):
        truth = function.of_model(_better_model(function.owner.model, DOUBLE), plain)
    found = [
        float(np.linalg.norm(np.asarray(np.asarray(y) - x, dtype=float))) for y, x in zip(answer, truth, strict=True)
    ]
    return [difference if np.isfinite(difference) else np.inf for difference in found]


def recorded_bounds(function: ReferenceFunction, state: Mapping[str, Array]) -> list[tuple[float, float]]:
    """For each result the norms of Δ, what rounding can do to it, and of ε, what the last digits of the inputs do."""
    tape = RoundingTape()
    inputs = {name: tape.numbers(value) for name, value in state.items()}
    results = function.of_model(with_scalars(function.owner.model, tape.number), inputs)
    numbers = [x for name, value in inputs.items() if name != "active" for x in np.ravel(value)]
    # an angle or a length of 0 is known no better than one of 1
    changes = [2 * HALF_UNIT * max(abs(float(x)), 1.0) for x in numbers]
    bounds = []
    for result in results:
        error, effect = tape.errors_of(result), tape.effects_of(result, numbers, changes)
        bounds.append((float(np.linalg.norm(error)), float(np.linalg.norm(effect))))
    return bounds


def _convert(value: Any, precision: Precision) -> Array:
    """An array of better numbers, one by one."""
    plain = np.asarray(value, dtype=float)
    found = np.empty(plain.shape, dtype=object)
    for index in np.ndindex(*plain.shape):
        found[index] = precision.better(plain[index])
    return found


def _shaken_array(value: Any, precision: Precision) -> Array:
    plain = np.asarray(value, dtype=float)
    signs = spread_signs(np.arange(1, plain.size + 1)).reshape(plain.shape)
    return _convert(plain * (1 + precision.shaken * signs), precision)


def _better_model(model: Model, precision: Precision) -> Model:
    """The model with better numbers; the same object for the same model, whose tree is then known, too."""
    key = f"_better_{precision.digits}"
    found: Model | None = model.__dict__.get(key)
    if found is None:
        found = model.__dict__[key] = with_scalars(model, precision.better)
    return found


def _shaken_model(model: Model, precision: Precision) -> Model:
    """The model with other last digits in its own numbers; the same object for the same model."""
    key = f"_shaken_{precision.digits}"
    found: Model | None = model.__dict__.get(key)
    if found is None:
        count = 0

        def shake(x: float) -> Any:
            nonlocal count
            count += 1
            return precision.better(x * (1 + precision.shaken * float(spread_signs(count))))

        found = model.__dict__[key] = with_scalars(model, shake)
    return found
