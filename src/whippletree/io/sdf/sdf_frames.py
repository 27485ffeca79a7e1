"""Frames of an SDF model by name: links, joints and ``<frame>``s, each where another one says (version 1.7 on).

A pose is given in the frame that ``relative_to`` names; without it, a link's in the model, a joint's in its child, a
frame's in what it is attached to. Everything is worked out in the model's frame.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import route
from whippletree.io.sdf.sdf_values import Values
from whippletree.model import WORLD

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

MODEL = "__model__"


class Frames:
    """Poses in the model's frame, and the links that frames are fixed to."""

    def __init__(self, values: Values, model: Element) -> None:
        self._values = values
        self._links = {str(link.get("name")): None for link in model.findall("link") if link.get("name")}
        self._elements = {
            str(part.get("name")): part
            for tag in ("frame", "joint", "link")
            for part in model.findall(tag)
            if part.get("name")
        }
        self._canonical = str(model.get("canonical_link") or next(iter(self._links), WORLD))
        self._poses: dict[str, Array] = {MODEL: np.eye(4), "": np.eye(4)}
        self._holders: dict[str, str] = {}
        """The link that each frame or joint is fixed to, as far as it was asked for."""

    def pose(self, name: str) -> Array:
        """The pose (4, 4) of a link, joint or frame in the model's frame."""
        # from the frame to one that is known, and back: chains may be longer than Python's stack
        chain: dict[str, None] = {}
        at = name
        while at not in self._poses and at in self._elements and at not in chain:
            chain[at] = None
            at = self.base(self._elements[at])
        if at not in self._poses:
            self._poses[at] = self._misplaced(list(chain), at)
            chain.pop(at, None)
        for part in reversed(chain):
            element = self._elements[part]
            base = self.base(element)
            own = self._values.pose(element)
            self._poses[part] = own if base in ("", MODEL) else self._poses[base] @ own
        return self._poses[name]

    def _misplaced(self, chain: list[str], base: str) -> Array:
        """Note that a chain of frames leads to nothing, or back into itself; the pose to go on with."""
        element = self._elements[chain[-1]]
        if base in chain:
            circle = route([*chain[chain.index(base) :], base], "relative to")
            self._values.fault(element, f"is placed in a circle: {circle}")
        else:
            known = self._values.draft.hint(base, self._elements)
            self._values.fault(element, f"is placed relative to {base!r}, which the model does not have{known}")
        return np.eye(4)

    def base(self, element: Element) -> str:
        """The name of the frame that an element's pose is given in."""
        given = element.find("pose")
        named = "" if given is None else str(given.get("relative_to") or "")
        if named or element.tag == "link":
            return named
        return str(element.get("attached_to") or "") if element.tag == "frame" else _child(element)

    def turn_to(self, element: Element, frame: str) -> Array:
        """The rotation (3, 3) of a frame that an axis is expressed in."""
        if frame not in self._elements:
            known = self._values.draft.hint(frame, self._elements)
            self._values.fault(element, f"is expressed in {frame!r}, which the model does not have{known}")
            return np.eye(3)
        return self.pose(frame)[:3, :3]

    def link_of(self, name: str) -> str:
        """The link that a frame or joint is fixed to; the name itself if it is none, or leads nowhere."""
        seen: set[str] = set()
        at = name
        while at in self._elements and at not in self._links and at not in seen and at not in self._holders:
            seen.add(at)
            element = self._elements[at]
            at = _child(element) if element.tag == "joint" else str(element.get("attached_to") or MODEL)
        holder = self._canonical if at == MODEL else self._holders.get(at, at)
        if holder in self._links:
            self._holders |= dict.fromkeys(seen, holder)
        elif at != MODEL:  # thousands of frames in a circle are followed once
            self._holders |= {lost: lost for lost in seen}
        return holder if at == MODEL or holder in self._links else name


def _child(joint: Element) -> str:
    return (joint.findtext("child") or "").strip()
