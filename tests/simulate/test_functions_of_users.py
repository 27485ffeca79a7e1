"""Controllers, commands and events of a user: functions that write on what they are given, keep it, forget to return,
answer with something else than numbers, or twice differently."""

import re

import numpy as np
import pytest

import whippletree as wt

PENDULUM, ARM = wt.mechanisms.pendulum(), wt.mechanisms.double_pendulum()
START = [0.3, 0.2]
METHODS = ["adaptive", "rk4", "implicit_midpoint", "semi_implicit_euler", "time_stepping", "events"]


def hold(t, q, v):
    float(t)  # cannot be traced
    return -20 * q - v


def hold_and_spoil(t, q, v):
    float(t)
    tau = -20 * q - v
    q[:], v[:] = 7.0, -5.0
    return tau


def traced_hold(t, q, v):
    return -20 * q - v


def traced_hold_and_spoil(t, q, v):
    tau = -20 * q - v
    q *= 0
    v += 5
    return tau


@pytest.mark.parametrize(
    "pair", [(hold, hold_and_spoil), (traced_hold, traced_hold_and_spoil)], ids=["plain", "traced"]
)
@pytest.mark.parametrize("starts", [START, [START, [0.1, -0.4]]], ids=["one", "many"])
@pytest.mark.parametrize("method", METHODS)
def test_a_controller_that_writes_on_its_arguments_moves_nothing(method, starts, pair):
    right, spoiled = (
        wt.simulate(ARM, starts, duration=0.05, method=method, controller=controller, output_dt=0.01)
        for controller in pair
    )
    assert np.array_equal(spoiled.q, right.q)
    assert np.array_equal(spoiled.tau, right.tau)


def test_one_of_two_that_act_together_writes_on_its_arguments():
    both = [wt.controllers.together(first, hold) for first in (hold, hold_and_spoil)]
    right, spoiled = (wt.simulate(ARM, START, duration=0.05, controller=act) for act in both)
    assert np.array_equal(spoiled.q, right.q)
    assert np.array_equal(spoiled.tau, right.tau)


@pytest.mark.parametrize("method", ["adaptive", "rk4", "time_stepping"])
def test_commands_that_write_on_their_arguments(method):
    builder = wt.Builder("arm", (0, -9.81, 0)).body("rod", 1.0, center=(0.3, 0, 0), inertia=(0.1, 0.1, 0.1))
    model = builder.joint("hinge", "revolute", "world", "rod").actuator("motor", "hinge").build()

    def command(t, q, v):
        float(t)
        return -9 * q

    def command_and_spoil(t, q, v):
        told = command(t, q, v)
        q.fill(3.0)
        v.fill(3.0)
        return told

    right, spoiled = (
        wt.simulate(model, [0.4], duration=0.05, method=method, ctrl=ctrl) for ctrl in (command, command_and_spoil)
    )
    assert np.array_equal(spoiled.q, right.q)
    assert np.array_equal(spoiled.tau, right.tau)


def test_what_a_controller_keeps_of_its_arguments_stays_as_it_was():
    kept = []

    def remember(t, q, v):
        float(t)
        kept.append((q, v, q.copy(), v.copy()))
        return -q

    wt.simulate(ARM, START, duration=0.05, controller=remember)
    assert len(kept) > 10
    assert all(np.array_equal(q, q_then) and np.array_equal(v, v_then) for q, v, q_then, v_then in kept)


def test_a_controller_without_return():
    with pytest.raises(wt.ShapeError, match=re.escape("the controller returned None, expected (2,)")) as caught:
        wt.simulate(ARM, duration=0.1, controller=lambda t, q, v: None)
    assert str(caught.value).endswith("Does it end with return?")


@pytest.mark.parametrize("method", ["adaptive", "events"])
def test_a_controller_that_depends_on_chance_is_named(method):
    rng = np.random.default_rng(1)

    def noise(t, q, v):
        return rng.normal(size=2)

    run = wt.simulate(ARM, START, duration=0.1, method=method, controller=noise)
    assert "has a memory, or depends on chance" in run.attrs["failure"]
    assert "method='time_stepping'" in run.attrs["failure"]
    steps = wt.simulate(ARM, START, duration=0.01, method="time_stepping", controller=noise)
    assert not steps.attrs["failure"]


def test_a_motion_that_cannot_be_followed_is_not_blamed_on_a_sound_controller():
    run = wt.simulate(ARM, START, duration=0.1, controller=lambda t, q, v: [1e300 * float(t) ** 0, 0.0])
    assert run.attrs["failure"]
    assert "memory" not in run.attrs["failure"]


