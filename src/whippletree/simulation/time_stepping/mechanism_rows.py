"""The mechanism of a scene between two calls of its kernel: its state, and the rows that it has among the bodies.

Lists of what is near are made from the poses of all bodies, as if each of them moved freely: those of the mechanism
have such coordinates, too, which the kernel tells at the end of a call.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.body_poses import Posture, Postures
from whippletree.contact.kinematics.scene_layout import SceneLayout
from whippletree.tree.skeleton import skeleton


class MechanismState(NamedTuple):
    """State of the joints; nothing of a scene that has none."""

    q: Array
    v: Array
    impulses: Array
    """Impulses of limits and dry friction in the last step, of the stops of tendons and of servos with a range, N s or
    N m s, (rows,)."""


class JointForces(NamedTuple):
    """What acts on the joints in some steps, beside their own springs and dampers."""

    given: Array
    """N m or N, (nv,)."""
    dampers: Array
    """Dampers that act at the end of the step, as the gains of a stiff controller do, N m s/rad or N s/m, (nv,)."""
    commands: Array
    """Commands of the actuators in each step, (steps, actuators)."""

    def of_steps(self, first: int, count: int) -> JointForces:
        """Joint forces of some steps, and of a look that has no length."""
        rows = self.commands[first : first + count]
        return self._replace(commands=np.concatenate([rows, self.commands[-1:]]))


class MechanismRows:
    """The mechanism of one scene; all of it is empty where there is none."""

    def __init__(self, layout: SceneLayout) -> None:
        self.layout, own = layout, layout.mechanism
        nothing: Array = np.zeros(0, dtype=np.int64)
        self.q: Array = nothing if own is None else own.q
        self.v: Array = nothing if own is None else own.v
        self.groups = np.array([] if own is None else own.groups, dtype=np.int64)
        self.actuators = 0 if own is None else len(own.model.actuators)
        self._trees_of_rows = np.array([] if own is None else own.groups_of_impulses, dtype=np.int64)
        self.rows = len(self._trees_of_rows)
        self._first_bodies = np.unique(self.groups, return_index=True)[1]
        self._known: tuple[MechanismState, Array, Array] | None = None

    @property
    def ties(self) -> tuple[Array, Array]:
        """Pairs of rows (n,) and (n,) that joints hold together."""
        return np.arange(len(self.groups)), self._first_bodies[self.groups]

    def state(self, q: Array, v: Array, impulses: Array) -> MechanismState:
        """The mechanism's part of a state of the scene."""
        return MechanismState(q[self.q], v[self.v], impulses if len(impulses) else np.zeros(self.rows))

    def join(self, of_bodies: Array, own: Array) -> Array:
        """Coordinates or velocities of the scene, from those of the bodies and the world (bodies + 1, 7 or 6)."""
        layout = self.layout
        if layout.mechanism is None:
            return of_bodies[:-1].ravel()
        at, places = (layout.free_q, self.q) if of_bodies.shape[1] == 7 else (layout.free_v, self.v)
        found = np.empty(at.size + len(places))
        found[at], found[places] = of_bodies[layout.jointed : -1], own
        return found

    def place(self, state: MechanismState, Q: Array, V: Array) -> None:
        """Write coordinates and velocities of its bodies, as if they moved freely, into the rows of all."""
        own = self.layout.mechanism
        if own is None:
            return
        known = self._known
        if known is None or not (np.array_equal(known[0].q, state.q) and np.array_equal(known[0].v, state.v)):
            posture = Posture(Postures(skeleton(own.model)), state.q)
            turning, moving = (x[:-1, :, None] for x in posture.twists(state.v))
            R = posture.R[:-1]
            twists = np.concatenate([R.swapaxes(1, 2) @ turning, R.swapaxes(1, 2) @ moving], axis=1)[:, :, 0]
            known = self._known = state, _free_coordinates(R, posture.p[:-1]), twists
        Q[: len(self.groups)], V[: len(self.groups)] = known[1:]

    def remember(self, state: MechanismState, poses: Array, Q: Array, V: Array) -> None:
        """Note where its bodies are after a call of the kernel, poses (bodies, 12), and write that into their rows."""
        if self.layout.mechanism is None:
            return
        n = len(self.groups)
        Q[:n] = _free_coordinates(poses[:, :9].reshape(-1, 3, 3), poses[:, 9:])
        self._known = state, Q[:n].copy(), V[:n].copy()

    def contacts(self, node: Array) -> tuple[Array, ...]:
        """Which contacts, by their rows of bodies (contacts, 2 or more), are on trees, their numbers among those, and
        the trees and bodies of each of those; () without a mechanism."""
        n = len(self.groups)
        if not n:
            return ()
        own = node[:, :2] < n
        on = own.any(axis=1)
        slot = np.maximum(np.cumsum(on) - 1, 0)
        first, second = (np.where(own[on, side], node[on, side], n) for side in (0, 1))
        groups = np.append(self.groups, -1)
        one, other = groups[first], groups[second]
        two = (one >= 0) & (other >= 0) & (one != other)
        none = np.zeros_like(first)
        sides = np.column_stack(
            [1 + two, np.where(one >= 0, one, other), np.where(two, other, 0), first, second, none, two]
        )
        if not len(sides):
            sides = np.zeros((1, 7), dtype=np.int64)
        return np.where(on, 1.0, -1.0), slot, np.ascontiguousarray(sides, dtype=np.int64)

    def arguments(
        self, state: MechanismState, forces: JointForces, of_contacts: tuple[Array, ...], islands: Array
    ) -> list[Array]:
        """What the kernel takes of it; ``islands``: numbers of those that all bodies are in."""
        if self.layout.mechanism is None:
            return []
        rows = np.arange(len(self.groups))
        of_rows = [state.impulses, islands[self._first_bodies[self._trees_of_rows]]] if self.rows else []
        further = [*([forces.commands] if self.actuators else []), *of_rows]
        return [state.q, state.v, forces.given, forces.dampers, *of_contacts, rows, *further]


def _free_coordinates(R: Array, p: Array) -> Array:
    """Positions and unit quaternions (n, 7) of poses."""
    # 4 q qᵀ, of which the row with the largest diagonal is not small
    square = np.empty((len(R), 4, 4))
    square[:, 0, 0] = 1 + np.einsum("nii->n", R)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        square[:, 1 + i, 1 + i] = 1 + R[:, i, i] - R[:, j, j] - R[:, k, k]
        square[:, 0, 1 + i] = square[:, 1 + i, 0] = R[:, k, j] - R[:, j, k]
        square[:, 1 + i, 1 + j] = square[:, 1 + j, 1 + i] = R[:, i, j] + R[:, j, i]
    row = square[np.arange(len(R)), np.einsum("nii->ni", square).argmax(axis=1)]
    return np.concatenate([p, row / np.linalg.norm(row, axis=1, keepdims=True)], axis=1)
