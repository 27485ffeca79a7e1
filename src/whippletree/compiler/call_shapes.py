"""Shapes of the arrays of a call: what a batch broadcasts to and, after NumPy has refused a call, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from whippletree.compiler.program import Buffer
from whippletree.errors import ScalarError, ShapeError
from whippletree.model.input_checks import common_batch, plain_input


def expected_shape(buffer: Buffer) -> str:
    """How messages write the shape of a buffer, such as ``(..., 6)``."""
    return f"({', '.join(['...', *map(str, buffer.shape)])})"


def check_shapes(
    function: str, buffers: Sequence[Buffer], arrays: Sequence[Any], hints: Mapping[str, str]
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The batch shape of a call and the sizes of its named dimensions, or a ShapeError that names the culprit."""
    batches: dict[str, tuple[int, ...]] = {}
    sizes: dict[str, int] = {}
    for buffer, array in zip(buffers, arrays, strict=True):
        shape = _shape_of(function, buffer.name, array)
        core = len(buffer.shape)
        if not _fits(buffer, shape, sizes):
            known = "".join(f", {d} = {sizes[d]}" for d in buffer.shape if isinstance(d, str) and d in sizes)
            hint = hints.get(buffer.name, "")
            raise ShapeError(
                f"{function}: {buffer.name} has shape {shape}, expected {expected_shape(buffer)}{known}."
                f"{' ' + hint if hint else ''}"
            )
        batches[buffer.name] = shape[: len(shape) - core]
    return common_batch(function, batches), sizes


def _shape_of(function: str, name: str, array: Any) -> tuple[int, ...]:
    shape = getattr(array, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else tuple(plain_input(function, name, array).shape)


def _fits(buffer: Buffer, shape: tuple[int, ...], sizes: dict[str, int]) -> bool:
    """Whether the last dimensions are those of the buffer; a named dimension takes its size where it is met first."""
    core = len(buffer.shape)
    if len(shape) < core:
        return False
    return all(
        size == (wanted if isinstance(wanted, int) else sizes.setdefault(wanted, size))
        for wanted, size in zip(buffer.shape, shape[len(shape) - core :], strict=True)
    )


def convert(function: str, buffers: Sequence[Buffer], arrays: Sequence[Any], dtype: np.dtype[Any]) -> list[Any]:
    """The inputs as arrays of that dtype, or a ScalarError that names an input of other than real numbers."""
    converted = []
    for buffer, array in zip(buffers, arrays, strict=True):
        values = plain_input(function, buffer.name, array)
        if values.dtype.kind not in "biuf":
            raise ScalarError(
                f"{function}: {buffer.name} holds {_content(values, dtype)}; compiled functions take real numbers "
                f"({dtype}). For complex, exact or symbolic scalars use wt.reference(model) or wt.symbolic(model)."
            )
        converted.append(values.astype(dtype, copy=False))
    return converted


def _content(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> str:
    """Types of arrays that are not converted."""
    largest = np.finfo(dtype).max
    if values.dtype == object and any(isinstance(x, int) and abs(x) > int(largest) for x in values.flat):
        return f"object values, a whole number beyond {largest:.3g} among them"
    return f"{values.dtype} values"


def check_out(
    function: str, buffers: Sequence[Buffer], out: Any, batch: tuple[int, ...], sizes: Mapping[str, int], dtype: Any
) -> None:
    """Say what is wrong with the arrays that a caller gives for the results; None stands for one to be made.

    Raises:
        ShapeError: too many or too few, of the wrong shape, read-only, or one memory for two results.
        ScalarError: no array, a masked one, or one that cannot hold such numbers.
    """
    given = out if isinstance(out, tuple) else (out,)
    if len(given) != len(buffers):
        names = ", ".join(b.name for b in buffers)
        raise ShapeError(
            f"{function}: out has {len(given)} arrays, expected {len(buffers)}: {names}. Several are given as a tuple."
        )
    for buffer, array in zip(buffers, given, strict=True):
        if array is None:
            continue
        place = "out" if len(buffers) == 1 else f"out for {buffer.name}"
        kind = np.dtype(np.int64) if buffer.integer else np.dtype(dtype)
        if not isinstance(array, np.ndarray):
            raise ScalarError(f"{function}: {place} is a {type(array).__name__}, expected an array of {kind}")
        if isinstance(array, np.ma.MaskedArray):
            raise ScalarError(f"{function}: {place} is a masked array, which results have no mask for: give its .data")
        expected = (*batch, *(sizes[d] if isinstance(d, str) else d for d in buffer.shape))
        if array.shape != expected:
            raise ShapeError(
                f"{function}: {place} has shape {array.shape}, expected {expected}: the batch {batch} of the inputs, "
                f"then {expected_shape(buffer)}"
            )
        if not np.can_cast(kind, array.dtype, "same_kind"):
            raise ScalarError(f"{function}: {place} holds {array.dtype} values, expected {kind}")
        if not array.flags.writeable:
            raise ShapeError(f"{function}: {place} is read-only: give an array that can be written")
    refuse_common_memory(function, buffers, given)


def refuse_common_memory(function: str, buffers: Sequence[Buffer], out: Sequence[Any]) -> None:
    """ShapeError if two results are to be written to one place."""
    pairs = combinations([(b, x) for b, x in zip(buffers, out) if isinstance(x, np.ndarray)], 2)
    for (first, x), (second, y) in pairs:
        if overlap(x, y) and np.shares_memory(x, y):
            raise ShapeError(
                f"{function}: out for {first.name} and for {second.name} share memory: each result needs its own"
            )


def overlap(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> bool:
    """Whether two arrays may share memory: certain if not; two that own theirs do only if they are one."""
    if x.flags.owndata and y.flags.owndata:
        return x is y
    return np.may_share_memory(x, y)
