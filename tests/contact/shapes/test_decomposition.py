"""Convex pieces in place of meshes: what they fill, that they are the same every time, and what goes with them."""

import re
import subprocess

import numpy as np
import pytest
from scipy.spatial import ConvexHull

import whippletree as wt
from mesh_solids import BEAM, BOX_WITH_HOLLOW, BRACKET, CUP, RING, TRAY, cell_distance, cell_mesh, turned_mesh
from whippletree.contact.geometry import convex_pieces as cutting
from whippletree.contact.geometry.convex_pieces import convex_pieces
from whippletree.view import shape_meshes
from whippletree.view.items import DrawnSizes

TOLERANCE = 0.02


def pieces_of(solid, tolerance=TOLERANCE):
    return convex_pieces("mesh", *cell_mesh(*solid), tolerance)


def points_in(hulls, rng, count=400):
    """Random points of convex hulls: mixtures of their corners."""
    return np.concatenate([rng.dirichlet(np.full(len(hull), 0.3), count) @ hull for hull in hulls])


def is_inside(points, hulls, margin):
    """Which of the points (n, 3) are in one of the hulls, or outside of it by no more than a margin, m."""
    found = np.zeros(len(points), dtype=bool)
    for hull in hulls:
        planes = ConvexHull(hull).equations
        found |= (points @ planes[:, :3].T + planes[:, 3] <= margin).all(axis=1)
    return found


def bracket_model(**more):
    vertices, faces = cell_mesh(*BRACKET)
    parameters = {"vertices": vertices, "faces": faces, "friction": 0.7, "color": "red"} | more
    builder = wt.Builder("scene").body("part", 1.0, inertia=(1, 1, 1)).joint("free", "free", "world", "part")
    builder.geometry("angle", "part", "mesh", position=(0.1, 0, 0), **parameters)
    builder.geometry("floor", "world", "half_space").geometry("rod", "world", "cylinder", radius=0.01, length=0.2)
    builder.body("ball", 1.0, inertia=(1, 1, 1)).joint("ball", "free", "world", "ball")
    builder.geometry("ball", "ball", "sphere", radius=0.01)
    builder.contact("hang", "angle", "rod", friction=0.3, restitution=0.1, margin=1e-4, torsional=1e-3)
    return builder.contact_group("heap", ["floor", "angle", "ball"], friction=0.4).build()


@pytest.mark.parametrize(
    ("solid", "most"),
    [
        (BRACKET, 2),
        pytest.param(BEAM, 6, marks=pytest.mark.slow),
        pytest.param(RING, 10, marks=pytest.mark.slow),
        pytest.param(TRAY, 20, marks=pytest.mark.slow),
        pytest.param(BOX_WITH_HOLLOW, 60, marks=pytest.mark.slow),
    ],
    ids=["bracket", "beam", "ring", "tray", "hollow"],
)
def test_pieces_fill_a_solid_and_little_more(solid, most):
    found, rng = pieces_of(solid), np.random.default_rng(3)
    longest = max(line[-1] - line[0] for line in solid[1])
    assert 2 <= len(found.hulls) <= most
    assert found.distance <= TOLERANCE * longest
    assert 1 - 1e-4 <= found.volume_share < 1.01
    # what the pieces hold beyond the solid: known exactly for cells
    excess = cell_distance(points_in(found.hulls, rng), *solid).max()
    assert excess <= found.distance + 1e-12
    # and no point of the solid is missing
    filled, lines = np.asarray(solid[0], dtype=bool), solid[1]
    cells = [[[lines[k][c[k]], lines[k][c[k] + 1]] for k in range(3)] for c in np.argwhere(filled)]
    points = np.concatenate([rng.uniform(*np.transpose(cell), size=(200, 3)) for cell in cells])
    assert is_inside(points, found.hulls, found.distance).all()


