"""Progress of compilation, told to those whom it keeps waiting: a line on a terminal, or a function of one's own.

Most kernels compile in a tenth of a second; a humanoid's derivatives take many. After :data:`TOLD_AFTER` seconds a line
on stderr names the function, the model and what is done with it, and counts the seconds; it is taken away at the end.
Nothing is shown where stderr is no terminal, unless it is asked for.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO, TypeAlias

TOLD_AFTER = 2.0
"""Seconds of compiling after which somebody is told."""

EVERY = 1.0
"""Seconds between two tellings."""

VARIABLE = "WHIPPLETREE_PROGRESS"
"""Variable of the environment: 1 tells always, 0 never; otherwise where somebody is watching."""

Listener: TypeAlias = Callable[[str, float], None]
"""Told what is compiled, and for how many seconds; and once more at the end with −1."""

_listener: Listener | None = None


def on_compilation(listener: Listener | None) -> None:
    """Have a function told of compilations that take long, instead of the line on a terminal; None goes back to it.

    ``listener(what, seconds)`` is called from another thread after two seconds and every second from then on, and with
    −1 when the compilation has ended.
    """
    global _listener
    _listener = listener


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Tell of what happens within, if it takes long."""
    listener = _listener or _on_terminal(sys.stderr)
    if listener is None:
        yield
        return
    ended = threading.Event()
    teller = threading.Thread(target=_tell, args=(listener, what, ended), daemon=True, name="whippletree progress")
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def _tell(listener: Listener, what: str, ended: threading.Event) -> None:
    begun = time.monotonic()
    if ended.wait(TOLD_AFTER):
        return
    while True:
        listener(what, time.monotonic() - begun)
        if ended.wait(EVERY):
            listener(what, -1.0)
            return


def _on_terminal(stream: TextIO | None) -> Listener | None:
    """Writer of a line to a terminal; None where nobody watches, or it was said so."""
    asked = os.environ.get(VARIABLE, "")
    if stream is None or asked == "0" or not (asked == "1" or stream.isatty()):
        return None
    lasting = not stream.isatty()  # into a file, a line for each compilation, once

    def write(what: str, seconds: float) -> None:
        if lasting:
            if 0 <= seconds < TOLD_AFTER + EVERY / 2:
                stream.write(f"compiling {what} …\n")
        elif seconds < 0:
            stream.write("\r\x1b[K")
        else:
            stream.write(f"\r\x1b[Kcompiling {what}, {seconds:.0f} s …")
        stream.flush()

    return write
