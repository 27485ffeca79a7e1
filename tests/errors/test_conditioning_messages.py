"""What conditioning says about models and states that have no ordinary answer, whole."""

import numpy as np
import pytest
from studies.models import graded_chain

import whippletree as wt
from strategies import make_hostile_model
from whippletree.errors import ConditioningWarning
from whippletree.simulation import conditioning_watch
from whippletree.simulation.checkpoint import part_files


def stone():
    return wt.Builder("stone").body("block", mass=1.0).joint("base", "weld", "world", "block").build()


def test_wrong_shape():
    with pytest.raises(wt.ShapeError) as caught:
        wt.conditioning(wt.mechanisms.chain(4), np.zeros(3))
    assert str(caught.value) == "conditioning: q has shape (3,), expected (..., 4)."


def test_scale_is_an_argument():
    found = wt.conditioning(wt.mechanisms.chain(2))
    with pytest.raises(ValueError, match="scaled_diagonal_ratio needs a scale") as caught:
        found.scaled_diagonal_ratio()
    assert "reference_scale" in str(caught.value)


def test_massless_motion_is_named():
    found = wt.conditioning(wt.mechanisms.double_pendulum(masses=(1.0, 0.0)))
    assert found.kappa == found.kappa_equilibrated == found.diagonal_ratio == np.inf
    assert [motion.joints(found.model) for motion in found.massless] == [["elbow"]]
    text = str(found)
    assert "massless motion, κ is infinite: 'lower' about joint 'elbow' (direction elbow +1)" in text
    assert 'cure: give the massless body mass, hold its joint (massless="hold"), or constrain the motion' in text


def test_massless_motion_of_several_joints_is_named():
    # a point mass at the end of two massless rods in line: it cannot be moved along the line
    found = wt.conditioning(wt.mechanisms.double_pendulum(masses=(0.0, 1.0)), np.zeros(2))
    assert found.kappa == np.inf
    assert found.diagonal_ratio == 4
    assert set(found.massless[0].joints(found.model)) == {"shoulder", "elbow"}


def test_light_is_not_massless():
    found = wt.conditioning(graded_chain(12, 0.03))
    assert 1e15 < found.kappa < np.inf
    assert found.massless == ()
    assert "merge 'rod_12' with its neighbour" in str(found)


def test_constraints_that_carry_the_massless_motion():
    text = str(wt.conditioning(wt.mechanisms.crank_slider(rod_mass=0.0)))
    assert "the constraints carry the massless motion: the block matrix has an inverse" in text
    assert "schur inf" in text


def test_nothing_moves():
    found = wt.conditioning(stone())
    assert found.kappa == found.kappa_equilibrated == found.diagonal_ratio == 1
    assert found.heaviest is None
    assert str(found) == ("stone: conditioning, nv = 0\n  nothing can move: there is no acceleration to be sensitive")


def test_one_degree_of_freedom():
    found = wt.conditioning(wt.mechanisms.pendulum())
    assert found.kappa == found.pivot_ratio_base_first == found.pivot_ratio_tips_first == 1
    assert found.heaviest == found.lightest


def test_states_with_nan():
    found = wt.conditioning(wt.mechanisms.cart_pole(), [[0.0, 1.0], [np.nan, 0.0]])
    assert np.isfinite(found.kappa[0])
    assert np.isnan(found.kappa[1])
    assert found.worst == (0,)
    assert "1 of 2 states are not finite: their numbers are NaN" in str(found)
    alone = wt.conditioning(wt.mechanisms.cart_pole(), [np.inf, 0.0])
    assert np.isnan(alone.kappa)
    assert "κ₂ unknown" in str(alone)


def test_the_report_of_a_chain_is_whole():
    assert str(wt.conditioning(wt.mechanisms.chain(2), np.zeros(2), scale=5.0)).splitlines() == [
        "chain of 2 rods: conditioning, nv = 2",
        "  mass matrix: κ₂ 44.26, equilibrated κ₂ 16.22, diagonal ratio δ 8",
        "  scaled diagonal ratio δ_s: 40",
        "    pivot ratio 36.57 base first, 1.75 tips first",
        "  digits of an acceleration, forces known to 16: 14.0",
        "  largest inertia at joint 'joint_1' (body 'rod_1'), 2.67; smallest at joint 'joint_2' (body 'rod_2'), 0.333",
        "  predicted rounding error of accelerations, at rest under gravity: "
        "recursive 1e-15, cholesky 6e-15, block 6e-15, augmented 6e-15",
    ]


@pytest.mark.slow
def test_a_run_warns_once_with_names_and_a_cure():
    with pytest.warns(ConditioningWarning) as caught:
        run = wt.simulate(graded_chain(12, 0.05), np.full(12, 0.3), duration=0.01, output_dt=0.005)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "between joint 'joint_1' (body 'rod_1') and joint 'joint_12' (body 'rod_12')" in text
    assert "Cures: merge 'rod_12' with a neighbour or give its joint a rotor" in text
    assert run.attrs["conditioning"] == text


