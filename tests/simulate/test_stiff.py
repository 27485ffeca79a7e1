"""Stiff motions: Newton's method where Picard iteration limits the step, and back; the same numbers by machine code."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.work_precision import right_hand_side, stiff_machines
from scipy.integrate import solve_ivp

import whippletree as wt
from whippletree.compiler.frontend.controller import affine_forces
from whippletree.errors import SingularSystemError
from whippletree.model import Constraint
from whippletree.simulation.adaptive import compiled_steps
from whippletree.simulation.adaptive.adaptive_method import Adaptive, memo_of, progress_of
from whippletree.simulation.adaptive.collocation import Polynomial, radau_rule
from whippletree.simulation.adaptive.integrator import Integrator
from whippletree.simulation.adaptive.motion_pieces import Progress
from whippletree.simulation.adaptive.newton import Stiffness, radau_modes, rate_jacobian
from whippletree.simulation.method import Task
from whippletree.simulation.motion import Motion
from whippletree.simulation.record import Record


class Tracking:
    """Prothero and Robinson: ẏ = −λ(t) (y − cos t) − sin t, whose smooth solution is cos t."""

    def __init__(self, rate):
        self.rate = rate

    def rates(self, t, y):
        return (-self.rate(t) * (y[:, 0] - np.cos(t)) - np.sin(t))[:, None]

    def project(self, t, y):
        return y


def stiff_chain(n, stiffness, damping):
    builder, parent = wt.Builder("chain", (0, -9.81, 0)), "world"
    for i in range(n):
        builder.body(f"rod {i}", 1.0, center=(0.5, 0, 0), inertia=(0.01, 1 / 12, 1 / 12))
        spring = {"stiffness": stiffness, "damping": damping} if i else {}
        builder.joint(f"joint {i}", "revolute", parent, f"rod {i}", position=(1.0 if i else 0.0, 0, 0), **spring)
        parent = f"rod {i}"
    return builder.build()


def damped_spring(k=1e6, d=1e3):
    builder = wt.Builder("stiff", (0, -9.81, 0))
    builder.body("arm", 1.0, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    return builder.joint("joint", "revolute", "world", "arm", stiffness=k, damping=d, start=0.1).build()


# ---- Newton's method on one step -------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [1e3, 1e6, 1e9])
def test_a_stiff_step_keeps_the_order_of_its_stages(rate):
    problem = Tracking(lambda t: rate + 0 * t)
    integrator = Integrator(problem, rtol=1e-14, atol=1e-14)

    def error(length):
        stiffness = Stiffness(problem.rates, 0.0, np.array([1.0]), np.array([1.0]))
        guess = Polynomial(0.0, length, np.array([1.0]), np.zeros((8, 1)))
        trial = integrator._trial(0.0, np.array([1.0]), length, guess, 1.0, stiffness)
        middle = 0.37 * length
        return abs(trial.polynomial.end[0] - np.cos(length)), abs(trial.polynomial(middle)[0] - np.cos(middle))

    long, short = error(3.0), error(2.0)
    # order s + 1 = 9 between the points, and at the end as well however stiff it is, divided by the rate there
    assert np.log(long[1] / short[1]) / np.log(1.5) > 7.5
    assert short[0] < 1e-3 / rate


def test_the_modes_of_radau_put_its_weights_together_again():
    modes, A = radau_modes(), radau_rule().weights
    error = np.abs((modes.back @ np.diag(modes.values) @ modes.into).real - A)
    # eigenvectors that are nearly parallel cost digits: those of their condition, whatever finds them
    condition = np.linalg.norm(modes.back, 2) * np.linalg.norm(modes.into, 2)
    assert error.max() < len(A) * np.finfo(float).eps * condition * np.linalg.norm(A, 2)
    assert len(modes.values) == 4


def test_differences_give_the_derivatives_of_the_catalogue_with_the_change_of_constraint_forces():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    dyn = wt.compile(model)
    motion = Motion(dyn)
    v = dyn.project_velocity(model.home.q, np.ones(model.nv))
    y = np.concatenate([model.home.q, v])
    J = rate_jacobian(motion.rates, 0.0, y, np.maximum(np.abs(y), 1.0))
    found = dyn.forward_dynamics_derivatives(model.home.q, v, np.zeros(model.nv))
    # along motions that the loops allow: there the rates need no projection
    free = dyn.project_velocity(model.home.q, np.array([1.0, 0.0, 0.0]))
    n = model.nv
    assert J[n:, n:] @ free == pytest.approx(found[1] @ free, rel=1e-5)


def test_the_rate_of_a_spring_is_estimated():
    y = np.array([0.1, 0.0])
    for k in (1e2, 1e6, 1e12):
        spring = Stiffness(lambda t, y, k=k: np.stack([y[:, 1], -k * y[:, 0]], axis=1), 0.0, y, np.ones(2))
        assert spring.integrates_itself
        assert 1.0 <= spring.radius / np.sqrt(k) < 1.7


def oscillators(rates):
    """As many masses on springs as there are rates, 1/s, all tied to their neighbours a little."""
    stiffness = np.diag(rates**2) + 0.1 * (np.eye(len(rates), k=1) + np.eye(len(rates), k=-1))

    class Springs:
        def rates(self, t, y):
            q, v = np.split(y, 2, axis=1)
            return np.concatenate([v, -q @ stiffness], axis=1)

        def project(self, t, y):
            return y

    return Springs()


def test_the_rate_of_many_springs_is_estimated_by_powers():
    for fastest in (1e1, 1e4):
        rates = np.geomspace(1.0, fastest, 60)
        found = Stiffness(oscillators(rates).rates, 0.0, np.zeros(120), np.ones(120))
        assert 0.9 < found.radius / fastest < 1.7
    drift = Stiffness(lambda t, y: np.concatenate([y[:, 60:], 0 * y[:, 60:]], axis=1), 0.0, np.zeros(120), np.ones(120))
    assert drift.radius == 0  # a free flight has no rate


# ---- when it is used -------------------------------------------------------------------------------------------------


def test_the_iteration_changes_over_and_back_by_itself():
    problem = Tracking(lambda t: 1 + 1e6 * np.exp(-5 * t))
    integrator = Integrator(problem, rtol=1e-9, atol=1e-9, dead_points=False)
    pieces = list(integrator.pieces(Progress(0.0, np.array([1.0])), 12.0))
    stiff = [piece.progress.stiff for piece in pieces]
    assert any(stiff)
    assert not stiff[-1]
    assert 0 < integrator.statistics.newton_steps < integrator.statistics.steps < 100
    assert abs(pieces[-1].state[0] - np.cos(12.0)) < 1e-8


@pytest.mark.parametrize(("size", "looks"), [(60, True), (130, False)])
def test_nobody_looks_for_stiffness_where_newtons_method_would_never_be_worthwhile(size, looks):
    integrator = Integrator(oscillators(np.linspace(1.0, 3.0, size)), rtol=1e-10, atol=1e-10, dead_points=False)
    start = Progress(0.0, np.concatenate([np.ones(size), np.zeros(size)]))
    assert len(list(integrator.pieces(start, 150.0))) > 50
    assert (integrator.statistics.jacobians > 0) == looks


def test_a_stiff_spring_does_not_rule_the_step():
    run = wt.simulate(damped_spring(), duration=1.0)
    assert run.attrs["steps"] < 100
    assert run.q.values[-1, 0] == pytest.approx(-0.5 * 9.81 / 1e6, abs=1e-9)


def test_a_pendulum_never_needs_newton():
    run = wt.simulate(wt.mechanisms.double_pendulum(), [1.0, 0.5], duration=2.0)
    assert run.attrs["newton_steps"] == 0
    assert run.attrs["jacobians"] <= run.attrs["steps"] // 50  # looked at now and then


@pytest.mark.parametrize("solver", ["picard", "newton"])
def test_either_way_can_be_asked_for(solver):
    model = wt.mechanisms.double_pendulum()
    free = wt.simulate(model, [1.0, 0.5], duration=1.0, rtol=1e-11, atol=1e-12)
    run = wt.simulate(model, [1.0, 0.5], duration=1.0, rtol=1e-11, atol=1e-12, solver=solver)
    assert run.attrs["newton_steps"] == (run.attrs["steps"] if solver == "newton" else 0)
    assert np.abs(run.q.values - free.q.values).max() < 1e-9


def test_a_way_that_does_not_exist_is_refused():
    with pytest.raises(wt.NameLookupError, match="solver"):
        wt.simulate(wt.mechanisms.pendulum(), duration=0.1, solver="bdf")


# ---- whole runs against others ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("k", "d"), [(1e5, 1e2), (1e7, 1e4)])
def test_stiff_chains_agree_with_an_independent_integrator(k, d):
    model = stiff_chain(3, k, d)
    dyn = wt.compile(model)

    def f(t, y):
        q, v = y[:3], y[3:]
        return np.concatenate([v, dyn.forward_dynamics(q, v, dyn.passive_forces(q, v))])

    run = wt.simulate(model, duration=0.5)
    peer = solve_ivp(f, (0, 0.5), np.zeros(6), method="Radau", rtol=1e-10, atol=1e-12, t_eval=run.time.values)
    assert run.attrs["newton_steps"] > 0
    # between the steps too: the polynomial of a step is what comes out
    assert np.abs(run.q.values - peer.y[:3].T).max() < 1e-7
    assert np.abs(run.v.values - peer.y[3:].T).max() < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("word", ["mu=1e+01", "slider-crank", "1e6 N/m, damped", "quarter car"])
def test_stiff_machines_agree_with_an_independent_integrator(word):
    problem = next(problem for problem in stiff_machines() if word in problem.name)
    f = right_hand_side(problem, wt.compile(problem.model))
    start = np.concatenate([problem.q, problem.v])
    duration = problem.duration / 4
    run = wt.simulate(problem.model, problem.q, problem.v, duration=duration, controller=problem.controller, rtol=1e-11)
    peer = solve_ivp(f, (0, duration), start, method="LSODA", rtol=1e-12, atol=1e-14)
    found = np.concatenate([run.q.values[-1], run.v.values[-1]])
    assert np.abs(found - peer.y[:, -1]).max() < 1e-8 * (1 + np.abs(found).max())


def test_dense_output_of_a_decay_is_its_closed_form():
    builder = wt.Builder("slide", (0, 0, 0)).body("block", 1.0)
    builder.joint("rail", "prismatic", "world", "block", axis=(1, 0, 0), stiffness=1e5, damping=2e3, start=0.1)
    run = wt.simulate(builder.build(), duration=0.5, output_dt=1e-3)
    t = run.time.values
    fast, slow = -1000 - np.sqrt(1e6 - 1e5), -1000 + np.sqrt(1e6 - 1e5)
    exact = 0.1 * (slow * np.exp(fast * t) - fast * np.exp(slow * t)) / (slow - fast)
    assert np.abs(run.q.values[:, 0] - exact).max() < 1e-9
    assert run.attrs["newton_steps"] > 0


def test_energy_of_a_relaxed_chain_without_damping():
    model = stiff_chain(3, 1e6, 0.0)
    hanging = np.array([-np.pi / 2, 0.0, 0.0])  # straight down nothing is bent
    run = wt.simulate(model, hanging, [1e-3, 0.0, 0.0], duration=2.0)
    energy = (run.kinetic_energy + run.potential_energy).values
    bent = 0.5 * 1e6 * (run.q.values[:, 1:] ** 2).sum(axis=1)
    assert np.abs(energy + bent - energy[0] - bent[0]).max() < 1e-8


def test_a_linkage_under_stiff_control_keeps_its_loop_closed():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    controller = wt.controllers.pd(model, target=model.home.q, stiffness=1e6, damping=1e5)
    v = wt.compile(model).project_velocity(model.home.q, np.ones(model.nv))
    run = wt.simulate(model, v0=v, duration=0.5, controller=controller)
    assert run.attrs["newton_steps"] > 0
    assert run.attrs["steps"] < 150
    assert float(np.abs(run.constraint_residual).max()) < 1e-12
    assert np.abs(run.q.values[-1] - model.home.q).max() < 1e-3


def test_a_massless_motion_that_a_stiff_damper_decides():
    builder = wt.Builder("strut", (0, 0, 0)).body("block", 1.0).body("tip")
    builder.joint("rail", "prismatic", "world", "block", axis=(1, 0, 0), stiffness=10.0, start=0.2)
    builder.joint("tip", "prismatic", "block", "tip", axis=(1, 0, 0), stiffness=1e5, damping=1.0, start=0.01)
    model = builder.build()
    run = wt.simulate(model, duration=0.5, massless="relax", output_dt=0.1)
    t = run.time.values
    # m ẍ = −10 x: the massless tip carries no force but its own spring's and damper's, which cancel
    assert run.attrs["steps"] < 200
    assert np.abs(run.q.values[:, 1] - 0.01 * np.exp(-1e5 * t)).max() < 1e-8


def test_an_event_is_found_in_a_stiff_step():
    stop = wt.Event("half", lambda t, q, v: q[0] - 0.05, terminal=True)
    run = wt.simulate(damped_spring(1e4, 1e4), duration=5.0, events=(stop,))
    assert run.attrs["event_names"] == ["half"]
    assert run.q.values[-1, 0] == pytest.approx(0.05, abs=1e-10)


def test_contacts_by_events_with_stiff_springs():
    builder = wt.Builder("pogo", (0, 0, -9.81)).body("body", 1.0).body("foot", 0.01)
    builder.joint("rail", "prismatic", "world", "body", axis=(0, 0, 1), start=1.0)
    builder.joint("leg", "prismatic", "body", "foot", axis=(0, 0, 1), stiffness=1e6, damping=1e3, lower=-0.5, upper=0.5)
    run = wt.simulate(builder.build(), duration=0.3, method="events")
    assert not run.attrs["failure"]
    assert run.q.values[-1, 0] == pytest.approx(1.0 - 0.5 * 9.81 * 0.09, abs=1e-4)


def test_a_stiff_spring_with_dry_friction_has_its_closed_form():
    """Half cycles about ± F/k, whose amplitudes fall by 2 F/k; at rest where the spring is weaker than the friction."""
    force, k, start = 50.0, 1e6, 1.03e-3
    builder = wt.Builder("slider", (0, 0, 0)).body("mass", 1.0)
    model = builder.joint("x", "prismatic", "world", "mass", stiffness=k, friction=force, start=start).build()
    rate = np.sqrt(k)
    run = wt.simulate(model, duration=0.05, method="events", output_dt=np.pi / rate / 4)
    t = run.time.values
    n = np.minimum(np.floor(t * rate / np.pi + 1e-9), 10)  # half cycles, of which the last leaves 0.6 F/k
    amplitude = start - 2 * n * force / k
    swing = (amplitude - force / k) * np.cos(rate * t - n * np.pi) + force / k
    expected = (-1) ** n * np.where(n < 10, swing, amplitude)
    assert run.attrs["events"] == 10
    assert np.abs(run.q.values[:, 0] - expected).max() < 1e-12


@pytest.mark.slow
def test_a_stiff_rod_on_a_rubbing_hinge_agrees_with_an_independent_integrator():
    def pendulum(friction):
        builder = wt.Builder("pendulum", (0, -9.81, 0)).body("sleeve", 0.1, inertia=(1e-3, 1e-3, 1e-3))
        builder.joint("hinge", "revolute", "world", "sleeve", friction=friction, start=1.0)
        builder.body("bob", 1.0, inertia=(1e-3, 1e-3, 1e-3))
        rod = {"position": (1.0, 0, 0), "axis": (1, 0, 0), "stiffness": 1e6, "damping": 100.0}
        return builder.joint("rod", "prismatic", "sleeve", "bob", start=-9.81 * np.sin(1.0) / 1e6, **rod).build()

    smooth = wt.compile(pendulum(0.0))

    def f(t, y):  # it swings one way for the first second, so the friction is a constant torque
        q, v = y[:2], y[2:]
        return np.concatenate([v, smooth.forward_dynamics(q, v, smooth.passive_forces(q, v) + np.array([0.5, 0.0]))])

    run = wt.simulate(pendulum(0.5), duration=1.0, method="events", rtol=1e-10)
    start = np.concatenate([run.q.values[0], run.v.values[0]])
    peer = solve_ivp(f, (0, 1), start, method="LSODA", rtol=1e-12, atol=1e-14, t_eval=run.time.values)
    assert run.attrs["newton_steps"] > 0
    assert np.abs(run.q.values - peer.y[:2].T).max() < 1e-9
    assert np.abs(run.v.values - peer.y[2:].T).max() < 1e-8


# ---- batches, controllers, resumption --------------------------------------------------------------------------------


def test_runs_of_a_batch_are_the_runs_alone():
    model = damped_spring(1e5, 1e2)
    starts = np.array([[0.1], [0.02]])
    both = wt.simulate(model, starts, duration=0.2, output_dt=0.05)
    for k, start in enumerate(starts):
        alone = wt.simulate(model, start, duration=0.2, output_dt=0.05)
        assert np.array_equal(both.q.values[:, k], alone.q.values)


def test_a_controller_in_plain_python_may_be_stiff():
    model = wt.mechanisms.double_pendulum()

    def hold(t, q, v):
        if t < 0:  # a branch: this one cannot be traced
            return [0.0, 0.0]
        return -1e5 * q - 1e4 * v

    run = wt.simulate(model, [0.1, 0.1], duration=1.0, controller=hold)
    traced = wt.simulate(model, [0.1, 0.1], duration=1.0, controller=lambda t, q, v: -1e5 * q - 1e4 * v)
    assert run.attrs["newton_steps"] > 0
    assert run.attrs["steps"] < 200
    assert np.abs(run.q.values - traced.q.values).max() < 1e-8


@pytest.mark.parametrize("method", ["adaptive", "rk4"])
def test_a_controller_that_has_changed_since_is_traced_anew(method):
    model = wt.mechanisms.double_pendulum()
    gain = SimpleNamespace(value=1.0)

    def controller(t, q, v):
        return -gain.value * q

    ends = []
    for value in (1.0, 5.0):
        gain.value = value
        ends.append(wt.simulate(model, [1.0, 0.5], duration=9.0, controller=controller, method=method).q.values[-1])
    fresh = wt.simulate(
        wt.mechanisms.double_pendulum(), [1.0, 0.5], duration=9.0, controller=lambda t, q, v: -5.0 * q, method=method
    )
    assert np.abs(ends[0] - ends[1]).max() > 1e-2
    assert ends[1] == pytest.approx(fresh.q.values[-1], abs=1e-6)


def adaptive(model, start, duration, controller=None, rtol=1e-9):
    motion = Motion(wt.compile(model), controller)
    start = motion.project(0.0, np.asarray(start, dtype=float))
    task = Task(motion, start, np.array([0.0, duration]), rtol, rtol / 100)
    return Adaptive(task), start


def test_a_stiff_run_that_is_taken_up_again_has_the_same_bits():
    method, start = adaptive(stiff_chain(3, 1e5, 1e2), np.zeros(6), 0.3)
    pieces = list(method.integrator.pieces(Progress(0.0, start), 0.3))
    middle = next(k for k, piece in enumerate(pieces) if piece.progress.stiff and k > len(pieces) // 2)
    again, _ = adaptive(stiff_chain(3, 1e5, 1e2), np.zeros(6), 0.3)
    progress = progress_of(memo_of(pieces[middle].progress))
    rest = list(again.integrator.pieces(progress, 0.3))
    assert np.array_equal(rest[-1].state, pieces[-1].state)


# ---- steps by machine code -------------------------------------------------------------------------------------------


def stone():
    builder = wt.Builder("stone", gravity=(0, 0, -9.81)).body("stone", 2.0, inertia=(0.3, 0.2, 0.1))
    return builder.joint("float", "free", "world", "stone").build()


def driven_pendulum():
    """The shoulder of a double pendulum follows a function of time."""
    model = wt.mechanisms.double_pendulum()
    drive = Constraint("drive", "prescribed", ("shoulder",), {"motion": lambda t: 0.4 * np.sin(3 * t)})
    return replace(model, constraints=(drive,))


def soft_four_bar():
    """A four-bar whose pin yields to its force."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    pins = [replace(c, parameters={**c.parameters, "compliance": 0.01}) for c in model.constraints]
    return replace(model, constraints=tuple(pins))


