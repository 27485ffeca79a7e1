"""Checks of inputs that more than one layer makes, and the texts of their errors."""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ScalarError, ShapeError, quote
from whippletree.model.model import Model

VELOCITY_SPACE = ("v", "a", "tau", "given", "b", "d", "dq", "dv", "da", "dtau")
"""Inputs that have nv numbers."""


def shape_message(function: str, name: str, found: tuple[int, ...], expected: tuple[int, ...], model: Model) -> str:
    """The text of a ShapeError: where, what was found and expected, and the usual reason."""
    wanted = ", ".join(["...", *map(str, expected)])
    hint = shape_hints(model).get(name, "")
    return f"{function}: {name} has shape {found}, expected ({wanted}).{' ' if hint else ''}{hint}"


def shape_hints(model: Model) -> Mapping[str, str]:
    """For each input, why its length may surprise: a quaternion makes q longer than v."""
    longer = [j.name for j, t in zip(model.joints, model.joint_types, strict=True) if t.nq != t.nv]
    if not longer:
        return {}
    reason = f"Model {model.name!r} has nv = {model.nv} but nq = {model.nq}: joint {longer[0]!r} stores a quaternion."
    hints = dict.fromkeys(VELOCITY_SPACE, f"{reason} Velocities and forces live in velocity space: pass nv numbers.")
    return {"q": f"{reason} Coordinates include the quaternion: pass nq numbers.", **hints}


def as_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Names as a tuple: a text is one name, not its letters.

    Raises:
        ScalarError: something that is neither a text nor a list.
    """
    if not isinstance(names, Iterable):
        raise ScalarError(f"a name or a list of names is expected, got {quote(names)}")
    return (names,) if isinstance(names, str) else tuple(names)


def plain_input(function: str, name: str, value: Any) -> Any:
    """An input as an array: one of NumPy's as it is, lists, numbers and what other libraries make as plain ones.

    Raises:
        ShapeError: rows of different lengths.
        ScalarError: a masked array in which something is masked.
    """
    if isinstance(value, np.ma.MaskedArray):
        return _unmask(function, name, value)
    if isinstance(value, np.ndarray) and not isinstance(value, np.matrix):  # results are no matrices
        return value
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"{function}: {name} is not an array of numbers ({error})") from None


def require_arguments(where: str, function: Callable[..., Any], *arguments: str) -> None:
    """Refuse a function of a user that cannot be called with these arguments; one that does not tell its own is tried.

    Raises:
        TypeError: with the arguments that it takes, and those that it will be given; or for what is no function.
    """
    if not callable(function):
        raise TypeError(f"{where} is {quote(function)}, expected a function of ({', '.join(arguments)})")
    try:
        takes = inspect.signature(function)
    except (TypeError, ValueError):  # as of some that are written in C
        return
    try:
        takes.bind(*arguments)
    except TypeError as reason:
        given = ", ".join(arguments)
        raise TypeError(
            f"{where} takes {takes}, and is called with ({given}): {reason}. Write it as a function of ({given}), even "
            f"where it does not need all of them"
        ) from None


PART_OF_STATE = {"q0": "q", "guess": "q", "v0": "v"}
"""Arguments that take a part of a state under another name, and that part."""


def is_text(value: Any) -> bool:
    """Whether something is text or holds some: "1" is no number, though ``float`` reads one."""
    try:
        plain = np.asarray(value)
    except ValueError:  # rows of different lengths
        return False
    return plain.dtype.kind in "US" or (plain.dtype.kind == "O" and any(isinstance(x, str | bytes) for x in plain.flat))


def floats(function: str, word: str, values: Any) -> Array:
    """An argument as a new array of floats.

    Raises:
        ScalarError: no real numbers; of an equilibrium, a state or a run it says which part is meant.
    """
    if isinstance(values, np.ma.MaskedArray):
        values = _unmask(function, word, values)
    text = is_text(values)
    try:
        if not text and np.asarray(values).dtype.kind not in "mM":
            return np.array(values, dtype=float)
    except (TypeError, ValueError, OverflowError):
        pass
    part = PART_OF_STATE.get(word, word)
    cure = f": give its {part}, as in {function}(model, found.{part})" if hasattr(values, part) else ""
    kind = f"text ({values!r}): write numbers without quotes" if text else _kind_of(values)
    raise ScalarError(f"{function}: {word} is no array of numbers but {kind}{cure}")


def _kind_of(values: Any) -> str:
    """What is no array of real numbers, in a word."""
    plain = np.asarray(values, dtype=object)
    odd = next((x for x in plain.flat if isinstance(x, complex | np.complexfloating)), None)
    return f"of complex ones ({odd}), expected real ones" if odd is not None else type(values).__name__


def tolerance_of(function: str, value: Any) -> float:
    """A tolerance as a float, if it is one: a number that is not negative.

    Raises:
        ScalarError: no real number.
        ValueError: negative, infinite or NaN.
    """
    number = floats(function, "tolerance", value)
    if number.shape != () or not 0 <= number < np.inf:
        raise ValueError(f"{function}: tolerance is {quote(value)}, expected a number such as 1e-11, not negative")
    return float(number)


def _unmask(function: str, name: str, array: np.ma.MaskedArray[Any, Any]) -> Any:
    """The numbers of a masked array of which none is masked."""
    if np.ma.getmaskarray(array).any():
        place = tuple(int(i) for i in np.argwhere(np.ma.getmaskarray(array))[0])
        raise ScalarError(
            f"{function}: {name} is a masked array without a value at {place}; a state needs all of its numbers. Fill "
            f"it ({name}.filled(np.nan) gives NaN for such states), or leave those states out."
        )
    return np.asarray(array.data)


def common_batch(function: str, batches: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape to which the batch shapes of the inputs broadcast.

    Raises:
        ShapeError: with all of them, if they do not.
    """
    try:
        return np.broadcast_shapes(*batches.values())
    except ValueError:
        listed = ", ".join(f"{name} {batch}" for name, batch in batches.items())
        raise ShapeError(
            f"{function}: the batch shapes of the inputs do not broadcast together: {listed}. "
            f"Batch dimensions come first and must be equal or 1."
        ) from None


