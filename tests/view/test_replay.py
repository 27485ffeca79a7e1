"""The replay as a file: self-contained, small, harmless whatever names a model has, and true to the run."""

import base64
import json
import re
import sys

import numpy as np
import pytest
import xarray

import whippletree as wt
from whippletree.view.gallery import gallery
from whippletree.view.pose_series import Moves


def data_of(path):
    """The data in a page."""
    return json.loads(re.search(r"const data = (.*);\n", path.read_text(encoding="utf-8"))[1])


def floats(text):
    return np.frombuffer(base64.b64decode(text), "<f4")


@pytest.mark.slow
def test_a_page_needs_nothing_from_elsewhere(crank, tmp_path):
    path = wt.export_html(*crank, tmp_path / "new folder" / "replay.html")
    text = path.read_text(encoding="utf-8")
    assert path.stat().st_size < 500_000
    assert not re.search(r"https?://|<link|\bsrc=|@import|\bfetch\(|import\(|XMLHttpRequest|WebSocket", text)


def test_the_motion_in_a_page_is_that_of_the_run(crank, tmp_path):
    model, run = crank
    data = data_of(wt.export_html(model, run, tmp_path / "replay.html"))
    np.testing.assert_array_equal(data["times"], run["time"])
    bodies = Moves(model, run["time"].values, run["q"].values).bodies
    for k in range(len(model.bodies)):
        rows = floats(data["tracks"][k]).reshape(-1, 3, 4)
        np.testing.assert_allclose(rows, bodies[k][:, :3], atol=1e-6)
    curve = next(c for c in data["curves"] if c["title"] == "constraint forces")
    assert (curve["names"], curve["unit"]) == (["pin.x", "pin.y"], "N")
    np.testing.assert_allclose(floats(curve["values"]).reshape(-1, 2), run["constraint_forces"], rtol=1e-6, atol=1e-6)


def test_a_name_cannot_break_out_of_the_page(tmp_path):
    name = "</script><script>alert('x')</script>"
    model = wt.Builder(name).body("b\u2028", 1.0, (1, 0, 0)).joint("j<b>", "revolute", "world", "b\u2028").build()
    path = wt.export_html(model, None, tmp_path / "replay.html")
    assert path.read_text(encoding="utf-8").count("</script>") == 1
    assert data_of(path)["name"] == name


@pytest.mark.slow
def test_a_long_chain_gets_fewer_moments_and_stays_small(tmp_path):
    model = wt.mechanisms.chain(400)
    times = np.linspace(0, 1, 500)
    q = np.zeros((500, 400))
    q[:, 0] = -times
    zero = ("time", np.zeros(500))
    run = xarray.Dataset(
        {
            "q": (("time", "coordinate"), q),
            "v": (("time", "velocity"), q),
            "kinetic_energy": zero,
            "potential_energy": zero,
        },
        coords={"time": times},
    )
    path = wt.export_html(model, run, tmp_path / "replay.html")
    data = data_of(path)
    assert path.stat().st_size < 5_000_000
    assert 50 < len(data["times"]) <= 100
    assert (data["times"][0], data["times"][-1]) == (0.0, 1.0)


def test_the_core_alone_writes_a_page_and_says_what_the_rest_needs(crank, tmp_path, monkeypatch):
    for name in ("matplotlib", "viser"):
        monkeypatch.setitem(sys.modules, name, None)
    (exhibit,) = gallery([crank], tmp_path)
    assert exhibit.page.is_file()
    assert exhibit.data.is_file()
    assert exhibit.picture is None
    with pytest.raises(
        wt.MissingExtraError, match=r"needs the package 'matplotlib': pip install 'whippletree\[plot\]'"
    ):
        wt.plot(crank[1])
    with pytest.raises(wt.MissingExtraError, match=r"needs the package 'viser': pip install 'whippletree\[view\]'"):
        wt.show(crank[0])


def test_mistakes_are_named_and_leave_no_file(crank, tmp_path):
    model, run = crank
    with pytest.raises(wt.ShapeError, match="give the model that was simulated"):
        wt.export_html(wt.mechanisms.chain(5), run, tmp_path / "x.html")
    with pytest.raises(wt.ShapeError, match=r"q has shape \(2,\), expected \(3,\)"):
        wt.export_html(model, None, tmp_path / "x.html", q=[1, 2])
    with pytest.raises(wt.ShapeError, match="not empty"):
        wt.export_html(model, run.isel(time=slice(0, 0)), tmp_path / "x.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_gallery_has_picture_page_and_data_of_every_run(crank, free_chain, tmp_path):
    exhibits = gallery([crank, free_chain, crank], tmp_path / "out")
    assert [e.name for e in exhibits] == ["crank-slider", "chain-of-3-rods", "crank-slider-2"]
    for exhibit in exhibits:
        for path in (exhibit.page, exhibit.data, exhibit.picture):
            assert path.stat().st_size > 5000
    with xarray.open_dataset(exhibits[0].data, engine="h5netcdf") as back:
        np.testing.assert_array_equal(back["q"], crank[1]["q"])
