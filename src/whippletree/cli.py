"""The command line: ``whippletree info FILE``, ``condition FILE``, ``demo`` and ``cache``.

A command is a frozen dataclass: its fields are the arguments, its docstring is the help text, ``run`` does the work.
tyro reads the dataclasses and rich draws the output; both are imported when a command runs, so nobody else waits.

Exit codes: 0 done, 2 a mistake in what was asked (one message on stderr, no traceback), 130 interrupted. Any other
exception is a bug of this library and keeps its traceback.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whippletree.errors import WhippletreeError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

    from whippletree.model import Model


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; ``argv`` defaults to the arguments of this process."""
    import tyro

    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments == ["--version"]:
        from whippletree import __version__

        print(f"whippletree {__version__}")
        return 0
    try:
        command: Info | Condition | Demo | Cache = tyro.cli(
            Info | Condition | Demo | Cache,
            prog="whippletree",
            description="Dynamics of constrained multibody systems.",
            args=arguments,
            config=(tyro.conf.PositionalRequiredArgs,),
        )
        command.run(_console())
    except (WhippletreeError, OSError) as mistake:
        print(f"whippletree: {_message(mistake)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("whippletree: interrupted", file=sys.stderr)
        return 130
    except SystemExit as leaving:  # tyro's way out after --help and after a wrong argument
        return leaving.code if isinstance(leaving.code, int) else 2
    return 0


# --- the commands ---


@dataclass(frozen=True)
class Info:
    """Show what a model file contains: the tree of bodies and joints, freedoms, masses, constraints."""

    file: Path
    """URDF, MJCF or native model file."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root body stands in the world."""
    depth: int = 24
    """Draw the tree down to this depth; what lies deeper is counted."""

    def run(self, console: Console) -> None:
        import whippletree as wt

        model = wt.load(self.file, base=self.base)
        console.print(draw(model, depth=self.depth))
        console.print(facts(model))


@dataclass(frozen=True)
class Condition:
    """Say how well conditioned a model is: condition numbers, cheap estimates, predicted errors, cures."""

    file: Path
    """URDF, MJCF or native model file."""
    base: Literal["fixed", "free"] = "fixed"
    """How the root body stands in the world."""
    q: tuple[float, ...] = ()
    """Coordinates; without them the model's home."""
    figure: Path | None = None
    """Let the model go at rest, and draw its conditioning over time to this PNG file."""
    duration: float = 2.0
    """Length of that run, s."""

    def run(self, console: Console) -> None:
        import whippletree as wt

        model = wt.load(self.file, base=self.base)
        q = np.array(self.q) if self.q else model.home.q
        console.print(str(wt.conditioning(model, q)), markup=False)
        if self.figure is not None:
            from whippletree.studies.figures import run_figure
            from whippletree.studies.series import swinging

            path = run_figure(swinging(model.name, model, self.duration, q), self.figure)
            console.print(f"figure: {path}", markup=False)


@dataclass(frozen=True)
class Demo:
    """Build a few mechanisms, compute how they fall, and check what must be conserved."""

    def run(self, console: Console) -> None:
        import whippletree as wt

        pendulum = wt.mechanisms.double_pendulum()
        console.print(draw(pendulum))
        show_dynamics(console, pendulum)
        four_bar = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=(1.0, 1.0, 0.0))
        console.print(_runs_table([pendulum, four_bar, wt.mechanisms.crank_slider(rod_mass=0.0)]))
        console.print("\nNext: whippletree info FILE, with a robot of your own.")


@dataclass(frozen=True)
class Cache:
    """Show where compiled functions are kept on disk and how much room they take; or remove them all."""

    clear: bool = False
    """Remove every entry; the next use compiles again."""

    def run(self, console: Console) -> None:
        from whippletree.compiler.cache import default_cache

        cache = default_cache()
        if self.clear:
            cache.clear()
        found = cache.info()
        table = _grid()
        for word, value in (
            ("folder", str(found.folder) if found.folder is not None else "off (WHIPPLETREE_CACHE)"),
            ("entries", str(found.entries)),
            ("size", f"{found.bytes / 1e6:.1f} MB of at most {found.limit / 1e6:.0f} MB"),
        ):
            table.add_row(word, value)
        console.print(table)


def _runs_table(models: Sequence[Model]) -> Table:
    """Simulate each model for two seconds from a kick and tell what was conserved."""
    import time

    from rich.table import Table

    import whippletree as wt

    table = Table(title="two seconds of motion", title_justify="left")
    for title in ("mechanism", "energy drift", "loop residual", "steps", "time"):
        table.add_column(title, justify="left" if title == "mechanism" else "right")
    for model in models:
        start = time.perf_counter()
        v = np.full(model.nv, 1.0)
        dyn = wt.compile(model)
        if model.constraints:
            v = dyn.project_velocity(model.home.q, v)
        run = wt.simulate(model, model.home.q, v, duration=2.0, rtol=1e-10, atol=1e-12, compiled=dyn)
        residual = f"{float(abs(run['constraint_residual']).max()):.0e} m" if model.constraints else "no loop"
        massless = ", ".join(body.name for body in model.bodies if body.massless)
        table.add_row(
            f"{model.name}{f' (massless: {massless})' if massless else ''}",
            f"{run.attrs['energy_drift']:.0e} J",
            residual,
            str(run.attrs["steps"]),
            f"{time.perf_counter() - start:.1f} s",
        )
    return table