def test_the_distance_of_a_whole_hull_is_that_of_its_farthest_point():
    """The hull of an L: the middle of the slope between its ends is as far from one arm as from the other, 0.045 m."""
    found = pieces_of(BRACKET, 1.0)
    assert len(found.hulls) == 1
    assert found.distance == pytest.approx(0.045, abs=1e-3)
    area = 0.1 * 0.1 - 0.09**2 / 2  # a square without the corner beyond the slope
    assert found.volume_share == pytest.approx(area * 0.05 / 9.5e-5, rel=1e-9)


@pytest.mark.slow
def test_a_cup_of_a_file_is_open(tmp_path):
    vertices, faces = turned_mesh(1000 * CUP, 8)  # drawn in mm
    corners = "\n".join(f"v {x} {y} {z}" for x, y, z in vertices)
    triangles = "\n".join("f {} {} {}".format(*(face + 1)) for face in faces)
    (tmp_path / "cup.obj").write_text(f"{corners}\n{triangles}\n")
    builder = wt.Builder("scene").geometry("cup", "world", "mesh", path=tmp_path / "cup.obj", scale=(1e-3, 1e-3, -1e-3))
    model = wt.decompose(builder.build())
    hulls = [np.array(geometry.parameters["vertices"]) for geometry in model.geometries]
    # upside down, since the scale mirrors it
    in_hollow, in_floor = np.array([[0.01, 0.01, -0.05]]), np.array([[0.01, 0.01, -0.005]])
    assert not is_inside(in_hollow, hulls, -1e-3).any()
    assert is_inside(in_floor, hulls, 0).all()


@pytest.mark.slow
def test_pieces_are_kept_for_the_next_process_and_made_anew_where_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("WHIPPLETREE_CACHE", str(tmp_path / "cache"))
    asked = []
    run = subprocess.run
    monkeypatch.setattr(cutting.subprocess, "run", lambda *a, **k: asked.append(a) or run(*a, **k))
    first = pieces_of(BRACKET)
    again = pieces_of(BRACKET)
    assert len(asked) == 1
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(entry.read_bytes()[:-9])
    anew = pieces_of(BRACKET)
    assert len(asked) == 2
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")
    without = pieces_of(BRACKET)
    for other in (again, anew, without):
        assert other.distance == first.distance
        assert other.volume_share == first.volume_share
        assert all(np.array_equal(a, b) for a, b in zip(first.hulls, other.hulls, strict=True))


def test_what_a_mesh_has_goes_to_its_pieces():
    model = wt.decompose(bracket_model())
    assert [g.name for g in model.geometries] == ["angle/1", "angle/2", "floor", "rod", "ball"]
    for name in ("angle/1", "angle/2"):
        piece = model.geometry(name)
        assert (piece.body, piece.kind) == ("part", "mesh")
        assert piece.pose[0, 3] == 0.1
        assert set(piece.parameters) == {"friction", "color", "vertices"}
        assert piece.collides
        assert piece.visible
    assert [(c.name, c.first, c.second) for c in model.contacts] == [
        ("hang/1", "angle/1", "rod"),
        ("hang/2", "angle/2", "rod"),
    ]
    assert {(c.friction, c.restitution, c.margin, c.torsional) for c in model.contacts} == {(0.3, 0.1, 1e-4, 1e-3)}
    assert model.contact_groups[0].geometries == ("floor", "angle/1", "angle/2", "ball")
    (note,) = [line for line in model.source.splitlines() if "'angle'" in line]
    told = r"touches by 2 convex pieces, which depart from it by \S+ m at most and add up to 1\.000 of its volume"
    assert re.fullmatch(f"- mesh 'angle' {told}", note)
    assert len(wt.with_contacts(model).contacts) > 2