# --- events -----------------------------------------------------------------------------------------------------------


def visit(t, q, v):
    """Negative for 40 ms."""
    return (t - 0.5) ** 2 - 0.02**2


def test_a_sign_that_changes_and_changes_back_within_a_step_is_found():
    run = wt.simulate(PENDULUM, duration=3.0, events=[wt.Event("visit", visit)])
    assert np.allclose(run.attrs["event_times"], [0.48, 0.52], rtol=0, atol=1e-11)
    assert 3.0 / run.attrs["steps"] > 0.04


def test_each_zero_of_a_quick_function():
    run = wt.simulate(PENDULUM, duration=1.0, events=[wt.Event("tick", lambda t, q, v: np.sin(40 * np.pi * t + 0.3))])
    expected = (np.arange(1, 41) * np.pi - 0.3) / (40 * np.pi)
    assert np.allclose(run.attrs["event_times"], expected, rtol=0, atol=1e-11)


def test_a_terminal_event_ends_at_the_first_of_its_zeros():
    stop = wt.Event("stop", visit, terminal=True)
    run = wt.simulate(PENDULUM, duration=3.0, events=[stop])
    assert float(run.time[-1]) == pytest.approx(0.48, abs=1e-11)
    assert run.attrs["event_names"] == ["stop"]


@pytest.mark.parametrize("method", ["time_stepping", "rk4", "implicit_midpoint", "semi_implicit_euler"])
def test_steps_of_one_length_refuse_events(method):
    other = "events" if method == "time_stepping" else "adaptive"
    with pytest.raises(wt.UnsupportedError, match="does not look for events") as caught:
        wt.simulate(PENDULUM, duration=0.1, method=method, events=[wt.Event("low", lambda t, q, v: q[0])])
    assert str(caught.value).endswith(f"('low'): use method={other!r}")


def test_a_scene_of_many_bodies_refuses_events():
    with pytest.raises(wt.UnsupportedError, match="does not look for events"):
        wt.simulate(wt.mechanisms.box_stack(3), duration=0.01, method="time_stepping", events=[wt.Event("a", visit)])


@pytest.mark.parametrize("told", [True, np.bool_(False), None, "a", 1j, [1.0], np.array([0.5])], ids=repr)
def test_an_event_that_returns_no_number(told):
    with pytest.raises(TypeError, match=r"simulate: event 'odd' returned .* expected one number whose sign changes"):
        wt.simulate(PENDULUM, duration=0.1, events=[wt.Event("odd", lambda t, q, v: told)])


@pytest.mark.parametrize("told", [np.float32(1), 1, np.array(2.0), np.int64(3)], ids=repr)
def test_an_event_that_returns_a_number_of_another_kind(told):
    assert wt.simulate(PENDULUM, duration=0.1, events=[wt.Event("far", lambda t, q, v: told)]).attrs["events"] == 0


def test_an_event_that_depends_on_chance():
    rng = np.random.default_rng(0)
    run = wt.simulate(PENDULUM, duration=1.0, events=[wt.Event("dice", lambda t, q, v: rng.normal())])
    assert "the event 'dice' returned two values" in run.attrs["failure"]


@pytest.mark.parametrize("events", [wt.Event("a", visit), 3, None], ids=["one", "number", "none"])
def test_events_that_are_no_list(events):
    with pytest.raises(TypeError, match=r"simulate: events is .*, expected a list of wt.Event"):
        wt.simulate(PENDULUM, duration=0.1, events=events)


def test_two_events_of_one_name():
    with pytest.raises(ValueError, match="two events have the name 'a'"):
        wt.simulate(PENDULUM, duration=0.1, events=[wt.Event("a", visit), wt.Event("a", lambda t, q, v: v[0])])


def test_an_event_that_writes_on_its_arguments():
    def spoil(t, q, v):
        found = q[0] + np.pi / 2
        q.fill(0)
        v.fill(0)
        return found

    right = wt.simulate(PENDULUM, duration=1.0, events=[wt.Event("low", lambda t, q, v: q[0] + np.pi / 2)])
    spoiled = wt.simulate(PENDULUM, duration=1.0, events=[wt.Event("low", spoil)])
    assert np.array_equal(spoiled.q, right.q)
    assert spoiled.attrs["event_times"] == right.attrs["event_times"]


