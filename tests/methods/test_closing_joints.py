"""Joints that close loops: a mechanism moves the same wherever it is cut, and nothing said of a joint is lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.model.closing_joints import fit_coordinates
from whippletree.spatial import Pose

JOINTS = ("a", "b", "c", "d", "e")
"""In a ring: world – A – B – C – D – world."""
BODIES = ("world", "A", "B", "C", "D", "world")
CLOSING = ("revolute", "prismatic", "cylindrical", "universal", "planar", "spherical", "weld", "helical")


def placement(generator: np.random.Generator) -> np.ndarray:
    """A random pose within a cube of 1.2 m."""
    X = np.eye(4)
    Q, _ = np.linalg.qr(generator.normal(size=(3, 3)))
    X[:3, :3], X[:3, 3] = Q * np.sign(np.linalg.det(Q)), generator.uniform(-0.6, 0.6, 3)
    return X


def ring(kind: str, cut: str, seed: int, **data: float) -> wt.Model:
    """A spatial ring of four bodies whose joints close exactly at zero coordinates; joint ``c`` is of the kind asked.

    The other joints have eight freedoms, so that the ring can move whatever ``c`` is.
    """
    generator = np.random.default_rng(seed)
    places = {name: np.eye(4) if name == "world" else placement(generator) for name in BODIES[:5]}
    builder = wt.Builder("ring")
    for name in BODIES[1:5]:
        builder.body(name, generator.uniform(0.5, 2), generator.uniform(-0.1, 0.1, 3), generator.uniform(0.02, 0.03, 3))
    kinds = {"a": "universal", "b": "cylindrical", "c": kind, "d": "spherical", "e": "revolute"}
    ends = {name: (BODIES[k], BODIES[k + 1]) for k, name in enumerate(JOINTS)} | {"e": ("world", "D")}
    for name, (parent, child) in ends.items():
        at = placement(generator)
        outer, inner = (np.linalg.inv(places[body]) @ at for body in (parent, child))
        own = {"universal": {"second_axis": (1, 0, 0)}, "helical": {"pitch": 0.1}}.get(kinds[name], {})
        builder.joint(
            name, kinds[name], parent, child, position=outer[:3, 3], rotation=outer[:3, :3],
            child_position=inner[:3, 3], child_rotation=inner[:3, :3], **own, **(data if name == "c" else {}),
        )  # fmt: skip
    return builder.build(cut=[cut])


def same_state(model: wt.Model, q: np.ndarray, v: np.ndarray, other: wt.Model) -> tuple[np.ndarray, np.ndarray]:
    """The state of another cut of the mechanism in which every body is, and moves, as in this one."""
    tree, ref = wt.reference(model.tree), wt.reference(other.tree)
    poses = {body: tree.pose(body)(q) for body in BODIES[:5]}
    found = np.array(other.neutral.q)
    for joint, part in zip(other.joints, other.q_slices, strict=True):
        if part.stop > part.start:
            relative = np.linalg.inv(placed(other, poses, joint.parent) @ joint.pose) @ placed(
                other, poses, joint.child
            )
            found[part] = fit_coordinates(joint.type, Pose.from_matrix(relative.astype(object)))
    A = wt.reference(other).constraint_jacobian(found)
    rows = [A, *(ref.jacobian(body)(found) for body in BODIES[1:5])]
    twists = [np.zeros(len(A)), *(tree.jacobian(body)(q) @ v for body in BODIES[1:5])]
    return found, np.linalg.lstsq(np.vstack(rows), np.concatenate(twists), rcond=None)[0]


def placed(model: wt.Model, poses: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The pose of a body, or of a massless one that a joint or a constraint welds to a body."""
    if name in poses:
        return poses[name]
    for joint in model.joints:
        if joint.parent == name:
            return poses[joint.child] @ np.linalg.inv(joint.pose)
    first, second = (model.frame(frame) for frame in model.constraints[0].on)
    assert (first.body, model.constraints[0].kind) == (name, "weld")
    return poses[second.body] @ second.pose


