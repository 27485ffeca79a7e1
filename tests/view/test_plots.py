"""Figures: the curves are the run's numbers, the axes have units, mistakes have answers, and nothing else changes."""

import matplotlib
import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import whippletree as wt
from whippletree.view.plots import PLOTS


@pytest.mark.slow
@pytest.mark.parametrize("what", ["overview", *(name for name in PLOTS if name != "contacts")])
def test_every_figure_is_drawn_with_titles_and_units(what, crank, tmp_path):
    model, run = crank
    figure = wt.plot(run, what, model=model)
    assert isinstance(figure, Figure)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
    for axes in figure.axes:
        second = axes.yaxis.get_label_position() == "right"  # of a panel with two units
        assert axes.get_title(loc="left") or second
        assert axes.get_xlabel() or second or what == "overview"  # its panels share the lowest one's axis of time


def test_curves_are_the_numbers_of_the_run(crank):
    model, run = crank
    both = wt.plot(run, "joints", model=model).axes
    lines = [line for axes in both for line in axes.lines]
    assert [line.get_label() for line in lines] == ["crank, rad", "rod, rad", "slider, m"]
    for k, line in enumerate(lines):
        np.testing.assert_array_equal(line.get_ydata(), run["q"][:, k])
    (axes,) = wt.plot(run, "forces").axes
    assert [line.get_label() for line in axes.lines] == ["pin.x", "pin.y"]
    assert axes.get_ylabel() == "N"
    np.testing.assert_array_equal(axes.lines[1].get_ydata(), run["constraint_forces"][:, 1])
    (axes,) = wt.plot(run, "energies").axes
    total = axes.lines[2].get_ydata()
    np.testing.assert_array_equal(total, run["kinetic_energy"] + run["potential_energy"])
    (axes,) = wt.plot(run, "phase", names=["slider"]).axes
    np.testing.assert_array_equal(axes.lines[0].get_xdata(), run["q"][:, 2])
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), run["v"][:, 2])


def test_the_path_of_a_point_is_where_the_reference_says(crank):
    model, run = crank
    figure = wt.plot(run, "path", model=model, frame="rod end")
    line = next(line for line in figure.axes[0].lines if line.get_label() == "path of rod end")
    expected = np.array([wt.reference(model).pose("rod end")(q)[:2, 3] for q in run["q"].values])
    np.testing.assert_allclose(np.stack(line.get_data(), axis=1), expected, atol=1e-12)


def test_conditioning_shows_the_measures_of_the_report(free_chain):
    model, run = free_chain
    (axes,) = wt.plot(run, "conditioning", model=model).axes
    lines = {line.get_label(): np.asarray(line.get_ydata()) for line in axes.lines}
    assert set(lines) == {"δ", "δ_s", "κ₂", "pivots, base first", "pivots, tips first"}
    np.testing.assert_array_equal(lines["κ₂"], wt.conditioning(model, run["q"].values).kappa)


def test_own_axes_are_used_and_settings_come_back(free_chain):
    _, run = free_chain
    before = dict(matplotlib.rcParams)
    own = Figure().add_subplot()
    assert wt.plot(run, "velocities", ax=own) is own.figure
    assert len(own.lines) == 3
    assert dict(matplotlib.rcParams) == before


def test_a_run_from_a_file_is_drawn_like_the_run_itself(crank, tmp_path):
    model, run = crank
    run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    with xarray.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as back:
        labels = [[line.get_label() for line in wt.plot(r, "joints", model=model).axes[0].lines] for r in (run, back)]
    assert labels[0] == labels[1]


def test_many_curves_have_a_short_legend():
    run = xarray.Dataset({"q": (("time", "coordinate"), np.zeros((3, 40)))}, coords={"time": [0.0, 1.0, 2.0]})
    (axes,) = wt.plot(run, "joints").axes
    assert len(axes.get_legend().get_texts()) == 3


def test_mistakes_are_named(crank, free_chain):
    model, run = crank
    with pytest.raises(wt.NameLookupError, match=r"there is no figure 'energy'.*Did you mean 'energies'"):
        wt.plot(run, "energy")
    with pytest.raises(wt.NameLookupError, match=r"there is no name 'cranc'.*Did you mean 'crank'"):
        wt.plot(run, "joints", names=["cranc"])
    with pytest.raises(wt.UnsupportedError, match=r"call plot\(run, 'strobe', model=model\)"):
        wt.plot(run, "strobe")
    with pytest.raises(wt.UnsupportedError, match="its model has no constraints"):
        wt.plot(free_chain[1], "forces")
    with pytest.raises(wt.NameLookupError, match="there is no frame or body 'nowhere'"):
        wt.plot(run, "path", model=model, frame="nowhere")
    with pytest.raises(wt.ShapeError, match=r"nq = 5: give the model that was simulated"):
        wt.plot(run, "strobe", model=wt.mechanisms.chain(5))
    broken = run.copy(deep=True)
    broken["q"][3, 0] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        wt.plot(broken, "strobe", model=model)
    batch = run.expand_dims(batch=2)
    with pytest.raises(wt.ShapeError, match="a picture shows one run"):
        wt.plot(batch, "strobe", model=model)


def test_normal_forces_of_contacts():
    force = np.arange(12.0).reshape(2, 2, 3)
    names = ["left on ground", "right on ground"]
    run = xarray.Dataset(
        {
            "q": (("time", "coordinate"), np.zeros((2, 1))),
            "contact_force": (("time", "contact", "axis"), force, {"names": names, "units": "N"}),
        },
        coords={"time": [0.0, 1.0]},
    )
    (axes,) = wt.plot(run, "contacts").axes
    assert [line.get_label() for line in axes.lines] == names
    assert axes.get_ylabel() == "N"
    for k, line in enumerate(axes.lines):
        np.testing.assert_array_equal(line.get_ydata(), force[:, k, 0])
    (axes,) = wt.plot(run, "contacts", names=["right on ground"]).axes
    assert len(axes.lines) == 1
    with pytest.raises(wt.UnsupportedError, match="its method knows no contacts"):
        wt.plot(run.drop_vars("contact_force"), "contacts")


def test_a_run_without_energies_is_drawn_without_them(crank, tmp_path):
    model, run = crank
    lean = run.drop_vars(["kinetic_energy", "potential_energy", "constraint_forces"])
    # with the picture, and a second axis for metres
    assert len(wt.plot(run, model=model).axes) == 3 + 1 + 1
    assert len(wt.plot(lean, model=model).axes) == 2 + 1 + 2
    with pytest.raises(wt.UnsupportedError, match=r"'energies' needs 'kinetic_energy'.*they were not asked for"):
        wt.plot(lean, "energies")
    assert wt.export_html(model, lean, tmp_path / "replay.html").stat().st_size > 5000
