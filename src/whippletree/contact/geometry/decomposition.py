"""``wt.decompose``: models in which meshes that are not convex touch by several convex pieces."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from whippletree.contact.geometry.convex_pieces import FINEST_PIECES, Pieces, convex_pieces
from whippletree.contact.geometry.mesh_files import surface_of
from whippletree.errors import ModelError, list_items, warn_caller
from whippletree.model import Contact, ContactGroup, Geometry, Model, require_model
from whippletree.model.contact_pairs import named_geometries
from whippletree.model.faults import naming_faults
from whippletree.model.input_checks import as_names

PIECE_TOLERANCE = 0.02
"""Share of a mesh's longest side by which its convex pieces may depart from it, unless another is asked for."""

_SURFACE = ("vertices", "faces", "path", "file", "scale")
"""What says how a mesh is shaped."""


def decompose(model: Model, *, names: str | Iterable[str] | None = None, tolerance: float = PIECE_TOLERANCE) -> Model:
    """The model with convex pieces in place of meshes: a cup is open, a ring has its hole.

    A mesh ``NAME`` becomes the geometries ``NAME/1``, ``NAME/2``, … of kind ``mesh`` on the same body, which have all
    else of it. Each contact ``C`` with it becomes ``C/1``, ``C/2``, … (``C/1/1``, … between two such meshes), and its
    contact groups have the pieces. A mesh that is convex within the tolerance stays as it is. ``model.source`` says of
    every other how many pieces it has, how far they depart from it and how much of its volume they fill.

    The pieces are the same on every run. They are kept on disk, so that only the first process takes the time: some
    seconds for a cup of 200 triangles, a minute for a robot's link of 50 000.

    Args:
        model: its masses and inertias stay as they are.
        names: of geometries, or of bodies whose meshes are meant. Default: every mesh that collides and is not marked
            ``convex``, as those of MJCF files are.
        tolerance: the farthest that pieces may reach beyond the mesh, or the mesh beyond them, as a share of the mesh's
            longest side; smaller ones take more pieces.

    Raises:
        MissingExtraError: the package ``coacd`` (extra ``decompose``) is not installed.
        ModelError: a mesh that is not closed, has no volume, or has vertices and no faces; a tolerance out of range.
        NameLookupError: a name that is neither a body nor a geometry.

    Warns:
        UserWarning: pieces that depart from their mesh by more than the tolerance.
    """
    require_model(model, "decompose")
    if isinstance(tolerance, bool) or not FINEST_PIECES <= tolerance <= 1:
        text = f"tolerance is {tolerance!r}, expected a share of a mesh's longest side from {FINEST_PIECES} to 1"
        raise ModelError("decompose", [text])
    fits = {}
    for geometry in _chosen(model, names):
        vertices, faces = surface_of(geometry)
        found = convex_pieces(f"geometry {geometry.name!r}", vertices, faces, float(tolerance))
        longest = float(np.ptp(vertices, axis=0).max())
        if found.distance > tolerance * longest:
            warn_caller(
                f"decompose: the {len(found.hulls)} pieces of {geometry.name!r} depart from it by "
                f"{found.distance:.2g} m, more than the tolerance of {tolerance * longest:.2g} m",
                UserWarning,
            )
        if len(found.hulls) > 1:
            fits[geometry.name] = found
    return _with_pieces(model, fits) if fits else model


def _chosen(model: Model, names: str | Iterable[str] | None) -> list[Geometry]:
    """The meshes that are meant, in the model's order."""
    meshes = [geometry for geometry in model.geometries if geometry.kind == "mesh"]
    if names is None:
        return [mesh for mesh in meshes if mesh.collides and not mesh.parameters.get("convex")]
    named = as_names(names)
    meant = named_geometries(model, named)
    others = [f"{g.name!r} ({g.kind})" for g in model.geometries if g.name in named and g.kind != "mesh"]
    if others:
        raise ModelError(f"decompose: model {model.name!r}", [f"only meshes have pieces, not {list_items(others)}"])
    return [mesh for mesh in meshes if mesh.name in meant]


def _with_pieces(model: Model, fits: Mapping[str, Pieces]) -> Model:
    suffixes = {name: [f"/{k}" for k in range(1, len(found.hulls) + 1)] for name, found in fits.items()}
    measured = {sensor.on for sensor in model.sensors}
    geometries: list[Geometry] = []
    for geometry in model.geometries:
        if geometry.name not in fits:
            geometries.append(geometry)
            continue
        geometries += _geometries_of(geometry, suffixes[geometry.name], fits[geometry.name])
        if geometry.name in measured:  # a sensor on it is on the whole
            geometries.append(replace(geometry, collides=False, visible=False))
    contacts = [one for contact in model.contacts for one in _contacts_of(contact, suffixes)]
    faults = [
        *naming_faults("geometry", [geometry.name for geometry in geometries]),
        *naming_faults("contact", [contact.name for contact in contacts]),
    ]
    if faults:
        raise ModelError(f"decompose: model {model.name!r}", faults)
    return replace(
        model,
        geometries=tuple(geometries),
        contacts=tuple(contacts),
        contact_groups=tuple(_group_of(group, suffixes) for group in model.contact_groups),
        source="\n- ".join([model.source, *[_note(name, found) for name, found in fits.items()]]).strip(),
    )


def _geometries_of(geometry: Geometry, suffixes: Sequence[str], found: Pieces) -> list[Geometry]:
    others = {word: value for word, value in geometry.parameters.items() if word not in _SURFACE}
    return [
        replace(geometry, name=f"{geometry.name}{suffix}", parameters=others | {"vertices": hull})
        for suffix, hull in zip(suffixes, found.hulls, strict=True)
    ]


def _contacts_of(contact: Contact, suffixes: Mapping[str, Sequence[str]]) -> list[Contact]:
    """A contact for every piece of its shapes with every one of the other's."""
    return [
        replace(contact, name=f"{contact.name}{a}{b}", first=f"{contact.first}{a}", second=f"{contact.second}{b}")
        for a, b in product(suffixes.get(contact.first, [""]), suffixes.get(contact.second, [""]))
    ]


def _group_of(group: ContactGroup, suffixes: Mapping[str, Sequence[str]]) -> ContactGroup:
    names = [f"{name}{suffix}" for name in group.geometries for suffix in suffixes.get(name, [""])]
    return replace(group, geometries=tuple(names))


def _note(name: str, found: Pieces) -> str:
    return (
        f"mesh {name!r} touches by {len(found.hulls)} convex pieces, which depart from it by {found.distance:.2g} m at "
        f"most and add up to {found.volume_share:.3f} of its volume"
    )