@pytest.mark.slow
@pytest.mark.parametrize("kind", CLOSING)
@pytest.mark.parametrize("acting", [False, True])
def test_a_mechanism_moves_the_same_wherever_it_is_cut(kind: str, acting: bool) -> None:
    """Accelerations of all bodies, with a spring and a damper along the joint whose kind is tried."""
    data = {"stiffness": 3.0, "damping": 0.7} if acting and kind not in ("weld", "spherical") else {}
    if acting and kind == "spherical":
        data = {"damping": 0.7}
    first = ring(kind, "e", 5, **data)
    generator = np.random.default_rng(1)
    q = wt.assemble(first, first.neutral.q + 0.1 * generator.normal(size=first.nq))
    v = wt.reference(first).project_velocity(q, generator.normal(size=first.nv))
    assert np.linalg.norm(v) > 0.1
    expected = accelerations(first, q, v)
    for cut in "abcd":
        if cut in "ab" and kind == "planar" and acting:
            continue  # it would have to be turned round: test_what_cannot_be_cut_is_told
        other = ring(kind, cut, 5, **data)
        assert [c.name for c in other.constraints] == [cut]
        q2, v2 = same_state(first, q, v, other)
        assert np.abs(wt.reference(other).constraint_residual(q2)).max() < 1e-9
        scale = max(np.abs(a).max() for a in expected.values())
        for body, a in accelerations(other, q2, v2).items():
            np.testing.assert_allclose(a, expected[body], rtol=0, atol=1e-7 * scale, err_msg=f"cut at {cut}: {body}")


