"""Notebooks, films, tables, and answers to what people of other libraries ask for."""

from __future__ import annotations

import shutil
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

import whippletree as wt


class Frames(HTMLParser):
    """The pages in the frames of a piece of HTML."""

    def __init__(self, text):
        super().__init__()
        self.pages = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag == "iframe":
            self.pages += [value for name, value in attributes if name == "srcdoc"]


# --- notebooks --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_model_shows_itself(crank):
    model, _ = crank
    shown = model._repr_html_()
    assert "3 bodies, nq = 3, nv = 3, 1 constraints" in shown
    assert "<td>slider</td><td>prismatic</td>" in shown
    (page,) = Frames(shown).pages
    assert page.startswith("<!DOCTYPE html>")
    assert '"times": [0.0]' in page


def test_names_of_a_model_cannot_leave_their_place():
    builder = wt.Builder("</iframe><script>x</script>").body("<b>", 1.0, inertia=(1, 1, 1))
    shown = builder.joint("<i>", "revolute", "world", "<b>").build()._repr_html_()
    assert "<script>x" not in shown
    assert "<td>&lt;i&gt;</td>" in shown


def test_a_model_that_does_not_assemble_shows_its_table():
    builder = wt.Builder("apart").body("a", 1.0, inertia=(1, 1, 1)).joint("j", "revolute", "world", "a")
    builder.frame("far", "world", position=(5, 0, 0)).constraint("tie", "point", "far", "a")
    shown = builder.build()._repr_html_()
    assert "no picture:" in shown
    assert "<td>j</td>" in shown


def test_figures_show_themselves(crank):
    _, run = crank
    for figure in (wt.plot(run, "energies"), wt.plot(run)):
        assert figure._repr_mimebundle_()["image/png"].startswith(b"\x89PNG")


def test_a_replay_shows_itself_and_is_saved(crank, tmp_path):
    model, run = crank
    replay = wt.replay(model, run)
    (page,) = Frames(replay._repr_html_()).pages
    assert replay.save(tmp_path / "page.html").read_text(encoding="utf-8") == page
    assert wt.export_html(model, run, tmp_path / "other.html").read_text(encoding="utf-8") == page
    assert "<Replay of 'crank-slider'" in repr(replay)


# --- films ------------------------------------------------------------------------------------------------------------


def pictures(path):
    """The pictures of a film (n, height, width, 3), and how long it lasts, s."""
    found, lasts = [], 0.0
    with Image.open(path) as film:
        for k in range(film.n_frames):
            film.seek(k)
            found.append(np.asarray(film.convert("RGB"), float))
            lasts += film.info["duration"] / 1000
    return np.array(found), lasts


def test_a_film_has_the_pictures_of_the_run(crank, tmp_path):
    model, run = crank
    path = wt.export_film(model, run, tmp_path / "film.gif", rate=10, size=(320, 240))
    found, lasts = pictures(path)
    assert found.shape == (11, 240, 320, 3)  # one second, ten pictures, and the first
    assert lasts == pytest.approx(1.1, abs=0.02)
    assert np.abs(found[8] - found[0]).max() > 100


def test_the_whole_motion_stays_in_the_film(tmp_path):
    model = wt.mechanisms.quadruped()
    run = wt.simulate(model, duration=0.1, output_dt=0.02)
    found, _ = pictures(wt.export_film(model, run, tmp_path / "film.gif", rate=20, size=(200, 200)))
    colourful = np.ptp(found, axis=3) > 60  # bodies; floor, sky and words are grey
    assert colourful.any(axis=(1, 2)).all()
    assert not colourful[:, [0, -1], :].any()
    assert not colourful[:, :, [0, -1]].any()


def test_what_a_film_needs_is_named(crank, tmp_path, monkeypatch):
    model, run = crank
    with pytest.raises(wt.UnsupportedError, match=r"films are written as \.gif or \.mp4"):
        wt.export_film(model, run, tmp_path / "film.avi")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(wt.UnsupportedError, match="needs the program ffmpeg, which is not on the path"):
        wt.export_film(model, run, tmp_path / "film.mp4")
    with pytest.raises(wt.UnsupportedError, match="one moment only"):
        wt.export_film(model, run.isel(time=[0]), tmp_path / "film.gif")
    with pytest.raises(ValueError, match="must be positive"):
        wt.export_film(model, run, tmp_path / "film.gif", speed=0)