def hung_stone():
    """A free stone whose corner is pinned to the world, by a constraint that can be switched."""
    builder = wt.Builder("hung stone", gravity=(0, 0, -9.81)).body("stone", 2.0, inertia=(0.3, 0.2, 0.1))
    builder.frame("corner", "stone", position=(0.3, 0.2, 0.4)).frame("hook", "world", position=(0.3, 0.2, 0.4))
    builder.joint("float", "free", "world", "stone")
    return builder.constraint("ball", "point", "corner", "hook", switchable=True).build()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "controller"),
    [
        (wt.mechanisms.double_pendulum(), None),
        (wt.mechanisms.double_pendulum(), lambda t, q, v: -2.0 * q - 0.1 * v + np.sin(t)),
        (wt.mechanisms.double_pendulum(), lambda t, q, v: -2.0 * q - 0.1 * v + 0.3 * t),
        (wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8)), None),
        (wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8)), lambda t, q, v: -5.0 * v),
        (stone(), None),
        (hung_stone(), None),
        (stiff_chain(3, 1e5, 1e2), None),
        (driven_pendulum(), None),
        (soft_four_bar(), None),
    ],
    ids=[
        "tree",
        "controlled tree",
        "affine control",
        "loop",
        "controlled loop",
        "quaternion",
        "pinned quaternion",
        "stiff",
        "in time",
        "compliant",
    ],
)
def test_machine_code_takes_the_steps_of_python(model, controller, monkeypatch):
    speed = Motion(wt.compile(model)).project(0.0, np.concatenate([model.home.q, np.linspace(0.5, 1.5, model.nv)]))
    ends, counts = [], []
    for way in ("own code", "calls", "python"):
        monkeypatch.setattr(compiled_steps, "BODIES_IN_STEPS", 0 if way == "calls" else 100)
        method, start = adaptive(model, speed, 1.0, controller)
        method.integrator.compiled._wait = -1000  # at once, also under a controller that has to be traced
        if way == "python":
            method.integrator.compiled = None
        *_, last = method.integrator.pieces(Progress(0.0, start), 1.0)
        if way != "python":  # none where steps were left to Python
            assert method.integrator.compiled._called if way == "calls" else method.integrator.compiled._functions
        ends.append(last.state)
        counts.append((method.statistics.steps, method.statistics.iterations, method.statistics.newton_steps))
    for end, count in zip(ends[:2], counts[:2], strict=True):
        assert np.abs(end - ends[2]).max() < 1e-8
        assert np.abs(np.subtract(count, counts[2])).max() <= 0.1 * max(count) + 2


