"""What is led along a path in time (conveyors, lifts, turning tables, driven joints): are compiled steps those of the
reference path, alone and in batches, and does what lies on it go along?"""

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.time_stepping import impulse_step

H = 2e-3
RUN = {"method": "time_stepping", "step": H, "output_dt": 0.05}
SHAPES = {"ball": ("sphere", {"radius": 0.1}), "box": ("box", {"size": (0.2, 0.2, 0.2)})}


def shaking(t):
    """A place that moves along all three axes, less gently downwards than things fall."""
    return (0.3 * np.sin(5 * t), 0.1 * np.cos(3 * t) - 0.1, 0.02 * np.sin(4 * t))


def turning(t):
    """A pose that turns about z."""
    c, s = np.cos(2 * t), np.sin(2 * t)
    return np.array([[c, -s, 0 * t, 0 * t], [s, c, 0 * t, 0 * t], [0 * t, 0 * t, 1 + 0 * t, 0 * t], [0, 0, 0, 1]])


def led(motion, shape="box", friction=0.3, place=(0.0, 0.0)):
    """A table without mass that follows a motion, and a body of 2 kg on it."""
    kind, size = SHAPES[shape]
    builder = wt.Builder("led").body("table", 0.0).joint("weld", "weld", "world", "table")
    builder.geometry("top", "table", "box", size=(50, 50, 0.1)).body("load", 2.0, inertia=(0.02, 0.02, 0.02))
    builder.joint("fly", "free", "world", "load", start=(*place, 0.15, 1, 0, 0, 0))
    builder.geometry("skin", "load", kind, **size)
    return wt.with_motion(builder.contact("lie", "skin", "top", friction=friction).build(), "table", motion)


def in_python(monkeypatch, *args, **options):
    """A run whose steps are those of the reference path."""
    with monkeypatch.context() as patch:
        patch.setattr(impulse_step, "suits_lists", lambda model: False)
        return wt.simulate(*args, **options)


# not a box on a table that turns: its four corners slide each in its own direction, and share the weight in many ways
@pytest.mark.parametrize(("motion", "shape"), [(shaking, "ball"), (turning, "ball"), (shaking, "box")])
def test_compiled_steps_are_those_of_the_reference_path(motion, shape, monkeypatch):
    model = led(motion, shape, place=(0.4, 0.1))
    run, other = wt.simulate(model, duration=0.1, **RUN), in_python(monkeypatch, model, duration=0.1, **RUN)
    assert run.attrs["path"] == "compiled"
    assert other.attrs["path"].startswith("python")
    # velocities are right to the tolerance of the contact problem, 1e-7 m/s
    assert np.allclose(run.q, other.q, rtol=0, atol=1e-8)
    assert np.allclose(run.v, other.v, rtol=0, atol=1e-6)
    assert np.abs(run.constraint_residual).max() < 1e-13
    assert np.abs(run.constraint_velocity).max() < 1e-12


def test_a_conveyor_drags_a_box_along_until_it_goes_with_it():
    run = wt.simulate(led(lambda t: (1.0 * t, 0, 0)), duration=0.5, **RUN)
    speed = run.v.sel(velocity="fly.vx").values
    assert np.allclose(speed, np.minimum(0.3 * 9.81 * run.time, 1.0), atol=1e-9)


def test_what_sticks_to_a_turning_table_turns_with_it():
    model = led(turning, place=(0.4, 0.0), friction=0.8)
    v0 = np.zeros(model.nv)
    v0[6:] = 0, 0, 2.0, 0, 0.8, 0  # ω × r
    run = wt.simulate(model, v0=v0, duration=0.5, project=True, **RUN)
    x, y = run.q.sel(coordinate=["fly.x", "fly.y"]).values[-1]
    assert np.allclose((x, y), (0.4 * np.cos(1.0), 0.4 * np.sin(1.0)), atol=2e-3)  # first order in the step
    held = run.contact_force.values[-1].sum(axis=0)
    assert np.isclose(np.hypot(*held[1:]), 2.0 * 0.4 * 2.0**2, rtol=2e-2)  # m r ω²


@pytest.mark.parametrize("shape", SHAPES)
def test_scenes_of_a_batch_are_led_as_single_ones(shape):
    model = led(shaking, shape)
    starts = np.tile(model.home.q, (3, 1))
    starts[1, 8] += 0.1
    batch = wt.simulate(model, starts, duration=0.1, **RUN)
    for k, start in enumerate(starts):
        assert batch.q.values[:, k].tobytes() == wt.simulate(model, start, duration=0.1, **RUN).q.values.tobytes()


def test_a_controller_in_python_is_asked_beside_the_clock():
    model = led(shaking, "ball")
    asked = wt.simulate(model, duration=0.1, controller=lambda t, q, v: np.zeros(12) * float(t), **RUN)
    assert np.allclose(asked.q, wt.simulate(model, duration=0.1, **RUN).q, rtol=0, atol=1e-12)


def test_steps_without_a_clock_refuse_what_depends_on_time():
    model = led(shaking, "ball")
    dyn = wt.compile(model)
    with pytest.raises(wt.UnsupportedError, match=r"^step: constraint 'table motion' of model 'led' depends on time"):
        dyn.step(model.home.q, np.zeros(12), [], H)
    with pytest.raises(wt.UnsupportedError, match=r"^contact_rollout: constraint 'table motion' .* depends on time"):
        dyn.contact_rollout(model.home.q, np.zeros(12), np.zeros((2, 12)), H)
    wheel = wt.Builder("wheel").body("wheel", 1.0, inertia=(1, 1, 1)).joint("turn", "revolute", "world", "wheel")
    driven = wheel.constraint("drive", "prescribed", "turn", motion=lambda t: t * t).build()
    with pytest.raises(wt.UnsupportedError, match=r"^step: constraint 'drive' of model 'wheel' depends on time"):
        wt.compile(driven).step([0.0], [0.0], [], H)
