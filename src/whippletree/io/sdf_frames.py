"""Frames of an SDF model by name: links, joints and ``<frame>``s, each where another one says (version 1.7 on).

A pose is given in the frame that ``relative_to`` names; without it, a link's in the model, a joint's in its child, a
frame's in what it is attached to. Everything is worked out in the model's frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whippletree.errors import did_you_mean
from whippletree.io.sdf_values import Values
from whippletree.model import WORLD, Array

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MODEL = "__model__"


class Frames:
    """Poses in the model's frame, and the links that frames are fixed to."""

    def __init__(self, values: Values, model: Element) -> None:
        self._values = values
        self._links = [str(link.get("name")) for link in model.findall("link") if link.get("name")]
        self._elements = {
            str(part.get("name")): part
            for tag in ("frame", "joint", "link")
            for part in model.findall(tag)
            if part.get("name")
        }
        self._canonical = str(model.get("canonical_link") or (self._links[0] if self._links else WORLD))
        self._poses: dict[str, Array] = {MODEL: np.eye(4), "": np.eye(4)}
        self._open: list[str] = []
        """Frames whose poses are being worked out, to notice a circle."""

    def pose(self, name: str) -> Array:
        """The pose (4, 4) of a link, joint or frame in the model's frame."""
        if name not in self._poses:
            self._open.append(name)
            element = self._elements[name]
            own = self._values.pose(element)
            base = self.base(element)
            self._poses[name] = own if base in ("", MODEL) else self._base_pose(element, base) @ own
            self._open.pop()
        return self._poses[name]

    def base(self, element: Element) -> str:
        """The name of the frame that an element's pose is given in."""
        given = element.find("pose")
        named = "" if given is None else str(given.get("relative_to") or "")
        if named or element.tag == "link":
            return named
        return str(element.get("attached_to") or "") if element.tag == "frame" else _child(element)

    def _base_pose(self, element: Element, base: str) -> Array:
        if base not in self._elements:
            known = did_you_mean(base, self._elements)
            self._values.fault(element, f"is placed relative to {base!r}, which the model does not have{known}")
            return np.eye(4)
        if base in self._open:
            circle = " relative to ".join(map(repr, [*self._open[self._open.index(base) :], base]))
            self._values.fault(element, f"is placed in a circle: {circle}")
            return np.eye(4)
        return self.pose(base)

    def turn_to(self, element: Element, frame: str) -> Array:
        """The rotation (3, 3) of a frame that an axis is expressed in."""
        return self._base_pose(element, frame)[:3, :3]

    def link_of(self, name: str) -> str:
        """The link that a frame or joint is fixed to; the name itself if it is none, or leads nowhere."""
        seen: set[str] = set()
        at = name
        while at in self._elements and at not in self._links and at not in seen:
            seen.add(at)
            element = self._elements[at]
            at = _child(element) if element.tag == "joint" else str(element.get("attached_to") or MODEL)
        return self._canonical if at == MODEL else at if at in self._links else name


def _child(joint: Element) -> str:
    return (joint.findtext("child") or "").strip()
