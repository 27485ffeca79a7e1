"""Small files that ask for endless work, and names that lead out of a model's folder: refused, quickly, with a cure."""

from __future__ import annotations

import os
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from damaged_files import COLLADA, OBJ
from whippletree.contact.geometry.mesh_formats import read_surfaces
from whippletree.errors import did_you_mean
from whippletree.files import bounded_files
from whippletree.view.scene import scene

RAISE = "If this is meant, raise whippletree.files.bounded_files.limits."


@pytest.fixture(autouse=True)
def _in_a_second() -> Iterator[None]:
    """Each of these files took seconds to years."""
    start = time.process_time()
    yield
    assert time.process_time() - start < 5


def faults_of(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(wt.FileError) as caught:
        wt.load(path)
    return "\n".join(caught.value.faults)


# --- MJCF: circles and copies ---

BODY = "<body name='b'><geom size='1'/></body>"


def model_of(*names: str) -> str:
    return (
        "<mujoco>\n<asset>"
        + "".join(f"<model name='m{k}' file='{n}'/>" for k, n in enumerate(names))
        + "</asset></mujoco>"
    )


@pytest.mark.parametrize("name", ["robot.xml", "./robot.xml", "link.xml"])
def test_a_model_that_names_itself(tmp_path: Path, name: str) -> None:
    (tmp_path / "link.xml").symlink_to("robot.xml")
    assert faults_of(tmp_path / "robot.xml", model_of(name)) == (
        "line 2: <model> leads back to a file that is already included: 'robot.xml' → 'robot.xml'. Remove one of these"
    )


def test_models_that_name_each_other(tmp_path: Path) -> None:
    (tmp_path / "part.xml").write_text(model_of("robot.xml"))
    assert "in 'part.xml' leads back to a file that is already included: 'robot.xml' → 'part.xml' → 'robot.xml'" in (
        faults_of(tmp_path / "robot.xml", model_of("part.xml"))
    )
    (tmp_path / "part.xml").write_text("<mujoco><include file='more.xml'/></mujoco>")
    (tmp_path / "more.xml").write_text("<mujocoinclude><asset><model file='part.xml'/></asset></mujocoinclude>")
    assert "'part.xml' → 'more.xml' → 'part.xml'" in faults_of(tmp_path / "robot.xml", model_of("part.xml"))


def test_models_that_double(tmp_path: Path) -> None:
    for k in range(40):
        (tmp_path / f"m{k}.xml").write_text(model_of(f"m{k + 1}.xml", f"m{k + 1}.xml"))
    (tmp_path / "m40.xml").write_text(f"<mujoco><worldbody>{BODY}</worldbody></mujoco>")
    found = faults_of(tmp_path / "robot.xml", model_of("m0.xml"))
    assert found.startswith("line 1: <mujoco> in 'm")
    assert " makes 65,532 elements, copies included" in found
    assert found.endswith(RAISE + "mjcf_elements")


def test_attached_copies_that_double(tmp_path: Path) -> None:
    for k in range(40):
        twice = "".join(f"<attach model='m' body='b' prefix='{word}'/>" for word in "xy")
        body = f"<worldbody><body name='b'>{twice}</body></worldbody>"
        (tmp_path / f"m{k}.xml").write_text(
            f"<mujoco><asset><model name='m' file='m{k + 1}.xml'/></asset>{body}</mujoco>"
        )
    (tmp_path / "m40.xml").write_text(f"<mujoco><worldbody>{BODY}</worldbody></mujoco>")
    assert RAISE + "mjcf_elements" in faults_of(tmp_path / "robot.xml", model_of("m0.xml"))


def test_models_of_models_still_load(tmp_path: Path) -> None:
    for k in range(8):
        body = "<worldbody><body name='b'><attach model='m' body='b' prefix='x'/></body></worldbody>"
        (tmp_path / f"m{k}.xml").write_text(
            f"<mujoco><asset><model name='m' file='m{k + 1}.xml'/></asset>{body}</mujoco>"
        )
    (tmp_path / "m8.xml").write_text(f"<mujoco><worldbody>{BODY}</worldbody></mujoco>")
    assert len(wt.load(tmp_path / "m0.xml").bodies) == 9


@pytest.mark.parametrize(
    ("part", "found"),
    [
        (f"<replicate count='100000000'>{BODY}</replicate>", "<replicate> makes 300,000,000 elements, copies included"),
        ("<replicate count='100'>" * 3 + BODY + "</replicate>" * 3, "<replicate> makes 3,010,100 elements"),
        ("<composite type='cable' count='1000000 1 1'/>", "<composite> makes 1,000,000 elements"),
        ("<hfield nrow='100000' ncol='100000'/>", "<hfield> has 10,000,000,000 heights"),
        ("<mesh builtin='cone' params='1000000 1'/>", "<mesh> asks for a resolution of 1,000,000"),
        ("<body " + " ".join(f"a{k}='1'" for k in range(20_000)) + "/>", "an XML element has 20,000 attributes"),
    ],
)
def test_few_words_for_much_work_in_mjcf(tmp_path: Path, part: str, found: str) -> None:
    text = faults_of(tmp_path / "robot.xml", f"<mujoco><worldbody>\n{part}</worldbody></mujoco>")
    assert text.startswith(f"line 2: {found}")
    assert ", the most that is read is " in text
    assert RAISE in text


def test_a_picture_of_heights_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    head = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(1000))), (b"IEND", b""))
    chunks = [struct.pack(">I", len(d)) + t + d + struct.pack(">I", zlib.crc32(t + d)) for t, d in parts]
    (tmp_path / "h.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))
    text = "<mujoco><asset><hfield name='h' file='h.png' size='1 1 1 1'/></asset><worldbody>"
    text += "<geom type='hfield' hfield='h'/>"
    assert "its file 'h.png' has 3,600,000,000 heights" in faults_of(tmp_path / "r.xml", text + "</worldbody></mujoco>")


def test_memory_that_a_simulation_would_take_is_not_set_aside(tmp_path: Path) -> None:
    (tmp_path / "robot.xml").write_text(
        f"<mujoco><size memory='100T' nuser_body='500000000'/><worldbody>{BODY}</worldbody></mujoco>"
    )
    assert len(wt.load(tmp_path / "robot.xml").bodies) == 1


# --- XML, TOML and names ---


@pytest.mark.parametrize("number", ["1" * 20_000 + "x", "1." + "1" * 20_000 + "x", "1e" + "1" * 20_000 + "x"])
def test_long_numbers(tmp_path: Path, number: str) -> None:
    text = f"<robot name='r'><link name='a'><inertial><mass value='{number}'/></inertial></link></robot>"
    found = faults_of(tmp_path / "robot.urdf", text)
    assert "is not a number" in found
    assert len(found) < 400
    text = f'whippletree = 1\nname = "a"\n[[bodies]]\nname = "b"\nmass = "1/{number}"\n'
    found = faults_of(tmp_path / "robot.toml", text)
    assert "line 5: body 'b': mass: '1/1" in found
    assert len(found) < 400


def test_hundreds_of_misspelt_joints(tmp_path: Path) -> None:
    links = "".join(f"<link name='link_number_{k}'/>" for k in range(1000))
    ends = "<joint name='j{0}' type='fixed'><parent link='link_numbr_{0}'/><child link='link_number_{0}'/></joint>"
    found = faults_of(
        tmp_path / "robot.urdf", f"<robot name='r'>{links}{''.join(map(ends.format, range(1000)))}</robot>"
    )
    assert "unknown parent 'link_numbr_7'. Did you mean 'link_number_7'?" in found
    assert len(found.splitlines()) == 1000
    assert found.count("Did you mean") == 20


def test_the_nearest_of_many_names_is_suggested() -> None:
    names = [f"left_leg_motor_{k}" for k in range(300)] + ["shoulder_pan_joint"]
    assert did_you_mean("sholder_pan_jont", names) == ". Did you mean 'shoulder_pan_joint'?"
    assert did_you_mean("x" * 100_000, names) == ""
    assert did_you_mean("quite another", names) == ""


def test_thousands_of_links_of_one_name(tmp_path: Path) -> None:
    found = faults_of(tmp_path / "robot.urdf", "<robot name='r'>" + "<link name='a'/>" * 5000 + "</robot>")
    assert "… (5000 in all): body or frame 'a' is declared 5000 times: give each its own name" in found
    assert len(found) < 300


def test_many_attributes_and_elements(tmp_path: Path) -> None:
    many = " ".join(f"a{k}='1'" for k in range(20_000))
    found = faults_of(tmp_path / "robot.urdf", f"<robot name='r'>\n<link {many}/></robot>")
    assert (
        found == "line 2: an XML element has 20,000 attributes, the most that is read is 1,000. " + RAISE + "attributes"
    )
    found = faults_of(tmp_path / "robot.urdf", "<robot name='r'>" + "<a/>" * 1_000_001 + "</robot>")
    assert found.startswith("the file has up to 1,000,003 XML elements, the most that is read is 1,000,000")
    (tmp_path / "wide.urdf").write_bytes(f"<robot name='r' {many}/>".encode("utf-16"))
    with pytest.raises(wt.FileError, match="an XML element has 20,001 attributes"):
        wt.load(tmp_path / "wide.urdf")
    found = faults_of(tmp_path / "robot.urdf", "<?xml version='1.0' encoding='utf-7'?><robot name='r'/>")
    assert found == "line 1: the encoding 'utf-7' is not read: save the file as UTF-8"


def test_a_limit_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = " ".join(f"a{k}='1'" for k in range(1500))
    (tmp_path / "robot.urdf").write_text(f"<robot name='r'><link name='a' {many}/></robot>")
    monkeypatch.setattr(bounded_files.limits, "attributes", 2000)
    assert len(wt.load(tmp_path / "robot.urdf").bodies) == 1


@pytest.mark.parametrize("order", [1, -1])
def test_thousands_of_frames_in_a_chain(tmp_path: Path, order: int) -> None:
    frames = [f"<frame name='f{k}' attached_to='f{k - 1}'><pose>0.001 0 0 0 0 0</pose></frame>" for k in range(1, 2000)]
    first = "<frame name='f0' attached_to='base'/>"
    (tmp_path / "arm.sdf").write_text(
        f"<sdf version='1.7'><model name='m'><link name='base'/>{''.join([first, *frames][::order])}</model></sdf>"
    )
    model = wt.load(tmp_path / "arm.sdf")
    last = next(frame for frame in model.frames if frame.name == "f1999")
    assert last.body == "base"
    np.testing.assert_allclose(last.pose[:3, 3].astype(float), (1.999, 0, 0), rtol=1e-12)


def test_frames_in_a_long_circle(tmp_path: Path) -> None:
    frames = "".join(f"<frame name='f{k}' attached_to='f{(k + 1) % 2000}'/>" for k in range(2000))
    found = faults_of(
        tmp_path / "arm.sdf", f"<sdf version='1.7'><model name='m'><link name='b'/>{frames}</model></sdf>"
    )
    assert "is placed in a circle: 'f0' relative to 'f1' relative to 'f2' relative to … relative to 'f1998'" in found


def test_dotted_keys_and_keys_that_come_twice(tmp_path: Path) -> None:
    found = faults_of(tmp_path / "a.toml", "whippletree = 1\n" + "a." * 20_000 + "a = 1\n")
    assert found == "a key names 20,000 tables inside each other, the most that is read is 256. " + RAISE + "depth"
    nested = "[" * 300 + "]" * 300
    assert RAISE + "depth" in faults_of(tmp_path / "a.json", f'{{"whippletree": 1, "x": {nested}}}')
    twice = ", ".join(f'"k{k}": 1' for k in range(20_000))
    assert "the key 'k0' comes twice" in faults_of(tmp_path / "a.json", f"{{{twice}, {twice}}}")


def test_thousands_of_unknown_keys(tmp_path: Path) -> None:
    keys = "".join(f"unknown_{k} = 1\n" for k in range(5000))
    found = faults_of(tmp_path / "a.toml", f'whippletree = 1\nname = "a"\n{keys}').splitlines()
    assert len(found) == 5000
    assert found[-1].startswith("line 5002: the file: unknown key 'unknown_4999'")


# --- meshes ---


def mesh_fault(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    with pytest.raises(wt.FileError) as caught:
        read_surfaces(path)
    (fault,) = caught.value.faults
    return fault


def test_nodes_that_double(tmp_path: Path) -> None:
    nodes = "".join(f"<node id='n{k}'>" + f"<instance_node url='#n{k + 1}'/>" * 2 + "</node>" for k in range(60))
    data = COLLADA.replace(b"<library_nodes>", b"<library_nodes>" + nodes.encode() + b"<node id='n60'/>")
    data = data.replace(b'<instance_node url="#k"/>', b'<instance_node url="#n0"/>')
    found = mesh_fault(tmp_path / "m.dae", data)
    assert "brings the scene to 10,001 nodes, copies included, the most that is read is 10,000" in found
    assert found.endswith(RAISE + "mesh_instances")


def test_nodes_in_a_circle(tmp_path: Path) -> None:
    data = COLLADA.replace(b'<node id="k">', b'<node id="k"><instance_node url="#k"/>')
    assert "257 nodes inside each other, perhaps in a circle" in mesh_fault(tmp_path / "m.dae", data)


@pytest.mark.parametrize("counts", [b"1000000000", b"3 1000000000", b"-3 10", b"3 3", b"", b"9" * 30])
def test_counts_of_corners_that_do_not_fit(tmp_path: Path, counts: bytes) -> None:
    data = COLLADA.replace(b"<vcount>3 4</vcount>", b"<vcount>" + counts + b"</vcount>")
    found = mesh_fault(tmp_path / "m.dae", data)
    assert found in (
        "line 5: <polylist> counts other corners of polygons than the 7 that it lists",
        "line 6: <vcount> holds something that is not an index",
    )


def test_copies_of_triangles_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "m.dae").write_bytes(COLLADA)
    assert sum(len(surface.faces) for surface in read_surfaces(tmp_path / "m.dae")) == 6
    monkeypatch.setattr(bounded_files.limits, "mesh_triangles", 5)
    assert "6 triangles, copies included" in mesh_fault(tmp_path / "m.dae", COLLADA)
    assert "the file has 6 triangles" in mesh_fault(tmp_path / "m.obj", OBJ + b"f 1 2 3\nf 1 2 4\n")


def test_meshes_are_read_in_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_files.limits, "mesh_seconds", -1.0)
    for name, data in (("m.dae", COLLADA), ("m.obj", OBJ)):
        assert mesh_fault(tmp_path / name, data).endswith(RAISE + "mesh_seconds")


