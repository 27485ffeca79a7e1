"""Time steps of single scenes in machine code, against Python's step, alone and in batches, on a CPU and a GPU."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.program import Buffer, every_block
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.rollout.contact_kinds import TOUCH, narrow_phase
from whippletree.compiler.rollout.contact_lists import (
    contact_list_newton,
    contact_list_solver,
    contact_list_suitability,
)
from whippletree.compiler.rollout.contact_lists.contact_list_solver import too_slow
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import suits_lists
from whippletree.contact.time_step import ContactBlocks
from whippletree.files.cache import CodeCache
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep
from whippletree.tree.skeleton import skeleton

TOLERANCE, H = 1e-9, 1e-3
OUTPUTS = ["q", "v", "impulses", "measure", "work", "friction_work", "correction_work", "sweeps", "newton_steps"]


def boxes_and_balls():
    """Shapes of several kinds, two of them on one body, that touch the floor and each other; a lift with a limit."""
    b = wt.Builder("things")
    b.geometry("floor", "world", "half_space")
    for name, x, mass in (("box", 0.0, 1.0), ("ball", 0.45, 0.3), ("bar", -0.5, 0.6)):
        b.body(name, mass=mass, inertia=(0.01 * mass, 0.012 * mass, 0.015 * mass))
        b.joint(f"free {name}", "free", "world", name, position=(x, 0.0, 0.3))
    b.geometry("box", "box", "box", size=(0.4, 0.3, 0.2))
    b.geometry("knob", "box", "sphere", radius=0.07, position=(0.0, 0.0, 0.1))
    b.geometry("ball", "ball", "sphere", radius=0.1)
    b.geometry("bar", "bar", "capsule", radius=0.05, length=0.3)
    b.geometry("bob", "bar", "capsule", radius=0.04, length=0.2, position=(0.0, 0.1, 0.0))
    b.body("lift", mass=0.5, inertia=(0.01, 0.01, 0.01))
    b.joint("lift", "prismatic", "world", "lift", axis=(0, 0, 1), position=(0.9, 0, 0.2), lower=-0.05, upper=0.3,
            damping=0.2, stiffness=3.0, friction=0.4)  # fmt: skip
    b.geometry("lift", "lift", "sphere", radius=0.08)
    pairs = [(shape, "floor") for shape in ("box", "ball", "bar", "bob", "lift")]
    for first, second in [*pairs, ("ball", "box"), ("ball", "bar"), ("knob", "lift")]:
        b.contact(f"{first} on {second}", first, second, friction=0.5, restitution=0.3 if first == "ball" else 0.0)
    return b.build()


MODELS = {
    "quadruped": wt.mechanisms.quadruped,
    "rocking block": wt.mechanisms.rocking_block,
    "planar biped": wt.mechanisms.planar_biped,
    "things": boxes_and_balls,
}


@pytest.fixture(scope="module", params=MODELS)
def scene(request):
    model = MODELS[request.param]()
    return ImpulseStep(Motion(wt.compile(model)), TOLERANCE)


def scattered(stepper, seed, speed=1.0):
    """A state near home, some of it overlapping a little, with random velocities."""
    rng, home = np.random.default_rng(seed), stepper.model.home
    q = stepper.dyn.integrate(np.asarray(home.q, float), 0.03 * rng.normal(size=stepper.model.nv))
    return np.concatenate([q, speed * rng.normal(size=stepper.model.nv)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_a_step_is_the_step_of_python(scene, seed):
    """Velocities, coordinates and works agree as well as both solve the contact problem."""
    y, start = scattered(scene, seed), np.zeros((scene.blocks.count, 3))
    tau = 0.1 * np.random.default_rng(seed).normal(size=scene.model.nv)
    made = kernel_steps(scene, y, start, StepPlan(np.full(1, H), tau))
    assert made.number == 1
    step = scene.step(0.0, y, start, tau, H)
    assert step.solution.converged
    # a residual r moves velocities by at most r times the condition of the contacts, small in these scenes
    np.testing.assert_allclose(made.states[0], step.state, rtol=0, atol=1e3 * TOLERANCE)
    works = (step.contact_work, step.friction_work, step.joint_work, step.correction_work)
    mine = (made.contact_work, made.friction_work, made.joint_work, made.correction_work)
    np.testing.assert_allclose([x[0] for x in mine], works, rtol=0, atol=1e3 * TOLERANCE)
    pushed = (
        scene.dyn.contact_jacobian(y[: scene.model.nq]).T @ (made.impulses[0] - step.impulses)[: scene.contacts].ravel()
    )
    np.testing.assert_allclose(pushed, 0, atol=1e3 * TOLERANCE)


@pytest.mark.slow
def test_whole_runs_agree_with_those_of_python(scene, monkeypatch):
    """A tenth of a second from rest, where nothing is unstable."""
    model = scene.model
    settings = {"duration": 0.1, "method": "time_stepping", "tolerance": TOLERANCE}
    ours = wt.simulate(model, **settings)
    monkeypatch.setattr("whippletree.simulation.time_stepping.impulse_step.suits_lists", lambda model: False)
    python = wt.simulate(model, **settings)
    assert ours.attrs["unconverged_steps"] == python.attrs["unconverged_steps"] == 0
    assert ours.attrs["steps"] == python.attrs["steps"]
    assert set(ours.variables) == set(python.variables)
    for name in ("q", "v", "contact_gap", "contact_work", "energy_balance", "penetration"):
        np.testing.assert_allclose(ours[name].values, python[name].values, rtol=0, atol=1e-6, err_msg=name)


def arguments(stepper, count, steps=6):
    states = np.array([scattered(stepper, seed, 0.5) for seed in range(count)])
    q, v = states[:, : stepper.model.nq], states[:, stepper.model.nq :]
    impulses, tau = np.zeros((count, stepper.blocks.count, 3)), np.zeros((steps, stepper.model.nv))
    return [q, v, impulses, np.broadcast_to(tau, (count, *tau.shape)), np.full((count, steps), H), TOLERANCE, np.inf]


def run(function, given):
    with np.errstate(all="ignore"):
        return function(*given)


def some(given, part):
    return [x[part] if isinstance(x, np.ndarray) else x for x in given]


@pytest.mark.slow(every=True)
def test_the_bits_do_not_depend_on_the_batch(scene):
    program = contact_lists_program(scene.model)
    given = arguments(scene, 17)
    alone = compile_function(program, width=1, threads=1, cache=CodeCache(None))
    expected = run(alone.ufunc, given)
    assert len(set(expected[OUTPUTS.index("sweeps")].ravel())) > 1  # they do take different ways
    wide = compile_function(program, width=4, threads=1, cache=CodeCache(None))
    for size in (1, 3, 8, 17):
        for a, b in zip(run(wide.ufunc, some(given, slice(17 - size, 17))), expected, strict=True):
            np.testing.assert_array_equal(a, b[17 - size :])


@pytest.mark.slow
def test_a_batch_of_many_candidates_gives_the_bits_of_single_runs():
    model = boxes_and_balls()
    stepper = ImpulseStep(Motion(wt.compile(model)), TOLERANCE)
    assert stepper.lists_for_batches
    states = np.array([scattered(stepper, seed) for seed in range(3)])
    q, v = states[:, : model.nq], states[:, model.nq :]
    settings = {"duration": 0.05, "output_dt": 0.01, "method": "time_stepping", "tolerance": TOLERANCE}
    batch = wt.simulate(model, q, v, **settings)
    assert batch.attrs["unconverged_steps"] == 0
    for run in range(3):
        single = wt.simulate(model, q[run], v[run], **settings)
        for name in ("q", "v", "contact_force", "contact_work"):
            np.testing.assert_array_equal(batch[name].values[:, run], single[name].values, err_msg=name)


def test_few_candidates_that_always_touch_stay_unrolled_in_batches():
    assert not ImpulseStep(Motion(wt.compile(wt.mechanisms.quadruped())), TOLERANCE).lists_for_batches


def test_a_gpu_gives_the_same_bits(monkeypatch):
    install(monkeypatch)
    stepper = ImpulseStep(Motion(wt.compile(wt.mechanisms.rocking_block())), TOLERANCE)
    program, given = contact_lists_program(stepper.model), arguments(stepper, 5)
    gpu = compile_for_cuda(program, cache=CodeCache(None))
    cpu = compile_function(program, threads=1, cache=CodeCache(None))
    for a, b in zip(run(gpu, given), run(cpu, given), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_was_left_out_joins_when_it_would_overlap():
    """A see-saw: one end is struck so that the other, which moves away from the floor, comes down within the step."""
    b = wt.Builder("see-saw")
    b.geometry("floor", "world", "half_space")
    b.body("beam", mass=1.0, inertia=(0.1, 1e-4, 0.1))
    b.joint("free", "free", "world", "beam")
    for name, x in (("left", -0.5), ("right", 0.5)):
        b.geometry(name, "beam", "sphere", radius=0.05, position=(x, 0.0, 0.0))
        b.contact(name, name, "floor", friction=0.3)
    model = b.build()
    stepper = ImpulseStep(Motion(wt.compile(model)), TOLERANCE)
    q = np.array([0, 0, 0.0501, 1, 0, 0, 0])
    # the left end strikes at 3 m/s; the right one rises at 1 m/s, until the blow turns the light beam
    y = np.concatenate([q, [0, -4.0, 0, 0, 0, -1.0]])
    start, tau = np.zeros((2, 3)), np.zeros(6)
    gaps, J = stepper.gaps(q)[0], stepper.dyn.contact_jacobian(q).reshape(2, 3, 6)
    closing = gaps + H * (J[:, 0] @ y[7:] - H * 9.81)
    assert sorted(closing < 0) == [False, True]  # so one of them is left out at first
    made, step = kernel_steps(stepper, y, start, StepPlan(np.full(1, H), tau)), stepper.step(0.0, y, start, tau, H)
    assert (step.impulses[:, 0] > 0).all()
    np.testing.assert_allclose(made.impulses[0][:, 0], step.impulses[:, 0], rtol=0, atol=1e3 * TOLERANCE)
    np.testing.assert_allclose(made.states[0], step.state, rtol=0, atol=1e3 * TOLERANCE)


@pytest.mark.slow
def test_what_the_kernel_does_not_solve_is_left_to_python(monkeypatch):
    """With a solver that gives up at once, every step that touches is Python's."""
    monkeypatch.setattr(contact_list_solver, "TURNS", 1)
    monkeypatch.setattr(contact_list_solver, "SWEEPS_OF_TURN", 1)
    monkeypatch.setattr(contact_list_newton, "SEARCH_TURN", 0)
    model = replace(wt.mechanisms.quadruped(), name="impatient robot")
    taken = []
    step = ImpulseStep.step
    monkeypatch.setattr(ImpulseStep, "step", lambda self, *given: taken.append(1) or step(self, *given))
    v = 0.3 * np.random.default_rng(0).normal(size=model.nv)
    run = wt.simulate(model, model.home.q, v, duration=0.05, method="time_stepping")
    assert run.attrs["unconverged_steps"] == 0
    assert taken
    assert float(run.residual_velocity.max()) <= 1e-7


