"""Convex pieces of a closed mesh, by the library CoACD: how many it takes, and how well they fill it.

    1  the mesh falls into parts that hang together; each is cut by itself, so that parts may reach into each other
    2  CoACD cuts a part by planes, until the hull of what is left is as near to it as asked for
    3  corners of pieces go back to the mesh that they were cut from, which CoACD keeps to four digits
    4  the pieces are compared with the mesh: what they hold beyond it, and what of it they miss
    5  where that is more than was asked for, once more with half the distance

Pieces are the same on every run: the library's search begins with a fixed seed, and does not depend on the number of
threads. They are kept on disk with compiled code (:mod:`whippletree.files.cache`), by the mesh, the tolerance and the
version of the library.

References:
    Wei, Liu, Ling, Su: Approximate convex decomposition for 3D meshes with collision-aware concavity and tree search,
    ACM Transactions on Graphics 41 (2022).
"""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.mesh_files import points_on
from whippletree.errors import MissingExtraError, ModelError
from whippletree.files.cache import default_cache

FINEST_PIECES = 0.005
"""Share of a mesh's longest side that its pieces can be asked to keep to: CoACD compares shapes at some thousand
points, and below this cuts without end."""

ROUNDED_BY = 5e-4
"""Share of a mesh's longest side by which CoACD moves corners at most: it keeps cuts off vertices (1.4e-4 was seen)."""

NO_VOLUME = 1e-12
"""Volume of a mesh, as a share of the cube of its longest side, up to which it encloses none but rounding."""

LONGEST_CUTTING = 600.0
"""s that CoACD may take for one mesh."""

COMPARED_AT_ONCE = 2**18
"""Pairs of points and triangles (or planes) that are compared at once, in some tens of megabytes."""

_FORMAT = "convex pieces 2"
"""Format of entries of the cache; another number makes all pieces anew."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """Convex pieces in place of a mesh, and how well they fill it."""

    hulls: tuple[Array, ...]
    """Corners (n, 3) of each, in the mesh's frame, m."""
    volume_share: float
    """Volumes of all pieces, added up, over the volume of the mesh."""
    distance: float
    """m: the farthest that a piece reaches beyond the mesh, or the mesh beyond all pieces, as seen on points of their
    surfaces that are at most the tolerance apart."""


def convex_pieces(where: str, vertices: Array, faces: Array, tolerance: float) -> Pieces:
    """Pieces of a closed mesh that keep to it within a share ``tolerance`` of its longest side, as far as it goes.

    Args:
        where: what the mesh belongs to, for messages.
        vertices: m, (n, 3), no two equal.
        faces: numbers of vertices, (m, 3), all counter-clockwise seen from outside, or all clockwise.

    Raises:
        MissingExtraError: CoACD is not installed.
        ModelError: the mesh is not closed, has no volume, or CoACD finds no pieces.
    """
    faces = faces if volume(vertices, faces) >= 0 else faces[:, ::-1]
    part = _closed_parts(where, vertices, faces)
    low, size = vertices.min(axis=0), float(np.ptp(vertices, axis=0).max())
    if (enclosed := volume(vertices, faces)) <= NO_VOLUME * size**3:
        fault = (
            f"the mesh encloses no volume ({enclosed:.3g} m³, at a size of {size:.3g} m): it is flat, or its faces "
            f"enclose as much from outside as from inside. Mend it, or give the body boxes, capsules and cylinders"
        )
        raise ModelError(where, [fault])
    # one size for all meshes: what CoACD does with a mesh of metres and one of millimetres is not the same
    mesh = (vertices - low) / size, faces
    cache, key = default_cache(), _key(*mesh, tolerance)
    kept = cache.load(key)
    if kept is None:
        found = _fitting_pieces(where, *mesh, part, tolerance)
        cache.store(key, _to_bytes(found))
    else:
        found = _from_bytes(kept)
    hulls = tuple(np.asarray(hull * size + low) for hull in found.hulls)
    return Pieces(hulls, found.volume_share, found.distance * size)


def _key(vertices: Array, faces: Array, tolerance: float) -> str:
    try:
        version = metadata.version("coacd")
    except metadata.PackageNotFoundError:
        raise MissingExtraError("the decomposition of meshes", "coacd", "decompose") from None
    seal = hashlib.sha256(f"{_FORMAT} {version} {tolerance!r} {len(vertices)}".encode())
    for array in (vertices.astype("<f8"), faces.astype("<i8")):
        seal.update(np.ascontiguousarray(array).tobytes())
    return f"pieces-{seal.hexdigest()}"


def _to_bytes(pieces: Pieces) -> bytes:
    archive = io.BytesIO()
    numbers = np.array([pieces.volume_share, pieces.distance])
    np.savez(archive, points=np.concatenate(pieces.hulls), counts=list(map(len, pieces.hulls)), numbers=numbers)
    return archive.getvalue()


def _from_bytes(data: bytes) -> Pieces:
    with np.load(io.BytesIO(data), allow_pickle=False) as kept:
        share, distance = kept["numbers"].tolist()
        return Pieces(tuple(np.split(kept["points"], np.cumsum(kept["counts"])[:-1])), share, distance)


