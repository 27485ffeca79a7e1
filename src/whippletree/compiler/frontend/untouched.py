"""A user's function is tried out without a trace: what it keeps from call to call is put back afterwards.

A controller with a memory (an integral, a filter, a log) may be asked on traced scalars, and at sample states, only to
find out whether it can be compiled. Afterwards it must begin its run as it was handed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

DEPTH = 4
"""Objects within objects in which a memory is looked for."""

_FOREIGN, _OURS = ("whippletree", "numpy", "scipy", "builtins", "torch", "jax"), "whippletree.controllers"
"""Packages whose objects are not looked into (models, compiled functions and networks are large, and keep no memory),
and the one of our own modules whose objects hold functions of users."""


@contextmanager
def untouched(function: Callable[..., Any]) -> Iterator[None]:
    """Leave the memory of a function, a closure, a method or an object as it was before.

    Attributes and variables of closures are put back, and the contents of arrays, lists, dictionaries and sets among
    them; global variables are not.
    """
    undo: list[Callable[[], None]] = []
    _note(function, undo, set(), DEPTH)
    try:
        yield
    finally:
        for step in undo:
            step()


def _note(thing: Any, undo: list[Callable[[], None]], seen: set[int], depth: int) -> None:
    """Collect what puts a thing back into its present state."""
    if id(thing) in seen or not depth:
        return
    seen.add(id(thing))
    inner: list[Any] = []
    if isinstance(thing, np.ndarray):
        if thing.flags.writeable:
            undo.append(partial(np.copyto, thing, thing.copy()))
    elif isinstance(thing, list):
        undo.append(partial(thing.__setitem__, slice(None), list(thing)))
        inner = list(thing)
    elif isinstance(thing, dict | set):
        undo.append(partial(_refill, thing, thing.copy()))
        inner = list(thing.values()) if isinstance(thing, dict) else []
    elif isinstance(thing, tuple):
        inner = list(thing)
    elif isinstance(thing, MethodType):
        inner = [thing.__self__, thing.__func__]
    elif isinstance(thing, partial):
        inner = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, FunctionType):
        inner = [thing.__dict__] if thing.__dict__ else []
        for cell in thing.__closure__ or ():
            inner += _note_cell(cell, undo)
    elif hasattr(thing, "__dict__") and not isinstance(thing, type) and not _is_foreign(thing):
        inner = [thing.__dict__]
    for part in inner:
        _note(part, undo, seen, depth - 1)


def _note_cell(cell: CellType, undo: list[Callable[[], None]]) -> list[Any]:
    """The variable of a closure; none where it has no value yet."""
    try:
        held = cell.cell_contents
    except ValueError:
        return []
    undo.append(partial(setattr, cell, "cell_contents", held))
    return [held]


def _refill(thing: Any, contents: Any) -> None:
    thing.clear()
    thing.update(contents)


def _is_foreign(thing: Any) -> bool:
    module = type(thing).__module__
    return module != _OURS and module.partition(".")[0] in _FOREIGN
