"""The command line: ``whippletree COMMAND``.

    commands        the commands
    demonstration   ``whippletree demo``
    drawing         models and numbers as they appear on the terminal

A command is a frozen dataclass: its fields are the arguments, its docstring is the help text, ``run`` does the work.
tyro reads the dataclasses and rich draws the output; both are imported when a command runs, so that
``import whippletree`` stays quick.

Exit codes: 0 done, 1 a run that failed on its way (what it had is kept), 2 a mistake in what was asked (a message on
stderr, no traceback), 130 interrupted (what a run had is kept). Warnings are one line each on stderr. Any other
exception is a bug of this library and keeps its traceback.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING

from whippletree.errors import NameLookupError, WhippletreeError

if TYPE_CHECKING:
    from rich.console import Console

COMMANDS = ("demo", "run", "info", "view", "plot", "condition", "convert", "sweep", "bench", "cache")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` defaults to the arguments of this process."""
    import tyro

    from whippletree.cli.commands import Bench, Cache, Condition, Convert, Info, Plot, Run, Sweep, View
    from whippletree.cli.demonstration import Demo

    _show_any_letter()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        from whippletree import __version__

        print(f"whippletree {__version__}")
        return 0
    try:
        if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
            raise NameLookupError("command", arguments[0], COMMANDS)
        command = tyro.cli(
            Demo | Run | Info | View | Plot | Condition | Convert | Sweep | Bench | Cache,
            prog="whippletree",
            description="Dynamics of constrained multibody systems. (--version prints the version.)",
            args=arguments,
            config=(tyro.conf.PositionalRequiredArgs, tyro.conf.FlagCreatePairsOff),
        )
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code: int = command.run(_console())
    except (WhippletreeError, OSError, ValueError) as mistake:
        print(f"whippletree: {_message(mistake)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("whippletree: interrupted", file=sys.stderr)
        return 130
    except SystemExit as leaving:  # tyro's way out after --help and after a wrong argument
        return leaving.code if isinstance(leaving.code, int) else 2
    return code


def _show_any_letter() -> None:
    """Let a letter that the terminal or the pipe cannot encode (└, ², names of bodies) appear as '?'."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")


def _warn(message: Warning | str, *about: object, **more: object) -> None:
    """A warning as a user reads it: not where in the library it comes from."""
    print(f"whippletree: {message}", file=sys.stderr)


def _console() -> Console:
    """Standard output; when that is a file or a pipe, long lines are not broken at 80 columns."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def _message(mistake: Exception) -> str:
    """A description of the fault, without Python's error numbers."""
    if isinstance(mistake, OSError) and mistake.strerror:
        return f"{mistake.filename}: {mistake.strerror}" if mistake.filename else mistake.strerror
    return str(mistake)