# --- what a mesh must be ---


def volume(vertices: Array, faces: Array) -> float:
    """Volume of what a closed mesh encloses, m³; negative if its triangles are clockwise seen from outside."""
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def _closed_parts(where: str, vertices: Array, faces: Array) -> Array:
    """For every triangle (m,) the part of the mesh that it is of; every part is closed.

    Triangles belong together across edges that no others share, so that bodies which touch, or reach into each other,
    are parts. Hollows, whose triangles look inwards, belong to what is around them: a mesh with any is one part.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    owner = np.tile(np.arange(len(faces)), 3)
    there, back = edges @ [len(vertices), 1], edges @ [1, len(vertices)]
    ways, first, counts = np.unique(there, return_index=True, return_counts=True)
    place = np.minimum(np.searchsorted(ways, back), len(ways) - 1)
    returns = np.where(ways[place] == back, counts[place], 0)
    goes = counts[np.searchsorted(ways, there)]
    if np.any(goes != returns):
        raise _open_mesh(where, vertices[edges[goes != returns]], len(ways))
    alone = goes == 1
    links = coo_array((np.ones(alone.sum()), (owner[alone], owner[first[place[alone]]])), shape=(len(faces),) * 2)
    count, part = connected_components(links, directed=False)
    # parts that hang together only at a shared edge are not told apart
    torn = [k for k in range(count) if np.any(np.sort(there[part[owner] == k]) != np.sort(back[part[owner] == k]))]
    if torn:
        raise _open_mesh(where, vertices[edges[~alone]], len(ways))
    hollow = any(volume(vertices, faces[part == k]) < 0 for k in range(count))
    return np.zeros_like(part) if hollow else np.asarray(part)


def _open_mesh(where: str, edges: Array, count: int) -> ModelError:
    """The error of a mesh with open edges (n, 2, 3), among so many."""
    place = ", ".join(f"{x:.4g}" for x in edges[0].mean(axis=0))
    return ModelError(
        where,
        [
            f"the mesh is not closed: {len(edges)} of its {count} edges, the first at ({place}) m, have no triangle on "
            f"one side, or several; mend it, so that what is inside can be told from what is outside, or give the body "
            f"boxes, capsules and cylinders"
        ],
    )


# --- cutting ---


def _fitting_pieces(where: str, vertices: Array, faces: Array, part: Array, tolerance: float) -> Pieces:
    """Pieces of a mesh with a longest side of 1, whose triangles are of the parts (m,)."""
    asked = tolerance
    while True:
        hulls = [hull for hull in _cut(where, vertices, faces, part, asked) if hull is not None]
        pieces = Pieces(tuple(hulls), *_fit(hulls, vertices, faces, tolerance))
        asked /= 2
        if pieces.distance <= tolerance or asked < FINEST_PIECES:
            return pieces


def _cut(where: str, vertices: Array, faces: Array, part: Array, tolerance: float) -> list[Array | None]:
    """The corners of each piece; None in place of a piece without volume."""
    given = io.BytesIO()
    np.savez(given, vertices=vertices, faces=faces, part=part, tolerance=tolerance)
    # by its path: the process needs this file alone, and finds the library where Python does
    command = [sys.executable, "-P", str(Path(__file__).with_name("coacd_process.py"))]
    try:
        done = subprocess.run(command, input=given.getvalue(), capture_output=True, timeout=LONGEST_CUTTING, check=True)
    except subprocess.TimeoutExpired:
        text = f"CoACD has found no pieces within {LONGEST_CUTTING:g} s"
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        text = (
            f"CoACD has ended without an answer (status {error.returncode}{': ' if said else ''}{(said or [''])[-1]})"
        )
    else:
        with np.load(io.BytesIO(done.stdout), allow_pickle=False) as found:
            points = _moved_onto(found["points"], vertices, vertices[faces])
            return [_corners(own) for own in np.split(points, np.cumsum(found["counts"])[:-1])]
    raise ModelError(where, [f"{text}: give it a mesh of fewer triangles that nowhere passes through itself"])


def _moved_onto(points: Array, vertices: Array, triangles: Array) -> Array:
    """Corners (n, 3) of pieces with those moved onto a mesh that are off it only because CoACD rounds: to a vertex, an
    edge or a face of it, whichever of these comes first. So floors are flat across pieces, and where they were."""
    moved = points.copy()
    for some in _portions(len(points), len(triangles)):
        own = points[some][:, None]
        rows = np.arange(len(own))
        for places in (
            _on_faces(own, triangles),
            _on_sides(own, triangles),
            np.broadcast_to(vertices, (len(own), *vertices.shape)),
        ):
            away = np.nan_to_num(np.linalg.norm(places - own, axis=2), nan=np.inf)
            nearest = np.argmin(away, axis=1)
            near = away[rows, nearest] <= ROUNDED_BY
            moved[some][near] = places[rows, nearest][near]
    return moved


def _corners(points: Array) -> Array | None:
    """The corners of the hull of points; None if it has no volume."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return np.asarray(points[np.sort(ConvexHull(points).vertices)])
    except QhullError:
        return None


