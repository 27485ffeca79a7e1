"""Models in which nothing can move are runs as well: no body, a floor alone, a body that is welded to the world."""

import numpy as np
import pytest

import whippletree as wt

NOTHING = {
    "no body": wt.Builder("nothing"),
    "a floor": wt.Builder("floor").geometry("floor", "world", "half_space"),
    "a welded body": wt.Builder("post").body("post", 1.0).joint("foot", "weld", "world", "post"),
    "a group of one": wt.Builder("group").geometry("floor", "world", "half_space").contact_group("all", ["floor"]),
}


@pytest.mark.parametrize("method", ["auto", "time_stepping", "events", "adaptive", "rk4", "implicit_midpoint"])
@pytest.mark.parametrize("what", NOTHING)
def test_a_model_without_velocities_runs_by_every_method(what, method):
    model = NOTHING[what].build()
    if model.touches and method not in ("auto", "time_stepping", "events"):
        with pytest.raises(wt.UnsupportedError, match=r"replace\(model, contact_groups=\(\)\)$"):
            wt.simulate(model, duration=0.1, method=method)
        return
    run = wt.simulate(model, duration=0.1, output_dt=0.05, method=method)
    assert run.attrs["failure"] == ""
    assert run.q.shape == run.v.shape == (3, 0)
    assert not (run.kinetic_energy + run.potential_energy - run.potential_energy[0]).values.any()


@pytest.mark.parametrize("name", ["rollout", "contact_rollout"])
def test_there_is_nothing_to_roll_out(name):
    dyn = wt.compile(wt.Builder("nothing").build())
    with pytest.raises(wt.UnsupportedError, match=f"^{name}: nothing can move in model 'nothing': use wt.simulate"):
        getattr(dyn, name)([], [], np.zeros((5, 0)), 1e-3)