def test_a_scene_that_stops_is_nan_from_there_on():
    stepper = ImpulseStep(Motion(wt.compile(wt.mechanisms.quadruped())), TOLERANCE)
    given = some(arguments(stepper, 1), 0)
    given[-1] = -1.0  # no residual is good enough
    found = dict(zip(OUTPUTS, run(stepper.dyn.contact_steps, given), strict=True))
    assert np.isfinite(found["q"][0]).all()
    assert all(np.isnan(part[1:]).all() for part in found.values())


def test_controllers_in_python_are_asked_once_per_step():
    model, calls = wt.mechanisms.quadruped(), []

    def controller(t, q, v):
        calls.append(t)
        return -0.1 * v

    run = wt.simulate(model, duration=0.02, output_dt=0.005, method="time_stepping", controller=controller)
    assert run.attrs["steps"] == 20
    inside = [t for t in calls if t % 0.005 > 1e-9 and 0.005 - t % 0.005 > 1e-9]  # rows of output look again
    np.testing.assert_allclose(inside, [t for t in np.arange(20) * 1e-3 if round(t * 1e3) % 5], atol=1e-12)


@pytest.mark.parametrize("moments", [{}, {"torsional": 0.01, "rolling": 0.001}])
def test_code_grows_with_the_kinds_of_pairs_and_not_with_pairs(moments):
    """A body with eight spheres or with forty, and a servo that may saturate: the same code, the same stores."""

    def size(count):
        b = wt.Builder(f"{count} spheres")
        b.geometry("floor", "world", "half_space")
        b.body("raft", mass=1.0, inertia=(0.1, 0.1, 0.1))
        b.joint("free", "free", "world", "raft")
        for i in range(count):
            b.geometry(
                f"s{i}",
                "raft",
                "sphere",
                radius=0.103 + 0.01 * i,
                position=(0.23 * (i + 1), 0.13 * (i + 1), 0.053 + 0.001 * i),
            )
            b.contact(f"s{i}", f"s{i}", "floor", friction=0.3, **moments)
        b.body("wheel", mass=0.1, inertia=(0.01, 0.01, 0.01)).joint("axle", "revolute", "raft", "wheel")
        b.actuator("servo", "axle", gain=(100.0, 0, 0), bias=(0, -100.0, -1.0), force_range=(-1.0, 1.0))
        blocks = list(every_block(contact_lists_program(b.build()).body))
        return sum(block.code.operations for block in blocks), sum(len(block.stores) for block in blocks)

    assert size(8) == size(40)


