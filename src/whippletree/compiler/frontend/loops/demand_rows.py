"""Rows of a constraint's demand while its code is traced: from the bodies that it holds on to and the joints it ties.

The states of bodies and joints are numbers that the code has loaded; the rows are those of
:mod:`whippletree.constraints.long_systems.body_system`, on the unknowns that the demand feels, and those of
:mod:`whippletree.constraints.rows` where a function asks for errors or velocities alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.constraints.long_systems.body_elements import (
    Held,
    TiedJoint,
    frame_bias,
    frame_rows,
    tied_bias,
    tied_rows,
)
from whippletree.constraints.long_systems.body_system import Binding
from whippletree.constraints.rows import FrameRows, JointRows, Prepared
from whippletree.spatial import Pose


class DemandRows:
    """The rows of one type of demand."""

    def __init__(
        self, binding: Binding, poses: Sequence[Pose], held: Sequence[Held], joints: Sequence[TiedJoint], t: Any
    ) -> None:
        """``poses``: of the demand's frames on the bodies ``held``."""
        self.binding, self.poses, self.held, self.joints, self.t = binding, tuple(poses), list(held), list(joints), t
        self.c: Prepared = binding.prepared

    def jacobian(self) -> Array:
        """Rows (rows, z) on the unknowns that the demand feels."""
        if self.c.demand.on != "frames":
            return tied_rows(self.c, self.joints, self.t)
        return frame_rows(self.binding, self.poses, self.held, self.t)

    def bias(self) -> Array:
        """Accelerations (rows,) that the present velocities alone give."""
        if self.c.demand.on != "frames":
            return tied_bias(self.c, self.joints, self.t)
        return frame_bias(self.c, self.poses, self.held, self.t)

    def velocity(self) -> Array:
        """Rates (rows,) of the present velocities."""
        if self.c.demand.on == "massless":
            return vector(*[joint.rate for joint in self.joints])
        return self._plain().velocity()

    def residual(self) -> Array:
        """Errors (rows,) of the present coordinates."""
        return self._plain().residual()

    def _plain(self) -> FrameRows | JointRows:
        if self.c.demand.on == "joints":
            return JointRows(self.c.demand, [j.x for j in self.joints], [j.rate for j in self.joints], self.t)
        seen = [body.X @ pose for body, pose in zip(self.held, self.poses, strict=True)]
        twists = [pose.motion(body.V) for body, pose in zip(self.held, self.poses, strict=True)]
        return _SeenRows(self.c, seen, twists, self.t)


class _SeenRows(FrameRows):
    """Rows of frames whose twists are known."""

    def __init__(self, c: Prepared, poses: Sequence[Pose], twists: list[Array], t: Any) -> None:
        super().__init__(c.demand, poses, t)
        self._twists = twists

    def twists(self) -> list[Array]:
        return self._twists
