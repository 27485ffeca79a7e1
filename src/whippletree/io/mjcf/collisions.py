"""Which geoms of an MJCF model may touch, how they rub, and at what distance: MuJoCo's rules, on its compiled numbers.

A pair that the file declares (``<pair>``) is a contact as it stands. Otherwise two geoms may touch if a bit of the
``contype`` of one is in the ``conaffinity`` of the other, unless

* their bodies are one rigid part, or are excluded from contact (``<exclude>``);
* their rigid parts are parent and child, neither being the world (flag ``filterparent``): bodies without joints belong
  to their parents, and joints of one body in a row make one neighbour, however many massless bodies stand between;
* both are without end (planes, height fields).

The friction of such a pair is the larger coefficient of the two, or that of the geom with the higher ``priority``, and
0 where ``condim`` is 1; torsional and rolling friction is found alike, the first from ``condim`` 4 on, the second where
it is 6. They touch at the sum of their margins.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from whippletree.errors import list_items
from whippletree.io.draft import Draft, fresh
from whippletree.io.mjcf.spec import Parts, line_of, switched_off
from whippletree.model import Geometry
from whippletree.model.contact_pairs import UNBOUNDED

_TOUCHABLE = ("half_space", "sphere", "capsule", "cylinder", "box", "ellipsoid", "mesh", "height_field")

_MESH_SUFFIXES = (".stl", ".obj", ".dae")
"""Formats of meshes whose corners are read (:mod:`whippletree.contact.geometry.mesh_formats`)."""

FRICTIONLESS, TORSIONAL, ROLLING = 1, 4, 6
"""Values of ``condim``: only a normal force; and those that add moments about the normal, and against rolling, to the
friction along the surface."""


SINGLY = 24
"""Geoms whose pairs are written out one by one; of more that touch alike there is one group."""


class _Touch(NamedTuple):
    """How a pair of geoms touches."""

    first: str
    second: str
    friction: tuple[float, float, float]
    """Sliding, torsional (m) and rolling (m)."""
    margin: float
    name: str = ""
    line: int | None = None

    @property
    def law(self) -> dict[str, Any]:
        """Arguments of the builder's contacts."""
        sliding, torsional, rolling = self.friction
        return {"friction": sliding, "margin": self.margin or 0, "torsional": torsional or 0, "rolling": rolling or 0}


def add_contacts(draft: Draft, parts: Parts, shapes: dict[str, Geometry], floating: int) -> None:
    """Every contact of the file to the draft's builder; ``floating`` is a welded body that was given a free joint."""
    if switched_off(parts.spec, "CONTACT", "CONSTRAINT"):
        draft.notes.append("contacts are switched off by a <flag> of the file")
        return
    declared = list(_declared_pairs(draft, parts))
    group = _group(parts, shapes, floating)
    alike = [parts.poses.geom(k).name for k in group]
    if group:
        draft.builder.contact_group("geoms", alike, **_mix_geoms(parts.poses, *group[:2]).law)
    taken = {frozenset((touch.first, touch.second)) for touch in declared}
    single = () if group else _allowed_pairs(parts, floating)
    names: set[str] = set()
    touching = [*alike]
    for pair in (*declared, *(x for x in single if frozenset((x.first, x.second)) not in taken)):
        touch = _arranged(pair, draft, parts, shapes, floating)
        if touch is None:
            continue
        name = fresh(touch.name or f"{touch.first} on {touch.second}", names)
        names.add(name)
        touching += [touch.first, touch.second]
        draft.declare("contact", name, touch.line)
        draft.builder.contact(name, touch.first, touch.second, **touch.law)
    hulls = sorted({name for name in touching if shapes[name].kind == "mesh"})
    if hulls:
        draft.notes.append(f"meshes touch by their convex hulls, as MuJoCo has it: {list_items(hulls)}")
    for kind, left in draft.left_out.items():
        draft.left_out[kind] = list(dict.fromkeys(left))


def _arranged(touch: _Touch, draft: Draft, parts: Parts, shapes: dict[str, Geometry], floating: int) -> _Touch | None:
    """The pair with the unbounded geom second, and what stands still after what moves; None if it has no effect."""
    pair = [shapes[touch.first], shapes[touch.second]]
    if all(shape.kind in UNBOUNDED for shape in pair):
        return None
    carriers = [_weld(parts, floating, shape.body) for shape in pair]
    if carriers[0] == carriers[1]:
        draft.notes.append(f"the pair of {touch.first!r} and {touch.second!r} has no effect: they are one rigid part")
        return None
    if unknown := [shape.name for shape in pair if not _can_touch(shape)]:
        draft.leave_out("collisions of shapes that are not known or whose file is not there or not read", *unknown)
        return None
    if pair[0].kind in UNBOUNDED or (pair[1].kind not in UNBOUNDED and carriers[0] == 0):
        return touch._replace(first=touch.second, second=touch.first)
    return touch


