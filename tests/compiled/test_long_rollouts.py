"""Roll-outs of large models as loops over bodies, clusters or fronts: against the same steps written out."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from strategies import make_closed_model, make_looped_model
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend import code_forms
from whippletree.compiler.program import every_block
from whippletree.compiler.rollout import rollout
from whippletree.compiler.rollout.rollout import Plan, rollout_program
from whippletree.constraints.long_systems import long_or_wide
from whippletree.model import Constraint, Frame, State

METHODS = ("semi_implicit_euler", "rk4")


def both_ways(model, plan, monkeypatch, parameters=()):
    """The roll-out written out, and as loops however small the model is."""
    with monkeypatch.context() as patched:
        patched.setattr(rollout, "LOOPS_BEYOND", 10**6)
        written = rollout_program(model, plan, parameters)
    with monkeypatch.context() as patched:
        patched.setattr(rollout, "LOOPS_BEYOND", 0)
        patched.setattr(code_forms, "UNROLL_UP_TO", 0)
        assert rollout.loops(model, plan, parameters)
        looped = rollout_program(model, plan, parameters)
    assert len(looped.body) > len(written.body)
    return [compile_function(program, threads=1) for program in (written, looped)]


def random_arguments(model, plan, steps, seed=0):
    rng = np.random.default_rng(seed)
    inputs = {"q0": model.home.q, "v0": rng.uniform(-0.3, 0.3, (3, model.nv)), "dt": 1e-3}
    if plan.given:
        inputs["tau"] = rng.uniform(-1, 1, (3, steps, model.nv))
    if plan.commands:
        inputs["ctrl"] = rng.uniform(-1, 1, (3, steps, len(model.actuators)))
    timed = bool(model.constraints) and wt.constraint_set(model).timed
    if timed or not plan.given:
        inputs["clock"] = 0.3 + 1e-3 * np.arange(steps)
    if plan.spaced:
        inputs["offsets"] = np.array([0.0])
    if model.constraints:
        inputs["v0"] = wt.compile(model).project_velocity(inputs["q0"], inputs["v0"], *([0.3] if timed else []))
    order = ("q0", "v0", "tau", "ctrl", "dt", "clock", "offsets")
    return [inputs[word] for word in order if word in inputs]


def require_equal(found, expected, error=1e-9):
    for a, b in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(a, b)
    assert (found[2] == 0).all()
    for a, b in zip(found[:2], expected[:2], strict=True):
        assert np.abs(a - b).max() <= error * max(1.0, np.abs(b).max())


def force_clusters(monkeypatch):
    monkeypatch.setattr("whippletree.constraints.route_choice.is_cheaper_by_clusters", lambda system: True)


def force_fronts(monkeypatch):
    """The elimination body by body, for ladders that are short."""
    monkeypatch.setattr(long_or_wide, "UNROLLED", 0)
    monkeypatch.setattr("whippletree.constraints.route_choice.is_cheaper_by_clusters", lambda system: False)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", [1, 5, 8])
def test_random_loops_over_clusters(seed, method, monkeypatch):
    """Redundant rows, compliant ones and free bases among them."""
    model, _ = make_looped_model(seed, limbs=5)
    force_clusters(monkeypatch)
    plan = Plan(method)
    written, looped = both_ways(model, plan, monkeypatch)
    given = random_arguments(model, plan, 6)
    require_equal(looped(*given), written(*given))


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_rows_that_depend_on_time(method, monkeypatch):
    """A joint that follows a motion; rows of a roll-out several steps apart, whose times are added up."""
    seed = next(s for s in range(40) if wt.constraint_set(make_closed_model(s)[0]).timed)
    model, motion = make_closed_model(seed)
    model = replace(model, start=State(motion.q, np.zeros(model.nv)))
    force_clusters(monkeypatch)
    plan = Plan(method)
    written, looped = both_ways(model, plan, monkeypatch)
    given = random_arguments(model, plan, 6)
    require_equal(looped(*given), written(*given))


@pytest.mark.parametrize("method", METHODS)
def test_ladders_by_fronts(method, monkeypatch):
    model = wt.mechanisms.n_four_bar(6)
    force_fronts(monkeypatch)
    plan = Plan(method)
    written, looped = both_ways(model, plan, monkeypatch)
    given = random_arguments(model, plan, 8)
    require_equal(looped(*given), written(*given))


@pytest.mark.parametrize("method", METHODS)
def test_a_long_chain_with_a_few_rows(method, monkeypatch):
    """Chains whose constraints are swept over: the tip of 60 rods held on a plane."""
    chain = wt.mechanisms.chain(60)
    bent = replace(chain, start=State(np.full(60, 0.02), np.zeros(60)))
    tip = wt.reference(chain).pose(chain.frames[-1].name)(bent.home.q)
    frame = Frame("rail", "world", np.block([[np.eye(3), tip[:3, 3:]], [np.zeros((1, 3)), np.ones((1, 1))]]))
    rail = Constraint("rail", "point_on_plane", (chain.frames[-1].name, "rail"), {})
    model = replace(bent, frames=(*chain.frames, frame), constraints=(rail,))
    plan = Plan(method)
    written, looped = both_ways(model, plan, monkeypatch)
    given = random_arguments(model, plan, 5)
    require_equal(looped(*given), written(*given))


@pytest.mark.parametrize("method", METHODS)
def test_a_controller_and_commands_of_motors(method, monkeypatch):
    """Both beside springs, and rows of several steps: the times of all of them are the controller's."""
    build = wt.Builder("arm", gravity=(0, -9.81, 0))
    above = "world"
    for k in range(4):
        build.body(f"b{k}", 1.0, (0.4, 0, 0), (0.1, 0.1, 0.1))
        build.joint(f"j{k}", "revolute", above, f"b{k}", position=(1.0 * bool(k), 0, 0), stiffness=2.0, damping=0.1)
        build.actuator(f"m{k}", f"j{k}", gear=3.0, gain=(2.0, 0, 0), bias=(0, -2.0, -0.1), command_range=(-0.5, 0.5))
        above = f"b{k}"
    model = build.build()

    def controller(t, q, v):
        return np.sin(9 * t) - 2 * v + np.cos(q)

    for plan in (Plan(method, given=False, controller=controller, spaced=True), Plan(method, commands=True)):
        written, looped = both_ways(model, plan, monkeypatch)
        given = random_arguments(model, plan, 7)
        if plan.spaced:
            given[-1] = 1e-3 * np.arange(4)
        require_equal(looped(*given), written(*given), error=1e-13)


