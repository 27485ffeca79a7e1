"""Contacts as data: declared one by one, by a filter, with the ground, from files; and every fault by name."""

from __future__ import annotations

import math
import time
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.model import contact_pairs

ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))


def arm(**last) -> wt.Builder:
    """A free trunk with an arm of two links, all with shapes, over a floor."""
    return (
        wt.Builder("arm")
        .body("trunk", 1.0, inertia=(1, 1, 1))
        .body("upper", 1.0, inertia=(1, 1, 1))
        .body("fore", 1.0, inertia=(1, 1, 1))
        .body("hand", 1.0)
        .joint("base", "free", "world", "trunk")
        .joint("shoulder", "revolute", "trunk", "upper", position=(0, 0, 0.5))
        .joint("elbow", "revolute", "upper", "fore", position=(0.5, 0, 0))
        .joint("wrist", "weld", "fore", "hand", position=(0.5, 0, 0))
        .geometry("floor", "world", "half_space")
        .geometry("block", "trunk", "box", size=(0.2, 0.2, 0.2), friction=(0.3, 0.1, 0.1))
        .geometry("bone", "upper", "capsule", radius=0.05, length=0.3)
        .geometry("rod", "fore", "capsule", radius=0.05, length=0.3)
        .geometry("fist", "hand", "sphere", radius=0.1, friction=0.7)
        .geometry("paint", "hand", "sphere", radius=0.2, collides=False)
        .frame("knuckle", "hand", position=(0.1, 0, 0))
    )


@pytest.mark.parametrize(
    ("contact", "fault"),
    [
        ({"first": "fits"}, "contact 'c': unknown first geometry 'fits'. Did you mean 'fist'?"),
        ({"friction": -0.1}, "contact 'c': friction is -0.1, expected a finite number that is not negative"),
        ({"friction": math.nan}, "contact 'c': friction is nan, expected a finite number that is not negative"),
        ({"friction": math.inf}, "contact 'c': friction is inf, expected a finite number that is not negative"),
        ({"friction": "high"}, "contact 'c': friction is 'high', expected a finite number that is not negative"),
        ({"restitution": 1.5}, "contact 'c': restitution is 1.5, expected a number from 0 to 1"),
        ({"restitution": -1e-9}, "contact 'c': restitution is -1e-09, expected a number from 0 to 1"),
        ({"restitution": math.nan}, "contact 'c': restitution is nan, expected a number from 0 to 1"),
        (
            {"second": "paint"},
            "contact 'c': both geometries are fixed to 'hand'; name geometries of two different bodies",
        ),
        (
            {"second": "rod"},
            "contact 'c': 'hand' and 'fore' are welded together and cannot move against each other; "
            "name geometries of bodies with a joint between them",
        ),
    ],
)
def test_a_fault_is_named(contact, fault):
    given = {"first": "fist", "second": "floor"} | contact
    with pytest.raises(wt.ModelError) as raised:
        arm().contact("c", **given).build()
    assert raised.value.faults == (fault,)


def test_all_faults_at_once():
    builder = arm().contact("c", "fist", "floor", friction=-1).contact("c", "fist", "sky", restitution=2)
    with pytest.raises(wt.ModelError) as raised:
        builder.build()
    assert raised.value.faults == (
        "contact 'c' is declared 2 times: give each its own name",
        "contact 'c': friction is -1, expected a finite number that is not negative",
        "contact 'c': unknown second geometry 'sky'",
        "contact 'c': restitution is 2, expected a number from 0 to 1",
    )