# --- tables -----------------------------------------------------------------------------------------------------------


def test_a_tidy_frame_has_one_number_per_row(crank):
    _, run = crank
    frame = wt.tidy_frame(run)
    assert list(frame.columns) == ["time", "variable", "name", "value", "unit"]
    slider = frame[(frame.variable == "q") & (frame.name == "slider")]
    np.testing.assert_array_equal(slider.value, run.q.sel(coordinate="slider"))
    pin = frame[(frame.variable == "joint_reactions") & (frame.name == "pin.force_x")]
    np.testing.assert_array_equal(pin.value, run.joint_reactions.sel(reaction="pin", component="force_x"))
    energy = frame[frame.variable == "kinetic_energy"]
    assert set(energy.name) == {""}
    assert set(energy.unit) == {"J"}


def test_a_batch_has_a_column_for_the_run():
    model = wt.mechanisms.pendulum()
    run = wt.simulate(model, q0=[[0.1], [0.2]], duration=0.1, output_dt=0.05)
    frame = wt.tidy_frame(run)
    assert list(frame.columns[:2]) == ["time", "run"]
    second = frame[(frame.variable == "q") & (frame.run == 1)]
    np.testing.assert_array_equal(second.value, run.q.values[:, 1, 0])


def test_csv_has_one_moment_per_row(crank, tmp_path):
    import pandas

    _, run = crank
    table = pandas.read_csv(wt.save_run(run, tmp_path / "run.csv"))
    assert len(table) == len(run.time)
    np.testing.assert_array_equal(table["q.slider"], run.q.sel(coordinate="slider"))
    np.testing.assert_array_equal(table["joint_reactions.pin.force_y"], run.joint_reactions.values[:, -1, 4])
    with pytest.raises(wt.UnsupportedError, match="read it with pandas"):
        wt.load_run(tmp_path / "run.csv")


# --- answers ----------------------------------------------------------------------------------------------------------


def test_arguments_in_each_others_place_are_named(crank, tmp_path):
    model, run = crank
    with pytest.raises(TypeError, match=r"plot: the model comes where the run belongs: call plot\(run"):
        wt.plot(model, run)
    with pytest.raises(TypeError, match=r"plot: the model comes where the name of a figure belongs"):
        wt.plot(run, model)
    for function in (wt.export_html, wt.export_film):
        with pytest.raises(TypeError, match=rf"{function.__name__}\(model, run, \.\.\.\)"):
            function(run, model, tmp_path / "x.gif")
    for function in (wt.replay, wt.show):
        with pytest.raises(TypeError, match=rf"{function.__name__}\(model, run, \.\.\.\)"):
            function(run, model)


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("rnea", "inverse_dynamics"),
        ("aba", "forward_dynamics"),
        ("crba", "mass_matrix"),
        ("mj_step", "wt.simulate"),
        ("export_gif", "wt.export_film"),
        ("to_csv", "wt.save_run"),
    ],
)
def test_names_of_other_libraries_have_an_answer(name, here):
    dyn = wt.compile(wt.mechanisms.pendulum())
    for place in (wt, dyn, wt.reference(dyn.model)):
        with pytest.raises(AttributeError, match=f"'{name}' of .* is here: .*{here}") as told:
            getattr(place, name)
        assert "known" not in str(told.value)  # not behind a list of other names


@pytest.mark.parametrize(("name", "figure"), [("q", "joints"), ("tau", "forces"), ("joint_reactions", "reactions")])
def test_variables_lead_to_the_figure_that_draws_them(name, figure):
    run = wt.simulate(wt.mechanisms.pendulum(), duration=0.1)
    with pytest.raises(wt.NameLookupError, match=f"'{name}' is drawn by '{figure}'"):
        wt.plot(run, name)


def test_a_table_of_a_model_is_refused_by_name():
    told = r"tidy_frame: expected a run, what wt\.simulate returns, got <Model 'pendulum'"
    with pytest.raises(TypeError, match=told):
        wt.tidy_frame(wt.mechanisms.pendulum())