def test_a_tolerance_below_the_rounding_is_raised():
    with pytest.warns(ConditioningWarning, match=r"rtol = 3\.0e-15 asks for digits that the accelerations do not have"):
        run = wt.simulate(wt.mechanisms.chain(4), np.full(4, 0.3), duration=0.01, rtol=3e-15, atol=1e-9)
    assert run.attrs["rtol"] == run.attrs["predicted_error"] > run.attrs["rtol_asked"] == 3e-15


def skater():
    """A mass that passes its axis at a millimetre: the spin grows by almost a million, and with it what cancels."""
    builder = wt.Builder("skater", (0, 0, 0)).body("rod", 1.0, inertia=(1e-6,) * 3)
    builder.joint("spin", "revolute", "world", "rod", axis=(0, 0, 1)).body("mass", 1.0, inertia=(1e-9,) * 3)
    return builder.joint("arm", "prismatic", "rod", "mass", axis=(1, 0, 0)).build()


PASSING = {"q0": [0.0, 0.02], "v0": [2.5, -1.0], "duration": 0.04, "rtol": 1e-13, "atol": 1e-14}


def test_the_tolerance_follows_the_run():
    with pytest.warns(ConditioningWarning, match=r"lose on the way: rounding allows rtol = \d\.\de-1[12] there"):
        run = wt.simulate(skater(), **PASSING)
    assert run.attrs["rtol"] == run.attrs["rtol_asked"] == 1e-13  # that of the start
    assert 2e-13 < run.attrs["largest_rtol"] < 1e-10
    assert run.attrs["energy_drift"] < 1e-13


def test_the_error_of_the_start_is_predicted_once(monkeypatch):
    """A prediction takes longer than many a run: on the way it is only scaled, and none is made where that tells."""
    predictions = []
    predict = conditioning_watch.predicted_errors

    def count(*given, **named):
        predictions.append(given)
        return predict(*given, **named)

    monkeypatch.setattr(conditioning_watch, "predicted_errors", count)
    run = wt.simulate(wt.mechanisms.n_four_bar(2), duration=0.7)
    assert run.attrs["steps"] > 1  # more than one of them in a call, which are looked at
    assert len(predictions) <= 1
    assert run.attrs["largest_rtol"] == run.attrs["rtol_asked"]


def test_an_excursion_between_two_questions_is_told():
    """All of it lies between step 1 and step 100, no step fails, and nothing was said."""
    brief = PASSING | {"q0": [0.0, 0.004], "v0": [10.0, -1.0], "duration": 0.008}
    wt.simulate(skater(), **brief | {"rtol": 1e-6})  # machine code of its steps
    with pytest.warns(ConditioningWarning, match=r"lose on the way: rounding allows rtol = \d\.\de-1[12] there"):
        run = wt.simulate(skater(), **brief)
    assert run.attrs["steps"] < 100
    assert run.attrs["largest_rtol"] > 2e-12


@pytest.mark.slow(every=True)
def test_a_start_without_a_certain_digit_is_told():
    model, motion = make_hostile_model(820000389)
    with pytest.warns(ConditioningWarning, match="rounding leaves no digit of the accelerations at the start for cert"):
        run = wt.simulate(model, motion.q, motion.v, duration=1e-9, output_dt=1e-9)
    assert run.attrs["predicted_error"] == np.inf
    assert run.attrs["rtol"] == run.attrs["rtol_asked"]


def test_a_run_that_was_taken_up_follows_it_to_the_same_bits(tmp_path):
    with pytest.warns(ConditioningWarning):
        whole = wt.simulate(skater(), checkpoint=tmp_path / "run", checkpoint_every=0.0, **PASSING)
    parts = part_files(tmp_path / "run")
    raised = [part for part in parts[1:] if np.load(part)["memo rtol"] > PASSING["rtol"]]
    for part in parts[parts.index(raised[len(raised) // 2]) :]:
        part.unlink()
    with pytest.warns(ConditioningWarning):
        resumed = wt.simulate(skater(), checkpoint=tmp_path / "run", **PASSING)
    assert np.array_equal(resumed["q"], whole["q"])
    assert resumed.attrs["largest_rtol"] == whole.attrs["largest_rtol"]


def test_an_ordinary_run_records_the_ratio_and_says_nothing():
    run = wt.simulate(wt.mechanisms.chain(4), np.full(4, 0.3), duration=0.1, output_dt=0.05)
    start = wt.conditioning(wt.mechanisms.chain(4), np.full(4, 0.3))
    assert run["scaled_diagonal_ratio"].values[0] == pytest.approx(start.kappa)
    assert run["diagonal_ratio"].values[0] == pytest.approx(start.diagonal_ratio)
    assert run.attrs["rtol"] == run.attrs["rtol_asked"] == 1e-8
    assert "conditioning" not in run.attrs
