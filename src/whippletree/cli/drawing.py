"""Models and numbers as rich draws them; names are data, so no markup is read from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text
    from rich.tree import Tree

    from whippletree.model import Model


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

    from whippletree.io.draft import left_out

    massless = [body.name for body in model.bodies if body.massless]
    constraints = [f"{constraint.name} ({constraint.kind})" for constraint in model.constraints]
    gravity = ", ".join(f"{float(g):g}" for g in model.gravity)
    rows = {
        "coordinates": f"nq = {model.nq}, nv = {model.nv}",
        "bodies": f"{len(model.bodies)}, total mass {float(sum(body.mass for body in model.bodies)):g} kg",
        "massless": list_names(massless),
        "frames": str(len(model.frames)),
        "constraints": list_names(constraints),
        "can touch": list_names([f"{g.name} ({g.kind})" for g in model.geometries if g.collides]),
        "contacts": list_names([contact.name for contact in model.contacts]),
        "limits": list_names([joint.name for joint in model.joints if joint.lower > -np.inf or joint.upper < np.inf]),
        "tendons": list_names([tendon.name for tendon in model.tendons]),
        "sensors": list_names([f"{sensor.name} ({sensor.kind})" for sensor in model.sensors]),
        "actuators": list_names([f"{actuator.name} ({actuator.kind})" for actuator in model.actuators]),
        "key frames": list_names([key.name for key in model.key_frames]),
        "time step": "none" if model.time_step is None else f"{model.time_step:g} s",
        "gravity": f"({gravity}) m/s²",
        "units": "SI: m, kg, s, rad",
    }
    table = grid()
    for word, value in rows.items():
        table.add_row(Text(word, style="dim"), Text(value))
    for note in left_out(model.source):
        table.add_row(Text("left out", style="yellow"), Text(note))
    return table


def _body_line(model: Model, k: int) -> Text:
    """``fore  1 kg  elbow: revolute, 1 DoF``; names are data, so no markup is read from them."""
    from rich.text import Text

    body, joint, part = model.bodies[k], model.joints[k], model.v_slices[k]
    mass = ("massless", "yellow") if body.massless else (f"{float(body.mass):g} kg", "")
    return Text.assemble(
        (body.name, "bold"), "  ", mass, (f"  {joint.name}: {joint.kind}, {part.stop - part.start} DoF", "cyan")
    )


def list_names(names: Sequence[str], limit: int = 8) -> str:
    """``2: rod, crank``, cut after a few names."""
    if not names:
        return "none"
    return f"{len(names)}: " + ", ".join(names[:limit]) + (", …" if len(names) > limit else "")


def grid() -> Table:
    from rich.table import Table

    return Table.grid(padding=(0, 2))