# --- other arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ctrl",
    ["fast", [1j], {"motor": "a"}, {"motor": lambda t, q, v: 1.0}, [[1], [1, 2]]],
    ids=["word", "complex", "word of a motor", "function of a motor", "ragged table"],
)
def test_commands_that_are_no_numbers(ctrl):
    builder = wt.Builder("arm").body("rod", 1.0, inertia=(0.1, 0.1, 0.1)).joint("hinge", "revolute", "world", "rod")
    with pytest.raises((wt.ScalarError, wt.ShapeError), match="model 'arm' has actuators \\['motor'\\]"):
        wt.simulate(builder.actuator("motor", "hinge").build(), duration=0.1, ctrl=ctrl)


@pytest.mark.parametrize(
    "q", [np.ma.array([1.0, 2.0], mask=[0, 1]), np.array([1, 2], dtype="datetime64[D]")], ids=["masked", "dates"]
)
def test_starts_that_only_look_like_numbers(q):
    with pytest.raises(wt.ScalarError, match="simulate: q0 is "):
        wt.simulate(ARM, q, duration=0.1)
    assert wt.simulate(ARM, np.ma.array([1.0, 2.0]), duration=0.1).q[0, 1] == 2.0  # nothing is masked


@pytest.mark.parametrize("flag", ["reactions", "effort_limits", "project", "progress"])
def test_words_for_yes_and_no(flag):
    with pytest.raises(TypeError, match=f"simulate: {flag} is 'no', expected True or False"):
        wt.simulate(ARM, duration=0.1, **{flag: "no"})


def test_a_method_that_is_no_name_and_a_duration_that_is_no_time():
    with pytest.raises(wt.NameLookupError, match=r"there is no method \['rk4'\]"):
        wt.simulate(ARM, duration=0.1, method=["rk4"])
    with pytest.raises(ValueError, match=r"simulate: output_dt is 0\.0, expected a positive"):
        wt.simulate(ARM, duration=5e-324)


def test_a_model_of_nothing_has_a_controller_and_reactions():
    run = wt.simulate(wt.Builder("nothing").build(), duration=0.1, controller=lambda t, q, v: [], reactions=True)
    assert run.sizes["reaction"] == 0
    assert run.q.shape == (201, 0)


# --- controllers that ask compiled functions of a model ---------------------------------------------------------------


def asks(dyn, plain=False):
    """Computed torque, with what needs no model but a mass matrix beside."""

    def follow(t, q, v):
        t = float(t) if plain else t
        wanted = -np.sin(3 * t) - 40 * q - 12 * v
        return dyn.inverse_dynamics(q, v, wanted) + 0.1 * dyn.mass_matrix(q=q) @ wanted - 0.05 * dyn.bias(q, v)

    return follow


@pytest.mark.parametrize("method", METHODS)
def test_a_controller_that_asks_compiled_functions_is_compiled(method):
    dyn = wt.compile(ARM)
    settings = {"duration": 0.2, "method": method, "output_dt": 0.02}
    traced = wt.simulate(ARM, START, controller=asks(dyn), **settings)
    called = wt.simulate(ARM, START, controller=asks(dyn, plain=True), **settings)
    assert np.allclose(traced.q, called.q, rtol=0, atol=1e-9)
    assert np.allclose(traced.tau, called.tau, rtol=0, atol=1e-7)
    if method == "rk4":
        assert traced.attrs["path"] == "compiled"
        assert called.attrs["path"].startswith("python")


def test_functions_with_names_and_of_several_results_answer_on_traced_numbers():
    dyn = wt.compile(ARM)
    tip = dyn.jacobian("tip")

    def pull(t, q, v):
        jacobian = tip(q)  # (6, nv)
        return jacobian[3:].T @ np.array([0.0, -1.0, 0.0]) - 2 * dyn.kinetic_energy(q, v) * v

    run = wt.simulate(ARM, START, duration=0.1, method="rk4", controller=pull)
    again = wt.simulate(ARM, START, duration=0.1, method="rk4", controller=lambda t, q, v: pull(float(t), q, v))
    assert run.attrs["path"] == "compiled"
    assert np.allclose(run.q, again.q, rtol=0, atol=1e-12)


def test_a_long_function_is_asked_and_not_traced():
    model = wt.mechanisms.chain(60)
    dyn = wt.compile(model)
    run = wt.simulate(
        model, duration=2e-3, step=1e-3, output_dt=1e-3, method="rk4", controller=lambda t, q, v: dyn.bias(q, v)
    )
    assert run.attrs["path"].startswith("python: the controller cannot be traced")


def test_other_scalars_are_refused_by_compiled_functions():
    from fractions import Fraction

    with pytest.raises(wt.ScalarError, match="compiled functions take real numbers"):
        wt.compile(PENDULUM).bias([Fraction(1, 2)], [Fraction(1, 3)])


