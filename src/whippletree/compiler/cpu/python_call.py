"""A function in plain Python that a program calls, at several states at once, as if it were compiled.

Machine code has nowhere for an exception to go. So one that is raised is kept, no number comes back, and the status of
all states says so: whoever has called the program looks at :attr:`PythonCall.error` afterwards.

A signal that comes while machine code runs is answered where Python goes on: at the first instruction of the function
that is called back, before any ``try``. ctypes hands what its handler raises, Ctrl-C for one, to ``sys.unraisablehook``
and goes on as if nothing were; so it is listened to there.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array

AskedAtStates: TypeAlias = Callable[..., Array]
"""Numbers (m, size) of inputs at m states, (m,) or (m, n) each."""

_LOOP = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)
"""As NumPy calls a loop: pointers to the arguments, the number of states, strides in bytes, and nothing more here."""

REAL, INTEGER, WORD = np.dtype(np.float64), np.dtype(np.int64), 8
"""Numbers in the memory of a program, and their bytes."""

NO_ANSWER = 1
"""Status of a state that the function has no numbers for."""

KNOWN_PLACES = 16
"""Places in the memory of a program of which arrays are kept: its iterations ask from the same few again and again."""


class PythonCall:
    """A place for a function, which a program calls while :meth:`asking`; one program at a time."""

    def __init__(self, inputs: Mapping[str, int], size: int) -> None:
        """``inputs``: how many numbers each has, by name, 0 for a number without a dimension; ``size``: of the
        output."""
        self.inputs = tuple(inputs)
        self._sizes = (*inputs.values(), size)
        self._with_dimension = sum(n > 0 for n in self._sizes)
        self._function: AskedAtStates | None = None
        self.error: BaseException | None = None
        """Why the function had no answer since it is asked."""
        self._places: dict[tuple[bytes, bytes, int], list[Array]] = {}
        """Arrays on the memory of programs, by addresses, strides and the number of states."""
        self._called_back = self._answer
        self._loop = _LOOP(self._called_back)

    @property
    def address(self) -> int:
        """Where machine code finds it."""
        return int(ctypes.cast(self._loop, ctypes.c_void_p).value or 0)

    @contextmanager
    def asking(self, function: AskedAtStates) -> Iterator[None]:
        """Let programs call a function. Afterwards it is let go: what is tied to a ufunc hides from the garbage
        collector."""
        self._function, self.error = function, None
        try:
            with self._hearing_signals():
                yield
        finally:
            self._function = None

    @contextmanager
    def _hearing_signals(self) -> Iterator[None]:
        """Keep what ctypes could not raise; only the main thread answers signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        others = sys.unraisablehook

        def hear(raised: sys.UnraisableHookArgs) -> None:
            if raised.object is self._called_back:
                self.error = self.error or raised.exc_value
            else:
                others(raised)

        sys.unraisablehook = hear
        try:
            yield
        finally:
            sys.unraisablehook = others

    def _answer(self, arguments: int, dimensions: int, steps: int, _: int) -> None:
        *inputs, output, status = self._arrays(arguments, dimensions, steps)
        try:
            if self.error is not None:
                raise self.error
            assert self._function is not None
            # copies: a function may keep what it is given, and the program goes on
            output[:], status[:] = self._function(*[x.copy() for x in inputs]), 0
        except BaseException as error:  # also Ctrl-C: it is raised where there is somebody to hear it
            self.error = error
            output[:], status[:] = np.nan, NO_ANSWER

    def _arrays(self, arguments: int, dimensions: int, steps: int) -> list[Array]:
        """Inputs, output and status as arrays (m,) or (m, n) on the memory of the program."""
        count = len(self._sizes) + 1
        states = ctypes.c_int64.from_address(dimensions).value
        # outer strides, that of the status among them, then the inner one of each that has a dimension
        own = ctypes.string_at(arguments, WORD * count), ctypes.string_at(steps, WORD * (count + self._with_dimension))
        key = (*own, states)
        if key not in self._places:
            if len(self._places) >= KNOWN_PLACES:
                self._places.clear()
            places, strides = np.frombuffer(own[0], np.uint64).tolist(), np.frombuffer(own[1], np.int64).tolist()
            inner = iter(strides[count:])
            views = []
            for place, step, n in zip(places, strides, self._sizes, strict=False):
                shape, steps_of = ((states, n), (step, next(inner))) if n else ((states,), (step,))
                views.append(_numbers(place, shape, steps_of, REAL))
            self._places[key] = [*views, _numbers(places[-1], (states,), (WORD,), INTEGER)]
        return self._places[key]


def _numbers(place: int, shape: tuple[int, ...], strides: tuple[int, ...], kind: np.dtype[Any]) -> Array:
    """The numbers at an address of memory."""
    reach = sum([(n - 1) * step for n, step in zip(shape, strides, strict=True)], WORD)
    memory = memoryview((ctypes.c_byte * reach).from_address(place))
    return np.ndarray(shape, kind, memory, strides=strides)