_PACKAGE = __name__.partition(".")[0]


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the line that called into this library, from however deep inside it."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def coordinates(function: str, word: str, q: Any, model: Model) -> Array:
    """q (nq,) as floats, if it is a configuration: the right shape, finite, no quaternion of zeros."""
    at = floats(function, word, q)
    if at.shape != (model.nq,):
        hint = shape_hints(model).get("q", f"Model {model.name!r} has nq = {model.nq}.")
        raise ShapeError(f"{function}: {word} has shape {at.shape}, expected ({model.nq},). {hint}")
    if not np.all(np.isfinite(at)):
        raise ValueError(f"{function}: {word} holds {at[~np.isfinite(at)][0]}: coordinates must be finite")
    refuse_zero_quaternions(function, word, at, model)
    return at


def refuse_zero_quaternions(function: str, word: str, q: Array, model: Model) -> None:
    """ValueError if q (..., nq) has a quaternion of zeros, which is no orientation."""
    joints = zip(model.joints, model.q_slices, model.joint_types, strict=True)
    turning = [(joint.name, part.stop) for joint, part, kind in joints if kind.nq > kind.nv]
    if not turning:
        return
    ends = np.array([end for _, end in turning])
    empty = (q[..., ends[:, None] - np.arange(1, 5)] == 0).all(axis=-1).reshape(-1, len(ends)).any(axis=0)
    if empty.any():
        where = f"{word} has a quaternion of zeros at joint {turning[int(empty.argmax())][0]!r}"
        raise ValueError(f"{function}: {where}: no turn is 1, 0, 0, 0")
