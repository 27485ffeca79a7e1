"""Contacts that overlap where a model stands: named, and left out on request (``wt.without_overlaps``)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.contact.kinematics.broad_phase import Neighbourhood
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.errors import listed
from whippletree.model import Model, require_model
from whippletree.model.input_checks import coordinates

DRAWN_OVERLAP = 1e-8
"""m: overlap from which shapes count as drawn into each other."""


def without_overlaps(model: Model, q: Any = None, *, tolerance: float = DRAWN_OVERLAP) -> Model:
    """The model without the contacts whose shapes overlap at a configuration.

    Hands and grippers are often drawn with shapes that reach into each other, and that no motion could part. Time
    stepping moves such shapes apart, slowly, and tells so; this leaves their pairs out instead, and says which in
    ``model.source``.

    Args:
        model: with contacts.
        q: (nq,); default: the model's home.
        tolerance: largest overlap of a pair that stays, m.
    """
    require_model(model, "without_overlaps")
    if not model.contacts:
        return model
    at = coordinates("without_overlaps", "q", model.home.q if q is None else q, model)
    contacts = contact_set(model)
    gaps = Neighbourhood(contacts).gaps(np.asarray(at, dtype=float))
    margins = {contact.name: float(contact.margin) for contact in model.contacts}
    deep = {
        candidate.contact
        for candidate, gap in zip(contacts.candidates, gaps, strict=True)
        if gap + margins[candidate.contact] < -tolerance
    }
    if not deep:
        return model
    kept = tuple(contact for contact in model.contacts if contact.name not in deep)
    named = listed(repr(contact.name) for contact in model.contacts if contact.name in deep)
    return replace(model, contacts=kept, source=f"{model.source}\n- left out: contacts that overlap: {named}".strip())
