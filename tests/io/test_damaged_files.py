"""Damaged files: an answer or an error of this library, without a warning and in bounded time.

Seeds are fixed, so that a failure can be repeated; ``damaged_files.damage`` with more of them looks for new ones.
"""

from __future__ import annotations

import contextlib
import random
import time
from pathlib import Path

import pytest

import damaged_files
import whippletree as wt
from whippletree.contact.geometry.mesh_formats import read_surfaces
from whippletree.view.scene import scene

SEEDS = 60
SECONDS = 5.0
"""Of processor time for one file; the slowest of these takes 0.3 s."""


@pytest.mark.parametrize("name", damaged_files.MODELS)
def test_the_models_are_sound_before_they_are_damaged(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.stl").write_bytes(damaged_files.STL)
    (tmp_path / name).write_bytes(damaged_files.MODELS[name])
    model = wt.load(tmp_path / name)
    assert scene(model).items
    wt.save(model, tmp_path / "again.toml")
    assert [body.name for body in wt.load(tmp_path / "again.toml").bodies] == [body.name for body in model.bodies]


@pytest.mark.parametrize("name", damaged_files.MODELS)
def test_damaged_models(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.stl").write_bytes(damaged_files.STL)
    loaded = 0
    for seed in range(SEEDS):
        (tmp_path / name).write_bytes(damaged_files.damage(damaged_files.MODELS[name], random.Random(f"{name} {seed}")))
        start = time.process_time()
        try:
            model = wt.load(tmp_path / name)
            loaded += 1
            wt.contact_set(model)
        except wt.WhippletreeError:
            pass
        assert time.process_time() - start < SECONDS, seed
    assert 0 < loaded < SEEDS  # the damage is neither fatal nor harmless


@pytest.mark.parametrize("length", [0, 1, 34, 83, 84, 85, 134])
def test_meshes_of_any_length_are_told_from_others(length: int, tmp_path: Path) -> None:
    """34 bytes are 84 − 50: no binary file of −1 triangles."""
    (tmp_path / "m.stl").write_bytes(bytes([32] * length))
    with pytest.raises(wt.FileError, match="not STL"):
        read_surfaces(tmp_path / "m.stl")


@pytest.mark.parametrize("name", damaged_files.MESHES)
def test_damaged_meshes(name: str, tmp_path: Path) -> None:
    read = 0
    for seed in range(4 * SEEDS):
        (tmp_path / name).write_bytes(damaged_files.damage(damaged_files.MESHES[name], random.Random(f"{name} {seed}")))
        start = time.process_time()
        with contextlib.suppress(wt.FileError):
            read += bool(read_surfaces(tmp_path / name))
        assert time.process_time() - start < SECONDS, seed
    assert 0 < read < 4 * SEEDS
