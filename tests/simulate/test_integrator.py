"""The integrator core: order, drift, events, controllers, failure; and what simulate says about bad input."""

import re

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.adaptive.adaptive_method import Adaptive
from whippletree.simulation.adaptive.collocation import MORE_POINTS, POINTS, Polynomial, basis_integrals, gauss_rule
from whippletree.simulation.adaptive.integrator import LONG_RUN, Integrator
from whippletree.simulation.adaptive.motion_pieces import Progress
from whippletree.simulation.adaptive.user_events import Event
from whippletree.simulation.method import Task
from whippletree.simulation.motion import Motion


class Oscillator:
    """ÿ = −y, with nothing to project."""

    def rates(self, t, y):
        return np.stack([y[:, 1], -y[:, 0]], axis=1)

    def project(self, t, y):
        return y


def error_of_one_step(length):
    """Of the solution that starts at (1, 0), with the iteration converged to rounding whatever the step's error is."""
    integrator = Integrator(Oscillator(), rtol=1e-15, atol=1e-15)
    start = np.array([1.0, 0.0])
    guess = Polynomial(0.0, length, start, np.eye(8)[:, :1] * [0.0, -1.0])
    trial = integrator._trial(0.0, start, length, guess)
    return np.abs(trial.polynomial(length) - [np.cos(length), -np.sin(length)]).max()


def test_the_rule_integrates_polynomials_exactly():
    rule = gauss_rule()
    for degree in range(POINTS):
        values = rule.nodes**degree
        found = basis_integrals(np.array([1.0])) @ (rule.to_coefficients @ values)
        assert abs(found[0] - 1 / (degree + 1)) < 1e-14


def test_a_step_has_order_sixteen():
    # the error of one step falls with the power 17 of its length
    order = np.log(error_of_one_step(3.0) / error_of_one_step(2.0)) / np.log(1.5)
    assert 15.5 < order < 18.5


def test_the_interpolant_holds_inside_a_step():
    integrator = Integrator(Oscillator(), rtol=1e-10, atol=1e-10)
    for piece in integrator.pieces(Progress(0.0, np.array([1.0, 0.0])), 5.0):
        middle = (piece.start + piece.end) / 2
        assert np.abs(piece.interpolant(middle) - [np.cos(middle), -np.sin(middle)]).max() < 1e-8


def oscillation(finer, duration=200.0):
    """Pieces of a long run whose steps the error limits."""
    integrator = Integrator(Oscillator(), rtol=1e-11, atol=1e-11, finer_rule=finer)
    return list(integrator.pieces(Progress(0.0, np.array([1.0, 0.0])), duration))


def test_long_runs_that_the_error_limits_get_more_points_and_longer_steps():
    plain, finer = oscillation(None), oscillation(gauss_rule(MORE_POINTS))
    points = [len(piece.interpolant.coefficients) for piece in finer]
    assert set(points[:LONG_RUN]) == {POINTS}
    assert points[-1] == MORE_POINTS
    lengths = [pieces[-2].end - pieces[-2].start for pieces in (plain, finer)]
    assert lengths[1] > MORE_POINTS / POINTS * lengths[0]  # more than each step costs
    for piece in finer[LONG_RUN:]:
        middle = (piece.start + piece.end) / 2
        assert np.abs(piece.interpolant(middle) - [np.cos(middle), -np.sin(middle)]).max() < 1e-8


def test_a_run_goes_on_with_as_many_points_as_it_had():
    whole = oscillation(gauss_rule(MORE_POINTS))
    for k in (LONG_RUN - 1, LONG_RUN + 10):
        integrator = Integrator(Oscillator(), rtol=1e-11, atol=1e-11, finer_rule=gauss_rule(MORE_POINTS))
        integrator.statistics.steps = k + 1
        rest = list(integrator.pieces(whole[k].progress, whole[-1].end))
        assert [piece.end for piece in rest] == [piece.end for piece in whole[k + 1 :]]
        assert np.array_equal(rest[-1].state, whole[-1].state)