def loaded_ladder():
    """A stiff spring and a damper hold the crank of a ladder of four-bars: fifteen bodies."""
    model = wt.mechanisms.n_four_bar(7)
    joints = [replace(j, stiffness=1e5, damping=50.0) if k == 0 else j for k, j in enumerate(model.joints)]
    return replace(model, joints=tuple(joints))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "controller"),
    [
        (stiff_chain(14, 1e6, 1e2), None),
        (stiff_chain(14, 1e4, 0.0), lambda t, q, v: -50.0 * v + np.sin(t)),
        (wt.mechanisms.double_pendulum(), lambda t, q, v: -2.0 * q - 0.1 * v + 0.3 * t),
        (wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8)), lambda t, q, v: -500.0 * v),
        (loaded_ladder(), None),
        (hung_stone(), None),
        (driven_pendulum(), None),
        (soft_four_bar(), None),
    ],
    ids=["chain", "traced control", "affine control", "loop", "ladder", "quaternion", "in time", "compliant"],
)
def test_newton_steps_that_call_are_those_of_python(model, controller, monkeypatch):
    monkeypatch.setattr(compiled_steps, "BODIES_IN_STEPS", 0)
    speed = Motion(wt.compile(model)).project(0.0, np.concatenate([model.home.q, np.linspace(0.2, 0.3, model.nv)]))
    ends, counts = [], []
    for way in ("calls", "python"):
        method, start = adaptive(model, speed, 0.2, controller, rtol=1e-8)
        method.integrator.solver = "newton"
        if way == "python":
            method.integrator.compiled = None
        *_, last = method.integrator.pieces(Progress(0.0, start), 0.2)
        if way == "calls":
            assert {stiff for stiff, _ in method.integrator.compiled._called} == {False, True}
        ends.append(last.state)
        counts.append((method.statistics.steps, method.statistics.iterations))
        assert method.statistics.newton_steps == method.statistics.steps
    scale = 1 + np.abs(ends[1])
    assert (np.abs(ends[0] - ends[1]) / scale).max() < 1e-7
    assert np.abs(np.subtract(*counts)).max() <= 0.15 * max(counts[1]) + 2