def test_entities_in_meshes(tmp_path: Path) -> None:
    laughs = "".join(f'<!ENTITY a{k} "{f"&a{k - 1};" * 10}">' for k in range(1, 12))
    bomb = f'<!DOCTYPE x [<!ENTITY a0 "1">{laughs}]><COLLADA id="&a11;"/>'
    assert "declares XML entities" in mesh_fault(tmp_path / "m.dae", bomb.encode())


def test_pipes_and_other_formats(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.stl")
    with pytest.raises(wt.FileError, match="not a regular file"):
        read_surfaces(tmp_path / "m.stl")
    assert mesh_fault(tmp_path / "m.ply", b"ply") == "meshes are read from .stl, .obj, .dae: convert this .ply"


# --- names that lead out of the folder ---

FORMATS = {
    "robot.urdf": """<robot name='r'><link name='a'><collision><geometry><mesh filename='{}'/></geometry></collision>
</link></robot>""",
    "robot.sdf": """<sdf version='1.6'><model name='r'><link name='a'><collision name='c'><geometry>
<mesh><uri>{}</uri></mesh></geometry></collision></link></model></sdf>""",
    "robot.xml": """<mujoco><asset><mesh name='m' file='{}'/></asset><worldbody><body name='a'>
<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/><geom type='mesh' mesh='m'/></body></worldbody></mujoco>""",
    "robot.toml": """whippletree = 1
name = 'r'
[[bodies]]
name = 'a'
[[joints]]
name = 'j'
kind = 'weld'
parent = 'world'
child = 'a'
[[geometries]]
name = 'g'
body = 'a'
kind = 'mesh'
parameters = {{ KEY = '{}' }}
""",
}


def written(folder: Path, name: str, mesh: str) -> wt.Model:
    file, _, key = name.partition(":")
    (folder / file).write_text(FORMATS[file].replace("KEY", key).format(mesh))
    return wt.load(folder / file)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["robot.urdf", "robot.sdf", "robot.xml", "robot.toml:file", "robot.toml:path"])
