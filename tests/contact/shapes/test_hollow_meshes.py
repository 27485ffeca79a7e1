"""Meshes of files that are visibly less than their convex hulls, which are what touches: told once, with the cure."""

import warnings

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import whippletree as wt
from whippletree.contact.geometry import mesh_files
from whippletree.contact.geometry.mesh_files import filled_share
from whippletree.contact.kinematics.contact_set import contact_set

# the cross-section of a channel: a square of side 1 with a slot of 0.8 × 0.9 in it, area 0.28, cut into three boxes
WALLS = [((0, 0), (0.1, 1)), ((0.1, 0), (0.9, 0.1)), ((0.9, 0), (1, 1))]


def box(low, high):
    """Triangles (12, 3, 3), counter-clockwise seen from outside."""
    points = np.array(np.meshgrid(*zip(low, high, strict=True), indexing="ij")).reshape(3, -1).T
    hull = ConvexHull(points)
    triangles = points[hull.simplices]
    outward = np.einsum(
        "ij,ij->i", np.cross(*np.moveaxis(triangles[:, 1:] - triangles[:, :1], 1, 0)), hull.equations[:, :3]
    )
    triangles[outward < 0] = triangles[outward < 0][:, ::-1]
    return triangles


def write_stl(path, triangles):
    data = np.zeros(len(triangles), dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("rest", "<u2")])
    data["corners"] = triangles
    path.write_bytes(bytes(80) + np.uint32(len(triangles)).tobytes() + data.tobytes())
    return path


@pytest.fixture
def channel(tmp_path):
    mesh_files._tell.cache_clear()
    walls = [box((*low, 0), (*high, 2)) for low, high in WALLS]
    return write_stl(tmp_path / "channel.stl", np.concatenate(walls))


def on_floor(**parameters):
    builder = wt.Builder("scene").body("part", 1.0, inertia=(1, 1, 1)).joint("free", "free", "world", "part")
    builder.geometry("shape", "part", "mesh", **parameters).geometry("floor", "world", "half_space")
    return builder.contact("touch", "shape", "floor").build()


def test_a_channel_is_told_of_once_with_the_cure(channel):
    model = on_floor(path=channel, scale=(1, 2, 0.5))
    share = filled_share(model.geometry("shape"))
    assert share == pytest.approx(0.28, abs=0.1)
    with pytest.warns(UserWarning, match="convex hull") as told:
        contact_set(model)
    assert [str(warning.message) for warning in told] == [
        "model 'scene': what touches is the convex hull of a mesh, of which the mesh itself fills visibly less: "
        f"'shape' ({share:.0%}). wt.decompose(model) makes convex pieces of them; or give such a body boxes, capsules "
        "and cylinders; convex=True for a geometry says that its hull is meant"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        contact_set(on_floor(path=channel, scale=(1, 2, 0.5)))


def test_nothing_is_said_of_what_is_convex_seen_from_outside_or_meant(channel, tmp_path):
    mesh_of_box = box((0, 0, 0), (1, 2, 3))
    whole = write_stl(tmp_path / "box.stl", mesh_of_box)
    shell = write_stl(tmp_path / "shell.stl", np.concatenate([mesh_of_box, 0.01 + 0.98 * mesh_of_box[:, ::-1]]))
    for path in (whole, shell):
        assert filled_share(on_floor(path=path).geometry("shape")) == pytest.approx(1, abs=1e-6)
    assert filled_share(on_floor(vertices=np.eye(3)).geometry("shape")) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for parameters in ({"path": whole}, {"path": shell}, {"path": channel, "convex": True}):
            contact_set(on_floor(**parameters))


def test_a_box_without_a_lid_is_empty(tmp_path):
    mesh = box((0, 0, 0), (1, 1, 1))
    lid = (mesh[:, :, 2] == 1).all(axis=1)
    path = write_stl(tmp_path / "open.stl", mesh[~lid])
    # five walls, each as thick as a cell
    assert filled_share(on_floor(path=path).geometry("shape")) == pytest.approx(1 - 14 * 14 * 15 / 16**3, abs=1e-9)


def test_the_report_of_a_mujoco_file_names_its_hulls(channel):
    text = """<mujoco><asset><mesh name="c" file="channel.stl"/></asset>
    <worldbody><geom name="floor" type="plane" size="1 1 1"/>
    <body name="part" pos="0 0 1"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
    <geom name="shape" type="mesh" mesh="c"/></body></worldbody></mujoco>"""
    path = channel.parent / "part.xml"
    path.write_text(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = wt.load(path)
        contact_set(model)
    assert "- meshes touch by their convex hulls, as MuJoCo has it: shape" in model.source