def test_machine_code_takes_steps_of_more_points_too():
    model = wt.mechanisms.double_pendulum()
    run = wt.simulate(model, duration=8.0, rtol=1e-11, atol=1e-13)
    task = Task(
        Motion(wt.compile(model)), np.concatenate([model.home.q, model.home.v]), np.array([0.0, 8.0]), 1e-11, 1e-13
    )
    method = Adaptive(task)
    pieces = list(method.integrator.pieces(Progress(0.0, task.start), 8.0))
    assert MORE_POINTS in {len(piece.interpolant.coefficients) for piece in pieces}
    method.integrator.finer_rule = None
    method.integrator.statistics.steps = 0
    *_, plain = method.integrator.pieces(Progress(0.0, task.start), 8.0)
    assert np.abs(pieces[-1].state - plain.state).max() < 1e-6  # chaotic: errors grow a thousandfold in that time
    assert run.attrs["steps"] == len(pieces)


@pytest.mark.slow
def test_events_are_located_and_a_terminal_one_ends_the_run():
    zero = Event("zero", lambda t, y: y[0], direction=1)
    stop = Event("stop", lambda t, y: y[1] - 0.5, direction=1, terminal=True)
    integrator = Integrator(Oscillator(), rtol=1e-12, atol=1e-12, events=(zero, stop))
    pieces = list(integrator.pieces(Progress(0.0, np.array([1.0, 0.0])), 30.0))
    found = [f for piece in pieces for f in piece.found]
    assert [name for name, _ in found] == ["stop"]
    assert abs(found[0][1] - (np.pi + np.pi / 6)) < 1e-10
    assert pieces[-1].end == found[0][1]


@pytest.mark.slow
def test_energy_and_loop_residuals_stay_small():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=(1.0, 1.0, 0.0))
    v = wt.compile(model).project_velocity(model.home.q, np.ones(model.nv))
    run = wt.simulate(model, v0=v, duration=10.0, rtol=1e-10, atol=1e-12)
    energy = np.asarray(run["kinetic_energy"] + run["potential_energy"])
    assert np.abs(energy / energy[0] - 1).max() < 1e-9
    assert float(np.abs(run["constraint_residual"]).max()) < 1e-12
    assert float(np.abs(run["constraint_velocity"]).max()) < 1e-12


def test_quaternions_stay_unit_and_momentum_is_conserved():
    model = (
        wt.Builder("stone", gravity=(0, 0, 0))
        .body("stone", mass=2.0, center=(0.1, 0.2, -0.1), inertia=(0.3, 0.2, 0.1))
        .joint("float", "free", "world", "stone")
        .build()
    )
    run = wt.simulate(model, v0=[1.0, -2.0, 0.5, 0.3, 0.2, -0.1], duration=10.0, rtol=1e-11, atol=1e-12)
    assert np.abs(np.linalg.norm(np.asarray(run["q"])[:, 3:], axis=1) - 1).max() < 1e-15
    momentum = wt.compile(model).momentum(np.asarray(run["q"]), np.asarray(run["v"]))
    assert np.abs(momentum - momentum[0]).max() < 1e-9


def test_a_controller_acts():
    model = wt.mechanisms.pendulum()
    hold = wt.compile(model).gravity
    run = wt.simulate(model, [0.7], [0.0], duration=1.0, controller=lambda t, q, v: hold(q))
    assert np.abs(np.asarray(run["q"]) - 0.7).max() < 1e-12


@pytest.mark.parametrize("method", ["adaptive", "events"])
@pytest.mark.parametrize("driven_by", ["controller", "ctrl", "traced"])
def test_forces_that_jump_near_the_end_of_a_step(driven_by, method):
    """No point of a step sees a jump in its first or last fiftieth: nine runs of ten were wrong by more than 1e-6."""
    slider = wt.Builder("slider").body("mass", 1.0).joint("x", "prismatic", "world", "mass", axis=(1, 0, 0))
    model, rng = slider.actuator("motor", "x").build(), np.random.default_rng(2)
    dyn = wt.compile(model)
    for rows in (3, 4, 7):
        pushes = rng.normal(size=rows)
        table = pushes[:, None]
        forces = {
            "ctrl": {"ctrl": table},
            "controller": {"controller": lambda t, q, v, u=pushes: [u[min(int(len(u) * t), len(u) - 1)]]},
            "traced": {"controller": lambda t, q, v, u=pushes: [sum(np.where(t * len(u) > k, x, 0) for k, x in
                                                                     enumerate(np.diff(u, prepend=0.0)))]},
        }[driven_by]  # fmt: skip
        run = wt.simulate(model, duration=1.0, method=method, compiled=dyn, variables=[], **forces)
        ahead = np.arange(rows - 1, -1, -1) + 0.5  # rows from the middle of each to the end
        assert abs(run.v.values[-1, 0] - pushes.mean()) < 1e-7
        assert abs(run.q.values[-1, 0] - pushes @ ahead / rows**2) < 1e-7