@pytest.mark.parametrize("way", ["absolute", "upwards", "link", "linked folder", "url"])
def test_meshes_outside_the_folder_are_not_opened(tmp_path: Path, name: str, way: str, monkeypatch) -> None:
    secret = tmp_path / "secret"
    folder = tmp_path / "robots" / "arm" / "model"
    for place in (secret, folder):
        place.mkdir(parents=True)
    (secret / "m.obj").write_bytes(OBJ)
    (folder / "link.obj").symlink_to(secret / "m.obj")
    (folder / "linked").symlink_to(secret)
    mesh = {
        "absolute": f"{secret}/m.obj",
        "upwards": "../../../secret/m.obj",
        "link": "link.obj",
        "linked folder": "linked/m.obj",
        "url": f"file://{secret}/m.obj",
    }[way]
    monkeypatch.chdir(folder)
    told = name in ("robot.urdf", "robot.sdf")
    with pytest.warns(wt.LeftOutWarning, match="collision meshes outside") if told else nullcontext():
        model = written(folder, name, mesh)
    (geometry,) = model.geometries
    assert geometry.file is None
    assert f"{geometry.name}: " in scene(model).notes[0]
    assert "cannot be drawn" in scene(model).notes[0]
    page = wt.export_html(model, None, tmp_path / "page.html")
    assert "cannot be drawn" in page.read_text()
    builder = wt.Builder("r").body("a", 1, (0, 0, 0), (1, 1, 1)).joint("j", "free", "world", "a")
    builder.geometry("g", "a", "mesh", **geometry.parameters).geometry("floor", "world", "half_space")
    with pytest.raises(wt.ModelError, match="in the folder of its model; elsewhere path= must name it"):
        wt.contact_set(builder.contact("c", "g", "floor").build())


@pytest.mark.parametrize("name", ["robot.urdf", "robot.sdf", "robot.xml", "robot.toml:file", "robot.toml:path"])
def test_meshes_inside_the_folder_are_opened(tmp_path: Path, name: str) -> None:
    (tmp_path / "meshes").mkdir()
    (tmp_path / "meshes" / "m.obj").write_bytes(OBJ)
    for mesh in ("meshes/m.obj", f"{tmp_path}/meshes/m.obj"):
        model = written(tmp_path, name, mesh)
        assert model.geometries[0].file == Path(os.path.realpath(tmp_path / "meshes" / "m.obj"))
        assert scene(model).notes == ()
