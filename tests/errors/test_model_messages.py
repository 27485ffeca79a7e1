"""Every message about a model that is wrong, once, whole: the builder's, the model's and the ready-made mechanisms'."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import whippletree as wt

KINDS = "revolute, prismatic, helical, cylindrical, universal, planar, spherical, free, weld"
DATA = (
    "pitch, rotor_inertia, gear_ratio, stiffness, rest, damping, friction, lower, upper, velocity_limit, effort_limit"
)
NOT_ROTATION = "the rotation of its pose is not a rotation matrix (orthogonal, determinant +1)"


def link(**data):
    """One sound body on a joint that is described by the arguments."""
    return wt.Builder("m").body("a", 1.0).joint("j", data.pop("kind", "revolute"), "world", "a", **data)


def lump(*data):
    """One body that is described by the arguments, on a sound joint."""
    return wt.Builder("m").body("a", *data).joint("j", "free", "world", "a")


FAULTS = [
    # names and the tree
    (link().body("a").frame("a", "a"), ["body or frame 'a' is declared 3 times: give each its own name"]),
    (
        link().joint("j", "weld", "world", "a"),
        ["joint 'j' is declared 2 times: give each its own name"],
    ),
    (
        link().constraint("c", "weld").constraint("c", "weld").geometry("g", "a", "box").geometry("g", "a", "box"),
        [
            "constraint 'c' is declared 2 times: give each its own name",
            "geometry 'g' is declared 2 times: give each its own name",
        ],
    ),
    (link().frame("", "a"), ["frame '': a name must be a text that is not empty"]),
    (link().constraint(7, "weld"), ["constraint 7: a name must be a text that is not empty"]),
    (
        wt.Builder("m").body("upper").joint("j", "free", "uper", "upper").joint("k", "free", "world", "nobody"),
        ["joint 'j': unknown parent 'uper'. Did you mean 'upper'?", "joint 'k': unknown child 'nobody'"],
    ),
    (link().joint("k", "weld", "a", "world"), ["joint 'k': the world cannot be a child; swap parent and child"]),
    (
        link().frame("f", "b").geometry("g", "c", "box"),
        ["frame 'f': unknown body 'b'", "geometry 'g': unknown body 'c'"],
    ),
    (
        link().body("b"),
        ["body 'b' is not connected to the world: add a joint that carries it (kind 'free' lets it float)"],
    ),
    (
        link().body("b").body("c").joint("k", "weld", "c", "b").joint("l", "weld", "b", "c"),
        ["bodies carry each other in a circle: 'b' <- 'c' <- 'b'; hang one from the world"],
    ),
    # bodies
    (lump(-1.0), ["body 'a': mass -1.0 is negative"]),
    (lump(np.nan), ["body 'a': mass holds nan: every number must be finite"]),
    (lump("heavy"), ["body 'a': mass holds 'heavy', which is not a number"]),
    (lump(1.0, (0, 0)), ["body 'a': center has 2 numbers, expected 3"]),
    (lump(1.0, (0, 0, np.inf)), ["body 'a': center holds inf: every number must be finite"]),
    (
        lump(1.0, (0, 0, 0), (1, 1)),
        ["body 'a': inertia has 2 numbers; give a 3×3 matrix, (xx, yy, zz) or (xx, yy, zz, xy, xz, yz)"],
    ),
    (lump(1.0, (0, 0, 0), (1, None, 1)), ["body 'a': inertia holds None, which is not a number"]),
    (lump(1.0, (0, 0, 0), [[1, 0.5, 0], [0, 1, 0], [0, 0, 1]]), ["body 'a': inertia is not symmetric"]),
    (
        lump(1.0, (0, 0, 0), (1, 1, 3)),
        [
            "body 'a': principal inertias (1, 1, 3) violate the triangle inequality (each must be at most the sum of "
            "the other two): no distribution of mass has them. A body that turns about one axis only may have "
            "(I/2, I/2, I)"
        ],
    ),
    # joints
    (link(kind="revolut"), [f"joint 'j': unknown kind 'revolut'; known: {KINDS}. Did you mean 'revolute'?"]),
    (link(axis=(0, 0, 0)), ["joint 'j': axis (0, 0, 0) has no direction: give a finite vector that is not zero"]),
    (
        link(axis=(0, 0, np.nan)),
        ["joint 'j': axis (0.0, 0.0, nan) has no direction: give a finite vector that is not zero"],
    ),
    (link(second_axis=(0, 1)), ["joint 'j': second axis has 2 numbers, expected 3"]),
    (link(axis=("x", 0, 1)), ["joint 'j': axis holds 'x', which is not a number"]),
    (
        link(axis=(Fraction(1), Fraction(1), Fraction(0))),
        [
            "joint 'j': axis (Fraction(1, 1), Fraction(1, 1), Fraction(0, 1)) cannot be brought to unit length "
            "exactly: the square root of the Fraction 2 is not a Fraction: use mpmath numbers or floats"
        ],
    ),
    (
        link(kind="universal", axis=(0, 2, 0)),
        ["joint 'j': the two axes of a universal joint are parallel: give second_axis=, across (0, 1, 0)"],
    ),
    (link(position=(1, 2)), ["joint 'j': position has 2 numbers, expected 3"]),
    (link(position=(1, 2, np.nan)), ["joint 'j': pose holds nan: every number must be finite"]),
    (link(rotation=np.eye(2)), ["joint 'j': rotation has shape (2, 2), expected (3, 3)"]),
    (link(rotation=np.diag([1, 1, -1])), [f"joint 'j': {NOT_ROTATION}"]),
    (link(dampng=1), [f"joint 'j': there is no 'dampng'; known: {DATA}. Did you mean 'damping'?"]),
    (link(orientation=1), [f"joint 'j': there is no 'orientation'; known: {DATA}. Did you mean 'rotation'?"]),
    (link(stiffness=np.inf), ["joint 'j': stiffness holds inf: every number must be finite"]),
    (
        link(kind="spherical", stiffness=2.0),
        [
            "joint 'j': stiffness 2.0 on a spherical joint, which stores a quaternion and has no spring here: use "
            "three revolute joints, or apply its moment by a controller"
        ],
    ),
    (
        link(rotor_inertia=-3, damping=-1, friction=-2),
        [
            "joint 'j': rotor_inertia -3 is negative",
            "joint 'j': damping -1 is negative",
            "joint 'j': friction -2 is negative",
        ],
    ),
    (link(lower=1, upper=0), ["joint 'j': limits [1, 0] are empty: lower must not exceed upper"]),
    (link(velocity_limit=np.nan), ["joint 'j': velocity_limit holds nan, which is not a number"]),
    (link(start=(1, 2)), ["joint 'j': start has shape (2,), expected (1,)"]),
    (link(start=np.nan), ["joint 'j': start holds nan: every number must be finite"]),
    # frames, geometry, gravity
    (link().frame("f", "a", position=(1,)), ["frame 'f': position has 1 number, expected 3"]),
    (link().geometry("g", "a", "box", rotation=np.ones((3, 3))), [f"geometry 'g': {NOT_ROTATION}"]),
    (wt.Builder("m", gravity=(0, 1)), ["gravity has 2 numbers, expected 3"]),
    (wt.Builder("m", gravity="down"), ["gravity holds 'down', which is not a number"]),
]


@pytest.mark.parametrize(("builder", "faults"), FAULTS, ids=[faults[0][:50] for _, faults in FAULTS])
def test_a_fault_of_a_model(builder, faults):
    with pytest.raises(wt.ModelError) as raised:
        builder.build()
    assert list(raised.value.faults) == faults
    listed = "\n  - ".join([f"{len(faults)} faults", *faults])
    assert str(raised.value) == f"model 'm': {faults[0] if len(faults) == 1 else listed}"


def test_every_fault_is_reported_at_once():
    builder = wt.Builder("m", gravity=(0, 0, np.nan))
    builder.body("a", -1.0).body("b", 1.0, (0, 0, 0), (1, 1, 3)).body("b", 1.0)
    builder.joint("j", "hinge", "world", "a", axis=(0, 0, 0)).joint("k", "weld", "nowhere", "b")
    with pytest.raises(wt.ModelError) as raised:
        builder.build()
    subjects = [fault.split(":")[0] for fault in raised.value.faults]
    assert subjects == [
        "joint 'j'",  # axis
        "body or frame 'b' is declared 2 times",
        "joint 'k'",  # unknown parent
        "body 'a'",  # mass
        "body 'b'",  # inertia
        "joint 'j'",  # kind
        "gravity holds nan",
    ]


ARM = wt.Builder("arm").body("upper").joint("shoulder", "weld", "world", "upper").frame("tool", "upper").build()

LOOKUPS = [
    (
        lambda: ARM.slice("sholder"),
        "model 'arm': there is no joint 'sholder'; known: 'shoulder'. Did you mean 'shoulder'?",
    ),
    (lambda: ARM.q_slice("hip"), "model 'arm': there is no joint 'hip'; known: 'shoulder'"),
    (lambda: ARM.body_index("fore"), "model 'arm': there is no body 'fore'; known: 'upper'"),
    (
        lambda: ARM.frame("toll"),
        "model 'arm': there is no frame or body 'toll'; known: 'tool', 'upper'. Did you mean 'tool'?",
    ),
    (
        lambda: wt.mechanisms.chain(25).slice("no"),
        "model 'chain of 25 rods': there is no joint 'no'; known: "
        + ", ".join(f"'joint_{k}'" for k in range(1, 21))
        + ", … (25 in all)",
    ),
]


@pytest.mark.parametrize("given", [3, None, 0.5])
def test_names_are_a_text_or_a_list(given):
    with pytest.raises(wt.ScalarError, match=f"^a name or a list of names is expected, got {given}$"):
        wt.Builder("arm").body("upper").joint("shoulder", "weld", "world", "upper").build(cut=given)


@pytest.mark.parametrize(("look", "message"), LOOKUPS)
def test_a_name_that_is_not_there(look, message):
    with pytest.raises(wt.NameLookupError) as raised:
        look()
    assert str(raised.value) == message


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: wt.mechanisms.chain(0), "chain: n is 0, expected at least 1"),
        (lambda: wt.mechanisms.tree(-2), "tree: n is -2, expected at least 1"),
        (
            lambda: wt.mechanisms.double_pendulum(lengths=(1, 2, 3)),
            "double_pendulum: lengths has 3 entries, expected 2",
        ),
    ],
)
def test_a_mechanism_that_cannot_be(make, message):
    with pytest.raises(wt.ModelError) as raised:
        make()
    assert str(raised.value) == message


def test_a_model_has_a_name():
    with pytest.raises(wt.ModelError, match="model None: a name must be a text that is not empty"):
        wt.Builder(None).build()


@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        (None, TypeError, "load: expected the path of a model file, got None"),
        (b"robot.urdf", TypeError, "load: expected the path of a model file, got b'robot.urdf'"),
        ("<robot name='a'/>", FileNotFoundError, "is text, not the path of a file: write it to a file"),
        ("<robot>\n" + 5000 * "x", FileNotFoundError, "is text, not the path of a file: write it to a file"),
    ],
)
def test_a_path_that_is_none(path, error, message):
    with pytest.raises(error, match=message):
        wt.load(path)


def test_a_missing_file_is_like_files_of_models_only(tmp_path):
    (tmp_path / "note.md").write_text("")
    with pytest.raises(FileNotFoundError) as alone:
        wt.load(tmp_path / "nope.urdf")
    assert "Did you mean" not in str(alone.value)
    (tmp_path / "node.urdf").write_text("")
    with pytest.raises(FileNotFoundError, match=r"Did you mean 'node\.urdf'"):
        wt.load(tmp_path / "nope.urdf")


def test_a_body_that_is_replaced_takes_numbers_as_the_builder_does():
    rod = wt.mechanisms.pendulum().bodies[0]
    moved = replace(rod, center=(0.1, 0.2, 0.3), inertia=[1, 2, 3])
    np.testing.assert_array_equal(moved.center, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(moved.inertia, np.diag([1, 2, 3]))
    for name, numbers, told in (
        ("center", (1, 2), "center has 2 numbers, expected 3"),
        ("inertia", 1.0, "inertia has 1 n"),
    ):
        with pytest.raises(wt.ModelError, match=f"^body '{rod.name}': {told}"):
            replace(rod, **{name: numbers})
