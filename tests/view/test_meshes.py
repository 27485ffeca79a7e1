"""Mesh files: one tetrahedron in every format, damaged ones, simplification and creases."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.view import solids
from whippletree.view.scene import scene
from whippletree.view.shape_meshes import crease, read_mesh, simplify

CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 2, 0], [0, 0, 3]], dtype=float)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def stl_binary():
    record = np.zeros(4, np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")]))
    record["corners"] = CORNERS[FACES]
    return b"x" * 80 + np.uint32(4).tobytes() + record.tobytes()


def stl_text():
    loops = ["".join(f"vertex {x} {y} {z}\n" for x, y, z in CORNERS[face]) for face in FACES]
    body = "".join(f"facet normal 0 0 0\nouter loop\n{loop}endloop\nendfacet\n" for loop in loops)
    return f"solid t\n{body}endsolid t\n".encode()


def obj():
    vertices = "".join(f"v {x} {y} {z}\n" for x, y, z in CORNERS)
    return (vertices + "".join(f"f {a + 1}/1/1 {b + 1}//2 {c - 4}\n" for a, b, c in FACES)).encode()


def collada(unit="1", shift="0 0 0", polygons=False):
    numbers = " ".join(str(x) for x in CORNERS.reshape(-1))
    # two inputs per corner, the second of which is no position
    indices = " ".join(f"{i} 0" for i in FACES.reshape(-1))
    part = f'<triangles material="m" count="4">INPUT<p>{indices}</p></triangles>'
    if polygons:
        part = f'<polylist material="m" count="4">INPUT<vcount>3 3 3 3</vcount><p>{indices}</p></polylist>'
    inputs = '<input semantic="VERTEX" source="#v" offset="0"/><input semantic="NORMAL" source="#n" offset="1"/>'
    return f"""<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="{unit}"/><up_axis>Z_UP</up_axis></asset>
