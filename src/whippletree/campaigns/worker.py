"""A worker process: ``python -m whippletree.campaigns.worker``, told what to do through its standard input."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress


def main() -> None:
    """Serve tasks; what runs print goes to standard error, for standard output carries receipts."""
    from whippletree.campaigns.engines import serve

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the driver, which ends its workers
    out = os.dup(1)
    os.dup2(2, 1)

    def tell(line: str) -> None:
        os.write(out, line.encode())

    with suppress(BrokenPipeError):  # the driver has gone
        serve(sys.stdin.buffer, tell)


if __name__ == "__main__":
    main()
