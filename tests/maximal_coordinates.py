"""Mechanisms as bodies and joints in space, and their accelerations in maximal coordinates: an oracle without trees.

Every body has six velocities of its own; every joint, whether a tree would keep or cut it, is a set of rows between two
of them, made of two ideas: a direction fixed to the first body stays at its angle to one fixed to the second, and the
point of the second stays in a plane of the first. Dense NumPy, none of the library's rows, sweeps or routes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import whippletree as wt

CUTOFF = 1e-9
"""Share of the largest singular value up to which a row depends on others."""


def frame_along(z, x=(1.0, 0.0, 0.0)):
    """A rotation whose third column is along z, and whose first is as near to x as that lets it be."""
    z = np.asarray(z, float) / np.linalg.norm(z)
    x = np.asarray(x, float) if np.linalg.norm(np.cross(x, z)) > 0.1 * np.linalg.norm(x) else np.roll(x, 1)
    x = x - (x @ z) * z
    x /= np.linalg.norm(x)
    return np.column_stack([x, np.cross(z, x), z])


def placed(rotation, position):
    """A pose (4, 4)."""
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = rotation, position
    return pose


class PlacedJoint(NamedTuple):
    """A joint where the drawing has it; its axis is the z of its pose, the second one of a universal joint its x."""

    name: str
    kind: str
    parent: str
    child: str
    pose: np.ndarray


class _Motion(NamedTuple):
    """Rotation, place of the origin, angular velocity and velocity of the origin, in the world."""

    R: np.ndarray
    p: np.ndarray
    w: np.ndarray
    v: np.ndarray


class Drawing:
    """Bodies at their places and joints between them; all coordinates are zero there."""

    def __init__(self, name, gravity=(0.0, 0.0, -9.81)):
        self.name, self.gravity = name, np.asarray(gravity, float)
        self.bodies = {"world": (0.0, np.zeros(3), np.zeros((3, 3)), np.eye(4))}
        self.joints: list[PlacedJoint] = []

    def body(self, name, mass, center, inertia, pose):
        self.bodies[name] = mass, np.asarray(center, float), np.asarray(inertia, float), pose
        return self

    def bar(self, name, first, second, mass=1.0):
        """A slender body from point to point; x leads along it."""
        first, along = np.asarray(first, float), np.subtract(second, first)
        length = np.linalg.norm(along)
        across = frame_along(along)
        pose = placed(np.column_stack([along / length, across[:, 0], across[:, 1]]), first)
        lateral = mass * length**2 / 12
        center = (length / 2, 0, 0) if mass else (0, 0, 0)
        return self.body(name, mass, center, np.diag([mass * 1e-4, lateral, lateral]), pose)

    def joint(self, name, kind, parent, child, at, axis=(0.0, 0.0, 1.0), second=(1.0, 0.0, 0.0)):
        self.joints.append(PlacedJoint(name, kind, parent, child, placed(frame_along(axis, second), at)))
        return self

    def ends(self, joint):
        """The poses of a joint in its parent and in its child."""
        return tuple(np.linalg.inv(self.bodies[name][3]) @ joint.pose for name in (joint.parent, joint.child))

    def build(self, cut=()):
        """The model; its loops are cut by the library."""
        builder = wt.Builder(self.name, self.gravity)
        for name, (mass, center, inertia, _) in list(self.bodies.items())[1:]:
            builder.body(name, mass, center, inertia)
        for joint in self.joints:
            outer, inner = self.ends(joint)
            at = {"position": outer[:3, 3], "rotation": outer[:3, :3]}
            at |= {"child_position": inner[:3, 3], "child_rotation": inner[:3, :3]}
            builder.joint(*joint[:4], axis=(0, 0, 1), second_axis=(1, 0, 0), **at)
        return builder.build(cut=cut)

    # --- maximal coordinates ---

    def accelerations(self, model, q, v, tau):
        """Angular and linear acceleration (bodies, 6) of every body's origin in world axes, and the freedoms.

        ``tau`` acts in revolute and prismatic joints of the tree.
        """
        motions = self._motions(model, q, v)
        n = 6 * (len(self.bodies) - 1)
        M, force = np.zeros((n, n)), np.zeros(n)
        for k, name in enumerate(list(self.bodies)[1:]):
            own = slice(6 * k, 6 * k + 6)
            M[own, own], force[own] = self._inertia(name, motions[name])
        rows: list[tuple[np.ndarray, float]] = []
        for joint in self.joints:
            rows += self._rows(joint, motions, n)
            force += self._joint_force(joint, motions, model, tau, n)
        A, right = np.array([row for row, _ in rows]), np.array([value for _, value in rows])
        _, sizes, basis = np.linalg.svd(A)
        free = basis[int(np.sum(sizes > CUTOFF * sizes[0])) :].T
        start = np.linalg.lstsq(A, right, rcond=CUTOFF)[0]
        a = start + free @ np.linalg.solve(free.T @ M @ free, free.T @ (force - M @ start))
        return a.reshape(-1, 6), free.shape[1]

    def accelerations_of(self, model, q, v, a):
        """The same of joint accelerations a (nv,) that the library found."""
        ref, found = wt.reference(model), []
        for name, motion in list(self._motions(model, q, v).items())[1:]:
            spatial = np.asarray(ref.jacobian(name)(q) @ a + ref.jacobian_bias(name)(q, v), float)
            linear = motion.R @ spatial[3:] + np.cross(motion.w, motion.v)
            found.append(np.concatenate([motion.R @ spatial[:3], linear]))
        return np.array(found)

    def _motions(self, model, q, v):
        ref, found = wt.reference(model), {"world": _Motion(np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3))}
        for name in list(self.bodies)[1:]:
            pose, twist = (np.asarray(x, float) for x in (ref.pose(name)(q), ref.twist(name)(q, v)))
            found[name] = _Motion(pose[:3, :3], pose[:3, 3], pose[:3, :3] @ twist[:3], pose[:3, :3] @ twist[3:])
        return found

    def _inertia(self, name, motion):
        """Newton and Euler about the origin of a body: its mass matrix (6, 6) and the forces on it (6,)."""
        mass, center, inertia, _ = self.bodies[name]
        c, w = motion.R @ center, motion.w
        about = motion.R @ inertia @ motion.R.T + mass * (c @ c * np.eye(3) - np.outer(c, c))
        lever = mass * np.cross(c, np.eye(3)).T  # lever @ x = mass c × x
        moment = mass * np.cross(c, self.gravity) - np.cross(w, about @ w)
        push = mass * (self.gravity - np.cross(w, np.cross(w, c)))
        return np.block([[about, lever], [lever.T, mass * np.eye(3)]]), np.concatenate([moment, push])

    def _sides(self, joint, motions):
        outer, inner = self.ends(joint)
        first, second = motions[joint.parent], motions[joint.child]
        on_first, on_second = placed(first.R, first.p) @ outer, placed(second.R, second.p) @ inner
        return (first, on_first[:3, :3], on_first[:3, 3]), (second, on_second[:3, :3], on_second[:3, 3])

    def _rows(self, joint, motions, n):
        """Rows (n,) and right-hand sides of a joint at acceleration level."""
        (a, E, x), (b, F, y) = self._sides(joint, motions)
        planes = {"prismatic": (0, 1), "cylindrical": (0, 1), "planar": (2,)}.get(joint.kind, (0, 1, 2))
        tilts = ((0, 2), (1, 2))
        angles = {
            "revolute": tilts, "cylindrical": tilts, "planar": tilts, "universal": ((2, 0),), "spherical": (),
        }.get(joint.kind, ((0, 1), (1, 2), (2, 0)))  # fmt: skip
        names = list(self.bodies)

        def row(first, second):
            found = np.zeros(n)
            for name, part in ((joint.parent, first), (joint.child, second)):
                if name != "world":
                    k = 6 * (names.index(name) - 1)
                    found[k : k + 6] = part
            return found

        rows = []
        for i in planes:  # e · (y − x) = 0 with e fixed to the first body
            e, gap, r, s = E[:, i], y - x, x - a.p, y - b.p
            speed = b.v + np.cross(b.w, s) - a.v - np.cross(a.w, r)
            turning = np.cross(a.w, e)
            drift = np.cross(b.w, np.cross(b.w, s)) - np.cross(a.w, np.cross(a.w, r))
            bias = e @ drift + 2 * turning @ speed + np.cross(a.w, turning) @ gap
            first = np.concatenate([np.cross(e, r) + np.cross(e, gap), -e])
            rows.append((row(first, np.concatenate([np.cross(s, e), e])), -bias))
        for i, j in angles:  # e · d is constant, d fixed to the second body
            e, d = E[:, i], F[:, j]
            normal = np.cross(d, e)
            bias = (b.w - a.w) @ (np.cross(np.cross(b.w, d), e) + np.cross(d, np.cross(a.w, e)))
            rows.append((row(np.concatenate([-normal, np.zeros(3)]), np.concatenate([normal, np.zeros(3)])), -bias))
        return rows

    def _joint_force(self, joint, motions, model, tau, n):
        found = np.zeros(n)
        if joint.kind not in ("revolute", "prismatic") or joint.name not in [own.name for own in model.joints]:
            return found
        (a, E, _), (b, _, at) = self._sides(joint, motions)
        along = E[:, 2] * tau[model.slice(joint.name)][0]
        for name, motion, sign in ((joint.parent, a, -1), (joint.child, b, 1)):
            if name == "world":
                continue
            k = 6 * (list(self.bodies).index(name) - 1)
            wrench = [along, 0 * along] if joint.kind == "revolute" else [np.cross(at - motion.p, along), along]
            found[k : k + 6] = sign * np.concatenate(wrench)
        return found


def state_away(model, seed=0, steps=20):
    """A state that a random motion reaches from the drawing, and forces in joints of one freedom."""
    ref, rng = wt.reference(model), np.random.default_rng(seed)
    q, way = model.home.q, rng.normal(size=model.nv)
    for _ in range(steps):
        way = np.asarray(ref.project_velocity(q, way), float)
        q = wt.assemble(model, ref.integrate(q, 0.02 * way / max(1.0, np.linalg.norm(way))))
    single = [joint.kind in ("revolute", "prismatic") for joint in model.joints]
    tau = np.zeros(model.nv)
    for part, one in zip(model.v_slices, single, strict=True):
        tau[part] = rng.normal(size=part.stop - part.start) * one
    return q, np.asarray(ref.project_velocity(q, rng.normal(size=model.nv)), float), tau
