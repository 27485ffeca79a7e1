"""Native files: a whole model there and back to the last bit, files written by hand, and every misspelling found."""

from __future__ import annotations

import math
import os
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from strategies import models
from whippletree.io import paths
from whippletree.io.native.native_writer import to_json, to_toml
from whippletree.model import State
from whippletree.model.builder import Builder
from whippletree.model.frozen import frozen_array

SUFFIXES = (".toml", ".json")


def assert_identical(one: Any, other: Any, where: str = "model") -> None:
    """The same types and the same bits all the way down."""
    assert type(one) is type(other), where
    if is_dataclass(one):
        for part in fields(one):
            assert_identical(getattr(one, part.name), getattr(other, part.name), f"{where}.{part.name}")
    elif isinstance(one, MappingProxyType):
        assert_identical(dict(one), dict(other), where)
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_identical(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, (tuple, list)):
        assert len(one) == len(other), where
        for k, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_identical(a, b, f"{where}[{k}]")
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape), where
        assert_identical(one.ravel().tolist(), other.ravel().tolist(), where)
    else:
        assert repr(one) == repr(other), where


def round_trip(model: wt.Model, folder: Path, suffix: str) -> wt.Model:
    path = folder / f"model{suffix}"
    wt.save(model, path)
    return wt.load(path)


