"""How a peer and an evaluator of ours are compared on one model: the errors of every quantity, each by its own scale.

An evaluator is anything with the catalogue's functions: ``wt.reference(model)``, ``wt.compile(model)``.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from peers.conversion import Peer
from whippletree.errors import SingularSystemError
from whippletree.model import Model

TOLERANCE = 1e-12


class Motion(NamedTuple):
    """A state, accelerations and joint forces."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray


def random_motion(model: Model, name: str) -> Motion:
    """A motion that depends on the name only: angles all round, unit quaternions, everything else of order one."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    parts = []
    for joint, kind in zip(model.joints, model.joint_types):
        own = random.uniform(-1, 1, kind.nq) * (np.pi if joint.kind == "revolute" else 1)
        if kind.nq > kind.nv:
            own[-4:] /= np.linalg.norm(own[-4:])
        parts.append(own)
    return Motion(np.concatenate([np.zeros(0), *parts]), *random.standard_normal((3, model.nv)))


class Answers(NamedTuple):
    """What an evaluator says about one motion."""

    poses: dict[str, np.ndarray]
    jacobians: dict[str, np.ndarray]
    mass_matrix: np.ndarray
    bias: np.ndarray
    inverse_dynamics: np.ndarray
    accelerations: np.ndarray | None
    """None where the evaluator says that they are not determined."""


def answers(evaluator: Any, motion: Motion, bodies: Iterable[str]) -> Answers:
    """All that is compared, from one of our evaluators."""
    q, v, a, tau = motion
    bodies = list(bodies)
    try:
        accelerations = evaluator.forward_dynamics(q, v, tau)
    except SingularSystemError:
        accelerations = None
    return Answers(
        {name: evaluator.pose(name)(q) for name in bodies},
        {name: evaluator.jacobian(name)(q) for name in bodies},
        evaluator.mass_matrix(q),
        evaluator.bias(q, v),
        evaluator.inverse_dynamics(q, v, a),
        accelerations,
    )


def errors(ours: Answers, peer: Peer, motion: Motion) -> dict[str, float]:
    """Relative error of every quantity.

    Rotations and angular rows have the scale 1, positions and linear rows the size of the robot, an entry of the mass
    matrix the root of its two diagonal entries, and a row of M a + c − tau the sum of the magnitudes in it: small parts
    of a heavy robot are not hidden behind its large ones.
    """
    q, v, a, tau = motion
    poses, jacobians = peer.poses(q), peer.jacobians(q)
    M, c = peer.mass_matrix(q), peer.bias(q, v)
    diagonal = np.sqrt(np.diag(M))
    found = {
        "rotation": max(_largest(ours.poses[name][:3, :3] - poses[name][:3, :3]) for name in ours.poses),
        "position": _relative([(ours.poses[name][:3, 3], poses[name][:3, 3]) for name in ours.poses]),
        "angular Jacobian": max(_largest(ours.jacobians[name][:3] - jacobians[name][:3]) for name in ours.jacobians),
        "linear Jacobian": _relative([(ours.jacobians[name][3:], jacobians[name][3:]) for name in ours.jacobians]),
        "mass matrix": _ratio(ours.mass_matrix - M, np.multiply.outer(diagonal, diagonal)),
        "bias": _relative([(ours.bias, c)]),
        "inverse dynamics": _relative([(ours.inverse_dynamics, peer.inverse_dynamics(q, v, a))]),
    }
    if ours.accelerations is None:
        # the peer's matrix has no inverse either: after scaling to a unit diagonal, or with a zero on the diagonal
        scaled = M / np.multiply.outer(diagonal, diagonal) if diagonal.all() else np.zeros((1, 1))
        found["smallest eigenvalue, where we say singular"] = float(np.linalg.eigvalsh(scaled)[0])
    else:
        residual = peer.inverse_dynamics(q, v, ours.accelerations) - tau
        scale = np.abs(M) @ np.abs(ours.accelerations) + np.abs(c) + np.abs(tau)
        found["forward dynamics, backward error"] = _ratio(residual, scale)
    return found


def _largest(x: np.ndarray) -> float:
    return float(np.abs(x).max(initial=0))


def _ratio(difference: np.ndarray, scale: np.ndarray) -> float:
    """The largest entry by its scale; what does not differ has no error, also where the scale is zero."""
    differs = difference != 0
    return _largest(difference[differs] / scale[differs])


def _relative(pairs: list[tuple[np.ndarray, np.ndarray]]) -> float:
    """The largest difference by the largest number of the peer."""
    difference = max(_largest(ours - theirs) for ours, theirs in pairs)
    return difference / max(_largest(theirs) for _, theirs in pairs) if difference else 0.0