# --- how well pieces fill a mesh ---


def _fit(hulls: list[Array], vertices: Array, faces: Array, tolerance: float) -> tuple[float, float]:
    """Share of the volume, and the farthest distance, of pieces from a mesh with a longest side of 1."""
    from scipy.spatial import ConvexHull

    solids = [ConvexHull(hull) for hull in hulls]
    share = sum(solid.volume for solid in solids) / volume(vertices, faces)
    apart = 2 * tolerance  # points are half of it apart
    on_pieces = [points_on(solid.points / apart, solid.simplices)[0] * apart for solid in solids]
    on_mesh, owner = points_on(vertices / apart, faces)
    missed = _farthest_outside(on_mesh * apart, [solid.equations for solid in solids])
    return share, max(missed, _excess(np.concatenate(on_pieces), vertices[faces], on_mesh * apart, owner))


def _farthest_outside(points: Array, planes: list[Array]) -> float:
    """How far the farthest point (n, 3) is outside of all pieces, by their faces (f, 4)."""
    depth = np.full(len(points), np.inf)
    for equations in planes:
        for some in _portions(len(points), len(equations)):
            beyond = points[some] @ equations[:, :3].T + equations[:, 3]
            depth[some] = np.minimum(depth[some], beyond.max(axis=1))
    return float(max(depth.max(), 0))


def _excess(points: Array, triangles: Array, on_mesh: Array, owner: Array) -> float:
    """How far the farthest of the points (n, 3) that are outside of a mesh of triangles (m, 3, 3) is from it.

    ``on_mesh``, ``owner``: points on the triangles, and the triangle of each.
    """
    from scipy.spatial import KDTree

    # no farther than from the triangles of some near points: those that this puts farthest away are looked at first
    _, near = KDTree(on_mesh).query(points, k=min(4, len(on_mesh)))
    bounds = np.min([_distance(points, triangles[owner[k]]) for k in near.reshape(len(points), -1).T], axis=0)
    order, farthest = np.argsort(-bounds), 0.0
    for some in _portions(len(points), len(triangles)):
        if bounds[order[some.start]] <= farthest:
            break
        looked = points[order[some]]
        outside = looked[_turns_around(looked, triangles) < 0.5]
        if len(outside):
            farthest = max(farthest, float(_distance(outside[:, None], triangles).min(axis=1).max()))
    return farthest


def _portions(points: int, others: int) -> list[slice]:
    """Slices of points, few enough to compare them with so many others at once."""
    step = max(1, COMPARED_AT_ONCE // others)
    return [slice(first, first + step) for first in range(0, points, step)]


def _distance(points: Array, triangles: Array) -> Array:
    """Distances of points (..., 3) from triangles (..., 3, 3)."""
    places = _on_sides(points, triangles), _on_faces(points, triangles)
    return np.asarray(np.fmin(*(np.linalg.norm(place - points, axis=-1) for place in places)))


def _on_sides(points: Array, triangles: Array) -> Array:
    """The nearest of the sides' points of triangles (..., 3, 3) to points (..., 3)."""
    nearest, least = points, np.inf
    for k in range(3):
        corner, side = triangles[..., k, :], triangles[..., (k + 1) % 3, :] - triangles[..., k, :]
        along = np.sum((points - corner) * side, axis=-1) / np.sum(side * side, axis=-1)
        place = corner + np.clip(along, 0, 1)[..., None] * side
        away = np.linalg.norm(place - points, axis=-1)
        nearest, least = np.where((away < least)[..., None], place, nearest), np.minimum(away, least)
    return nearest


def _on_faces(points: Array, triangles: Array) -> Array:
    """Points (..., 3) moved straight into the planes of triangles (..., 3, 3); NaN for those that are beside them."""
    corners = [triangles[..., k, :] for k in range(3)]
    sides = [corners[(k + 1) % 3] - corners[k] for k in range(3)]
    normal = np.cross(sides[0], sides[1])
    size = np.sum(normal * normal, axis=-1)
    over = size > 0
    for corner, side in zip(corners, sides, strict=True):
        over = over & (np.sum(np.cross(normal, side) * (points - corner), axis=-1) >= 0)
    height = np.sum(normal * (points - corners[0]), axis=-1) / np.where(over, size, 1)
    return np.where(over[..., None], points - height[..., None] * normal, np.nan)


def _turns_around(points: Array, triangles: Array) -> Array:
    """How often a mesh (m, 3, 3) encloses points (n, 3): its solid angle over 4π (van Oosterom and Strackee)."""
    a, b, c = (triangles[:, k] - points[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(x, axis=2) for x in (a, b, c))
    below = la * lb * lc + np.sum(a * b, axis=2) * lc + np.sum(b * c, axis=2) * la + np.sum(c * a, axis=2) * lb
    return np.asarray(np.sum(np.arctan2(np.sum(a * np.cross(b, c), axis=2), below), axis=1) / (2 * np.pi))
