"""Bodies whose motion is an input: what stands still in a model is carried along a path, whatever pushes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import UnsupportedError
from whippletree.model.frozen import frozen_array
from whippletree.model.model import WORLD, Constraint, Joint, Model, State
from whippletree.spatial import rotation_quaternion


def with_motion(model: Model, body: str, motion: Callable[[Any], Any]) -> Model:
    """The model with a body that follows a given motion: a mocap body of an MJCF file, a lift, a conveyor.

    The weld that holds the body becomes a free joint, and a constraint ``BODY motion`` of kind ``prescribed_frame``
    leads it. So its mass does not matter, what it pushes feels an immovable thing, and the force that it takes is among
    the ``constraint_forces``.

    Args:
        model: in which the body is welded to the world.
        body: its name.
        motion: the pose (4, 4) of the body in the world, or its position (3,) where it keeps its direction, as a
            function of time. It is differentiated: plain NumPy, without branches on values.

    Raises:
        NameLookupError: there is no such body.
        UnsupportedError: it is not welded to the world, or ``motion`` gives neither 3 nor 16 numbers.
    """
    model.body_index(body)  # names of bodies are told apart first
    weld = next(joint for joint in model.joints if joint.child == body)
    if weld.parent != WORLD or weld.kind != "weld":
        raise UnsupportedError(
            f"with_motion: body {body!r} hangs on joint {weld.name!r} ({weld.kind}) of {weld.parent!r}, expected a "
            f"weld to the world: a body that moves by itself cannot be led, too"
        )
    rotation = np.array(weld.pose[:3, :3], dtype=float)
    size = np.size(motion(0.0))
    if size not in (3, 16):
        raise UnsupportedError(
            f"with_motion: the motion of body {body!r} has {size} numbers at t = 0, expected a position (3,) or a pose "
            f"(4, 4)"
        )
    led: Callable[[Any], Any] = motion if size == 16 else (lambda t: _pose(rotation, motion(t)))
    free = Joint(weld.name, "free", WORLD, body)
    joints = tuple(free if joint is weld else joint for joint in model.joints)
    changed = replace(model, joints=joints, start=None)
    q, v = changed.neutral.q.astype(float), np.zeros(changed.nv)
    for joint in model.joints:
        if joint is not weld:
            q[changed.q_slice(joint.name)] = model.home.q[model.q_slice(joint.name)]
            v[changed.slice(joint.name)] = model.home.v[model.slice(joint.name)]
    at = np.asarray(led(0.0), dtype=float).reshape(4, 4)
    turned = np.asarray(rotation_quaternion(at[:3, :3].astype(object)), dtype=float)
    q[changed.q_slice(weld.name)] = np.concatenate([at[:3, 3], turned])
    constraint = Constraint(f"{body} motion", "prescribed_frame", (WORLD, body), {"motion": led})
    return replace(
        changed,
        constraints=(*model.constraints, constraint),
        start=State(frozen_array(q, (changed.nq,)), frozen_array(v, (changed.nv,))),
        source=f"{model.source}\n- body {body!r} follows a given motion".strip(),
    )


def _pose(rotation: Array, position: Any) -> Array:
    """A pose (4, 4) of a fixed rotation, on any scalar."""
    X = np.eye(4).astype(object)
    X[:3, :3], X[:3, 3] = rotation, np.asarray(position, dtype=object)
    return X
