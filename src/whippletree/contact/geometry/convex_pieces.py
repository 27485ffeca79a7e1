"""Convex pieces of a closed mesh, by the library CoACD: how many it takes, and how well they fill it.

    1  the mesh falls into parts that hang together; each is cut by itself, so that parts may reach into each other
    2  CoACD cuts a part by planes, until the hull of what is left is as near to it as asked for
    3  the pieces are compared with the mesh: what they hold beyond it, and what of it they miss
    4  where that is more than was asked for, once more with half the distance

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

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.mesh_files import points_on
from whippletree.errors import MissingExtraError, ModelError
from whippletree.files.cache import default_cache

FINEST_PIECES = 0.005
"""Share of a mesh's longest side that its pieces can be asked to keep to: CoACD compares shapes at some thousand points,
and below this cuts without end."""

LONGEST_CUTTING = 600.0
"""s that CoACD may take for one mesh."""

COMPARED_AT_ONCE = 2**18
"""Pairs of points and triangles (or planes) that are compared at once, in some tens of megabytes."""

_FORMAT = "convex pieces 1"
"""Of entries of the cache; another number makes all pieces anew."""


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
    _require_closed(where, vertices, faces)
    # one size for all meshes: what CoACD does with a mesh of metres and one of millimetres is not the same
    low, size = vertices.min(axis=0), float(np.ptp(vertices, axis=0).max())
    mesh = (vertices - low) / size, faces
    cache, key = default_cache(), _key(*mesh, tolerance)
    kept = cache.load(key)
    if kept is None:
        found = _fitting_pieces(where, *mesh, tolerance)
        cache.store(key, _packed(found))
    else:
        found = _unpacked(kept)
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


def _packed(pieces: Pieces) -> bytes:
    archive = io.BytesIO()
    numbers = np.array([pieces.volume_share, pieces.distance])
    np.savez(archive, points=np.concatenate(pieces.hulls), counts=list(map(len, pieces.hulls)), numbers=numbers)
    return archive.getvalue()


def _unpacked(data: bytes) -> Pieces:
    with np.load(io.BytesIO(data), allow_pickle=False) as kept:
        share, distance = kept["numbers"].tolist()
        return Pieces(tuple(np.split(kept["points"], np.cumsum(kept["counts"])[:-1])), share, distance)


# --- what a mesh must be ---


def volume(vertices: Array, faces: Array) -> float:
    """Of what a closed mesh encloses, m³; negative if its triangles are clockwise seen from outside."""
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)


def _require_closed(where: str, vertices: Array, faces: Array) -> None:
    """Every edge must be run through once in each direction."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    ways, counts = np.unique(edges, axis=0, return_counts=True)
    n = len(vertices)
    there, back = ways @ [n, 1], ways @ [1, n]
    faulty = ways[(counts > 1) | ~np.isin(there, back)]
    if len(faulty):
        place = ", ".join(f"{x:.4g}" for x in vertices[faulty[0]].mean(axis=0))
        raise ModelError(
            where,
            [
                f"the mesh is not closed: {len(faulty)} of its {len(ways)} edges, the first at ({place}) m, have no "
                f"triangle on one side, or more than one; mend it (what is inside must be told from what is outside), "
                f"or give the body boxes, capsules and cylinders"
            ],
        )
    flat = 1e-12 * float(np.ptp(vertices, axis=0).max()) ** 3
    if volume(vertices, faces) <= flat:
        raise ModelError(where, ["the mesh encloses no volume"])


def _parts(vertices: Array, faces: Array) -> Array:
    """For every triangle (m,) the part of the mesh that it is of. Hollows, whose triangles look inwards, belong to what
    is around them, so that a mesh that has any is one part."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    ends = faces[:, [0, 1]].ravel(), faces[:, [1, 2]].ravel()
    links = coo_array((np.ones(2 * len(faces)), ends), shape=(len(vertices), len(vertices)))
    count, label = connected_components(links, directed=False)
    part = np.asarray(label[faces[:, 0]])
    hollow = any(volume(vertices, faces[part == k]) < 0 for k in range(count))
    return np.zeros_like(part) if hollow else part


# --- cutting ---


def _fitting_pieces(where: str, vertices: Array, faces: Array, tolerance: float) -> Pieces:
    """Pieces of a mesh with a longest side of 1."""
    part, asked = _parts(vertices, faces), tolerance
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
    command = [sys.executable, "-m", "whippletree.contact.geometry.coacd_process"]
    try:
        done = subprocess.run(command, input=given.getvalue(), capture_output=True, timeout=LONGEST_CUTTING, check=True)
    except subprocess.TimeoutExpired:
        text = f"CoACD has found no pieces within {LONGEST_CUTTING:g} s"
    except subprocess.CalledProcessError as error:
        said = error.stderr.decode(errors="replace").strip().splitlines()
        text = f"CoACD has ended without an answer (status {error.returncode}{': ' if said else ''}{(said or [''])[-1]})"
    else:
        with np.load(io.BytesIO(done.stdout), allow_pickle=False) as found:
            return [_corners(points) for points in np.split(found["points"], np.cumsum(found["counts"])[:-1])]
    raise ModelError(where, [f"{text}: give it a mesh of fewer triangles that nowhere passes through itself"])


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
    missed = _missed(on_mesh * apart, [solid.equations for solid in solids])
    return share, max(missed, _excess(np.concatenate(on_pieces), vertices[faces], on_mesh * apart, owner))


def _missed(points: Array, planes: list[Array]) -> float:
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
    """Of points (..., 3) from triangles (..., 3, 3)."""
    corners = np.moveaxis(triangles, -2, 0)
    sides = np.roll(corners, -1, axis=0) - corners
    normal = np.cross(sides[0], sides[1])
    length = np.linalg.norm(normal, axis=-1)
    from_sides, over = np.inf, length > 0
    for corner, side in zip(corners, sides, strict=True):
        arm = points - corner
        along = np.clip(np.sum(arm * side, axis=-1) / np.sum(side * side, axis=-1), 0, 1)
        from_sides = np.minimum(from_sides, np.linalg.norm(arm - along[..., None] * side, axis=-1))
        over = over & (np.sum(np.cross(normal, side) * arm, axis=-1) >= 0)
    height = np.abs(np.sum(normal * (points - corners[0]), axis=-1)) / np.where(length > 0, length, 1)
    return np.where(over, height, from_sides)


def _turns_around(points: Array, triangles: Array) -> Array:
    """How often a mesh (m, 3, 3) encloses each of points (n, 3): its solid angle over 4π (van Oosterom and Strackee)."""
    a, b, c = (triangles[:, k] - points[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(x, axis=2) for x in (a, b, c))
    below = la * lb * lc + np.sum(a * b, axis=2) * lc + np.sum(b * c, axis=2) * la + np.sum(c * a, axis=2) * lb
    return np.asarray(np.sum(np.arctan2(np.sum(a * np.cross(b, c), axis=2), below), axis=1) / (2 * np.pi))