def driven():
    builder = wt.Builder("driven").body("link", 1.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("hinge", "revolute", "world", "link", axis=(0, 1, 0))
    return builder.actuator("motor", "hinge").build()


def over_terrain(height):
    builder = wt.Builder("hills").body("stone", 1.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("free", "free", "world", "stone", start=(0, 0, 0.2, 1, 0, 0, 0))
    builder.geometry("ball", "stone", "sphere", radius=0.1).geometry("hill", "world", "terrain", height=height)
    return wt.simulate(builder.contact("touch", "ball", "hill").build(), duration=0.01)


CONTROL = wt.controllers
WRONG_ARGUMENTS = {
    "controller": (
        lambda: wt.simulate(ARM, START, duration=0.1, controller=lambda t, q: q),
        r"simulate: the controller takes \(t, q\), and is called with \(t, q, v\): too many positional arguments",
    ),
    "bound by keyword alone": (
        lambda: wt.simulate(ARM, START, duration=0.1, controller=lambda t, q, *, v: v),
        r"takes \(t, q, \*, v\), and is called with \(t, q, v\)",
    ),
    "commands": (
        lambda: wt.simulate(driven(), duration=0.1, ctrl=lambda t: [0.0]),
        r"ctrl takes \(t\), and is called with \(t, q, v\)",
    ),
    "event": (
        lambda: wt.simulate(ARM, START, duration=0.1, events=[wt.Event("low", lambda t, q, v, w: 1.0)]),
        r"event 'low' takes \(t, q, v, w\), and is called with \(t, q, v\): missing a required argument: 'w'",
    ),
    "target": (
        lambda: CONTROL.pd(ARM, target=lambda t, q, v: q, stiffness=1, damping=1),
        r"pd: target takes \(t, q, v\), and is called with \(t\)",
    ),
    "target velocity": (
        lambda: CONTROL.pd(ARM, target=START, target_velocity=lambda: 0, stiffness=1, damping=1),
        r"pd: target_velocity takes \(\), and is called with \(t\)",
    ),
    "effort": (
        lambda: CONTROL.motor(ARM, "shoulder", lambda t: 1.0),
        r"motor: effort takes \(t\), and is called with \(t, q, v\)",
    ),
    "one of two": (
        lambda: CONTROL.together(hold, lambda t: 1.0),
        r"together: controller 2 takes \(t\), and is called with \(t, q, v\)",
    ),
    "no function": (lambda: CONTROL.together(hold, 3.0), r"together: controller 2 is 3.0, expected a function of \(t"),
    "limited": (
        lambda: CONTROL.limited(lambda t: 1.0, ARM),
        r"limited: the controller takes \(t\), and is called with \(t, q, v\)",
    ),
    "metric": (
        lambda: wt.sweep(ARM, {"gravity[2]": [1.0]}, folder="never made", duration=0.1, metrics={"far": lambda: 1.0}),
        r"sweep: metric 'far' takes \(\), and is called with \(run\)",
    ),
}


@pytest.mark.parametrize("case", list(WRONG_ARGUMENTS))
def test_a_function_of_other_arguments_is_refused_with_those_that_it_gets(case):
    call, message = WRONG_ARGUMENTS[case]
    with pytest.raises(TypeError, match=message):
        call()


def test_a_terrain_of_one_argument_or_without_an_answer_is_refused_by_name():
    with pytest.raises(ValueError, match=r"geometry 'hill': height takes \(x\), and is called with \(x, y\)"):
        over_terrain(lambda x: 0 * x)
    with pytest.raises(ValueError, match=r"geometry 'hill': height .* returns None. Does it end with return\?"):
        over_terrain(lambda x, y: None)


def test_commands_that_return_nothing_are_told():
    with pytest.raises(ValueError, match=r"ctrl: the function returned None.* Does it end with return\?"):
        wt.simulate(driven(), duration=0.1, ctrl=lambda t, q, v: None)


class Remembering:
    """A controller that is an object, with one argument more that has a default."""

    def __call__(self, t, q, v, gain=3.0):
        return -gain * q


def test_functions_that_can_be_called_so_are_taken_whatever_else_they_know():
    plain = wt.simulate(ARM, START, duration=0.05, controller=lambda t, q, v: -3.0 * q)
    for controller in (Remembering(), lambda *state: -3.0 * state[1], lambda t, q, *_, **more: -3.0 * q):
        assert np.array_equal(wt.simulate(ARM, START, duration=0.05, controller=controller).q, plain.q)