def test_two_meshes_touch_piece_by_piece_and_a_sensor_keeps_the_whole():
    vertices, faces = cell_mesh(*BRACKET)
    builder = wt.Builder("hooks")
    for name in ("one", "other"):
        builder.body(name, 1.0, inertia=(1, 1, 1)).joint(name, "free", "world", name)
        builder.geometry(name, name, "mesh", vertices=vertices, faces=faces)
    builder.contact("hooked", "one", "other").sensor("felt", "touch", "one")
    model = wt.decompose(builder.build(), names=["one", "other"])
    assert [c.name for c in model.contacts] == ["hooked/1/1", "hooked/1/2", "hooked/2/1", "hooked/2/2"]
    assert [g.name for g in model.geometries] == ["one/1", "one/2", "one", "other/1", "other/2"]
    whole = model.geometry("one")
    assert not whole.collides
    assert not whole.visible
    by_body = wt.decompose(builder.build(), names="one")
    assert [c.name for c in by_body.contacts] == ["hooked/1", "hooked/2"]


def test_convex_meshes_and_those_whose_hull_is_meant_stay():
    model = bracket_model(convex=True)
    assert wt.decompose(model) is model
    assert len(wt.decompose(model, names="angle").contacts) == 2
    vertices, faces = cell_mesh([[[1]]], ((0, 1), (0, 1), (0, 1)))
    box = wt.Builder("box").geometry("box", "world", "mesh", vertices=vertices, faces=faces).build()
    assert wt.decompose(box) is box


def test_pieces_and_faces_go_through_native_files(tmp_path):
    model = bracket_model()
    whole = wt.load(wt.save(model, tmp_path / "whole.toml"))
    pieces = wt.load(wt.save(wt.decompose(model), tmp_path / "pieces.toml"))
    for found in (wt.decompose(whole), pieces):
        for k in (1, 2):
            one = np.array(wt.decompose(model).geometry(f"angle/{k}").parameters["vertices"])
            assert np.array_equal(np.array(found.geometry(f"angle/{k}").parameters["vertices"]), one)


def test_parts_that_touch_or_reach_into_each_other_are_cut_by_themselves():
    for offset in (0.04, 0.02):
        boxes = [cell_mesh([[[1]]], ((x, x + 0.04), (0, 0.04), (0, 0.2 - x))) for x in (0, offset)]
        vertices = np.concatenate([v for v, _ in boxes])
        faces = np.concatenate([boxes[0][1], boxes[1][1] + len(boxes[0][0])])
        inwards = faces[:, ::-1]
        for triangles in (faces, inwards):
            builder = wt.Builder("pair").geometry("pair", "world", "mesh", vertices=vertices, faces=triangles)
            hulls = [g.parameters["vertices"] for g in wt.decompose(builder.build()).geometries]
            assert [len(hull) for hull in hulls] == [8, 8]


def test_a_mesh_with_faces_is_drawn_as_it_is():
    (drawn,) = shape_meshes.pieces(bracket_model().geometry("angle"), DrawnSizes(1.0, 0.01, 0.02), 1000)
    corners = drawn.mesh.vertices[drawn.mesh.faces]
    a, b, c = np.moveaxis(corners, 1, 0)
    assert np.sum(a * np.cross(b, c)) / 6 == pytest.approx(9.5e-5)  # m³: that of the L, and not of its hull
    broken = bracket_model(faces=[(0, 1, 99)]).geometry("angle")
    assert shape_meshes.pieces(broken, DrawnSizes(1.0, 0.01, 0.02), 1000) is None


# --- what is refused ---

OPEN = (
    "geometry 'angle': the mesh is not closed: 3 of its 81 edges, the first at (0.055, 0.01, 0.05) m, have no triangle "
    "on one side, or several; mend it, so that what is inside can be told from what is outside, or give the body "
    "boxes, capsules and cylinders"
)


def without_last_face():
    return {"faces": cell_mesh(*BRACKET)[1][:-1]}


