"""What a run from event to event puts out beside q and v: the mode, gaps, and forces of contacts and constraints."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.simulation.integrator import Piece
from whippletree.simulation.labels import velocities
from whippletree.simulation.method import Variable
from whippletree.simulation.phase import Phase
from whippletree.simulation.scene import Scene

Array = np.ndarray[Any, Any]


class Output(NamedTuple):
    """Rows of one phase."""

    times: Array
    states: Array
    variables: dict[str, Array]


def variables(scene: Scene) -> dict[str, Variable]:
    """Names, dimensions and units."""
    names = tuple(scene.contacts.names)
    own = {
        "a": Variable(("velocity",), "accelerations", "rad/s² or m/s²", tuple(velocities(scene.model))),
        "mode": Variable((), "number of the mode in attrs['mode_names']", "1"),
        "contact_state": Variable(("contact",), "0 open, 1 sticks, 2 slides", "1", names),
        "contact_gap": Variable(("contact",), "gaps", "m", names),
        "contact_force": Variable(("contact", "direction"), "contact forces: normal, tangents 1 and 2", "N", names),
        "cone_violation": Variable((), "how far contact forces are outside their friction cones", "N"),
    }
    if scene.model.constraints:
        rows = tuple(scene.row_names)
        own["constraint_forces"] = Variable(("row",), "constraint forces", "N or N m", rows)
        own["constraint_residual"] = Variable(("position_row",), "position residuals of the constraints", "m or 1")
        own["constraint_velocity"] = Variable(("row",), "velocity residuals of the constraints", "m/s or 1/s")
    return own


def rows(phase: Phase, mode: int, times: Array, states: Array) -> Output:
    """Output of a phase, the ``mode``-th of the run, at given times and states."""
    scene, m = phase.scene, len(times)
    # one state more, so that no output is no special case
    padded_times, padded = np.append(times, phase.time), np.concatenate([states, phase.state[None]])
    q, v = scene.motion.split(padded)
    loads = phase.loads(padded_times, padded)
    own = {
        "a": loads.a,
        "mode": np.full(m + 1, mode),
        "contact_state": np.tile(np.array(phase.mode.status, dtype=int).reshape(1, scene.count), (m + 1, 1)),
        "contact_gap": scene.gaps(q),
        "contact_force": loads.contacts,
        "cone_violation": phase.cone_violation(loads.contacts),
    }
    if scene.model.constraints:
        forces = np.zeros((m + 1, len(scene.row_names)))
        forces[:, scene.rows] = loads.constraints
        own["constraint_forces"] = forces
        own["constraint_residual"] = scene.motion.evaluate("constraint_residual", q=q, t=padded_times)
        own["constraint_velocity"] = scene.motion.evaluate("constraint_velocity", q=q, v=v, t=padded_times)
    return Output(times, states, {name: values[:m] for name, values in own.items()})


def sampled(phase: Phase, mode: int, piece: Piece, end: float, wanted: Array) -> Output:
    """Output at those of the wanted times that lie in a step, up to ``end``."""
    inside = wanted[(wanted > piece.start) & (wanted <= end)]
    states = [phase.project(t, piece.interpolant(t)) for t in inside.tolist()]
    return rows(phase, mode, inside, np.array(states).reshape(len(inside), len(piece.state)))