def test_a_trial_of_machine_code_has_the_length_that_was_asked_for():
    # strides shorten a step whose error is too large by themselves; a single trial must not. At 1e-13 rounding would
    # decide whether the iteration of so long a step still converges
    method, start = adaptive(wt.mechanisms.double_pendulum(), [1.0, 0.5, 0.0, 0.0], 1.0, rtol=1e-10)
    integrator = method.integrator
    guess = Polynomial(0.0, 0.4, start, np.zeros((8, 4)))
    assert integrator.compiled.prepare(0)
    found = integrator.compiled.solve(0.0, start, 0.4, guess, 1e-10, 1e-12, False)
    integrator.compiled = None
    by_python = integrator._trial(0.0, start, 0.4, guess)
    assert found.error > 1
    assert found.error == pytest.approx(by_python.error, rel=1e-3)
    assert found.polynomial.end == pytest.approx(by_python.polynomial.end, abs=1e-12)


def test_affine_controllers_are_told_from_others():
    model = wt.mechanisms.double_pendulum()
    task = adaptive(model, np.zeros(4), 1.0)[0].task
    affine = {
        "constant": lambda t, q, v: np.array([1.0, 2.0]) + 0 * v,
        "regulator": lambda t, q, v: 3 * (np.array([0.1, 0.2]) - q) - 4 * v + 5 * t,
        "ready-made": wt.controllers.pd(model, target=[0.1, 0.2], stiffness=3.0, damping=0.5),
    }
    others = {
        "limited": lambda t, q, v: np.clip(-q, -1, 1),
        "in time": lambda t, q, v: np.sin(t) + 0 * v,
        "product": lambda t, q, v: q * v,
        "in Python": lambda t, q, v: -q if t >= 0 else q,
    }
    for name, controller in affine.items():
        found = affine_forces(model, controller, task.samples())
        assert found is not None, name
        for t, q, v in ((0.3, np.array([0.5, -0.2]), np.array([1.0, 2.0])), *task.samples()):
            assert found(t, q, v) == pytest.approx(controller(t, q, v), abs=1e-12)
    for name, controller in others.items():
        assert affine_forces(model, controller, task.samples()) is None, name