REFUSED = [
    (without_last_face, OPEN),
    (
        lambda: {"vertices": np.eye(3), "faces": [(0, 1, 2), (0, 2, 1)]},
        "geometry 'angle': the mesh encloses no volume (0 m³, at a size of 1 m): it is flat, or its faces enclose as "
        "much from outside as from inside. Mend it, or give the body boxes, capsules and cylinders",
    ),
    (
        lambda: {"faces": [(0, 1, 99)]},
        "geometry 'angle': faces name vertices from 0 to 15, got numbers from 0 to 99",
    ),
    (lambda: {"faces": []}, "geometry 'angle': faces name vertices from 0 to 15, got none"),
    (
        lambda: {"faces": "abc"},
        "geometry 'angle': vertices and faces are no tables of numbers, expected (n, 3) and (m, 3)",
    ),
    (
        lambda: {"vertices": np.full((16, 3), np.nan)},
        "geometry 'angle': vertices have shape (16, 3), expected (n, 3) finite numbers",
    ),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_meshes_that_cannot_be_cut_are_refused(change, message):
    with pytest.raises(wt.ModelError) as refused:
        wt.decompose(bracket_model(**change()))
    assert str(refused.value) == message


def test_vertices_alone_a_shape_that_is_no_mesh_and_absurd_tolerances_are_refused():
    model = bracket_model()
    corners = wt.Builder("cube").geometry("cube", "world", "mesh", vertices=np.eye(4)[:, :3]).build()
    with pytest.raises(wt.ModelError, match=r"vertices alone say nothing of hollows: give it faces \(m, 3\)"):
        wt.decompose(corners)
    with pytest.raises(wt.ModelError, match=r"only meshes have pieces, not 'rod' \(cylinder\)"):
        wt.decompose(model, names=["rod"])
    with pytest.raises(wt.NameLookupError, match="angle"):
        wt.decompose(model, names=["angel"])
    for absurd in (0, -1, 1e-3, 2, np.nan, True):
        with pytest.raises(wt.ModelError, match=r"expected a share of a mesh's longest side from 0\.005 to 1"):
            wt.decompose(model, tolerance=absurd)
    taken = wt.Builder("taken").geometry(
        "a", "world", "mesh", vertices=cell_mesh(*BRACKET)[0], faces=cell_mesh(*BRACKET)[1]
    )
    taken.geometry("a/2", "world", "box", size=(1, 1, 1))
    with pytest.raises(wt.ModelError, match="geometry 'a/2' is declared 2 times"):
        wt.decompose(taken.build())


def test_without_the_library_the_message_says_what_to_install(monkeypatch):
    def missing(_):
        raise cutting.metadata.PackageNotFoundError

    monkeypatch.setattr(cutting.metadata, "version", missing)
    with pytest.raises(wt.MissingExtraError) as refused:
        wt.decompose(bracket_model())
    assert str(refused.value) == (
        "the decomposition of meshes needs the package 'coacd': pip install 'whippletree[decompose]'"
    )


def test_a_library_that_fails_or_takes_too_long_is_told(monkeypatch):
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")

    def crash(*_, **__):
        raise subprocess.CalledProcessError(-6, "coacd", stderr=b"first\nterminate called\n")

    monkeypatch.setattr(cutting.subprocess, "run", crash)
    with pytest.raises(wt.ModelError, match=r"CoACD has ended without an answer \(status -6: terminate called\)"):
        wt.decompose(bracket_model())
    monkeypatch.undo()
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")
    monkeypatch.setattr(cutting, "LONGEST_CUTTING", 0.01)
    with pytest.raises(wt.ModelError, match=r"CoACD has found no pieces within 0.01 s: give it a mesh of fewer"):
        wt.decompose(bracket_model())


@pytest.mark.slow
def test_pieces_that_depart_too_far_are_told(monkeypatch):
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")
    monkeypatch.setattr(cutting, "_fit", lambda *_: (1.5, 0.03))
    with pytest.warns(UserWarning, match=r"the 4 pieces of 'angle' depart from it by 0.003 m, more than .* 0.002 m"):
        wt.decompose(bracket_model())