def test_loops_under_a_force_that_jumps():
    model = wt.mechanisms.four_bar()
    dyn = wt.compile(model)
    for at in (0.3104, 0.5523):
        run = wt.simulate(model, duration=0.8, compiled=dyn, controller=lambda t, q, v, at=at: [float(t > at), 0, 0])
        free = wt.simulate(model, duration=at, compiled=dyn)
        q, v = free.q.values[-1], free.v.values[-1]
        rest = wt.simulate(model, q, v, duration=0.8 - at, compiled=dyn, controller=lambda t, q, v: [1.0, 0, 0])
        np.testing.assert_allclose(run.v.values[-1], rest.v.values[-1], atol=1e-7)


def test_a_failing_run_returns_what_it_had():
    model = wt.mechanisms.pendulum()
    run = wt.simulate(model, duration=2.0, controller=lambda t, q, v: [np.nan if t > 1.0 else 0.0])
    told = re.match(r"the controller returned nan at t = (\S+) s for joint 'hinge'", run.attrs["failure"])
    assert told is not None
    assert 1.0 <= float(told[1]) < 1.011  # where a stage of the last step lies
    assert float(run["time"][-1]) == pytest.approx(1.0, abs=0.011)
    assert np.isfinite(run["q"]).all()


def test_a_terminal_event_is_the_last_state():
    hit = wt.Event("bottom", lambda t, q, v: q[0] + np.pi / 2, terminal=True)
    run = wt.simulate(wt.mechanisms.pendulum(), [0.0], [0.0], duration=5.0, events=(hit,))
    assert run.attrs["event_names"] == ["bottom"]
    assert float(run["time"][-1]) == run.attrs["event_times"][0]
    assert abs(float(run["q"][-1, 0]) + np.pi / 2) < 1e-9


def test_an_event_without_a_number_ends_the_run_and_one_that_raises_says_when():
    model = wt.mechanisms.pendulum()

    def run(function):
        return wt.simulate(model, duration=0.5, events=[wt.Event("lost", function)])

    found = run(lambda t, q, v: np.nan if t > 0.2 else 1.0)
    assert found.attrs["failure"].startswith("the event 'lost' returned nan at t = ")
    assert 0 < float(found.time[-1]) < 0.5
    with pytest.raises(ZeroDivisionError) as raised:
        run(lambda t, q, v: 1 / 0)
    assert raised.value.__notes__ == ["simulate: raised by event 'lost' at t = 0 s"]


def test_rows_of_many_steps_are_those_of_each_step():
    """Steps of one call become rows together: those at ends of steps are the projected states there."""
    model = wt.mechanisms.four_bar()
    motion = Motion(wt.compile(model))
    start = np.concatenate([model.home.q, model.home.v])
    ends = np.array([piece.end for piece in pieces_of(motion, start, 0.4)])
    times = np.unique(np.concatenate([np.linspace(0.0, 0.4, 41), ends]))
    chunks = list(Adaptive(Task(motion, start, times, 1e-8, 1e-10)).chunks())
    found, states = (np.concatenate([getattr(chunk, word) for chunk in chunks]) for word in ("times", "states"))
    np.testing.assert_array_equal(found, times)
    for piece in pieces_of(motion, start, 0.4):
        inside = times[(times > piece.start) & (times < piece.end)]
        expected = [motion.project(t, piece.interpolant(t)) for t in inside.tolist()] + [piece.state]
        here = (times > piece.start) & (times <= piece.end)
        np.testing.assert_allclose(states[here], expected, rtol=0, atol=1e-15)


