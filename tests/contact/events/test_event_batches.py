"""Batches of runs from event to event: every run with its own modes, events and matrices."""

import numpy as np
import pytest

import whippletree as wt

HEIGHTS = np.array([[0.0], [0.5], [5.0]])
SETTINGS = {"duration": 0.7, "method": "events", "output_dt": 0.1}


def tumbling_box():
    build = wt.Builder("box").body("box", 1.0, inertia=(0.02, 0.03, 0.04))
    build.joint("free", "free", "world", "box", start=(0, 0, 0.4, np.cos(0.4), np.sin(0.4), 0, 0))
    build.geometry("ground", "world", "half_space").geometry("box", "box", "box", size=(0.4, 0.3, 0.2))
    return build.contact("landing", "box", "ground", friction=0.4, restitution=0.3).build()


@pytest.fixture(scope="module")
def ball():
    return wt.mechanisms.bouncing_ball(restitution=0.5)


@pytest.fixture(scope="module")
def batch(ball):
    return wt.simulate(ball, HEIGHTS, sensitivity=True, **SETTINGS)


@pytest.mark.slow
def test_every_run_tells_its_own_events_and_modes(ball, batch):
    for k, q in enumerate(HEIGHTS):
        alone = wt.simulate(ball, q, sensitivity=True, **SETTINGS)
        for name in ("contact_event_times", "contact_event_kinds", "contact_event_contacts", "mode_names", "mode_times",
                     "energy_lost_in_impacts", "instant_times", "saltation_times", "saltation_missing"):  # fmt: skip
            assert batch.attrs[name][k] == alone.attrs[name], name
    assert batch.attrs["contact_event_kinds"] == [[], ["touchdown", "touchdown"], []]
    assert batch.attrs["mode_names"] == [["bounce slides"], ["free"], ["free"]]


def test_a_run_of_a_batch_is_the_run_alone(ball, batch):
    one, alone = wt.single_run(batch, 1), wt.simulate(ball, HEIGHTS[1], sensitivity=True, **SETTINGS)
    for name in ("q", "v", "mode", "contact_force", "sensitivity"):
        assert one[name].dims == alone[name].dims
        assert np.array_equal(one[name].values, alone[name].values), name
    assert one.attrs["event_names"] == alone.attrs["event_names"]
    assert one.attrs["events"] == alone.attrs["events"]
    for found, expected in zip(wt.event_states(one), wt.event_states(alone), strict=True):
        assert np.array_equal(found, expected)
    for found, expected in zip(wt.saltation_matrices(one), wt.saltation_matrices(alone), strict=True):
        assert np.array_equal(found, expected)
    assert wt.single_run(batch, -2).attrs["event_names"] == one.attrs["event_names"]
    assert batch.attrs["event_names"] == one.attrs["event_names"]  # the other runs have none
    assert batch.attrs["event_runs"] == [1] * len(one.attrs["event_names"]) != []
    assert "event_runs" not in one.attrs


def test_a_batch_survives_a_file(batch, tmp_path):
    again = wt.load_run(wt.save_run(batch, tmp_path / "batch.nc"))
    assert again.attrs["mode_names"] == batch.attrs["mode_names"]
    assert wt.single_run(again, 1).attrs["contact_event_times"] == batch.attrs["contact_event_times"][1]


def test_questions_about_one_run_are_not_asked_of_many(ball, batch):
    with pytest.raises(wt.ShapeError, match=r"saltation_matrices: this is a batch of 3 runs: take one"):
        wt.saltation_matrices(batch)
    with pytest.raises(wt.ShapeError, match=r"event_states: this is a batch of 3 runs"):
        wt.event_states(batch)
    with pytest.raises(IndexError, match="there is no run 3 in a batch of 3"):
        wt.single_run(batch, 3)
    with pytest.raises(wt.ShapeError, match="this result is of a single run"):
        wt.single_run(wt.single_run(batch, 0), 0)


def test_a_run_that_fails_has_its_reason(ball):
    batch = wt.simulate(ball, HEIGHTS, most_events=1, **SETTINGS | {"duration": 1.2})
    assert "after 2 events" in wt.single_run(batch, 1).attrs["failure"]
    assert wt.single_run(batch, 2).attrs["failure"] == ""


def test_time_stepping_reports_every_run():
    model = wt.mechanisms.rocking_block()
    q = np.stack([wt.mechanisms.rocking_block(tilt=t).home.q for t in (0.02, 0.05)])
    batch = wt.simulate(model, q, duration=0.1, method="time_stepping", output_dt=0.05)
    for name in ("residual_velocity", "penetration", "unconverged", "energy_balance", "sweeps"):
        assert batch[name].dims == ("time", "run")
    assert int(batch["unconverged"].sum()) == batch.attrs["unconverged_steps"]
    assert wt.single_run(batch, 1)["residual_velocity"].dims == ("time",)


@pytest.mark.slow
@pytest.mark.parametrize("model", [wt.mechanisms.bouncing_ball(), wt.mechanisms.rimless_wheel(), tumbling_box()])
def test_impulses_of_impacts_change_the_momentum(model):
    """M (v⁺ − v⁻) = Jᵀ Λ at every event; nothing where there is no impact."""
    run = wt.simulate(model, duration=0.8, method="events")
    times, impulses = wt.event_impulses(run)
    instants, before, after = wt.event_states(run)
    assert np.array_equal(times, instants)
    assert impulses.shape == (len(times), len(run.attrs["contact_names"]), 3)
    assert impulses[..., 0].max() > 0.1
    reference = wt.reference(model)
    for impulse, old, new in zip(impulses, before, after, strict=True):
        q, change = old[: model.nq], (new - old)[model.nq :]
        pushed = reference.contact_jacobian(q).T @ impulse.ravel()
        np.testing.assert_allclose(reference.mass_matrix(q) @ change, pushed, atol=1e-8)
        assert np.all(impulse[:, 0] >= 0)
