"""The replay and the live page in a real browser: clicks, scrubbing, layers, and pixels that change.

Needs Chromium, which no wheel brings: ``apt-get install chromium``, or its path in WHIPPLETREE_CHROMIUM. Where there is
none, or it cannot start, these tests are skipped and say why.
"""

import io
import os
import shutil
import time

import numpy as np
import pytest

import whippletree as wt

PATIENCE = 30.0
"""s that a page may take to draw: software rendering on a busy machine."""


def chromium():
    """The path of a browser, or None."""
    given = os.environ.get("WHIPPLETREE_CHROMIUM")
    return given or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    if path is None:
        pytest.skip("no Chromium on this machine: apt-get install chromium, or set WHIPPLETREE_CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="the package playwright is not installed")
    with playwright.sync_playwright() as driver:
        try:
            found = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except playwright.Error as error:
            pytest.skip(f"{path} does not start: {str(error).splitlines()[0]}")
        yield found
        found.close()


@pytest.fixture
def page(browser):
    """A page without a network beyond this machine, and what went wrong on it."""
    tab = browser.new_page(viewport={"width": 900, "height": 600})
    tab.faults = []
    tab.on("pageerror", lambda error: tab.faults.append(str(error)))
    yield tab
    assert tab.faults == []
    tab.close()


def pixels(page, selector):
    """What an element looks like, (height, width, 3)."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.locator(selector).screenshot())).convert("RGB"), dtype=int)


def until(check, what):
    """Wait for a page to do something."""
    end = time.monotonic() + PATIENCE
    while not check():
        assert time.monotonic() < end, f"waited {PATIENCE} s for {what}"
        time.sleep(0.1)


def drawn(picture):
    """How many pixels differ from the background in the corner."""
    return int((np.abs(picture - picture[2, 2]).sum(axis=2) > 30).sum())


def apart(one, other):
    """How many pixels differ."""
    return int((np.abs(one - other).sum(axis=2) > 30).sum())


def share(page):
    return float(page.locator("#scrub").input_value())


def scrub(page, value):
    page.locator("#scrub").evaluate("(e, v) => { e.value = v; e.dispatchEvent(new Event('input')); }", value)
    page.wait_for_timeout(100)


@pytest.fixture
def replay(page, crank, tmp_path):
    page.context.set_offline(True)
    page.goto(wt.export_html(*crank, tmp_path / "replay.html").as_uri())
    until(lambda: drawn(pixels(page, "#scene")) > 2000, "the replay to draw")
    return page


@pytest.mark.slow
def test_replay_plays_pauses_and_scrubs(replay):
    assert replay.title() == "crank-slider"
    at = share(replay)
    until(lambda: share(replay) != at, "time to pass")
    replay.click("#play")
    assert replay.inner_text("#play") == "Play"
    stopped = share(replay)
    replay.wait_for_timeout(300)
    assert share(replay) == stopped
    scrub(replay, 0.0)
    start = pixels(replay, "#scene")
    scrub(replay, 0.9)
    end = pixels(replay, "#scene")
    assert apart(start, end) > 2000
    assert replay.inner_text("#clock") == "0.900 of 1.000 s"
    scrub(replay, 0.0)
    assert apart(start, pixels(replay, "#scene")) == 0


@pytest.mark.slow
def test_the_clock_never_runs_before_the_start(replay):
    """A browser's first frame may carry a time before the page asked for it."""
    clock = "document.getElementById('clock').textContent"
    early = f"() => {{ setTime(first); pause(false); before = performance.now(); frame(before - 90); return {clock}; }}"
    assert replay.evaluate(early) == "0.000 of 1.000 s"
    assert replay.evaluate(f"() => {{ pause(); setTime(-1e-9); return {clock}; }}") == "0.000 of 1.000 s"


@pytest.mark.slow
def test_a_phone_shows_scene_curves_and_controls(page, tmp_path):
    model = wt.mechanisms.quadruped()
    run = wt.simulate(model, duration=0.1, output_dt=0.02)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(wt.export_html(model, run, tmp_path / "replay.html").as_uri())
    until(lambda: drawn(pixels(page, "#scene")) > 2000, "the replay to draw")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    for part in ("#scene", "#curves figure", "#play", "#scrub", "#clock", "#reset"):
        box = page.locator(part).first.bounding_box()
        assert box["width"] > 20, part
        assert box["x"] >= 0, part
        assert box["x"] + box["width"] <= 390, part
    assert page.locator("#clock").bounding_box()["height"] < 30  # in one line
    # feet are inside, with air: coloured pixels do not reach the edge
    picture = pixels(page, "#scene")
    coloured = np.ptp(picture, axis=2) > 60
    assert not coloured[[0, -1], :].any()
    assert not coloured[:, [0, -1]].any()


@pytest.mark.slow
def test_replay_switches_layers_and_turns_back(replay, crank):
    replay.click("#play")
    strongest = int(np.abs(crank[1]["constraint_forces"].values).sum(axis=1).argmax())
    scrub(replay, float(crank[1]["time"][strongest]))
    whole = pixels(replay, "#scene")
    for layer in ("massless links", "constraint forces", "closures", "frames", "joint axes"):
        replay.click(f"#layers input[name='{layer}']")
        replay.wait_for_timeout(100)
        assert apart(whole, pixels(replay, "#scene")) > 40, layer
        replay.click(f"#layers input[name='{layer}']")
        replay.wait_for_timeout(100)
        assert apart(whole, pixels(replay, "#scene")) == 0, layer
    box = replay.locator("#scene").bounding_box()
    replay.mouse.move(box["x"] + 300, box["y"] + 200)
    replay.mouse.wheel(0, -400)
    replay.mouse.down()
    replay.mouse.move(box["x"] + 360, box["y"] + 230)
    replay.mouse.up()
    replay.wait_for_timeout(100)
    assert apart(whole, pixels(replay, "#scene")) > 2000
    replay.click("#reset")
    replay.wait_for_timeout(100)
    assert apart(whole, pixels(replay, "#scene")) == 0


@pytest.mark.slow
def test_replay_shows_curves_that_can_be_clicked(replay):
    replay.click("#play")
    titles = [title.split("  ")[0].split("\u00a0")[0] for title in replay.locator("figcaption").all_inner_texts()]
    assert [title.split(" ")[0] for title in titles] == [
        *("joints", "joints", "energies", "constraint", "velocities", "velocities")  # in rad and in m
    ]
    canvas = replay.locator("figure canvas").first
    assert drawn(pixels(replay, "figure:first-child canvas")) > 200
    box = canvas.bounding_box()
    canvas.click(position={"x": 46 + 0.5 * (box["width"] - 46), "y": 40})
    replay.wait_for_timeout(100)
    assert share(replay) == pytest.approx(0.5, abs=0.02)


@pytest.mark.slow
def test_a_curve_that_stays_zero_is_drawn(page, tmp_path):
    """A slider that nothing moves: without a range of its own its diagram had neither a curve nor numbers."""
    builder = wt.Builder("slider", gravity=(0, 0, -9.81))
    builder.body("slider", 1.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("rail", "prismatic", "world", "slider", axis=(1, 0, 0))
    model = builder.build()
    still = wt.simulate(model, duration=0.1)
    assert not still.q.values.any()
    page.goto(wt.export_html(model, still, tmp_path / "still.html").as_uri())
    scale = "diagrams[0].low < 0 && diagrams[0].high > 0 && diagrams[0].step > 0"
    until(lambda: page.evaluate(scale), "a diagram with room around zero")
    until(lambda: drawn(pixels(page, "#curves canvas >> nth=0")) > 100, "a curve")


def test_keyboard(replay):
    replay.click("#play")
    scrub(replay, 0.0)
    replay.locator("#reset").focus()
    replay.keyboard.press("ArrowRight")
    assert share(replay) == pytest.approx(0.02)
    replay.keyboard.press("ArrowLeft")
    assert share(replay) == 0.0


@pytest.mark.slow
def test_a_robot_in_space_can_be_turned(page, tmp_path):
    model = wt.mechanisms.stewart_platform()
    page.goto(wt.export_html(model, None, tmp_path / "still.html").as_uri())
    until(lambda: drawn(pixels(page, "#scene")) > 2000, "the page to draw")
    assert not page.locator("#play").is_visible()
    before = pixels(page, "#scene")
    box = page.locator("#scene").bounding_box()
    page.mouse.move(box["x"] + 300, box["y"] + 200)
    page.mouse.down()
    page.mouse.move(box["x"] + 420, box["y"] + 220)
    page.mouse.up()
    page.wait_for_timeout(200)
    assert apart(before, pixels(page, "#scene")) > 2000


@pytest.fixture
def viewer(crank):
    pytest.importorskip("viser", reason="the package viser is not installed")
    shown = wt.show(*crank, port=18080)
    yield shown
    shown.stop()


@pytest.mark.slow
def test_live_page_plays_scrubs_and_switches_layers(page, viewer):
    page.set_viewport_size({"width": 700, "height": 450})  # software rendering takes its time
    page.goto(viewer.url)
    play = page.get_by_role("button", name="Play")
    play.wait_for(timeout=1000 * PATIENCE)
    canvas = "canvas >> nth=0"
    until(lambda: drawn(pixels(page, canvas)) > 2000, "the live page to draw")
    play.click()
    until(lambda: viewer.playing and viewer.time > 0.1, "time to pass")
    page.get_by_role("button", name="Pause").click()
    until(lambda: not viewer.playing, "the pause")
    picture = pixels(page, canvas)
    page.get_by_role("slider").first.focus()
    page.keyboard.press("End")
    until(lambda: viewer.time == 1.0, "the slider to move the time")
    until(lambda: apart(picture, pixels(page, canvas)) > 500, "the scene to follow")
    picture = pixels(page, canvas)
    viewer.seek(0.0)
    until(lambda: apart(picture, pixels(page, canvas)) > 500, "the scene to go back")
    picture = pixels(page, canvas)
    page.get_by_label("massless links").click()
    until(lambda: apart(picture, pixels(page, canvas)) > 200, "the massless rod to go")
    assert f'src="{viewer.url}"' in viewer._repr_html_()  # a notebook shows the page itself
    assert page.locator(".uplot").count() == 6  # joints in rad and in m, their velocities, energies, forces
