"""Equalities of an MJCF model as constraints: connect and weld, joint polynomials, lengths of tendons.

A fixed tendon is a weighted sum of joint coordinates, so an equality that is linear in such sums is a ``gear``; a
tendon straight from one site to another is a ``distance``. Others (tendons around geoms or pulleys, higher polynomials
of tendons) are kept as ``mjcf_…``, which evaluating the model refuses.
"""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np

from whippletree.io import rotations
from whippletree.io.draft import Draft
from whippletree.io.mjcf.spec import Parts, line_of
from whippletree.model import WORLD

Tied = tuple[str, tuple[str, ...], dict[str, Any]]
"""Kind, what it ties, and its numbers."""


def add_equalities(draft: Draft, parts: Parts) -> None:
    """Every equality of the file to the draft's builder."""
    from mujoco import mjtEq

    bodies = (mjtEq.mjEQ_CONNECT, mjtEq.mjEQ_WELD)
    mocap = {body.name for body in parts.spec.bodies if body.mocap}
    for part in parts.spec.equalities:
        if not mocap.isdisjoint((part.name1, part.name2)):
            # rigid, it would tie the mechanism to a body that stands still here
            draft.leave_out("equalities with mocap bodies", part.name)
            continue
        if part.type in bodies and part.name1 == WORLD and part.name2 in ("", WORLD):
            draft.leave_out("equalities of the world with itself", part.name)
            continue
        draft.declare("constraint", part.name, line_of(part))
        if part.type == mjtEq.mjEQ_JOINT:
            on = tuple(name for name in (part.name1, part.name2) if name)
            tied: Tied | None = "coupling", on, {"coefficients": _coupling(parts, part)}
        elif part.type in bodies:
            kind = "point" if part.type == mjtEq.mjEQ_CONNECT else "weld"
            tied = kind, _tied_frames(draft, parts, part, kind), {}
        else:
            tied = _tendons(parts, part) if part.type == mjtEq.mjEQ_TENDON else None
        kind, on, numbers = tied or _only_mujocos(draft, part)
        draft.builder.constraint(part.name, kind, *on, **numbers, **({} if part.active else {"active": False}))


def _only_mujocos(draft: Draft, part: Any) -> Tied:
    kind = f"mjcf_{part.type.name.removeprefix('mjEQ_').lower()}"
    draft.notes.append(f"equality {part.name!r} is kept as {kind!r}, which only MuJoCo knows")
    on = tuple(name for name in (part.name1, part.name2) if name)
    return kind, on, {"data": tuple(float(x) for x in part.data)}


def _coupling(parts: Parts, part: Any) -> tuple[float, ...]:
    """y − y₀ = Σ aₖ (x − x₀)ᵏ as a polynomial in x, where x₀ and y₀ are the joints' reference coordinates."""
    a = [float(x) for x in part.data[:5]]
    y0, x0 = (_reference(parts, name) if name else 0 for name in (part.name1, part.name2))
    if not part.name2:
        return (float(y0 + a[0]),)
    c = [float(sum(a[k] * comb(k, j) * (-x0) ** (k - j) for k in range(j, 5))) for j in range(5)]
    c[0] += float(y0)
    while len(c) > 2 and c[-1] == 0:
        c.pop()
    return tuple(c)


def _reference(parts: Parts, joint: str) -> float:
    """A joint's coordinate where the file puts the bodies."""
    return float(parts.poses.qpos0[parts.poses.jnt(joint).qposadr[0]])


def _tendons(parts: Parts, part: Any) -> Tied | None:
    """L₁ − L₁₀ = a₀ + a₁ (L₂ − L₂₀) of lengths L and their reference values; None for what is no gear and no rod."""
    from mujoco import mjtWrap

    paths = [list(parts.spec.tendon(name).path) for name in (part.name1, part.name2) if name]
    kinds = {wrap.type for path in paths for wrap in path}
    a = [float(x) for x in part.data[:5]]
    if kinds == {mjtWrap.mjWRAP_JOINT} and not any(a[2:]):
        ratios: dict[str, float] = {}
        for path, factor in zip(paths, (1.0, -a[1]), strict=False):
            for wrap in path:
                ratios[wrap.target.name] = ratios.get(wrap.target.name, 0.0) + factor * wrap.coef
        offset = a[0] + sum(ratio * _reference(parts, joint) for joint, ratio in ratios.items())
        return "gear", tuple(ratios), {"ratios": tuple(ratios.values()), "offset": offset}
    if kinds == {mjtWrap.mjWRAP_SITE} and len(paths) == 1 and len(paths[0]) == 2:
        sites = [wrap.target.name for wrap in paths[0]]
        return "distance", tuple(parts.site_frames[name] for name in sites), {"length": _apart(parts, sites) + a[0]}
    return None


def _apart(parts: Parts, sites: list[str]) -> float:
    """How far apart two sites are where the file puts the bodies, m."""
    import mujoco

    data = mujoco.MjData(parts.poses)
    mujoco.mj_kinematics(parts.poses, data)
    return float(np.linalg.norm(data.site(sites[0]).xpos - data.site(sites[1]).xpos))


def _tied_frames(draft: Draft, parts: Parts, part: Any, kind: str) -> tuple[str, str]:
    """The two frames that an equality holds together: sites, bodies, or new frames at its points in two bodies."""
    from mujoco import mjtObj

    if part.objtype == mjtObj.mjOBJ_SITE:
        return parts.site_frames[part.name1], parts.site_frames[part.name2]
    data = np.array(parts.poses.eq_data[parts.poses.eq(part.name).id])
    # compiled numbers: a weld keeps its point in the second body first, and its orientation in the first body
    points = (data[:3], data[3:6]) if kind == "point" else (data[3:6], data[:3])
    turned = kind == "weld" and np.any(data[6:10])
    rotation = draft.rotation(rotations.from_quaternion(data[6:10])) if turned else np.eye(3)
    tied: list[str] = []
    for body, position, turn in zip((part.name1, part.name2 or WORLD), points, (rotation, np.eye(3)), strict=True):
        if np.any(position) or np.any(turn != np.eye(3)):
            name = f"{part.name}/{len(tied) + 1}"
            draft.builder.frame(name, body, position=position, rotation=turn)
            body = name
        tied.append(body)
    return tied[0], tied[1]