@pytest.mark.parametrize(
    ("kind", "parameters", "fault"),
    [
        ("sphere", {}, "a sphere needs radius: a number above 0 in m, got nothing"),
        ("sphere", {"raduis": 1}, "a sphere needs radius: a number above 0 in m, got nothing but 'raduis'"),
        ("sphere", {"radius": -1}, "a sphere needs radius: a number above 0 in m, got -1"),
        ("box", {"size": (1, 2)}, "a box needs size: 3 numbers above 0 in m, got (1, 2)"),
        ("capsule", {"radius": 1, "length": math.nan}, "a capsule needs length: a number above 0 in m, got nan"),
        ("terrain", {"height": 3}, "a terrain needs height, a plain NumPy function of x and y, got 3"),
        ("mesh", {}, "a mesh needs vertices (n, 3) or a mesh file: it names no file"),
        ("mesh", {"path": "no.stl"}, "a mesh needs vertices (n, 3) or a mesh file: there is no file 'no.stl'"),
        (
            "mesh",
            {"file": "no.stl"},
            "a mesh needs vertices (n, 3) or a mesh file: there is no file 'no.stl' in the folder of its model; "
            "elsewhere path= must name it",
        ),
        ("mesh", {"vertices": np.zeros((5, 3))}, "the vertices lie in one plane: a convex mesh needs a volume"),
        ("mesh", {"vertices": [(0, 0, 1)]}, "vertices have shape (1, 3), expected (n, 3) finite numbers, n at least 4"),
        (
            "blob",
            {},
            "kind 'blob' cannot touch; kinds that can: point, sphere, capsule, cylinder, box, ellipsoid, half_space, "
            "terrain, height_field, cavity, mesh",
        ),
        ("half_space", {}, "half_space against half_space is not supported: use spheres, capsules or boxes"),
        (
            "terrain",
            {"height": lambda x, y: 0 * x},
            "terrain against half_space is not supported: use spheres, capsules or boxes",
        ),
    ],
)
def test_a_shape_that_cannot_touch_is_named_when_it_is_asked(kind, parameters, fault):
    model = arm().geometry("g", "hand", kind, **parameters).contact("c", "g", "floor").build()
    with pytest.raises(wt.ModelError) as raised:
        wt.contact_set(model)
    assert raised.value.faults == (f"contact 'c': geometry 'g': {fault}",)


def test_candidates_have_stable_names_and_numbers():
    model = (
        arm()
        .contact("low", "block", "floor", friction=0.5, restitution=0.25, law="newton")
        .contact("hit", "fist", "bone")
        .build()
    )
    system = wt.contact_set(model)
    assert system is wt.contact_set(model)
    assert system.names == (*(f"low.{k}" for k in range(8)), "hit")
    assert (system.candidates[3].contact, system.candidates[3].slot) == ("low", 3)
    assert (system.candidates[3].first_body, system.candidates[3].second_body) == ("trunk", "world")
    assert system.candidates[3].law == "newton"
    assert system.friction == pytest.approx([0.5] * 8 + [0])
    assert system.restitution == pytest.approx([0.25] * 8 + [0])
    assert system.closed_form
    assert "2 contacts" in repr(model)
    assert model.tree.contacts == model.contacts


def test_a_model_without_contacts_says_how_to_get_some():
    with pytest.raises(wt.UnsupportedError) as raised:
        wt.reference(arm().build()).contact_gaps(np.zeros(9))
    assert str(raised.value) == (
        "contact_gaps: model 'arm' has no contacts: declare some with Builder.contact, with_contacts or on_ground"
    )


def test_functions_of_the_tree_do_not_mind_contacts():
    bare, touching = arm().build(), arm().contact("low", "block", "floor").build()
    q, v, tau = bare.neutral.q, np.ones(bare.nv), np.arange(1.0, bare.nv + 1)
    for name in ("forward_dynamics", "inverse_dynamics"):
        ours, theirs = (getattr(wt.reference(m), name)(q, v, tau) for m in (touching, bare))
        assert np.array_equal(ours, theirs)
    assert np.array_equal(wt.compile(touching).mass_matrix(q), wt.compile(bare).mass_matrix(q))


# --- filters ----------------------------------------------------------------------------------------------------------


