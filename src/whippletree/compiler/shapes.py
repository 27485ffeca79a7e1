"""Shapes of the arrays of a call: what a batch broadcasts to and, after NumPy has refused a call, what is wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whippletree.compiler.program import Buffer
from whippletree.errors import ScalarError, ShapeError


def expected_shape(buffer: Buffer) -> str:
    """How messages write the shape of a buffer, such as ``(..., 6)``."""
    return f"({', '.join(['...', *map(str, buffer.shape)])})"


def check_shapes(
    function: str, buffers: Sequence[Buffer], arrays: Sequence[Any], hints: Mapping[str, str]
) -> tuple[tuple[int, ...], dict[str, int]]:
    """The batch shape of a call and the sizes of its named dimensions, or a ShapeError that names the culprit."""
    batches: list[tuple[int, ...]] = []
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
        batches.append(shape[: len(shape) - core])
    try:
        return np.broadcast_shapes(*batches), sizes
    except ValueError:
        listed = ", ".join(f"{b.name} {batch}" for b, batch in zip(buffers, batches, strict=True))
        raise ShapeError(
            f"{function}: the batch shapes of the inputs do not broadcast together: {listed}. "
            f"Batch dimensions come first and must be equal or 1."
        ) from None


def _shape_of(function: str, name: str, array: Any) -> tuple[int, ...]:
    try:
        return tuple(np.shape(array))
    except ValueError as error:
        raise ShapeError(f"{function}: {name} is not an array of numbers ({error})") from None


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
        values = np.asarray(array)
        if values.dtype.kind not in "biuf":
            raise ScalarError(
                f"{function}: {buffer.name} holds {values.dtype} values; compiled functions take real numbers "
                f"({dtype}). For complex, exact or symbolic scalars use wt.reference(model) or wt.symbolic(model)."
            )
        converted.append(values.astype(dtype, copy=False))
    return converted
