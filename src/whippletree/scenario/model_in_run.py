"""A run that knows its model: the model's own file as an attribute, so that a run can be drawn years later."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from whippletree.errors import UnsupportedError
from whippletree.io.native import native_reader, native_writer
from whippletree.model import Model

if TYPE_CHECKING:
    import xarray

DOCUMENT = "model_document"


def with_model(run: xarray.Dataset, model: Model) -> xarray.Dataset:
    """The run with its model as text; without, if the model holds what no file can (a user's function)."""
    try:
        text = native_writer.to_json(native_writer.document(model))
    except UnsupportedError:
        return run
    return run.assign_attrs({DOCUMENT: text})


def model_of(run: xarray.Dataset) -> Model | None:
    """The model of a run, if it knows it."""
    text = run.attrs.get(DOCUMENT)
    if text is None:
        return None
    name = json.loads(text).get("name", "model")
    return native_reader.read(Path(f"{name}.json"), text.encode(), base="fixed")