def pairs(model: wt.Model) -> set[tuple[str, str]]:
    return {(c.first, c.second) for c in model.contacts}


def test_all_admissible_pairs():
    """Neighbours (trunk and upper, upper and fore with hand) are left out; a free joint makes no neighbours."""
    model = wt.with_contacts(arm().build())
    shapes = ("block", "bone", "rod", "fist")
    assert pairs(model) == {*((s, "floor") for s in shapes), ("block", "rod"), ("block", "fist")}
    friction = {(c.first, c.second): c.friction for c in model.contacts}
    assert friction["block", "fist"] == 0.7
    assert friction["bone", "floor"] == 0


def test_filters():
    model = arm().build()
    assert pairs(wt.with_contacts(model, between=("floor", ["hand", "block"]))) == {
        ("fist", "floor"),
        ("block", "floor"),
    }
    assert ("bone", "fist") in pairs(wt.with_contacts(model, neighbours=True))
    barred = wt.with_contacts(model, exclude=[("world", "trunk"), ("trunk", "fore")], friction=0.2)
    assert pairs(barred) == {("bone", "floor"), ("rod", "floor"), ("fist", "floor"), ("block", "fist")}
    assert {c.friction for c in barred.contacts} == {0.2}
    assert len(wt.with_contacts(barred).contacts) == len(wt.with_contacts(model).contacts)  # none twice
    with pytest.raises(wt.NameLookupError, match="there is no body or geometry 'foot'"):
        wt.with_contacts(model, between=("foot", "floor"))


def heap(balls: int, tied: bool = False) -> wt.Model:
    b = wt.Builder("heap").geometry("floor", "world", "half_space").geometry("wall", "world", "half_space")
    for k in range(balls):
        kind, parent = ("revolute", "ball 0") if tied and k == 1 else ("free", "world")
        b.body(f"ball {k}", 1.0, inertia=(0.1, 0.1, 0.1)).joint(f"joint {k}", kind, parent, f"ball {k}")
        b.geometry(f"shell {k}", f"ball {k}", "sphere", radius=0.1)
    return b.contact("first two", "shell 0", "shell 1", friction=0.9).build()


def test_many_pairs_that_are_alike_are_a_group(monkeypatch):
    """The same pairs as one by one; but not where joints, a file or the caller tell pairs from each other."""
    listed = wt.with_contacts(heap(6), friction=0.3, rolling=0.01)
    monkeypatch.setattr(contact_pairs, "MOST_LISTED_PAIRS", 20)
    grouped = wt.with_contacts(heap(6), friction=0.3, rolling=0.01)
    assert (len(grouped.contacts), len(grouped.contact_groups)) == (1, 1)
    assert sorted(map(repr, grouped.pairs)) == sorted(map(repr, listed.contacts))
    assert not wt.with_contacts(heap(6)).contact_groups
    assert not wt.with_contacts(heap(6), friction=0.3, exclude=[("ball 0", "ball 2")]).contact_groups
    assert not wt.with_contacts(heap(6, tied=True), friction=0.3).contact_groups


def test_a_heap_of_thousands_of_bodies_is_declared_at_once():
    start = time.process_time()
    model = wt.with_contacts(heap(2000), friction=0.3)
    assert len(model.contact_groups[0].geometries) == 2002
    assert time.process_time() - start < 2  # two million pairs one by one take a minute


def test_a_robot_on_the_ground_by_frames_and_by_geometries():
    bare = wt.load(ROBOTS / "solo_description/robots/solo12.urdf", base="free")
    feet = [body.name for body in bare.bodies if body.name.endswith("FOOT")]
    assert len(feet) == 4
    model = wt.on_ground(bare, friction=0.6, frames=feet, height=-0.2)
    ref = wt.reference(model)
    gaps = ref.contact_gaps(model.home.q)
    for gap, foot in zip(gaps, feet, strict=True):
        assert gap == pytest.approx(ref.pose(foot)(model.home.q)[2, 3] + 0.2, abs=1e-15)
    assert wt.contact_set(model).friction == pytest.approx([0.6] * 4)
    balls = wt.reference(wt.on_ground(bare, frames=feet, radius=0.02, height=-0.2))
    assert balls.contact_gaps(model.home.q) == pytest.approx(gaps - 0.02)
    with pytest.raises(wt.NameLookupError, match="there is no frame or body 'paw'"):
        wt.on_ground(bare, frames=["paw"])


