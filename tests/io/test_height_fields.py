"""Height fields in files: MJCF's inline ones and pictures against MuJoCo's rays, our own format, refusals."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.geometry.shapes import shape_of

MODEL = """<mujoco><asset>
  <hfield name="inline" nrow="3" ncol="4" size="1.5 1 0.3 0.1" elevation="0 1 2 3  4 5 6 7  8 9 10 13"/>
  <hfield name="picture" file="{file}" size="1 2 0.5 0.1"/></asset>
<worldbody>
  <geom name="near" type="hfield" hfield="inline" pos="0 0 0.2"/>
  <geom name="far" type="hfield" hfield="picture" pos="10 0 0" contype="2" conaffinity="2"/>
  <body name="ball"><freejoint/><geom name="ball" size="0.1" conaffinity="0"/></body>
</worldbody></mujoco>"""


def write_png(path: Path, pixels: np.ndarray) -> None:
    """A grey picture of bytes (rows, columns)."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = pixels.shape
    head = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row.astype(np.uint8).tobytes() for row in pixels))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", body) + chunk(b"IEND", b""))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_png(tmp_path / "hills.png", np.array([[0, 50, 100], [150, 200, 255]]))
    (tmp_path / "model.xml").write_text(MODEL.format(file="hills.png"))
    return tmp_path


def test_heights_are_where_mujoco_has_them(folder):
    """Rays from above, at the points of the grids (a hair inside, where MuJoCo has triangles)."""
    model = wt.load(folder / "model.xml")
    theirs = mujoco.MjModel.from_xml_path(str(folder / "model.xml"))
    data = mujoco.MjData(theirs)
    data.qpos[2] = 50
    mujoco.mj_forward(theirs, data)
    for name, x0, z0 in (("near", 0.0, 0.2), ("far", 10.0, 0.0)):
        grid = shape_of(model.geometry(name)).grid
        for i, j in np.ndindex(*grid.heights.shape):
            x, y = ((k - (n - 1) / 2) * d for k, n, d in zip((i, j), grid.heights.shape, grid.cell, strict=True))
            above = np.array([x0 + 0.999999 * x, 0.999999 * y, 5.0])
            hit = mujoco.mj_ray(theirs, data, above, np.array([0, 0, -1.0]), None, 1, -1, np.zeros(1, np.int32), None)
            assert 5 - hit - z0 == pytest.approx(grid.heights[i, j], abs=2e-6)


def test_fields_touch_what_the_filters_allow_and_are_saved(folder):
    model = wt.with_contacts(wt.load(folder / "model.xml"))
    assert [(c.first, c.second) for c in model.contacts] == [("ball", "near")]
    q = np.array([0.3, -0.2, 1.0, 1, 0, 0, 0])
    gap = wt.reference(model).contact_gaps(q)
    wt.save(model, folder / "model.json")
    again = wt.load(folder / "model.json")
    assert wt.reference(again).contact_gaps(q) == pytest.approx(gap, abs=0)


def test_a_picture_that_is_not_there_is_told_and_refused_when_it_touches(folder):
    (folder / "hills.png").unlink()
    model = wt.load(folder / "model.xml")
    assert "height field 'picture': its file 'hills.png' is not in the model's folder" in model.source
    with pytest.raises(wt.ModelError, match="a height_field needs heights"):
        shape_of(model.geometry("far"))


def test_a_file_that_is_no_picture_is_named(folder):
    (folder / "hills.png").write_bytes(b"no picture")
    with pytest.raises(wt.FileError, match="height field 'picture' cannot be read"):
        wt.load(folder / "model.xml")
    (folder / "hills.txt").write_text("0 1 2")
    (folder / "model.xml").write_text(MODEL.format(file="hills.txt"))
    with pytest.raises(wt.FileError, match="is no file of heights that is read"):
        wt.load(folder / "model.xml")


def test_fields_are_drawn(folder):
    from whippletree.view.items import DrawnSizes
    from whippletree.view.shape_meshes import pieces

    geometry = wt.load(folder / "model.xml").geometry("near")
    (piece,) = pieces(geometry, DrawnSizes(1.0, 0.01, 0.1), 100)
    assert piece.mesh.vertices.shape == (12, 3)
    assert len(piece.mesh.faces) == 2 * 2 * 3
    corners = piece.mesh.vertices[piece.mesh.faces]
    assert np.all(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])[:, 2] > 0)
    grid = shape_of(geometry).grid
    for x, y, z in piece.mesh.vertices:
        assert grid.jet(x, y).h == pytest.approx(z, abs=1e-12)
