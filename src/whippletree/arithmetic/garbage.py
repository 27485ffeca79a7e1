"""Many small objects that all live to the end, made without looking through them for dead ones."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """Without looking for cycles of dead objects meanwhile.

    Models, analyses of their constraints, traces, programs and their texts grow by a hundred thousand small objects
    that all live to the end: looking through them again and again takes a quarter of the time.
    """
    looking = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looking:
            gc.enable()