<library_effects><effect id="e"><profile_COMMON><technique sid="c"><phong><diffuse><color>1 0.5 0 1</color></diffuse>
</phong></technique></profile_COMMON></effect></library_effects>
<library_materials><material id="mat"><instance_effect url="#e"/></material></library_materials>
<library_geometries><geometry id="g"><mesh><source id="p"><float_array count="12">{numbers}</float_array></source>
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>{part.replace("INPUT", inputs)}</mesh></geometry>
</library_geometries><library_visual_scenes><visual_scene id="s"><node><translate>{shift}</translate>
<rotate>0 0 1 90</rotate><instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="m" target="#mat"/></technique_common></bind_material></instance_geometry></node>
</visual_scene></library_visual_scenes></COLLADA>""".encode()


FILES = {"binary.stl": stl_binary(), "text.STL": stl_text(), "shape.obj": obj()}


def triangles(mesh):
    """The corners of every triangle, in an order that does not depend on the file."""
    return np.array(sorted(mesh.vertices[mesh.faces].reshape(-1, 9).tolist()))


@pytest.mark.parametrize("name", FILES)
def test_formats_agree(name, tmp_path):
    (tmp_path / name).write_bytes(FILES[name])
    (piece,) = read_mesh(tmp_path / name)
    assert piece.mesh.vertices.shape == (4, 3)
    np.testing.assert_array_equal(triangles(piece.mesh), triangles(solids.Mesh(CORNERS, FACES)))


@pytest.mark.parametrize("polygons", [False, True])
def test_collada_with_units_transforms_and_colours(polygons, tmp_path):
    (tmp_path / "shape.dae").write_bytes(collada("0.01", "100 0 0", polygons))
    (piece,) = read_mesh(tmp_path / "shape.dae")
    turned = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]])
    expected = solids.Mesh((CORNERS @ turned.T + [100, 0, 0]) / 100, FACES)
    np.testing.assert_allclose(np.sort(triangles(piece.mesh)), np.sort(triangles(expected)), atol=1e-12)
    assert piece.color == (1.0, 0.5, 0.0)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("empty.stl", b""),
        ("short.stl", stl_binary()[:-7]),
        ("nan.obj", b"v nan 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n"),
        ("beyond.obj", b"v 0 0 0\nf 1 2 3\n"),
        ("words.obj", b"v a b c\n"),
        ("broken.dae", b"<COLLADA><unclosed>"),
        ("hollow.dae", b"<COLLADA/>"),
        ("endless.dae", collada().replace(b"<node>", b'<node id="n"><instance_node url="#n"/>')),
        ("image.png", b"\x89PNG"),
    ],
)
def test_a_damaged_mesh_leaves_a_stick_figure_and_a_note(name, data, tmp_path):
    (tmp_path / name).write_bytes(data)
    assert read_mesh(tmp_path / name) is None
    builder = wt.Builder("arm").body("bar", 1.0, (0.5, 0, 0), wt.mechanisms.rod_inertia(1.0, 1.0))
    builder.joint("hinge", "revolute", "world", "bar").geometry("skin", "bar", "mesh", path=str(tmp_path / name))
    shown = scene(builder.build())
    assert any(item.name == "bar" for item in shown.items)
    assert len(shown.notes) == 1
    assert "skin" in shown.notes[0]


def test_external_entities_are_not_followed(tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("0 0 0 1 0 0 0 1 0")
    text = collada().decode().replace('<?xml version="1.0"?>', f'<!DOCTYPE x [<!ENTITY s SYSTEM "file://{secret}">]>')
    text = text.replace('<float_array count="12">', '<float_array count="12">&s; ')
    (tmp_path / "shape.dae").write_text(text)
    pieces = read_mesh(tmp_path / "shape.dae")
    assert pieces is None or np.abs(pieces[0].mesh.vertices).max() == 3


def test_simplification_keeps_the_shape():
    ball = solids.revolve([(np.sin(t), -np.cos(t)) for t in np.linspace(0, np.pi, 200)], 200)
    (few,) = simplify([ball], 2000)
    assert 500 < len(few.faces) <= 2000
    radii = np.linalg.norm(few.vertices[np.unique(few.faces)], axis=1)
    assert radii.min() > 0.95
    assert radii.max() <= 1 + 1e-12
    assert simplify([few], 10**6)[0] is few


def test_parts_of_a_surface_still_meet_when_they_are_simplified():
    """A ball cut in two halves of different fineness stays closed: every edge belongs to two triangles."""
    profile = [(np.sin(t), -np.cos(t)) for t in np.linspace(0, np.pi, 121)]
    ball = solids.revolve(profile, 120)
    low = ball.vertices[ball.faces][:, :, 2].mean(axis=1) < 0.3
    halves = [solids.Mesh(ball.vertices, ball.faces[low]), solids.Mesh(ball.vertices, ball.faces[~low])]
    few = simplify(halves, 1500)
    assert 300 < sum(len(part.faces) for part in few) <= 1500
    corners = np.concatenate([part.vertices[part.faces] for part in few])
    _, names = np.unique(corners.reshape(-1, 3).round(12), axis=0, return_inverse=True)
    edges = np.sort(np.concatenate([names.reshape(-1, 3)[:, [i, (i + 1) % 3]] for i in range(3)]), axis=1)
    _, counts = np.unique(edges, axis=0, return_counts=True)
    assert (counts % 2 == 0).all()


def test_creases_double_vertices_along_sharp_edges_only():
    corners = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    cube = solids.hull(corners)
    sharp = crease(solids.Mesh(*_welded(cube)))
    assert len(sharp.vertices) == 24
    ball = solids.Mesh(*_welded(solids.sphere(1.0)))
    assert len(crease(ball).vertices) == len(ball.vertices)


def _welded(mesh):
    vertices, inverse = np.unique(mesh.vertices.round(12), axis=0, return_inverse=True)
    faces = inverse.reshape(-1)[mesh.faces]
    keep = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 0] != faces[:, 2])
    return vertices, faces[keep]