def test_a_step_to_where_there_are_no_rates_is_shortened():
    class Walled:
        def rates(self, t, y):
            if (y > 1.5).any():
                raise SingularSystemError("beyond 1.5 nothing is determined")
            return 1 - y

        def project(self, t, y):
            return y

    integrator = Integrator(Walled(), rtol=1e-9, atol=1e-9)
    # what the last step knew leads far beyond
    guess = Polynomial(0.0, 1.0, np.zeros(1), np.full((8, 1), 50.0))
    trial = integrator._find_accepted(0.0, np.zeros(1), 1.0, guess, None)
    assert 0 < trial.polynomial.length < 1.0
    assert trial.polynomial.end[0] == pytest.approx(1 - np.exp(-trial.polynomial.length), abs=1e-8)
    assert integrator.statistics.rejections > 0


def test_steps_without_output_leave_nothing_behind():
    method, _ = adaptive(stiff_chain(2, 1e6, 0.0), np.zeros(4), 0.5)
    record = Record()
    record.take(method)
    assert method.statistics.steps > 500
    assert len(record.chunks) == 2


def test_fixed_steps_that_are_too_long_for_the_gains_are_named_and_not_the_loop():
    model = wt.mechanisms.crank_slider()
    controller = wt.controllers.pd(model, target=model.home.q + 0.01, stiffness=1e5, damping=1e4)
    run = wt.simulate(model, duration=0.5, controller=controller, method="rk4", step=1e-3, output_dt=0.01)
    assert run.attrs["failure"] == (
        "the integration stopped at t = 0.002 s: the step of 0.001 s is too long: two of half its length end "
        "elsewhere. Gains, springs and dampers on light parts ask for shorter steps; method='adaptive' chooses its own"
    )