def _group(parts: Parts, shapes: dict[str, Geometry], floating: int) -> list[int]:
    """The geoms of a file with many, if any two of them may touch and all do so alike; none otherwise.

    All must stand still or belong to children of the world, so that no rule but the bits leaves out a pair.
    """
    compiled = parts.poses
    own = [k for k in range(compiled.ngeom) if compiled.geom_contype[k] or compiled.geom_conaffinity[k]]
    if len(own) <= SINGLY or parts.spec.excludes:
        return []
    alike = {
        (
            *(int(table[k]) for table in (compiled.geom_contype, compiled.geom_conaffinity, compiled.geom_condim)),
            *(float(x) for x in compiled.geom_friction[k]),
            float(compiled.geom_margin[k]),
        )
        for k in own
    }
    bits, affinity, *_ = next(iter(alike))
    if len(alike) > 1 or not int(bits) & int(affinity):
        return []
    names = [compiled.geom(k).name for k in own]
    parents = [int(compiled.body_parentid[_weld_of(parts, floating, int(compiled.geom_bodyid[k]))]) for k in own]
    return own if not any(parents) and all(_can_touch(shapes[name]) for name in names) else []


def _can_touch(shape: Geometry) -> bool:
    """Whether a shape can be compared with others: a mesh needs its corners, or a file of a format that is read, and
    must not stand for another shape that is fitted to it."""
    if shape.kind == "mesh":
        readable = shape.file is not None and shape.file.suffix.lower() in _MESH_SUFFIXES
        return "fit" not in shape.parameters and ("vertices" in shape.parameters or readable)
    return shape.kind in _TOUCHABLE


def _declared_pairs(draft: Draft, parts: Parts) -> Iterator[_Touch]:
    """The pairs of the file, each once."""
    compiled = parts.poses
    lines = {part.name: line_of(part) for part in parts.spec.pairs}
    seen: dict[frozenset[str], str] = {}
    for k in range(compiled.npair):
        first, second = (compiled.geom(int(ids[k])).name for ids in (compiled.pair_geom1, compiled.pair_geom2))
        key = frozenset((first, second))
        if key in seen:
            draft.notes.append(f"the pair of {first!r} and {second!r} is declared again: the first declaration counts")
            continue
        seen[key] = first
        sliding, across, torsional, rolling, beside = (float(x) for x in compiled.pair_friction[k])
        condim = int(compiled.pair_dim[k])
        if sliding != across or (rolling != beside and condim >= ROLLING):
            draft.leave_out("friction that differs along and across (the first coefficient counts)", first, second)
        name = compiled.pair(k).name
        friction = _counting_coefficients(condim, (sliding, torsional, rolling))
        yield _Touch(first, second, friction, float(compiled.pair_margin[k]), name, lines.get(name))


def _allowed_pairs(parts: Parts, floating: int) -> Iterator[_Touch]:
    """Pairs that nothing forbids."""
    compiled = parts.poses
    weld = [_weld_of(parts, floating, k) for k in range(compiled.nbody)]
    above = [weld[int(compiled.body_parentid[w])] for w in weld]
    excluded = {frozenset((part.bodyname1, part.bodyname2)) for part in parts.spec.excludes}
    filters_parents = not switched_off(parts.spec, "FILTERPARENT")
    bits = [(int(a), int(b)) for a, b in zip(compiled.geom_contype, compiled.geom_conaffinity, strict=True)]
    for i, j in combinations([k for k in range(compiled.ngeom) if any(bits[k])], 2):
        if not (bits[i][0] & bits[j][1] or bits[j][0] & bits[i][1]):
            continue
        one, other = int(compiled.geom_bodyid[i]), int(compiled.geom_bodyid[j])
        if weld[one] == weld[other]:
            continue
        related = weld[one] == above[other] or weld[other] == above[one]
        if filters_parents and weld[one] and weld[other] and related:
            continue
        if frozenset((compiled.body(one).name, compiled.body(other).name)) not in excluded:
            yield _mix_geoms(compiled, i, j)


def _mix_geoms(compiled: Any, i: int, j: int) -> _Touch:
    """How two geoms touch that the file says nothing of as a pair."""
    priorities = [int(compiled.geom_priority[k]) for k in (i, j)]
    leading = [k for k, own in zip((i, j), priorities, strict=True) if own == max(priorities)]
    condim = max(int(compiled.geom_condim[k]) for k in leading)
    larger = [max(float(compiled.geom_friction[k][n]) for k in leading) for n in range(3)]
    margin = float(compiled.geom_margin[i]) + float(compiled.geom_margin[j])
    return _Touch(compiled.geom(i).name, compiled.geom(j).name, _counting_coefficients(condim, larger), margin)


def _counting_coefficients(condim: int, friction: Sequence[float]) -> tuple[float, float, float]:
    """The ones of three coefficients that count, 0 for the others."""
    sliding, torsional, rolling = friction
    return (
        sliding if condim > FRICTIONLESS else 0.0,
        torsional if condim >= TORSIONAL else 0.0,
        rolling if condim >= ROLLING else 0.0,
    )


def _weld(parts: Parts, floating: int, body: str) -> int:
    return _weld_of(parts, floating, int(parts.poses.body(body).id))


def _weld_of(parts: Parts, floating: int, body: int) -> int:
    """The number of the first body of the rigid part that a body belongs to; 0 for what stands still."""
    compiled = parts.poses
    while body and body != floating and not compiled.body_jntnum[body]:
        body = int(compiled.body_parentid[body])
    return body
