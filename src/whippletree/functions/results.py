"""Results of functions that return several arrays: named tuples, one type per function.

``dyn.dagger(q).M_dagger`` and ``M_dagger, A_dagger, Lambda_dagger = dyn.dagger(q)`` are the same thing. The reference
and the compiled functions return the same types.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any


def result_type(function: str, fields: Sequence[str]) -> type[tuple[Any, ...]] | None:
    """The type of a function's results; None where it has one only, or names that Python has no place for.

    Args:
        function: its name, such as ``forward_dynamics_derivatives``.
        fields: names of the results, in order. Gradients by open parameters have paths for names: plain tuples.
    """
    if len(fields) < 2 or not all(field.isidentifier() for field in fields):
        return None
    return _made(function, tuple(fields))


@cache
def _made(function: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    base = namedtuple(type_name(function), fields)  # type: ignore[misc]  # its fields are known from the table only

    def __reduce__(self: tuple[Any, ...]) -> tuple[Any, ...]:
        # a type that is made while the program runs has no module in which pickle could find it
        return remade, (function, fields, tuple(self))

    doc = f"Results of ``{function}``: {', '.join(fields)}."
    return type(type_name(function), (base,), {"__slots__": (), "__doc__": doc, "__reduce__": __reduce__})


def remade(function: str, fields: tuple[str, ...], values: Iterable[Any]) -> tuple[Any, ...]:
    """Results that were pickled or copied."""
    return _made(function, fields)(*values)


def type_name(function: str) -> str:
    """``forward_dynamics_derivatives`` as the name of a type: ``ForwardDynamicsDerivatives``."""
    return "".join(word.capitalize() for word in function.split("_"))