def test_the_meshes_of_a_robot_touch_where_their_lowest_vertices_do():
    """One candidate per octant of each mesh's hull, against every vertex of every file."""
    import coal

    model = wt.on_ground(wt.load(ROBOTS / "go2_description/urdf/go2.urdf", base="free"))
    ref = wt.reference(model)
    rng = np.random.default_rng(5)
    q = ref.integrate(model.home.q, rng.normal(scale=0.5, size=model.nv))
    gaps = ref.contact_gaps(q)
    numbers = np.array([c.contact for c in wt.contact_set(model).candidates])
    for contact in model.contacts:
        mesh = model.geometry(contact.first)
        assert mesh.kind == "mesh"
        vertices = np.array(coal.MeshLoader().load(mesh.parameters["path"], np.ones(3)).vertices())
        pose = ref.pose(mesh.body)(q) @ mesh.pose.astype(float)
        heights = (vertices * np.array(mesh.parameters["scale"])) @ pose[2, :3] + pose[2, 3]
        assert gaps[numbers == contact.name].min() == pytest.approx(heights.min(), abs=1e-12)


def test_the_ground_is_level_unless_told_otherwise():
    planar = wt.Builder("p", (0, -9.81, 0)).body("b", 1.0).joint("j", "planar", "world", "b")
    planar.geometry("ball", "b", "sphere", radius=0.5)
    model = wt.on_ground(planar.build(), height=0.25)
    ref = wt.reference(model)
    assert ref.contact_gaps(np.array([3.0, 1.0, 0.2]))[0] == 0.25
    assert ref.contact_axes(np.zeros(3))[0] == pytest.approx(np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]]))
    slanted = wt.reference(wt.on_ground(planar.build(), normal=(3, 4, 0)))
    assert slanted.contact_gaps(np.array([1.0, 2.0, 0.0]))[0] == pytest.approx((3 + 8) / 5 - 0.5)
    with pytest.raises(wt.ModelError, match="has no direction"):
        wt.on_ground(planar.build(), normal=(0, 0, 0))
    with pytest.raises(wt.ModelError, match="height is nan, expected a finite number"):
        wt.on_ground(planar.build(), height=math.nan)
    with pytest.raises(wt.ModelError, match="geometry 'ground' is there already"):
        wt.on_ground(model)
    with pytest.raises(wt.ModelError, match="no geometry of a moving body collides"):
        wt.on_ground(wt.mechanisms.pendulum())


# --- files ------------------------------------------------------------------------------------------------------------

URDF = """<robot name="r"><link name="b"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0"
iyz="0"/></inertial>{shape}</link></robot>"""
SHAPES = {
    '<cylinder radius="0.1" length="0.4"/>': 0.2,
    '<box size="0.2 0.4 0.6"/>': 0.3,
    '<sphere radius="0.15"/>': 0.15,
    '<capsule radius="0.1" length="0.4"/>': 0.3,
    '<mesh filename="wedge.obj" scale="0.5 0.5 0.5"/>': 0.5,
}