def show_dynamics(console: Console, model: Model) -> None:
    """Print mass matrix and acceleration of a planar mechanism at one state, and check them by inverse dynamics."""
    import whippletree as wt

    reference = wt.reference(model)
    q, v, tau = np.full(model.nq, 0.3), np.zeros(model.nv), np.zeros(model.nv)
    M = reference.mass_matrix(q)
    a = reference.forward_dynamics(q, v, tau)
    error = np.abs(reference.inverse_dynamics(q, v, a) - tau).max()

    console.print(f"\n{model.name}: every joint at 0.3 rad, at rest, no torque", markup=False, style="bold")
    console.print(_numbers("mass matrix M, kg m²", M))
    console.print(_numbers("acceleration a, rad/s²", a[np.newaxis]))
    console.print(f"inverse dynamics of a returns the torque to {error:.0e} N m")


# --- drawing ---


def draw(model: Model, *, depth: int = 24) -> Tree:
    """The model as a rich tree, one line per body with the joint that carries it."""
    from rich.text import Text
    from rich.tree import Tree

    root = Tree(Text.assemble((model.name, "bold"), (" in the world", "dim")))
    branches, levels = {-1: root}, {-1: 0}  # by body; parents come first in a model, so no recursion
    hidden: dict[int, int] = {}  # how many bodies are not drawn, by the drawn body above them
    stand_in: dict[int, int] = {}
    for k, parent in enumerate(model.parents):
        levels[k] = levels[parent] + 1
        if levels[k] <= depth:
            branches[k] = branches[parent].add(_body_line(model, k))
        else:
            stand_in[k] = stand_in.get(parent, parent)
            hidden[stand_in[k]] = hidden.get(stand_in[k], 0) + 1
    for k, count in hidden.items():
        branches[k].add(Text(f"… and {count} deeper (--depth)", style="dim"))
    return root


def facts(model: Model) -> Table:
    """The model in numbers, as a rich table."""
    from rich.text import Text

    massless = [body.name for body in model.bodies if body.massless]
    constraints = [f"{constraint.name} ({constraint.kind})" for constraint in model.constraints]
    gravity = ", ".join(f"{float(g):g}" for g in model.gravity)
    rows = {
        "coordinates": f"nq = {model.nq}, nv = {model.nv}",
        "bodies": f"{len(model.bodies)}, total mass {float(sum(body.mass for body in model.bodies)):g} kg",
        "massless": _listed(massless),
        "frames": str(len(model.frames)),
        "constraints": _listed(constraints),
        "gravity": f"({gravity}) m/s²",
        "units": "SI: m, kg, s, rad",
    }
    table = _grid()
    for word, value in rows.items():
        table.add_row(Text(word, style="dim"), Text(value))
    return table


def _body_line(model: Model, k: int) -> Text:
    """``fore  1 kg  elbow: revolute, 1 DoF``; names are data, so no markup is read from them."""
    from rich.text import Text

    body, joint, part = model.bodies[k], model.joints[k], model.v_slices[k]
    mass = ("massless", "yellow") if body.massless else (f"{float(body.mass):g} kg", "")
    return Text.assemble(
        (body.name, "bold"), "  ", mass, (f"  {joint.name}: {joint.kind}, {part.stop - part.start} DoF", "cyan")
    )


def _listed(names: Sequence[str], limit: int = 8) -> str:
    """``2: rod, crank``, cut after a few names."""
    if not names:
        return "none"
    return f"{len(names)}: " + ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def _numbers(title: str, matrix: np.ndarray[Any, Any]) -> Table:
    """A small matrix beside its title."""
    table = _grid()
    for i, row in enumerate(matrix):
        table.add_row(title if i == 0 else "", *(f"{float(x):9.4f}" for x in row))
    return table


def _grid() -> Table:
    from rich.table import Table

    return Table.grid(padding=(0, 2))


def _console() -> Console:
    """Standard output; when that is a file or a pipe, long lines are not broken at 80 columns."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else 160)


def _message(mistake: Exception) -> str:
    """What went wrong, without Python's error numbers."""
    if isinstance(mistake, OSError) and mistake.strerror:
        return f"{mistake.filename}: {mistake.strerror}" if mistake.filename else mistake.strerror
    return str(mistake)


if __name__ == "__main__":
    sys.exit(main())
