"""A short name for the content of a model, so that the cache knows a model again without tracing it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from whippletree.errors import FileError
from whippletree.files.bounded_files import read_bounded
from whippletree.model import Geometry, Model


def _never_the_same(function: Any) -> bytes:
    return os.urandom(32)


def fingerprint(model: Model, of_function: Callable[[Any], bytes] = _never_the_same) -> bytes:
    """A digest of every number and name of a model that its functions depend on; equal for equal models in any process.

    Shapes that cannot touch and remarks are left out (the start state is not: redundant rows are found near it).
    ``of_function`` says what stands for a user's function in the model; by default a model that has one gets a new
    fingerprint each time.
    """
    digest = hashlib.sha256()
    names = dict.fromkeys(name for contact in model.contacts for name in (contact.first, contact.second))
    names |= dict.fromkeys(name for group in model.contact_groups for name in group.geometries)
    touching = [model.geometry(name) for name in names]
    content = (model.bodies, model.joints, model.frames, model.constraints, model.gravity, model.start)
    files = [_file_content(geometry) for geometry in touching]
    for piece in _pieces(
        (model.name, *content, model.contacts, model.contact_groups, touching, files, model.actuators, model.elements),
        of_function,
    ):
        digest.update(piece)
        digest.update(b"\0")
    return digest.digest()


def _file_content(geometry: Geometry) -> str:
    """A digest of the mesh file that a shape names: the file may change while its name stays."""
    try:
        return "" if geometry.file is None else hashlib.sha256(read_bounded(geometry.file, "mesh file")).hexdigest()
    except (OSError, FileError):  # whoever needs its corners says what is wrong with it
        return ""


def _pieces(value: Any, of_function: Callable[[Any], bytes]) -> Iterator[bytes]:
    if callable(value):
        yield of_function(value)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        yield f"{value.dtype}{value.shape}".encode()
        yield np.ascontiguousarray(value).tobytes()
    elif isinstance(value, np.ndarray):
        yield from _pieces(value.tolist(), of_function)
    elif is_dataclass(value):
        for item in fields(value):
            yield item.name.encode()
            yield from _pieces(getattr(value, item.name), of_function)
    elif isinstance(value, Mapping):
        for key in sorted(value):
            yield str(key).encode()
            yield from _pieces(value[key], of_function)
    elif isinstance(value, (tuple, list)):
        yield f"{len(value)}".encode()
        for item in value:
            yield from _pieces(item, of_function)
    else:
        yield repr(value).encode()