@pytest.mark.parametrize("shape", SHAPES)
def test_collision_shapes_of_urdf_touch_the_ground(tmp_path, shape):
    corners = [(0, 0, -1), (1, 0, 1), (-1, 0, 1), (0, 1, 1), (0, -1, 1)]
    faces = [(1, 2, 4), (1, 4, 3), (1, 3, 5), (1, 5, 2), (2, 5, 3), (2, 3, 4)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {a} {b} {c}" for a, b, c in faces]
    (tmp_path / "wedge.obj").write_text("\n".join(lines) + "\n")
    holder = f'<collision><origin xyz="0 0 0.1"/><geometry>{shape}</geometry></collision>'
    (tmp_path / "r.urdf").write_text(URDF.format(shape=holder))
    model = wt.on_ground(wt.load(tmp_path / "r.urdf", base="free"))
    q = model.home.q.copy()
    q[2] = 1.0
    assert wt.reference(model).contact_gaps(q).min() == pytest.approx(1.1 - SHAPES[shape])


def test_geoms_of_mjcf_touch_each_other(tmp_path):
    """Plane, capsule, box, cylinder, ellipsoid; MuJoCo's friction and collision bits."""
    (tmp_path / "m.xml").write_text("""
<mujoco><worldbody>
  <geom name="floor" type="plane" size="1 1 0.1" friction="0.9 0.1 0.1"/>
  <body name="a" pos="0 0 1"><freejoint/><geom name="rod" type="capsule" size="0.1 0.2" friction="0.4 0 0"/></body>
  <body name="b" pos="1 0 1"><freejoint/><geom name="egg" type="ellipsoid" size="0.1 0.2 0.3"/></body>
  <body name="c" pos="2 0 1"><freejoint/><geom name="drum" type="cylinder" size="0.1 0.2"/></body>
  <body name="d" pos="3 0 1"><freejoint/><geom name="ghost" type="box" size="0.1 0.1 0.1" contype="2" conaffinity="4"/>
  </body>
</worldbody></mujoco>""")
    model = wt.with_contacts(wt.load(tmp_path / "m.xml", contacts=False), between=("floor", ["a", "b", "c", "d"]))
    assert pairs(model) == {("rod", "floor"), ("egg", "floor"), ("drum", "floor")}
    assert [c.friction for c in model.contacts] == [0.9, 1.0, 1.0]
    gaps = dict(zip(wt.contact_set(model).names, wt.reference(model).contact_gaps(model.home.q), strict=True))
    assert gaps["rod on floor.1"] == pytest.approx(0.7)
    assert gaps["egg on floor"] == pytest.approx(0.7)
    assert min(gaps[f"drum on floor.{k}"] for k in range(8)) == pytest.approx(0.8)


def test_meshes_of_mjcf_touch_the_floor(tmp_path):
    """Given as vertices in the file, and as a mesh file beside it."""
    corners = [(0, 0, -1), (1, 0, 1), (-1, 0, 1), (0, 1, 1), (0, -1, 1)]
    faces = [(1, 2, 4), (1, 4, 3), (1, 3, 5), (1, 5, 2), (2, 5, 3), (2, 3, 4)]
    lines = [f"v {x} {y} {z}" for x, y, z in corners] + [f"f {a} {b} {c}" for a, b, c in faces]
    (tmp_path / "wedge.obj").write_text("\n".join(lines) + "\n")
    (tmp_path / "m.xml").write_text(f"""
<mujoco><asset>
  <mesh name="inline" vertex="{" ".join(str(x) for corner in corners for x in corner)}" scale="0.5 0.5 0.5"/>
  <mesh name="filed" file="wedge.obj" scale="0.25 0.25 0.25"/>
</asset><worldbody><geom name="floor" type="plane" size="1 1 0.1"/>
  <body name="a" pos="0 0 1"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <geom name="one" type="mesh" mesh="inline" pos="0 0 0.1"/></body>
  <body name="b" pos="3 0 1"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <geom name="two" type="mesh" mesh="filed"/></body>
</worldbody></mujoco>""")
    model = wt.with_contacts(wt.load(tmp_path / "m.xml", contacts=False), between=("floor", ["a", "b"]))
    gaps = wt.reference(model).contact_gaps(model.home.q)
    assert gaps[:5].min() == pytest.approx(0.6)
    assert gaps[5:].min() == pytest.approx(0.75)


def test_pairs_and_excludes_of_mjcf(tmp_path):
    (tmp_path / "m.xml").write_text("""
<mujoco><worldbody><geom name="floor" type="plane" size="1 1 0.1"/>
  <body name="a" pos="0 0 1"><freejoint/><geom name="one" size="0.1"/></body>
  <body name="b" pos="1 0 1"><freejoint/><geom name="two" size="0.2"/></body>
  <body name="c" pos="2 0 1"><freejoint/><geom name="three" size="0.2"/></body>
</worldbody><contact>
  <pair geom1="one" geom2="floor" friction="0.3 0.3 0 0 0"/>
  <exclude body1="a" body2="b"/>
</contact></mujoco>""")
    model = wt.load(tmp_path / "m.xml")
    every = {("one", "floor"), ("two", "floor"), ("three", "floor"), ("one", "three"), ("two", "three")}
    assert pairs(model) == every
    assert (model.contacts[0].name, model.contacts[0].friction) == ("one on floor", 0.3)
    assert {c.friction for c in model.contacts[1:]} == {1.0}
    assert wt.reference(model).contact_gaps(model.home.q) == pytest.approx([0.9, 0.8, 0.8, 1.7, 0.6])
    assert "not used: " not in model.source
    bare = wt.load(tmp_path / "m.xml", contacts=False)
    assert not bare.contacts
    assert pairs(wt.with_contacts(bare)) == every  # the file's filters stay with its shapes
    again = tmp_path / "m.toml"
    wt.save(bare, again)
    assert pairs(wt.with_contacts(wt.load(again))) == every


def test_a_row_of_joints_makes_neighbours():
    """Massless bodies without a shape, between two joints of a row, are no bodies that anything could touch."""
    builder = wt.Builder("row").body("a", 1.0, inertia=(1, 1, 1)).body("between").body("b", 1.0, inertia=(1, 1, 1))
    builder.body("c", 1.0, inertia=(1, 1, 1)).joint("base", "free", "world", "a")
    builder.joint("one", "revolute", "a", "between").joint("two", "revolute", "between", "b", axis=(0, 1, 0))
    builder.joint("three", "revolute", "b", "c")
    for body in "abc":
        builder.geometry(f"ball {body}", body, "sphere", radius=0.1)
    assert pairs(wt.with_contacts(builder.build())) == {("ball a", "ball c")}
    builder.geometry("knob", "between", "sphere", radius=0.1)
    assert pairs(wt.with_contacts(builder.build())) == {("ball a", "ball c"), ("ball a", "ball b"), ("ball c", "knob")}


@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_native_files_keep_contacts(tmp_path, suffix):
    model = (
        arm()
        .contact("low", "block", "floor", friction=0.5, law="newton")
        .contact("hit", "fist", "bone", restitution=1)
        .build()
    )
    path = tmp_path / f"arm.{suffix}"
    wt.save(model, path)
    again = wt.load(path)
    assert [vars(c) for c in again.contacts] == [vars(c) for c in model.contacts]
    q = model.neutral.q
    assert np.array_equal(wt.reference(again).contact_gaps(q), wt.reference(model).contact_gaps(q))


def test_a_fault_in_a_file_has_its_line(tmp_path):
    path = tmp_path / "arm.toml"
    wt.save(arm().contact("hit", "fist", "bone", restitution=0.5).build(), path)
    text = path.read_text().replace("restitution = 0.5", "restitution = 5.0")
    path.write_text(text)
    line = text.splitlines().index("[[contacts]]") + 1
    with pytest.raises(wt.FileError) as raised:
        wt.load(path)
    assert raised.value.faults == (f"line {line}: contact 'hit': restitution is 5.0, expected a number from 0 to 1",)