def pieces_of(motion, start, end):
    method = Adaptive(Task(motion, start, np.array([0.0, end]), 1e-8, 1e-10))
    return list(method.integrator.pieces(Progress(0.0, start), end))


def test_a_start_state_off_the_constraints_is_refused_unless_projection_is_asked_for():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.9))
    with pytest.raises(wt.AssemblyError, match="q does not meet its constraints"):
        wt.simulate(model, [2.0, 3.0, -1.0], duration=0.1)
    with pytest.raises(wt.AssemblyError, match=r"v does not meet its constraints|velocity"):
        wt.simulate(model, v0=np.ones(model.nv), duration=0.1)
    run = wt.simulate(model, v0=np.ones(model.nv), duration=0.1, project=True)
    assert float(np.abs(run["constraint_velocity"]).max()) < 1e-12


def test_a_controller_of_the_wrong_length_is_refused():
    with pytest.raises(wt.ShapeError, match=r"the controller returned shape \(1,\), expected \(2,\)"):
        wt.simulate(wt.mechanisms.double_pendulum(), duration=0.1, controller=lambda t, q, v: [1.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"duration": -1.0}, "simulate: duration is -1.0, expected a positive, finite number"),
        ({"duration": np.nan}, "simulate: duration is nan, expected a positive, finite number"),
        (
            {"duration": np.nan, "method": "time_stepping"},
            "simulate: duration is nan, expected a positive, finite number",
        ),
        (
            {"duration": 1.0, "q0": [0.0]},
            "simulate: q0 has shape (1,), expected (2,) or (runs, 2) for model 'double pendulum'",
        ),
        ({"duration": 1.0, "v0": [np.nan, 0]}, "simulate: v0 holds nan: a start state must be finite"),
    ],
)
def test_bad_input(arguments, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011  (the whole message is compared below)
        wt.simulate(wt.mechanisms.double_pendulum(), **arguments)
    assert str(caught.value) == message


def test_a_long_mechanism_is_refused_at_a_start_off_its_constraints_too():
    model = wt.mechanisms.n_four_bar(12)
    q = np.array(model.home.q)
    q[3] += 1e-3
    with pytest.raises(wt.AssemblyError, match="q does not meet its constraints: "):
        wt.simulate(model, q, duration=0.1)
    v = np.array(model.home.v)
    v[3] += 1e-3
    with pytest.raises(wt.AssemblyError, match="v violates its constraints: "):
        wt.simulate(model, v0=v, duration=0.1)


def test_rates_of_the_state_that_was_projected_last_are_taken_where_it_is(monkeypatch):
    """A run projects its start, and asks for the rates there: one projection, and another for any other state."""
    model = wt.mechanisms.n_four_bar(2)
    motion = Motion(wt.compile(model))
    y = motion.project(0.0, np.concatenate([model.home.q, model.home.v]))
    twice = motion.rates(np.zeros(2), np.stack([y, y]))[0]
    asked, project = [], Motion.project
    monkeypatch.setattr(Motion, "project", lambda self, t, y: asked.append(t) or project(self, t, y))
    assert motion.rates(np.zeros(1), y[None])[0] == pytest.approx(twice, abs=1e-13)
    assert not asked
    motion.rates(np.ones(1), y[None])
    motion.rates(np.zeros(1), y[None] + 1e-9)
    assert len(asked) == 2


def test_loops_that_reach_far_are_closed_to_the_rounding_of_their_positions():
    near = Motion(wt.compile(wt.mechanisms.four_bar()))
    far = Motion(wt.compile(wt.mechanisms.n_four_bar(40)))
    assert near.position_tolerance == 1e-15
    assert 40 * np.finfo(float).eps <= far.position_tolerance <= 100 * np.finfo(float).eps
    model = far.model
    q = model.home.q + 1e-4 * np.random.default_rng(0).normal(size=model.nq)
    closed = far.project(0.0, np.concatenate([q, model.home.v]))
    assert far.gap(0.0, closed[: model.nq]) <= far.position_tolerance