def test_every_answer_names_something_that_exists():
    from whippletree import errors
    from whippletree.compiler.compiled import Compiled
    from whippletree.functions import CATALOGUE
    from whippletree.spatial.joints import KINDS

    for library, names in errors._ELSEWHERE.items():
        for here in names.values():
            if here.startswith("wt.compile(model)."):
                word = here.removeprefix("wt.compile(model).").partition("(")[0]
                assert word in CATALOGUE or callable(getattr(Compiled, word, None)), word
            elif here.startswith("wt."):
                assert hasattr(wt, here.removeprefix("wt.").partition("(")[0].partition(",")[0])
            elif library == "other libraries":
                assert here.strip("'") in KINDS


def test_kinds_of_joints_of_other_libraries_have_an_answer():
    builder = wt.Builder("m").body("a", 1.0).joint("j", "hinge", "world", "a")
    with pytest.raises(wt.ModelError, match="'hinge' of other libraries is here: 'revolute'"):
        builder.build()


# --- figures ----------------------------------------------------------------------------------------------------------


def test_twenty_curves_can_be_told_apart():
    model = wt.mechanisms.chain(20)
    run = wt.simulate(model, duration=0.1, output_dt=0.02)
    (axes,) = wt.plot(run, "joints", model=model).axes
    looks = {(tuple(line.get_color()), str(line._unscaled_dash_pattern)) for line in axes.lines}
    assert len(looks) == 20
    assert len(axes.get_legend().get_texts()) == 20


def test_two_units_have_an_axis_each(crank):
    model, run = crank
    left, right = wt.plot(run, "joints", model=model).axes
    assert (left.get_ylabel(), right.get_ylabel()) == ("rad", "m")
    assert [line.get_label() for line in right.lines] == ["slider, m"]
    assert [text.get_text() for text in left.get_legend().get_texts()] == ["crank, rad", "rod, rad", "slider, m"]


def test_axes_end_on_round_numbers(crank):
    _, run = crank
    (axes,) = wt.plot(run, "forces").axes
    ends, ticks = axes.get_ylim(), axes.get_yticks()
    assert all(min(abs(ticks - end)) < 1e-9 * max(abs(ticks)) for end in ends)


@pytest.mark.parametrize("make", [wt.mechanisms.crank_slider, wt.mechanisms.quadruped])
def test_the_overview_leaves_no_corner_empty(make):
    model = make()
    figure = wt.plot(wt.simulate(model, duration=0.05, output_dt=0.01), model=model)
    figure.draw_without_rendering()
    *diagrams, picture = figure.axes
    width = figure.bbox.width
    # the mechanism in the middle of the whole width, and every diagram with its legend from edge to edge
    middle = picture.get_position()
    assert abs((middle.x0 + middle.x1) / 2 - 0.5) < 0.06
    ends = [axes.get_legend().get_window_extent().x1 for axes in diagrams if axes.get_legend()]
    assert 0.8 * width < max(ends) <= width  # a legend may say that energy drifts by 0 J, or by 8.9e-16
    for axes in diagrams:
        assert axes.get_position().width * width > 0.4 * width


def test_more_than_two_units_have_a_diagram_each():
    model = wt.mechanisms.quadruped()
    run = wt.simulate(model, duration=0.02, output_dt=0.01)
    figure = wt.plot(run, "joints", model=model)
    assert [axes.get_ylabel() for axes in figure.axes] == ["m", "quaternion", "rad"]
    assert sum(len(axes.lines) for axes in figure.axes) == model.nq


def test_twenty_five_curves_have_names_and_room():
    model = wt.mechanisms.chain(25)
    figure = wt.plot(wt.simulate(model, duration=0.05, output_dt=0.01), "joints", model=model)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    looks = {(tuple(line.get_color()), str(line._unscaled_dash_pattern)) for line in axes.lines}
    assert len(looks) == len(axes.get_legend().get_texts()) == 25
    assert axes.get_position().width * figure.get_figwidth() > 3.5  # inches
    assert axes.get_legend().get_window_extent().x1 <= figure.bbox.width