def sprung_cells(k):
    """Three four-bars in series, the second and third held by springs."""
    model = wt.mechanisms.four_bar_chain(3)

    def sprung(joint):
        rest = float(model.home.q[model.q_slice(joint.name)][0])
        return replace(joint, stiffness=k, rest=rest) if joint.name in ("crank_2", "crank_3") else joint

    return replace(model, joints=tuple(sprung(joint) for joint in model.joints))


@pytest.mark.parametrize("way", ["code", "python"])
def test_stiff_loops_are_no_dead_points(way):
    """Tolerances are kept, and steps that are too long for an oscillation are not tried time and again."""
    model = sprung_cells(1e5)
    ends = []
    for rtol in (1e-8, 1e-11):
        method, start = adaptive(model, np.concatenate([model.home.q, model.home.v]), 0.1, None, rtol=rtol)
        if way == "python":
            method.integrator.compiled = None
        *_, last = method.integrator.pieces(Progress(0.0, start), 0.1)
        ends.append(last.state)
        assert method.statistics.relaxed == 1.0
        assert method.statistics.rejections < method.statistics.steps / 3
    assert (np.abs(np.subtract(*ends)) / (1 + np.abs(ends[1]))).max() < 1e-7


def test_states_that_a_diverging_step_runs_through_are_not_asked_of_python():
    """Arms on springs shake a delta robot: Newton steps that are too long end at states where forearms do not reach."""
    model = wt.mechanisms.delta_robot()
    rest = {f"arm_{k}": float(model.home.q[model.q_slice(f"arm_{k}")][0]) for k in (1, 2)}
    joints = [replace(j, stiffness=1e5, rest=rest[j.name]) if j.name in rest else j for j in model.joints]
    method, start = adaptive(
        replace(model, joints=tuple(joints)), np.concatenate([model.home.q, model.home.v]), 0.3, rtol=1e-1
    )
    method.integrator.solver = "newton"
    *_, last = method.integrator.pieces(Progress(0.0, start), 0.3)
    assert method.statistics.rejections > 0
    assert method.integrator.problem.dead_points == 0
    assert np.isfinite(last.state).all()