def test_failures_have_the_same_numbers(monkeypatch):
    """A state that is no longer finite, a step that is too long to be closed, and a dead point."""
    model = wt.mechanisms.four_bar_chain(3)
    force_clusters(monkeypatch)
    plan = Plan("semi_implicit_euler")
    written, looped = both_ways(model, plan, monkeypatch)
    q0, v0, dt, tau = random_arguments(model, plan, 6)[0], np.zeros((3, model.nv)), 1e-3, np.zeros((3, 6, model.nv))
    v0[1] = 1e3 * wt.compile(model).project_velocity(q0, np.ones(model.nv))
    tau[2, 3, 0] = np.nan
    expected, found = written(q0, v0, tau, dt), looped(q0, v0, tau, dt)
    for a, b in zip(found[2:], expected[2:], strict=True):
        np.testing.assert_array_equal(a, b)
    assert found[2].astype(bool).tolist() == [False, True, True]
    assert found[3][2] == 3
    assert np.isnan(found[0][2, 3:]).all()
    assert np.isfinite(found[0][2, :3]).all()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "size"), [("four_bar_chain", 60), ("n_four_bar", 80)])
def test_models_beyond_what_is_written_out(name, size):
    """More than 150 bodies: code as for fewer, constraints held to rounding, and a controller in the kernel."""
    model = getattr(wt.mechanisms, name)(size)
    dyn = wt.compile(model)
    v0 = dyn.project_velocity(model.home.q, np.full(model.nv, 0.02))
    q, v = dyn.rollout(model.home.q, v0, np.zeros((5, model.nv)), 1e-3, method="rk4")
    assert dyn.rollout.status == 0
    assert np.abs(dyn.constraint_residual(q)).max() < 1e-12
    assert np.abs(dyn.constraint_velocity(q, v)).max() < 1e-11
    run = wt.simulate(
        model, model.home.q, v0, duration=3e-3, step=1e-3, output_dt=1e-3, method="rk4", controller=lambda t, q, v: -v
    )
    assert run.attrs["path"] == "compiled"
    damped = wt.reference(model)
    assert damped.kinetic_energy(run.q.values[-1], run.v.values[-1]) != damped.kinetic_energy(q[2], v[2])