def test_code_does_not_grow_with_the_ways_in_which_shapes_of_the_same_types_are_placed():
    def pile(count):
        turns = [(0, 0, 0), (np.pi / 2, 0, 0), (0, np.pi / 2, 0), (0.3, 0, 0), (0, 0.2, 0.1)]
        places = [(0, 0, 0), (0.1, 0, 0), (0, 0.1, 0), (0.1, 0.2, 0), (0, 0, 0.3)]
        b = wt.Builder("pile")
        for k in range(count):
            b.body(f"body {k}", 0.3, inertia=(1e-3, 2e-3, 2e-3)).joint(f"free {k}", "free", "world", f"body {k}")
            b.geometry(f"bar {k}", f"body {k}", "capsule", radius=0.05, length=0.2, position=places[k // 5],
                       rpy=turns[k % 5])  # fmt: skip
        for k in range(1, count):
            b.contact(f"{k}", f"bar {k - 1}", f"bar {k}")
        return b.build()

    def code_of_pairs(model):
        pairs = ContactBlocks(model, alone=True).contacts.pairs
        tree = skeleton(model)
        poses, touches = Buffer("pose", "work", (len(tree.nodes) + 1, 12)), Buffer("touch", "work", (len(pairs), TOUCH))
        found = narrow_phase(pairs, tree, poses, touches, None).look
        return len(found), sum(len(block.code.nodes) for block in every_block(found))

    loops, size = code_of_pairs(pile(6))
    more_loops, more = code_of_pairs(pile(25))
    assert more_loops == 1 < loops
    assert more < size


def test_which_models_suit():
    assert suits_lists(wt.mechanisms.quadruped())
    assert suits_lists(wt.mechanisms.pendulum())  # nothing touches
    assert suits_lists(wt.mechanisms.four_bar())
    assert not suits_lists(wt.mechanisms.hopper())  # a leg without mass, which nothing holds in flight
    too_many = contact_list_suitability.MOST_LISTED_VELOCITIES // 6 + 1
    assert not suits_lists(wt.mechanisms.spheres_in_box(too_many))
    assert ContactBlocks(wt.mechanisms.quadruped()).count > 0


def two_balls():
    """Two balls of 0.1 m on one rail, half a metre apart."""
    scene = wt.Builder("rail", gravity=(0, 0, 0))
    for name, x in (("left", 0.0), ("right", 0.5)):
        scene.body(name, 1.0, inertia=(0.004, 0.004, 0.004)).geometry(name, name, "sphere", radius=0.1)
        scene.joint(name, "prismatic", "world", name, axis=(1, 0, 0), start=x)
    return scene.contact("meeting", "left", "right").build()


def test_pairs_that_are_far_meet_all_the_same():
    """A push of 5000 N for one step would carry a ball that rests through the other one, with which it was not
    compared as the step began: 0.3 m apart they may approach by 30 m/s, and then go on together."""
    model = two_balls()
    step = wt.compile(model).step
    first = step(model.home.q, np.zeros(2), dt=0.01, tau=np.array([5000.0, 0.0]))
    np.testing.assert_allclose(first.v, [40, 10], rtol=1e-9)
    assert first.measure[1] < 1e-7
    np.testing.assert_allclose(step(*first[:2], dt=0.01).v, [25, 25], rtol=1e-9)


def test_balls_that_come_fast_are_compared_in_time():
    """At 20 m/s they travel 0.2 m in a step; all steps are the kernel's, and the impact is plastic."""
    model = two_balls()
    run = wt.simulate(model, None, [20.0, 0.0], duration=0.05, step=0.01, method="time_stepping", progress=False)
    assert run.attrs["path"] == "compiled"
    assert run.attrs["unconverged_steps"] == 0
    np.testing.assert_allclose(run.v[-1], [10, 10], rtol=1e-9)
    assert run.penetration.max() < 1e-8


def tumbling_rods():
    """Rods and an egg that tumble about each other: the balls about them overlap, they themselves seldom touch."""
    scene = wt.Builder("rods", gravity=(0, 0, 0))
    for k, name in enumerate(("a", "b", "c", "egg")):
        scene.body(name, 1.0, inertia=(0.03, 0.03, 0.01))
        scene.joint(name, "free", "world", name, position=(0.25 * k, 0.1 * (k % 2), 0))
        if name == "egg":
            scene.geometry(name, name, "ellipsoid", radii=(0.1, 0.2, 0.3))
        else:
            scene.geometry(name, name, "capsule", radius=0.03, length=0.6)
    for first, second in (("a", "b"), ("b", "c"), ("a", "c"), ("a", "egg"), ("c", "egg")):
        scene.contact(f"{first} on {second}", first, second, friction=0.3)
    return scene.build()


@pytest.mark.parametrize("seed", range(3))
def test_what_a_call_remembers_of_distances_changes_nothing(seed):
    """One step a call, which remembers nothing of those before, has the bits of all steps in one call."""
    model = tumbling_rods()
    dyn, rng, steps = wt.compile(model), np.random.default_rng(seed), 150
    q = np.array(model.home.q, dtype=float)
    v = np.concatenate([[*rng.normal(size=3) * 6, 5 * (0.375 - 0.25 * k), *rng.normal(size=2) * 0.3] for k in range(4)])
    impulses = np.zeros((ContactBlocks(model, alone=True).count, 3))
    whole = dyn.contact_steps(q, v, impulses, np.zeros((steps, model.nv)), np.full(steps, H), TOLERANCE, np.inf)
    state, met = (q, v, impulses), 0
    for i in range(steps):
        one = dyn.contact_steps(*state, np.zeros((1, model.nv)), np.full(1, H), TOLERANCE, np.inf)
        state = tuple(part[0] for part in one[:3])
        met += bool(state[2].any())
        assert all(np.array_equal(part[i], own) for part, own in zip(whole[:3], state, strict=True))
    assert met
    gaps = dyn.contact_list_touches(np.ascontiguousarray(whole[0]))[..., 0]
    assert gaps.min() > -1e-8


@pytest.mark.parametrize("seed", range(4))
def test_what_has_been_far_for_long_is_not_overlooked(seed):
    """Balls fly through each other's way, some slow and some fast: a roll-out, which remembers how far apart pairs
    were, goes where steps go that each begin anew."""
    b = wt.Builder("balls", gravity=(0, 0, 0))
    for k in range(5):
        b.body(f"ball {k}", mass=1.0, inertia=(0.004, 0.004, 0.004))
        b.joint(f"free {k}", "free", "world", f"ball {k}")
        b.geometry(f"ball {k}", f"ball {k}", "sphere", radius=0.1)
        for other in range(k):
            b.contact(f"{k} and {other}", f"ball {k}", f"ball {other}", friction=0.3, restitution=0.8)
    model = b.build()
    dyn, rng, steps = wt.compile(model), np.random.default_rng(seed), 300
    q, v = np.array(model.home.q, float), np.zeros(model.nv)
    for part, own in zip(model.q_slices, model.v_slices, strict=True):
        place = rng.normal(size=3)
        q[part][:3] = place * 1.5 / np.linalg.norm(place)
        v[own][3:] = -q[part][:3] * rng.choice([0.5, 4.0]) + 0.02 * rng.normal(size=3)
    still = np.zeros((ContactBlocks(model, alone=True).count, 3))

    def run(count, *state):
        return dyn.contact_steps(*state, np.zeros((count, model.nv)), np.full(count, 5e-3), TOLERANCE, np.inf)

    path, state, touched = run(steps, q, v, still), (q, v, still), 0
    for k in range(steps):
        state = [part[0] for part in run(1, *state)[:3]]
        touched += bool(state[2].any())
        np.testing.assert_allclose(path[0][k], state[0], atol=1e-7)
    assert touched
    assert dyn.contact_list_touches(path[0])[..., 0].min() > -1e-8


def test_a_point_at_the_origin_of_its_body_comes_from_afar():
    """It has no size and no arm, but a speed."""
    builder = wt.Builder("point above a ball").geometry("ball", "world", "sphere", radius=0.1)
    builder.body("mass", 1.0, inertia=(0.01, 0.01, 0.01))
    builder.joint("falls", "prismatic", "world", "mass", axis=(0, 0, 1), start=(0.6,))
    model = builder.geometry("tip", "mass", "point").contact("meets", "tip", "ball", friction=0.5).build()
    run = wt.simulate(model, duration=0.6, output_dt=0.1, step=2e-3, method="time_stepping")
    assert run.attrs["path"] == "compiled"
    np.testing.assert_allclose(run.q.values[-1], 0.1, atol=1e-9)


def puck(floor_height, tilt=0.0):
    """A puck that slides on a table and spins, pushed by a ball on a rail; the table may lie within its margin."""
    scene = wt.Builder("puck").geometry("table", "world", "half_space", position=(0, 0, floor_height))
    scene.body("x", 0.1, inertia=(0.01, 0.01, 0.01)).joint("x", "prismatic", "world", "x", axis=(1, 0, tilt))
    scene.body("y", 0.1, inertia=(0.01, 0.01, 0.01)).joint("y", "prismatic", "x", "y", axis=(0, 1, 0))
    scene.body("puck", 1.0, inertia=(0.01, 0.01, 0.01)).joint("spin", "revolute", "y", "puck", axis=(0, 0, 1))
    scene.geometry("puck", "puck", "cylinder", radius=0.1, length=0.1)
    scene.body("ball", 1.0, inertia=(0.01, 0.01, 0.01)).joint(
        "rail", "prismatic", "world", "ball", axis=(1, 0, 0), start=-0.4
    )
    scene.geometry("ball", "ball", "sphere", radius=0.1)
    scene.geometry("hub", "puck", "sphere", radius=0.1)
    return scene.contact("on table", "puck", "table", margin=0.01).contact("push", "ball", "hub").build()


def test_a_puck_that_cannot_leave_its_table_costs_nothing():
    """It is 4 mm within its margin for good. No step tries to lift it, and all have the bits of a puck high above."""
    made = []
    for height in (-0.056, -5.0):
        model = puck(height)
        function = compile_function(contact_lists_program(model), threads=1, cache=CodeCache(None))
        blocks = ContactBlocks(model, alone=True).count
        v, steps = np.array([0.1, 0.2, 3.0, 2.0]), 150
        given = model.home.q, v, np.zeros((blocks, 3)), np.zeros((steps, 4)), np.full(steps, 1e-3), TOLERANCE, np.inf
        made.append(dict(zip(OUTPUTS, function(*given), strict=True)))
    for name in OUTPUTS:
        np.testing.assert_array_equal(made[0][name], made[1][name], err_msg=name)
    assert made[0]["v"][-1, 0] > 0.9  # it was pushed


def test_a_puck_on_rails_that_climb_touches_its_table():
    """A rail that is 1e-6 out of level lets it down, and its table holds it."""
    model = puck(-0.056, tilt=1e-6)
    found = wt.compile(model).step(model.home.q, np.zeros(4), dt=1e-3)
    assert np.abs(found.impulses[:, 0]).max() > 0


def test_scenes_that_wait_for_others_find_the_same_again():
    """A promise of the program: whoever is through may run along with its neighbours, round after round."""
    stepper = ImpulseStep(Motion(wt.compile(wt.mechanisms.planar_biped())), TOLERANCE)
    program = contact_lists_program(stepper.model)
    given = [x[2] if isinstance(x, np.ndarray) else x for x in arguments(stepper, 3, steps=3)]
    inputs = {b.name: x for b, x in zip(program.of_role("input"), given, strict=True)}
    alone, along = (interpret(program, inputs, along=flag) for flag in (False, True))
    for name in OUTPUTS:
        np.testing.assert_array_equal(alone[name], along[name], err_msg=name)


@pytest.mark.parametrize(
    ("change", "left", "swept", "stops"),
    [
        (1e-4, 2, 1, True),  # 1e-2, 1e-4 → 1e-6, 1e-8: two more do not get below 1e-9
        (1e-5, 2, 1, False),  # 1e-2, 1e-5 → 1e-8, 1e-11
        (1e-5, 1, 1, True),  # one does not
        (1e-2, 3, 1, False),  # three sweeps are left: too early to say
        (1e-2, 2, 0, False),  # the first sweep of a turn says nothing about the rate
    ],
)
def test_last_sweeps_of_a_turn_are_made_if_they_get_there(change: float, left: int, swept: int, stops: bool) -> None:
    assert bool(too_slow(change**2, 1e-2**2, left, swept, 1e-9)) == stops
