"""Steps that call functions of the model, of commands and of users: activations in the state, massless motions that
dampers decide, controllers in plain Python. Against the same steps in Python, and against closed forms."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.controllers import ActuatorForces
from whippletree.model import Activation
from whippletree.simulation.adaptive.adaptive_method import Adaptive, memo_of, progress_of
from whippletree.simulation.adaptive.motion_pieces import Progress
from whippletree.simulation.method import Task
from whippletree.simulation.motion import Motion

KINDS = [
    Activation("filter", (0.03,)),
    Activation("filterexact", (0.2,)),
    Activation("integrator", range=(-0.3, 0.4)),
    Activation("muscle", (0.01, 0.04, 0.0)),
    None,
]


def both_ways(motion, start, duration, rtol=1e-9, solver="auto"):
    """End and counts of a run by calls and of one in Python."""
    found = []
    for way in ("calls", "python"):
        task = Task(motion(), start, np.array([0.0, duration]), rtol, rtol / 100)
        method = Adaptive(task, solver=solver)
        calls = method.integrator.compiled
        if way == "python":
            method.integrator.compiled = None
        *_, last = method.integrator.pieces(Progress(0.0, start), duration)
        assert way == "python" or calls._called, "steps were left to Python"
        found.append((last.state, method.statistics))
    return found


def agree(found, tolerance=1e-7):
    (end, counts), (expected, by_python) = found
    np.testing.assert_allclose(end, expected, rtol=tolerance, atol=tolerance)
    assert abs(counts.steps - by_python.steps) <= 0.15 * by_python.steps + 2
    assert counts.newton_steps <= counts.steps


def driven_tree(seed):
    """A random tree whose joints of one freedom have springs, dampers and actuators, most of them with a memory."""
    rng = np.random.default_rng(seed)
    builder, parent = wt.Builder(f"tree {seed}", rng.normal(size=3)), "world"
    for k in range(int(rng.integers(2, 5))):
        builder.body(f"body {k}", 1.0, center=rng.normal(size=3) * 0.2, inertia=(0.1, 0.12, 0.15))
        kind = "spherical" if k == 2 else str(rng.choice(["revolute", "prismatic"]))
        axis = {} if kind == "spherical" else {"axis": rng.normal(size=3), "stiffness": 5.0, "damping": 0.5}
        builder.joint(f"joint {k}", kind, parent, f"body {k}", position=rng.normal(size=3) * 0.3, **axis)
        parent = f"body {k}" if rng.random() < 0.7 else parent
        if kind != "spherical":
            builder.actuator(f"motor {k}", f"joint {k}", activation=KINDS[int(rng.integers(len(KINDS)))])
    builder.actuator("one more", "joint 0", activation=KINDS[seed % 4])
    model = builder.build()
    gains = rng.normal(size=(2, len(model.actuators), model.nv))
    return model, gains


@pytest.mark.parametrize("solver", ["auto", "newton"])
@pytest.mark.parametrize("plain", [False, True], ids=["traced", "in Python"])
@pytest.mark.parametrize("seed", range(3))
def test_activations_that_commands_by_the_state_move_are_those_of_python(seed, plain, solver):
    model, gains = driven_tree(seed)

    def commands(t, q, v):
        return 0.4 + gains[0] @ np.sin(v) * 0.3 + 0.2 * gains[1] @ v + (math.cos(float(t)) if plain else np.cos(t))

    dyn, driver = wt.compile(model), ActuatorForces.of(model, commands)
    start = np.concatenate([model.home.q, np.linspace(0.3, 0.9, model.nv), np.full(len(model.activations), 0.1)])
    found = both_ways(lambda: Motion(dyn, actuated=driver, remembers=True), start, 0.3, 1e-7, solver)
    agree(found, 1e-6)


def test_activations_of_a_loop_beside_a_controller_are_those_of_python():
    motor = wt.Builder("motor").body("rod", 1.0).joint("crank", "revolute", "world", "rod")
    motor = motor.actuator("motor", "crank", activation=Activation("filter", (0.01,))).build()
    model = replace(wt.mechanisms.four_bar((1.0, 0.4, 1.2, 0.8)), actuators=motor.actuators)
    dyn, driver = wt.compile(model), ActuatorForces.of(model, lambda t, q, v: [20 * (3.0 - v[0])])
    start = Motion(dyn).project(0.0, np.concatenate([model.home.q, [1.0, 0, 0]]))

    def motion():
        return Motion(dyn, lambda t, q, v: -0.3 * v * np.abs(v), actuated=driver, remembers=True)

    for solver in ("auto", "newton"):
        found = both_ways(motion, np.append(start, 0.0), 0.4, 1e-8, solver)
        agree(found, 1e-6)
        assert dyn.constraint_residual(found[0][0][: model.nq]) == pytest.approx(0, abs=1e-14)


def test_an_activation_stops_at_the_end_of_its_range():
    model = wt.Builder("cart").body("mass", 1.0, inertia=(1, 1, 1))
    model = model.joint("rail", "prismatic", "world", "mass", axis=(1, 0, 0))
    model = model.actuator("motor", "rail", activation=Activation("integrator", range=(-1.0, 0.25))).build()
    run = wt.simulate(model, duration=0.5, ctrl=lambda t, q, v: [1 + 0 * v[0]], output_dt=0.1)
    t = run.time.values
    np.testing.assert_allclose(run.act.values[:, 0], np.minimum(t, 0.25), rtol=0, atol=1e-9)
    expected = np.where(t < 0.25, t**2 / 2, 0.25 * (t - 0.125))
    np.testing.assert_allclose(run.v.values[:, 0], expected, rtol=0, atol=1e-8)


# ---- massless motions that dampers decide ----------------------------------------------------------------------------


def creeping_arm():
    """Links without mass between dampers and springs, a mass at the tip: three joints, two freedoms with inertia."""
    builder, parent = wt.Builder("arm", (0, -9.81, 0)), "world"
    for k in range(3):
        builder.body(f"link {k}", float(k == 2), center=(0.5, 0, 0))
        place = (0.5 if k else 0.0, 0, 0)
        builder.joint(f"joint {k}", "revolute", parent, f"link {k}", position=place, damping=1.0, stiffness=5.0)
        parent = f"link {k}"
    return builder.build()


@pytest.mark.parametrize(
    "controller",
    [None, lambda t, q, v: np.sin(3 * t) - 0.5 * q, lambda t, q, v: math.sin(3 * float(t)) - 0.5 * q],
    ids=["alone", "traced", "in Python"],
)
@pytest.mark.parametrize("solver", ["auto", "newton"])
def test_what_dampers_decide_is_that_of_python(controller, solver):
    model = creeping_arm()
    dyn = wt.compile(model, massless="relax")
    start = Motion(dyn, controller).project(0.0, np.array([0.3, 0.5, -0.4, 0, 0, 0]))
    agree(both_ways(lambda: Motion(dyn, controller), start, 0.3, 1e-7, solver), 1e-6)


@pytest.mark.parametrize("f", [0.0, 0.3], ids=["alone", "beside a controller"])
@pytest.mark.parametrize("plain", [False, True], ids=["traced", "in Python"])
def test_a_damper_creeps_under_an_activation(plain, f):
    """d ẋ = w + f with ẇ = (u − w)/T and u = 1 − x, so ẍ + ẋ/T + x/(d T) = (1 + f)/(d T): two exponentials."""
    d, T = 2.0, 0.6
    line = wt.Builder("creep", gravity=(0, 0, 0)).body("node").body("mass", 1.0)
    line.joint("damper", "prismatic", "world", "node", axis=(1, 0, 0), damping=d)
    line.joint("slide", "prismatic", "world", "mass", axis=(0, 1, 0))
    line.actuator("motor", "damper", activation=Activation("filter", (T,)))
    model = line.build()

    def commands(t, q, v):
        return [1 - (float(q[0]) if plain else q[0])]

    controller = (lambda t, q, v: [f, 0.0]) if f else None
    run = wt.simulate(
        model, duration=2.0, ctrl=commands, controller=controller, massless="relax", output_dt=0.1, rtol=1e-10
    )
    t = run.time.values
    roots = np.roots([1, 1 / T, 1 / (d * T)]).astype(complex)
    c = np.linalg.solve(np.array([[1, 1], roots]), np.array([-(1 + f), f / d], dtype=complex))
    x = (1 + f) + (np.exp(np.outer(t, roots)) @ c).real
    np.testing.assert_allclose(run.q.values[:, 0], x, rtol=0, atol=1e-8)
    np.testing.assert_allclose(d * run.v.values[:, 0], run.act.values[:, 0] + f, rtol=0, atol=1e-8)


# ---- controllers in plain Python -------------------------------------------------------------------------------------


def test_a_controller_in_python_moves_as_the_same_one_that_is_traced():
    model = wt.mechanisms.chain(4)
    goal = np.linspace(0.1, 0.4, model.nv)

    def plain(t, q, v):
        return [float(3e3 * (g - a) - 2e2 * b + math.sin(4 * t)) for g, a, b in zip(goal, q, v, strict=True)]

    traced = wt.simulate(
        model, duration=0.5, controller=lambda t, q, v: 3e3 * (goal - q) - 2e2 * v + np.sin(4 * t), rtol=1e-10
    )
    run = wt.simulate(model, duration=0.5, controller=plain, rtol=1e-10)
    np.testing.assert_allclose(run.q, traced.q, rtol=0, atol=1e-9)
    assert run.attrs["newton_steps"] > 0
    assert abs(run.attrs["steps"] - traced.attrs["steps"]) <= 2

    def at_once(t, q, v):
        return np.array([plain(*state) for state in zip(t, q, v, strict=True)])

    batched = wt.simulate(model, duration=0.5, controller=wt.controllers.batched(at_once), rtol=1e-10)
    np.testing.assert_array_equal(batched.q, run.q)


@pytest.mark.parametrize("bodies", [1, 4])
def test_errors_of_a_controller_in_python_reach_its_user(bodies):
    model = wt.mechanisms.chain(bodies)

    def broken(t, q, v):
        if t > 0.2:
            raise KeyError("no such gain")
        return [0.0] * len(v)

    with pytest.raises(KeyError, match="no such gain") as raised:
        wt.simulate(model, duration=1.0, controller=broken)
    assert "raised by the controller at t = 0.2" in raised.value.__notes__[0]

    run = wt.simulate(model, duration=1.0, controller=lambda t, q, v: [math.nan if t > 0.2 else 0.0] * len(v))
    assert run.attrs["failure"].startswith("the controller returned nan at t = 0.2")
    assert 0.19 < run.time.values[-1] <= 0.2

    def stopped(t, q, v):
        if t > 0.2:
            raise KeyboardInterrupt
        return [0.0] * len(v)

    with pytest.warns(RuntimeWarning, match="interrupted"):
        run = wt.simulate(model, duration=1.0, controller=stopped)
    assert run.attrs["failure"] == "interrupted by the user"
    assert run.time.values[-1] <= 0.2


def test_controllers_in_python_may_simulate_and_run_side_by_side():
    model = wt.mechanisms.chain(3)

    def steady(t, q, v):
        return -float(2) * np.asarray(q, dtype=float) + math.sin(t)

    def curious(t, q, v):
        wt.simulate(model, q, v, duration=0.01, controller=steady, variables=[])
        return steady(t, q, v)

    alone = wt.simulate(model, duration=0.2, controller=steady)
    np.testing.assert_array_equal(wt.simulate(model, duration=0.2, controller=curious).q, alone.q)
    with ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda _: wt.simulate(model, duration=0.2, controller=steady), range(8)))
    for run in runs:
        np.testing.assert_array_equal(run.q, alone.q)


# ---- tangents of controllers in Python -------------------------------------------------------------------------------


def counted(law):
    """A law that cannot be traced, and how often it was asked."""
    asked = [0]

    def controller(t, q, v):
        asked[0] += 1
        return law(float(t), q, v)

    return controller, asked


def end_of(model, controller, duration, rtol, q=None):
    """The last state of a run, and its counts."""
    q = np.full(model.nq, 0.2) if q is None else q
    start = Motion(wt.compile(model)).project(0.0, np.concatenate([q, np.zeros(model.nv)]))
    task = Task(Motion(wt.compile(model), controller), start, np.array([0.0, duration]), rtol, rtol / 100)
    method = Adaptive(task)
    *_, last = method.integrator.pieces(Progress(0.0, start), duration)
    return last.state, method.statistics


@pytest.mark.parametrize(("stiffness", "damping"), [(50.0, 5.0), (5e3, 2e2)], ids=["soft", "stiff"])
@pytest.mark.parametrize("rtol", [1e-2, 1e-6, 1e-10])
def test_a_linear_law_in_python_is_asked_twice_at_each_point(stiffness, damping, rtol):
    model = wt.mechanisms.chain(4)

    def law(t, q, v):
        return stiffness * (0.3 * np.sin(2 * t) - q) - damping * v

    expected, _ = end_of(model, law, 1.0, rtol)
    exact, _ = end_of(model, law, 1.0, 1e-13)
    controller, asked = counted(law)
    found, counts = end_of(model, controller, 1.0, rtol)
    own, traced = np.abs(found - exact).max(), np.abs(expected - exact).max()
    assert own <= max(10 * traced, rtol / 10)
    tried = counts.steps + counts.rejections
    # beside the points: a tangent now and then, differences where the iteration changes, and ends of steps
    assert asked[0] <= 2 * 8 * tried + 10 * tried + 60
    assert counts.iterations > 4 * tried


@pytest.mark.parametrize(
    "law",
    [
        lambda t, q, v: -20 * np.tanh(5 * v) - 30 * np.sin(q) + math.sin(t),
        lambda t, q, v: np.clip(300 * (0.5 - q) - 20 * v, -6, 6),
        lambda t, q, v: -5 * v * np.abs(v) - 10 * q**3,
        lambda t, q, v: np.where(t > 0.1, 3.0, -3.0) - 0 * q,
    ],
    ids=["smooth", "with kinks", "powers", "with a jump"],
)
def test_a_law_in_python_that_is_not_linear_leads_where_steps_in_python_lead(law):
    model = wt.mechanisms.chain(4)
    controller, _ = counted(law)
    dyn = wt.compile(model)
    start = np.concatenate([np.full(4, 0.2), np.zeros(4)])
    (end, _), (expected, _) = both_ways(lambda: Motion(dyn, controller), start, 0.4, 1e-9)
    np.testing.assert_allclose(end, expected, rtol=0, atol=1e-7)


def test_a_law_in_python_of_loops_and_quaternions_leads_where_steps_in_python_lead():
    body = wt.Builder("satellite", gravity=(0, 0, 0)).body("bus", 2.0, inertia=(1.0, 2.0, 3.0))
    body = body.joint("float", "free", "world", "bus").body("mast", 1.0, center=(0.4, 0, 0), inertia=(0.1, 0.2, 0.2))
    body = body.joint("root", "revolute", "bus", "mast", stiffness=40.0, damping=0.1).build()

    def attitude(t, q, v):
        turn = q[body.q_slice("float")][3:]
        return np.concatenate([-8 * np.sign(turn[0]) * turn[1:] - 3 * v[:3], np.zeros(4)])

    linkage = wt.mechanisms.four_bar((1.0, 0.4, 1.2, 0.8))
    for model, law, speed in (
        (body, attitude, [0.4, -0.3, 0.5, 0.1, 0, 0, 0]),
        (linkage, lambda t, q, v: np.array([5.0, 0, 0]) * (2.0 - v), np.zeros(3)),
    ):
        controller, asked = counted(law)
        dyn = wt.compile(model)
        start = Motion(dyn).project(0.0, np.concatenate([model.home.q, speed]))
        found = both_ways(lambda dyn=dyn, controller=controller: Motion(dyn, controller), start, 1.0, 1e-8)
        agree(found, 1e-6)
        # the run in Python asks in each iteration
        assert asked[0] > 0
        before, asked[0] = asked[0], 0
        end_of(model, controller, 1.0, 1e-8, model.home.q)
        assert asked[0] < before / 2


@pytest.mark.parametrize("law", [lambda q, v: 2e3 * (0.3 - q) - 1e2 * v, lambda q, v: -30 * np.tanh(20 * v) - 40 * q])
def test_a_run_under_a_law_in_python_that_is_taken_up_again_has_the_same_bits(law):
    model = wt.mechanisms.chain(4)
    controller, _ = counted(lambda t, q, v: law(q, v))
    start = np.concatenate([np.full(4, 0.2), np.zeros(4)])

    def method():
        task = Task(Motion(wt.compile(model), controller), start, np.array([0.0, 1.0]), 1e-7, 1e-9)
        return Adaptive(task)

    whole = list(method().integrator.pieces(Progress(0.0, start), 1.0))
    assert any(piece.progress.tangent is not None and piece.progress.tangent.size for piece in whole)
    for number in range(1, len(whole) - 1, 3):
        again = method()
        again.statistics.steps = number + 1
        taken_up = progress_of(memo_of(whole[number].progress))
        *_, last = again.integrator.pieces(taken_up, 1.0)
        np.testing.assert_array_equal(last.state, whole[-1].state)