def test_code_does_not_grow_with_the_cells():
    short, long = (rollout_program(wt.mechanisms.four_bar_chain(n), Plan("rk4")) for n in (20, 80))
    lengths = [sum(len(block.code.nodes) for block in every_block(program.body)) for program in (short, long)]
    assert lengths[0] == lengths[1]


@pytest.mark.parametrize("method", METHODS)
def test_a_rollout_with_open_parameters(method, monkeypatch):
    """A spring that is opened acts, too, where the model has none."""
    model = wt.mechanisms.chain(5)
    paths = ["bodies.rod_3.mass", "bodies.rod_2.center", "joints.joint_4.stiffness"]
    written, looped = both_ways(model, Plan(method), monkeypatch, paths)
    q, tau = np.full(5, 0.1), np.zeros((2, 6, 5))
    given = (q, np.ones(5), tau, 1e-2, np.array([0.7, 1.9]), np.array([0.3, 0.1, 0.0]), 20.0)
    found, expected = looped(*given), written(*given)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)
    assert np.abs(found[0][0] - found[0][1]).max() > 1e-3


@pytest.mark.parametrize("method", [{"method": "adaptive"}, {"method": "rk4", "step": 1e-4}])
def test_a_row_of_masses_between_springs_keeps_its_mode(method):
    """160 masses m between springs k and two walls: the third mode swings with ω = 2 √(k/m) sin(3 π / 2 (n + 1))."""
    n, k, m, apart = 160, 50.0, 0.01, 0.1
    builder = wt.Builder("row of masses", (0, 0, 0)).frame("wall", "world", position=((n + 1) * apart, 0, 0))
    for i in range(n):
        builder.body(f"mass {i}", m).joint(f"rail {i}", "prismatic", "world", f"mass {i}", axis=(1, 0, 0))
        builder.tendon(f"spring {i}", f"mass {i - 1}" if i else "world", f"mass {i}", stiffness=k, rest=apart)
    builder.tendon("last spring", f"mass {n - 1}", "wall", stiffness=k, rest=apart)
    model = builder.build()
    places = np.arange(1, n + 1)
    shape = 0.02 * np.sin(3 * np.pi * places / (n + 1))
    omega = 2 * np.sqrt(k / m) * np.sin(3 * np.pi / (2 * (n + 1)))
    run = wt.simulate(model, places * apart + shape, duration=0.5, output_dt=0.1, **method)
    assert not run.attrs["failure"]
    expected = places * apart + np.cos(omega * run.time.values)[:, None] * shape
    np.testing.assert_allclose(run.q.values, expected, rtol=0, atol=1e-8)
    assert run.attrs["energy_drift"] < 1e-9
    many = wt.Builder("long net")
    for i in range(501):
        many.body(f"mass {i}", m).joint(f"rail {i}", "prismatic", "world", f"mass {i}", axis=(1, 0, 0))
    many.tendon("spring", "mass 0", "mass 500", stiffness=k)
    with pytest.raises(wt.UnsupportedError, match=r"501 moving bodies.* up to 500 bodies. Give springs .* to joints"):
        wt.simulate(many.build(), duration=0.1)
