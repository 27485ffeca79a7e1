"""Time steps of models in which nothing can touch: are they compiled, and those of the reference path?"""

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.time_stepping import impulse_step

RUN = {"duration": 0.1, "method": "time_stepping", "step": 1e-3, "output_dt": 0.05}


def driven_arm():
    """Two links with a spring, a damper, a servo and a motor."""
    arm = wt.Builder("arm").body("upper", 1.0, center=(0.2, 0, 0), inertia=(0.01, 0.02, 0.02))
    arm.joint("shoulder", "revolute", "world", "upper", axis=(0, 1, 0), damping=0.1, stiffness=1.0)
    arm.body("fore", 1.0, center=(0.2, 0, 0), inertia=(0.01, 0.02, 0.02))
    arm.joint("elbow", "revolute", "upper", "fore", position=(0.4, 0, 0), axis=(0, 1, 0))
    arm.actuator("servo", "shoulder", gain=(1e4, 0, 0), bias=(0, -1e4, -50))
    return arm.actuator("motor", "elbow", gear=2.0).build()


MODELS = {
    "chain": (lambda: wt.mechanisms.chain(6), {}),
    "loop": (lambda: wt.mechanisms.four_bar((1.0, 0.4, 1.2, 0.9)), {}),
    "massless rod": (lambda: wt.mechanisms.crank_slider(rod_mass=0.0), {}),
    "servo": (driven_arm, {"ctrl": [0.3, 0.1]}),
    "controller": (wt.mechanisms.double_pendulum, {"controller": lambda t, q, v: -5 * q - v}),
}


@pytest.mark.parametrize("name", MODELS)
def test_compiled_steps_are_those_of_the_reference_path(name, monkeypatch):
    made, options = MODELS[name]
    model = made()
    run = wt.simulate(model, **RUN, **options)
    batch = wt.simulate(model, np.tile(model.home.q, (3, 1)), **RUN, **options)
    monkeypatch.setattr(impulse_step, "suits_lists", lambda model: False)
    other = wt.simulate(model, **RUN, **options)
    assert run.attrs["path"] == batch.attrs["path"] == "compiled"
    assert other.attrs["path"].startswith("python")
    # loops are closed to 1e-13 m in each step; what the steps differ by there is their velocity times the step
    assert np.allclose(run.q, other.q, rtol=0, atol=1e-10)
    assert np.allclose(run.v, other.v, rtol=0, atol=1e-8)
    assert batch.q.values[:, 2].tobytes() == run.q.values.tobytes()


def test_a_stone_that_is_thrown_flies_straight_and_falls():
    stone = (
        wt.Builder("stone").body("stone", 2.0, inertia=(0.1, 0.1, 0.1)).joint("fly", "free", "world", "stone").build()
    )
    run = wt.simulate(stone, v0=[0, 0, 3.0, 1.0, 0, 0], **RUN)
    t = run.time.values
    assert run.attrs["path"] == "compiled"
    assert np.allclose(run.q.sel(coordinate="fly.x"), t, atol=1e-13)
    assert np.allclose(run.q.sel(coordinate="fly.z"), -9.81 * t * (t + 1e-3) / 2, atol=1e-13)  # g h t / 2 too low
