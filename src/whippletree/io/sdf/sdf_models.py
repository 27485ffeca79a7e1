"""The models of an SDF file made ready to be read as one: every name its own, and none that names what never moves.

A file with several models (a world of Gazebo) becomes one model, in which a link is called ``MODEL::LINK``, as SDF
itself calls it from outside. A link called ``world`` gets another name: ``world`` is what never moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from whippletree.io.draft import Draft, fresh
from whippletree.io.xml import line_of, tag_of
from whippletree.model import WORLD

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_NAMED = ("link", "joint", "frame")
_NAMING_TEXTS = ("parent", "child", "gearbox_reference_body")
_NAMING_ATTRIBUTES = ("relative_to", "attached_to", "expressed_in", "canonical_link")


def prepare_models(draft: Draft, root: Element) -> list[Element]:
    """The ``<model>`` elements of a file, their links and joints renamed where they would not be told apart."""
    models = [*root.findall("model"), *root.findall("world/model")]
    if not models:
        draft.fault("the file holds no model", line_of(root))
    for part in [*root.iterfind("include"), *root.iterfind("world/include")]:
        draft.leave_out("included models, which are not opened", (part.findtext("uri") or "without uri").strip())
    for part in root.iterfind(".//model/*"):
        if part.tag in ("include", "model"):
            text = f"<{tag_of(part)}> inside a model is not read: write one model with all its links"
            draft.fault(text, line_of(part))
    for model in models:
        _free_the_world(draft, model)
    if len(models) > 1:
        taken: set[str] = set()
        for model in models:
            name = fresh(str(model.get("name") or "model"), taken)
            taken.add(name)
            model.set("name", name)
            _rename(model, lambda part, prefix=name: f"{prefix}::{part}")  # type: ignore[misc]
        draft.notes.append(f"the file holds {len(models)} models: links and joints are called MODEL::NAME")
    return models


def _free_the_world(draft: Draft, model: Element) -> None:
    links = [str(link.get("name")) for link in model.findall("link")]
    if WORLD in links:
        other = fresh("world_link", links)
        _rename(model, lambda part: other if part == WORLD else part)
        draft.notes.append(f"the link {WORLD!r} is the body {other!r}: {WORLD!r} names what never moves")


def _rename(model: Element, renamed: Callable[[str], str]) -> None:
    """Give the named parts of a model other names, wherever they are spoken of."""
    known = {str(part.get("name")) for tag in _NAMED for part in model.findall(tag) if part.get("name")}
    for part in model.iter():
        if (part.getparent() is model and part.tag in _NAMED and part.get("name")) or part.tag == "mimic":
            word = "name" if part.tag in _NAMED else "joint"
            if part.get(word) in known:
                part.set(word, renamed(str(part.get(word))))
        for word in _NAMING_ATTRIBUTES:
            if part.get(word) in known:
                part.set(word, renamed(str(part.get(word))))
        if part.tag in _NAMING_TEXTS and (part.text or "").strip() in known:
            part.text = renamed((part.text or "").strip())
