"""Text where a number is expected, and a whole result where one of its parts is: refused, with the cure, everywhere."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.model.input_checks import floats

FOUR_BAR, BALL = wt.mechanisms.four_bar(), wt.mechanisms.bouncing_ball()
WORDS = [str(x) for x in FOUR_BAR.home.q]
LAST = FOUR_BAR.bodies[-1].name

ARRAYS = {
    "assemble": (lambda: wt.assemble(FOUR_BAR, WORDS), "guess", WORDS),
    "assemble, a joint held": (lambda: wt.assemble(FOUR_BAR, hold={"crank": "0.1"}), "hold['crank']", "0.1"),
    "conditioning": (lambda: wt.conditioning(FOUR_BAR, WORDS), "q", WORDS),
    "conditioning, scale": (lambda: wt.conditioning(FOUR_BAR, scale="1"), "scale", "1"),
    "conditioning, time": (lambda: wt.conditioning(FOUR_BAR, t="1"), "t", "1"),
    "dexterity": (lambda: wt.dexterity(FOUR_BAR, LAST, WORDS), "q", WORDS),
    "diagnose": (lambda: wt.diagnose(FOUR_BAR, WORDS), "q", WORDS),
    "embed": (lambda: wt.embed(FOUR_BAR, q=WORDS), "q", WORDS),
    "equilibrium": (lambda: wt.equilibrium(FOUR_BAR, WORDS), "guess", WORDS),
    "inverse_kinematics": (
        lambda: wt.inverse_kinematics(FOUR_BAR, {LAST: ["1", "2", "3"]}),
        f"the goal of {LAST!r}",
        ["1", "2", "3"],
    ),
    "parameters": (
        lambda: wt.simulate(FOUR_BAR, duration=0.1, parameters={f"bodies.{LAST}.mass": "1"}),
        f"bodies.{LAST}.mass",
        "1",
    ),
    "simulate, q0": (lambda: wt.simulate(FOUR_BAR, WORDS, duration=0.1), "q0", WORDS),
    "simulate, v0": (lambda: wt.simulate(FOUR_BAR, v0=[b"0"] * 3, duration=0.1), "v0", [b"0"] * 3),
    "without_overlaps": (lambda: wt.without_overlaps(BALL, ["1"] * BALL.nq), "q", ["1"] * BALL.nq),
}


@pytest.mark.parametrize("case", ARRAYS)
def test_arrays(case):
    call, word, given = ARRAYS[case]
    with pytest.raises(wt.ScalarError) as caught:
        call()
    cure = f"is no array of numbers but text ({given!r}): write numbers without quotes"
    assert str(caught.value) == f"{case.split(',')[0]}: {word} {cure}"


@pytest.mark.parametrize(
    ("method", "word"),
    [
        ("time_stepping", "step"),
        ("time_stepping", "tolerance"),
        ("events", "penetration"),
        ("events", "speed_tolerance"),
        ("events", "zeno_interval"),
        ("events", "atol"),
        ("events", "output_dt"),
    ],
)
def test_options_of_methods(method, word):
    with pytest.raises(ValueError, match=r"expected a positive, finite number, written without quotes") as caught:
        wt.simulate(BALL, duration=0.1, method=method, **{word: "1e-3"})
    assert str(caught.value).startswith(f"simulate: {word} is '1e-3'")


def test_lengths_of_ready_made_mechanisms():
    with pytest.raises(wt.ModelError, match="radius is '1', expected a number above 0"):
        wt.mechanisms.bouncing_ball(radius="1")


@pytest.mark.parametrize("function", ["assemble", "conditioning", "diagnose", "embed", "simulate"])
def test_an_equilibrium_in_place_of_its_coordinates(function):
    found, word = wt.equilibrium(FOUR_BAR), {"assemble": "guess", "simulate": "q0"}.get(function, "q")
    with pytest.raises(wt.ScalarError) as caught:
        getattr(wt, function)(FOUR_BAR, **({word: found} | ({"duration": 1.0} if function == "simulate" else {})))
    assert str(caught.value) == (
        f"{function}: {word} is no array of numbers but Equilibrium: give its q, as in {function}(model, found.q)"
    )


def test_text_within_an_array_of_objects():
    with pytest.raises(wt.ScalarError, match="is no array of numbers but text"):
        floats("f", "x", np.array([1.0, "2"], dtype=object))
    np.testing.assert_array_equal(floats("f", "x", [1, 2.0, True]), [1.0, 2.0, 1.0])