def accelerations(model: wt.Model, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """d/dt of every body's twist, by a difference along the motion."""
    ref = wt.reference(model)
    a = ref.forward_dynamics(q, v, ref.passive_forces(q, v))
    h = 1e-5
    ends = []
    for sign in (1, -1):
        q1 = ref.integrate(q, sign * h * v + h * h / 2 * a)
        ends.append({b: wt.reference(model.tree).jacobian(b)(q1) @ (v + sign * h * a) for b in BODIES[1:5]})
    return {b: (ends[0][b] - ends[1][b]) / (2 * h) for b in BODIES[1:5]}


def four_bar(cut: tuple[str, ...] = (), **data: float) -> wt.Model:
    """A planar four-bar whose coupler pin, joint ``c``, is declared last."""
    return (
        bars()
        .joint("c", "revolute", "coupler", "rocker", position=(0.8, 0, 0), child_position=(0.6, 0, 0), **data)
        .build(cut=cut)
    )


def bars() -> wt.Builder:
    return (
        wt.Builder("four-bar", (0, -9.81, 0))
        .body("crank", 1.0, (0.15, 0, 0), (0.001, 0.01, 0.01))
        .body("coupler", 1.5, (0.4, 0, 0), (0.001, 0.03, 0.03))
        .body("rocker", 1.2, (0.3, 0, 0), (0.001, 0.02, 0.02))
        .joint("a", "revolute", "world", "crank", start=1.0)
        .joint("b", "revolute", "crank", "coupler", position=(0.3, 0, 0), start=-0.6)
        .joint("d", "revolute", "world", "rocker", position=(0.8, 0, 0), start=1.4)
    )


def test_the_joint_declared_last_is_cut_and_that_is_told() -> None:
    model = four_bar()
    (loop,) = model.constraints
    assert (loop.name, loop.kind, loop.on, loop.joint) == ("c", "hinge", ("c/1", "c/2"), "revolute")
    assert model.source == "- loop cut at joint 'c' (revolute, 'coupler' to 'rocker'): constraint 'c' of kind 'hinge'"
    assert "loops cut at joints: c (revolute joint, as hinge)" in str(wt.diagnose(model))
    turned = four_bar(("a",))
    assert "joint 'b' is turned round: 'coupler' carries 'crank'" in turned.source
    q = wt.assemble(model, model.home.q)
    assert abs(wt.reference(model).constraint_residual(q)).max() < 1e-9


def test_what_acts_along_a_cut_joint_still_acts() -> None:
    """The joint stays, and its coordinate starts where the loop is closed; a motor on it needs it as well."""
    model = four_bar(damping=0.3, upper=2.0)
    assert [joint.name for joint in model.joints] == ["a", "b", "c", "d"]
    assert "because: damping, upper" in model.source
    assert model.joints[2].damping == 0.3
    assert abs(wt.reference(model).constraint_residual(model.start.q)).max() < 0.2  # the pin's own turn is fitted
    driven = bars().joint("c", "revolute", "coupler", "rocker", position=(0.8, 0, 0), child_position=(0.6, 0, 0))
    model = driven.actuator("motor", "c").build()
    assert "because: its coordinate is used" in model.source
    assert model.joint_index("c") == 2


def test_what_cannot_be_cut_is_told() -> None:
    with pytest.raises(wt.ModelError, match="cut: there is no joint 'bb'; known: 'a', 'b', 'd', 'c'"):
        four_bar(("bb",))
    with pytest.raises(wt.ModelError, match="cut: joint 'a' cannot be cut: no other joint leads from 'world' to 'cra"):
        four_bar(("a", "b"))
    with pytest.raises(wt.ModelError, match="joint 'e' joins a body to itself"):
        bars().joint("e", "weld", "crank", "crank").build()
    with pytest.raises(wt.ModelError, match=r"body or frame 'c/1' is declared 2 times.*names are made where a loop is"):
        bars().frame("c/1", "crank").joint("c", "revolute", "coupler", "rocker").build()
    with pytest.raises(wt.ModelError, match=r"joint 'c' of kind 'planar' leads from 'C' to 'B'|from 'B' to 'C'"):
        ring("planar", "a", 5, stiffness=3.0)


def test_a_free_joint_that_closes_a_loop_binds_nothing() -> None:
    model = bars().joint("loose", "free", "world", "coupler").build()
    assert not model.constraints
    assert "it binds nothing, and is left out" in model.source


URDF = """<robot name='r'><link name='base'/>{links}{joints}</robot>"""
LINK = (
    "<link name='{}'><inertial><origin xyz='0.3 0 0'/><mass value='1'/>"
    "<inertia ixx='0.01' iyy='0.08' izz='0.08' ixy='0' ixz='0' iyz='0'/></inertial></link>"
)


def urdf(folder: Path, *more: tuple[str, str, str, float]) -> Path:
    joints = (("a", "base", "crank", 0.0), ("b", "crank", "coupler", 0.3), ("d", "base", "rocker", 0.8), *more)
    text = "".join(
        f"<joint name='{name}' type='continuous'><parent link='{parent}'/><child link='{child}'/>"
        f"<origin xyz='{x} 0 0'/><axis xyz='0 0 1'/></joint>"
        for name, parent, child, x in joints
    )
    path = folder / "r.urdf"
    path.write_text(URDF.format(links="".join(map(LINK.format, ("crank", "coupler", "rocker"))), joints=text))
    return path


LOOPS = """
whippletree = 1
{cut}
[[joints]]
name = "c"
kind = "revolute"
parent = "coupler"
child = "rocker"
position = [0.8, 0.0, 0.0]
child_position = [0.6, 0.0, 0.0]
damping = {damping}

[start]
a = 1.0
b = -0.6
d = 1.4
"""


@pytest.mark.parametrize(("cut", "kinds"), [("", ["hinge"]), ('cut = ["d"]', ["hinge"])])
def test_a_loops_file_has_joints(tmp_path: Path, cut: str, kinds: list[str]) -> None:
    loops = tmp_path / "r.loops.toml"
    if "d" in cut:
        loops.write_text(LOOPS.format(cut=cut, damping=0.0).replace("d = 1.4", "c = -1.0"))
    else:
        loops.write_text(LOOPS.format(cut=cut, damping=0.0))
    model = wt.load(urdf(tmp_path), loops=loops)
    assert [c.kind for c in model.constraints] == kinds
    assert abs(wt.reference(model).constraint_residual(model.home.q)).max() < 1e-9
    again = wt.load(urdf(tmp_path), loops=loops, cut=["b"]) if not cut else model
    assert [c.name for c in again.constraints] == (["d"] if cut else ["b"])
    loops.write_text(LOOPS.format(cut="", damping=0.2))
    assert "because: damping" in wt.load(urdf(tmp_path), loops=loops).source
    wt.save(model, tmp_path / "saved.toml")
    assert [c.joint for c in wt.load(tmp_path / "saved.toml").constraints] == ["revolute"]


def test_faults_of_joints_in_a_loops_file_have_lines(tmp_path: Path) -> None:
    loops = tmp_path / "r.loops.toml"
    loops.write_text(LOOPS.format(cut="", damping=0.0).replace('child = "rocker"', 'child = "rockr"'))
    with pytest.raises(wt.FileError, match="line 4: joint 'c': unknown child 'rockr'"):
        wt.load(urdf(tmp_path), loops=loops)


def test_a_link_of_a_urdf_with_two_parents(tmp_path: Path) -> None:
    model = wt.load(urdf(tmp_path, ("c", "coupler", "rocker", 0.8)))
    assert [(c.name, c.kind) for c in model.constraints] == [("c", "hinge")]
    assert "loop cut at joint 'c'" in model.source
    assert [c.name for c in wt.load(urdf(tmp_path, ("c", "coupler", "rocker", 0.8)), cut=["d"]).constraints] == ["d"]


def test_a_joint_that_was_cut_is_told_where_its_name_is_asked_for() -> None:
    with pytest.raises(wt.NameLookupError, match="Joint 'c' closed a loop, which was cut there, and is the constraint"):
        four_bar().joint_index("c")
