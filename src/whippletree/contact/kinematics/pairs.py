"""The contacts of a model, looked up and understood: which shapes, where on which bodies, and how they are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from whippletree.contact.geometry import coal_pairs
from whippletree.contact.geometry.closed_forms import Touch, Touching, closed_form
from whippletree.contact.geometry.mesh_files import tell_of_hulls
from whippletree.contact.geometry.rounded_polytopes import Solid, solids_of
from whippletree.contact.geometry.shape_numbers import kind_of
from whippletree.contact.geometry.shapes import HalfSpace, Shape, shape_of
from whippletree.contact.geometry.solid_pairs import compares_solids, form_of_solids
from whippletree.errors import ModelError, NameLookupError
from whippletree.model import Contact, Model
from whippletree.spatial import Pose
from whippletree.tree.skeleton import Place, Skeleton

Form: TypeAlias = Callable[[Shape, Shape], Touching | None]
"""Finds what finds the candidates of two shapes."""


@dataclass(frozen=True, eq=False)
class Pair:
    """A contact whose geometries have been looked up and understood."""

    contact: Contact
    bodies: tuple[str, str]
    poses: tuple[Pose, Pose]
    """Poses of the geometries in their bodies."""
    shapes: tuple[Shape, Shape]
    touching: Touching | None
    """The closed form; None where there is none."""
    slots: int
    solids: tuple[Shape | Solid, Shape | Solid] | None = None
    """The shapes as solids, where the form is that of solids; a half-space is none."""

    @property
    def compared(self) -> tuple[Shape | Solid, Shape | Solid]:
        """Arguments of the form: the shapes, or their solids."""
        return self.solids or self.shapes

    def places(self, tree: Skeleton) -> tuple[Place, Place]:
        """Where the two geometries are fixed."""
        found = []
        for body, pose in zip(self.bodies, self.poses, strict=True):
            node, at = tree.bodies[body]
            found.append(Place(node, at @ pose))
        return found[0], found[1]

    def touches(self, X: Pose, Y: Pose) -> list[Touch]:
        """The candidates with the two geometries at these poses; gaps are counted from the contact's margin."""
        if self.touching is not None:
            found = self.touching(*self.compared, X, Y)
        else:
            found = coal_pairs.touches(*self.shapes, X, Y)  # type: ignore[arg-type]
        return (
            [touch._replace(gap=touch.gap - self.contact.margin) for touch in found] if self.contact.margin else found
        )


def no_closed_form(pair: Pair) -> str:
    """Message about a pair of shapes that only a collision library can handle."""
    kinds = " against ".join(type(shape).__name__.lower() for shape in pair.shapes)
    return (
        f"contact {pair.contact.name!r}: {kinds} has no closed form, so it cannot be compiled or evaluated on symbols; "
        f"give one of the bodies spheres, capsules or points, or use what takes plain numbers: "
        f"simulate, and whippletree.contact.kinematics.large_scenes"
    )


def find_pairs(model: Model, form: Form = closed_form) -> tuple[Pair, ...]:
    """The pairs of all contacts of a model; ``form``: what finds the candidates of two shapes, if anything does.

    Raises:
        ModelError: with every geometry that cannot touch, by name.
    """
    faults: list[str] = []
    pairs: list[Pair] = []
    shapes: dict[str, Shape] = {}
    slots: dict[Any, int] = {}
    for contact in model.pairs:
        try:
            pairs.append(_pair(model, contact, shapes, slots, form))
        except ModelError as error:
            faults += [f"contact {contact.name!r}: {error.subject}: {fault}" for fault in error.faults]
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    tell_of_hulls(model.name, [model.geometry(name) for name in shapes])
    return tuple(pairs)


def pairs_with_solids(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs, with the forms of solids for those that are compared as such."""
    taken = [pair for pair in pairs if compares_solids(pair.touching, *pair.shapes)]
    shapes = {id(shape): shape for pair in taken for shape in pair.shapes if not isinstance(shape, HalfSpace)}
    solids = dict(zip(shapes, solids_of(list(shapes.values())), strict=True))
    numbers = {id(pair) for pair in taken}
    return tuple(_with_solids(pair, solids) if id(pair) in numbers else pair for pair in pairs)


def _with_solids(pair: Pair, solids: Mapping[int, Solid]) -> Pair:
    first, second = (solids.get(id(shape), shape) for shape in pair.shapes)
    form = form_of_solids(first, second)
    return replace(pair, touching=form, slots=form.slots, solids=(first, second))


def _pair(model: Model, contact: Contact, shapes: dict[str, Shape], known: dict[Any, int], form: Form) -> Pair:
    """``shapes``: those of geometries, by name; ``known``: the slots of kinds of pairs. Both grow."""
    if contact.law is not None:
        from whippletree.contact.impact.laws import LAWS  # only contacts that name a law pay for this import

        if contact.law not in LAWS:
            raise ModelError("law", [str(NameLookupError("impact law", contact.law, LAWS))])
    geometries = (model.geometry(contact.first), model.geometry(contact.second))
    for geometry in geometries:
        if geometry.name not in shapes:  # a mesh is read once, however often it may touch
            shapes[geometry.name] = shape_of(geometry)
    first, second = (shapes[geometry.name] for geometry in geometries)
    touching = form(first, second)
    poses = (Pose.from_matrix(geometries[0].pose), Pose.from_matrix(geometries[1].pose))
    if touching is not None:
        kinds = kind_of(first), kind_of(second)
        if kinds not in known:
            with np.errstate(all="ignore"):  # both sides of a select are evaluated
                known[kinds] = len(touching(first, second, *poses))
        slots = known[kinds]
    elif coal_pairs.can_collide(first, second):
        slots = coal_pairs.slots(first, second)  # type: ignore[arg-type]
    else:
        words = f"{geometries[0].kind} against {geometries[1].kind}"
        raise ModelError(f"geometry {contact.first!r}", [f"{words} is not supported: use spheres, capsules or boxes"])
    return Pair(contact, (geometries[0].body, geometries[1].body), poses, (first, second), touching, slots)
