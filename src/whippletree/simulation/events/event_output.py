"""Outputs of a run from event to event beside q and v: the mode, gaps, and forces of contacts and constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.simulation.adaptive.integrator import MotionPiece
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.load_sharing import under_contacts
from whippletree.simulation.events.phase import Phase
from whippletree.simulation.method import Variable
from whippletree.simulation.output.labels import velocities

OUTSIDE = 1e-9
"""Share of the largest contact force by which a force may be outside its cone."""


class PhaseOutput(NamedTuple):
    """Rows of one phase."""

    times: Array
    states: Array
    variables: dict[str, Array]

    def beside(self, **more: Array) -> PhaseOutput:
        """With further variables."""
        return self._replace(variables=self.variables | more)


def variables(scene: EventEquations, sensitivity: bool = False) -> dict[str, Variable]:
    """Names, dimensions and units."""
    names = scene.contacts.names[: scene.touching]
    own = {
        "a": Variable(("velocity",), "accelerations", "rad/s² or m/s²", tuple(velocities(scene.model))),
        "mode": Variable((), "number of the mode in attrs['mode_names']", "1"),
        "contact_state": Variable(("contact",), "0 open, 1 sticks, 2 slides", "1", names),
        "contact_gap": Variable(("contact",), "gaps", "m", names),
        "contact_force": Variable(("contact", "direction"), "contact forces: normal, tangents 1 and 2", "N", names),
        "cone_violation": Variable((), "how far contact forces are outside their friction cones", "N"),
    }
    if scene.stops.all:
        own["limit_force"] = Variable(("limit",), "forces of joint limits", "N m or N", scene.stops.joints)
    if scene.dry_joints.joints:
        own["friction_force"] = Variable(("rubbing",), "dry friction of joints", "N m or N", scene.dry_joints.joints)
    if scene.model.constraints:
        rows = tuple(scene.row_names)
        own["constraint_forces"] = Variable(("row",), "constraint forces", "N or N m", rows)
        own["constraint_residual"] = Variable(("position_row",), "position residuals of the constraints", "m or 1")
        own["constraint_velocity"] = Variable(("row",), "velocity residuals of the constraints", "m/s or 1/s")
    if sensitivity:
        changes = tuple(f"{kind} {name}" for kind in ("δq", "δv") for name in velocities(scene.model))
        title = "derivative of (q, v) by (q, v) at the start, in the tangent space"
        own["sensitivity"] = Variable(("change", "start_change"), title, "of the change / of the change", changes)
    return own


def rows(phase: Phase, mode: int, times: Array, states: Array) -> PhaseOutput:
    """Output of a phase, the ``mode``-th of the run, at given times and states."""
    scene, m = phase.scene, len(times)
    # one state more, so that no output is no special case
    padded_times, padded = np.append(times, phase.time), np.concatenate([states, phase.state[None]])
    q, v = scene.motion.split(padded)
    loads, k = phase.loads(padded_times, padded) if m else phase.start_loads, scene.touching
    own = {
        "a": loads.a,
        "mode": np.full(m + 1, mode),
        "contact_state": np.tile(np.array(phase.mode.status[:k], dtype=int).reshape(1, k), (m + 1, 1)),
        "contact_gap": scene.gaps(q)[:, :k],
        **_shared_out(scene, loads.contacts),
        "cone_violation": phase.cone_violation(loads.contacts),
    }
    if scene.model.constraints:
        forces = np.zeros((m + 1, len(scene.row_names)))
        forces[:, scene.rows] = loads.constraints
        own["constraint_forces"] = forces
        own["constraint_residual"] = scene.motion.evaluate("constraint_residual", q=q, t=padded_times)
        own["constraint_velocity"] = scene.motion.evaluate("constraint_velocity", q=q, v=v, t=padded_times)
    return PhaseOutput(times, states, {name: values[:m] for name, values in own.items()})


def sampled(phase: Phase, mode: int, pieces: Sequence[MotionPiece], end: float, wanted: Array) -> PhaseOutput:
    """Output at those of the wanted times that lie in steps which follow each other, up to ``end``."""
    inside = [wanted[(wanted > piece.start) & (wanted <= min(piece.end, end))] for piece in pieces]
    states = [piece.interpolant.states(own) for piece, own in zip(pieces, inside, strict=True)]
    times = np.concatenate([wanted[:0], *inside])
    return rows(phase, mode, times, phase.projected(times, np.concatenate([phase.state[None][:0], *states])))


def within_cones(
    output: PhaseOutput, phase: Phase, forces_of: Callable[[Phase, float, Array], Array | None]
) -> PhaseOutput:
    """Loads, with other forces where those of a hyperstatic mode that sticks have left their cones: they are not
    unique, and complementarity (``forces_of``) has some inside. Forces of constraints change with them.
    """
    scene, own = phase.scene, output.variables
    largest = np.abs(own["contact_force"]).max(axis=(1, 2), initial=0.0)
    outside = np.flatnonzero(own["cone_violation"] > OUTSIDE * largest)
    if not len(outside) or not phase.hyperstatic or phase.slips or phase.weightless:
        return output
    for n in outside.tolist():
        found = forces_of(phase, float(output.times[n]), output.states[n])
        if found is not None:
            own["cone_violation"][n] = phase.cone_violation(found[None])[0]
            for name, values in _shared_out(scene, found[None]).items():
                own[name][n] = values[0]
            if scene.rows:
                q, v = scene.motion.split(output.states[n : n + 1])
                x = under_contacts(phase, scene.at(output.times[n : n + 1], q, v), found)
                rows = [scene.rows[k] for k in phase.kept]
                own["constraint_forces"][n, rows] = x[scene.model.nv :][: len(rows)]
    return output


def _shared_out(scene: EventEquations, forces: Array) -> dict[str, Array]:
    """Forces (m, k, 3) of all candidates by what they belong to: contacts, stops, and the dry friction of joints."""
    stops = slice(scene.touching, scene.touching + len(scene.stops.all))
    own = {"contact_force": forces[:, : scene.touching]}
    if scene.stops.all:
        own["limit_force"] = scene.stops.forces(forces[:, stops, 0])
    if scene.dry_joints.joints:
        own["friction_force"] = forces[:, stops.stop :, 1]
    return own
