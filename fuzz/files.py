"""Damaged model and mesh files: a model, or an error of this library."""

from __future__ import annotations

import random
from pathlib import Path

import whippletree as wt
from damaged_files import MESHES, MODELS, STL, damage
from fuzz.trial import TRIAL_SECONDS
from whippletree.contact.geometry.mesh_formats import read_surfaces

LIMIT = TRIAL_SECONDS

NAMES = (*MODELS, *MESHES)


def try_one(seed: int, folder: Path) -> str:
    """One file, damaged, read; a model that is read is also written and read again."""
    name = NAMES[seed % len(NAMES)]
    place = folder / name
    place.write_bytes(damage((MODELS | MESHES)[name], random.Random(f"fuzz {name} {seed}")))
    if name in MESHES:
        return "surfaces" if read_surfaces(place) else "no surface"
    (folder / "m.stl").write_bytes(STL)
    model = wt.load(place)
    wt.contact_set(model)
    wt.save(model, folder / "again.toml")
    again = wt.load(folder / "again.toml")
    assert [body.name for body in again.bodies] == [body.name for body in model.bodies], "another model comes back"
    return "model"