def everything() -> wt.Model:
    """A model with something of each kind in it."""
    third = Fraction(1, 3)
    model = (
        Builder('all of it: "quotes", \\ back, ünï, \t tab \x7f', gravity=(third, 0, Fraction(-981, 100)))
        .body("exact", mass=third, center=(third, 0, 1), inertia=(third, third, third))
        .body("six", mass=1e-300, inertia=(1.0, 1.1, 1.2, 0.1, -0.0, 1e-17))
        .body("massless")
        .joint("a", "helical", "world", "exact", position=(0, third, 0), pitch=third, rotor_inertia=2, gear_ratio=third)
        .joint("b", "universal", "exact", "six", axis=(1, 2, 2), second_axis=(0.1, 0.2, -0.3), lower=-0.1, upper=0.1)
        .joint("c", "free", "world", "massless", velocity_limit=7.0, stiffness=-0.0)
        .frame("tip", "six", position=(0.1, 0.2, 0.3), rotation=[[0, -1, 0], [1, 0, 0], [0, 0, 1]])
        .constraint(
            "k", "coupling", "a", "b", coefficients=(third, 1.5, 2), active=False, note="1/3", deep={"x": (1, (2.0,))}
        )
        .constraint("l", "point", "tip", "world")
        .geometry("g", "six", "mesh", file="../a b.stl", scale=(1.0, math.inf, -0.0), collides=False)
        .geometry("h", "world", "half_space", visible=False)
        .geometry("i", "massless", "sphere", radius=third)
        .contact("touch", "g", "h", friction=third, restitution=0.5, law="sequential", margin=1e-3, torsional=0.1)
        .contact_group("every two", ["g", "h", "i"], friction=third, restitution=0.25, margin=-0.0, rolling=1e-4)
        .build()
    )
    q = np.linspace(-1, 1, model.nq) / 3
    return replace(
        model,
        source="by hand\n- nothing",
        start=State(frozen_array(q, q.shape), frozen_array([0.1] * model.nv, (model.nv,))),
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_everything_comes_back(tmp_path: Path, suffix: str) -> None:
    model = everything()
    assert_identical(model, round_trip(model, tmp_path, suffix))


@pytest.mark.parametrize("suffix", SUFFIXES)
@given(model=models())
def test_random_models_come_back(tmp_path_factory: pytest.TempPathFactory, suffix: str, model: wt.Model) -> None:
    assert_identical(model, round_trip(model, tmp_path_factory.mktemp("native"), suffix))


@given(st.floats(allow_nan=False))
def test_every_float_comes_back(number: float) -> None:
    import json
    import tomllib

    assert repr(tomllib.loads(to_toml({"x": number}))["x"]) == repr(number)
    if math.isfinite(number):
        assert repr(json.loads(to_json({"x": number}))["x"]) == repr(number)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_every_text_comes_back(text: str) -> None:
    import json
    import tomllib

    tables = {"x": text, "y": {text: 1}}
    assert tomllib.loads(to_toml({"x": text, "t": [{"y": {text: 1}}]})) == {"x": text, "t": [{"y": {text: 1}}]}
    assert json.loads(to_json(tables)) == tables


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_heap_stays_a_group(tmp_path: Path, suffix: str) -> None:
    """One table whose size follows the shapes, not their pairs; the scene is stepped as it was."""
    sizes = {}
    for balls in (20, 40):
        heap = wt.mechanisms.spheres_in_box(balls)
        again = round_trip(heap, tmp_path, suffix)
        assert [c.name for c in again.pairs] == [c.name for c in heap.pairs]
        assert not again.contacts
        sizes[balls] = (tmp_path / f"model{suffix}").stat().st_size
    assert sizes[40] < 2 * sizes[20]
    runs = [wt.simulate(model, duration=0.02, output_dt=0.01, step=2e-3) for model in (heap, again)]
    assert runs[0].attrs["path"] == runs[1].attrs["path"]
    np.testing.assert_array_equal(runs[0].q.values, runs[1].q.values)


def test_a_group_of_unknown_shapes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    wt.save(wt.mechanisms.spheres_in_box(2), path)
    path.write_text(path.read_text().replace('geometries = ["ball 1"', 'geometries = ["bal 1"'))
    with pytest.raises(wt.FileError, match="contact group 'all': unknown geometry 'bal 1'"):
        wt.load(path)


def test_an_unphysical_robot_comes_back(tmp_path: Path) -> None:
    text = "<inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='3' ixy='0' ixz='0' iyz='0'/></inertial>"
    (tmp_path / "a.urdf").write_text(f"<robot name='r'><link name='a'>{text}</link></robot>")
    model = wt.load(tmp_path / "a.urdf")
    assert_identical(model, round_trip(model, tmp_path, ".toml"))


# --- by hand ---

HAND = """whippletree = 1
name = "arm"
gravity = [0, "-981/100", 0]

[[bodies]]
name = "upper"
mass = 2
center = [0.2, 0, 0]
inertia = [0.01, 0.03, 0.03]

[[joints]]
name = "shoulder"
kind = "revolute"
parent = "world"
child = "upper"
axis = [0, 3, 4]
upper = "inf"

[start]
q = [0.5]
v = [0]
"""


def load_text(folder: Path, text: str, suffix: str = ".toml") -> wt.Model:
    path = folder / f"model{suffix}"
    path.write_text(text, encoding="utf-8")
    return wt.load(path)


def faults(folder: Path, text: str, suffix: str = ".toml") -> list[str]:
    with pytest.raises(wt.FileError) as caught:
        load_text(folder, text, suffix)
    return list(caught.value.faults)


def test_a_file_written_by_hand(tmp_path: Path) -> None:
    model = load_text(tmp_path, HAND)
    assert model.gravity.tolist() == [0, Fraction(-981, 100), 0]
    assert model.joints[0].axis.tolist() == [0, 0.6, 0.8]
    assert model.home.q.tolist() == [0.5]
    assert model.source == f"native file '{tmp_path}/model.toml'"


WRONG = """whippletree = 1
name = "arm"
gravty = [0, 0, 0]

[[bodies]]
name = "upper"
mas = 2
center = [0.2, 0]
inertia = "round"

[[bodies]]
mass = 1

[[joints]]
name = "shoulder"
kind = "revolut"
parent = "world"
child = "uper"
axis = [0, 0, "one"]

[[joints]]
name = "elbow"
kind = "weld"

[[constraints]]
name = "loop"
kind = "point"
on = "tip"

[[geometries]]
name = "ball"
body = "upper"
kind = "sphere"
visible = "yes"

[start]
q = [1, 2]
"""


def test_every_fault_is_listed_with_its_line(tmp_path: Path) -> None:
    assert faults(tmp_path, WRONG) == [
        "line 3: the file: unknown key 'gravty'. Did you mean 'gravity'?",
        "line 7: body 'upper': unknown key 'mas'. Did you mean 'mass'?",
        "line 8: body 'upper': center: expected array of length >= 3",
        "line 9: body 'upper': inertia: expected array, got str",
        "line 11: bodies[1]: the key 'name' is missing",
        "line 14: joint 'shoulder': unknown child 'uper'. Did you mean 'upper'?",
        "line 14: joint 'shoulder': unknown kind 'revolut'; known: revolute, prismatic, helical, cylindrical, "
        "universal, planar, spherical, free, weld. Did you mean 'revolute'?",
        "line 19: joint 'shoulder': axis: 'one' is not a number (a text may be a fraction such as '1/3', or 'inf')",
        "line 21: joint 'elbow': the key 'parent' is missing",
        "line 21: joint 'elbow': the key 'child' is missing",
        "line 28: constraint 'loop': on: expected array, got str",
        "line 34: geometry 'ball': visible: expected bool, got str",
        "line 36: start: the key 'v' is missing",
    ]


def test_an_unphysical_body_by_hand_is_refused(tmp_path: Path) -> None:
    (fault,) = faults(tmp_path, HAND.replace("[0.01, 0.03, 0.03]", "[0.01, 0.03, 0.3]"))
    assert fault.startswith("line 5: body 'upper': principal inertias")


@pytest.mark.parametrize(
    ("suffix", "text", "found"),
    [
        (".toml", "name = \n", "not TOML: Invalid value (at line 1, column 8)"),
        (".json", '{\n"name": }', "line 2: not JSON: Expecting value"),
        (".json", "[1]", "the file holds a list, expected a table"),
        (".json", '{"name": "a", "name": "b"}', "not a model: the key 'name' comes twice in one table"),
        (".json", '{"x": NaN}', "not a model: NaN is not JSON; write it as a text where an infinite number is meant"),
        (".toml", "name = 'a'", "the file: the key 'whippletree' is missing"),
        (".toml", "whippletree = 2\nname = 'a'", "the file has format 2; this version reads format 1"),
        (".toml", HAND.replace("[0.5]", "[0.5, 1]"), "line 20: start: q has 2 numbers, expected 1"),
        (".toml", HAND.replace("[0.5]", '["nan"]'), "line 20: start: q holds a number that is not finite"),
        (".toml", HAND.replace('"-981/100"', '"1/0"'), "line 3: the file: gravity: '1/0' is not a number "
         "(a text may be a fraction such as '1/3', or 'inf')"),
    ],
)  # fmt: skip
def test_faults(tmp_path: Path, suffix: str, text: str, found: str) -> None:
    assert faults(tmp_path, text, suffix) == [found]


def test_a_native_file_takes_no_base(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(HAND)
    with pytest.raises(wt.UnsupportedError) as caught:
        wt.load(tmp_path / "a.toml", base="free")
    assert str(caught.value) == (
        f"{tmp_path}/a.toml: a native file says itself how its root stands; load it without base='free'"
    )


# --- writing ---


def test_other_suffixes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(wt.UnsupportedError) as caught:
        wt.save(everything(), tmp_path / "model.tom")
    assert str(caught.value) == (
        f"{tmp_path}/model.tom: models are saved as .toml or .json, not as .tom. Did you mean '.toml'?"
    )


def test_what_a_file_cannot_keep_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.toml"
    with pytest.raises(
        wt.UnsupportedError, match=r"save: body 'rod' holds mpf\('1.0'\) \(mpf\), which a file cannot keep"
    ):
        wt.save(wt.mechanisms.pendulum(mass=mpmath.mpf(1)), path)
    model = Builder("m").constraint("c", "custom", residual=len).build()
    with pytest.raises(wt.UnsupportedError, match="save: constraint 'c': residual holds <built-in function len>"):
        wt.save(model, path)
    assert not path.exists()


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.toml"
    path.write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(paths.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        wt.save(everything(), path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.toml"]


def test_a_replaced_file_keeps_its_mode_and_its_links(tmp_path: Path) -> None:
    path, link = tmp_path / "model.toml", tmp_path / "link.toml"
    path.write_text("old")
    path.chmod(0o640)
    link.symlink_to(path)
    wt.save(everything(), link)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o640
    assert wt.load(path).name == everything().name
