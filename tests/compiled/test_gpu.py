"""The GPU against the CPU, bit by bit: every function of the catalogue, loops, roll-outs, contact, a status per state.

Needs an NVIDIA GPU (``make test-gpu``); elsewhere every test here is skipped, and says why.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context

import numpy as np
import pytest

import whippletree as wt
from elementary import elementary_program
from gpu_cases import MISSING, ROBOTS, cases, differences, evaluate, random_inputs, robot, same_bits
from whippletree import functions
from whippletree.arithmetic.scalars import Table, entry
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.program import Buffer, Loop, straight_program
from whippletree.model import Constraint, Frame

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def need_a_gpu():
    if MISSING:
        pytest.skip(MISSING)


DTYPES = ("float32", "float64")


@pytest.fixture(scope="module")
def found():
    """What every function of every robot differs in: robot, dtype -> function -> the words, as they become known.

    Each function is treated in a process of its own, as many at once as there are cores, the largest robots first: a
    humanoid's are assembled for up to a minute.
    """
    if MISSING:
        pytest.skip(MISSING)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        yield {
            (name, dtype): {f: pool.submit(differences, name, dtype, f) for f, _, _ in cases(robot(name))}
            for name in reversed(ROBOTS)
            for dtype in DTYPES
        }


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROBOTS)
def test_every_function_has_the_bits_of_the_cpu(found, name, dtype):
    words = {function: future.result() for function, future in found[name, dtype].items()}
    assert not {function: text for function, text in words.items() if text}
    assert len(words) > 30


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [wt.mechanisms.crank_slider, wt.mechanisms.four_bar])
def test_closed_loops_have_the_bits_of_the_cpu(make, dtype):
    model = make()
    gpu, cpu = (wt.compile(model, target=target, dtype=dtype) for target in ("cuda", "cpu"))
    for function, names, shapes in cases(model):
        inputs = random_inputs(model, shapes, (65,), dtype)
        if function == "operational_inertia":
            continue  # fewer than six freedoms move any frame of a planar mechanism: refused on every target
        with np.errstate(all="ignore"):
            expected = evaluate(cpu, function, names, inputs)
        for a, b in zip(evaluate(gpu, function, names, inputs), expected, strict=True):
            same_bits(a, b)


def test_a_humanoid_on_two_feet_has_the_bits_of_the_cpu():
    """Two welds to the ground: code longer than the instruction cache."""
    tree = robot("G1")
    q, v, tau = random_inputs(tree, {"q": (36,), "v": (35,), "tau": (35,)}, (300,), "float32")
    feet = ("left_ankle_roll_link", "right_ankle_roll_link")
    pose = wt.reference(tree).pose
    frames = [Frame(f"ground {foot}", "world", pose(foot)(q[0].astype(float))) for foot in feet]
    ties = [Constraint(f"contact {foot}", "weld", (f"ground {foot}", foot)) for foot in feet]
    model = replace(tree, frames=(*tree.frames, *frames), constraints=tuple(ties))
    gpu, cpu = (wt.compile(model, target=target, dtype="float32") for target in ("cuda", "cpu"))
    (expected,) = evaluate(cpu, "forward_dynamics", [], (q, v, tau))
    same_bits(*evaluate(gpu, "forward_dynamics", [], (q, v, tau)), expected)
    np.testing.assert_array_equal(gpu.forward_dynamics.status, cpu.forward_dynamics.status)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["solo12", "G1", "Talos"])
def test_limbs_compiled_once_have_the_bits_of_the_cpu(name, dtype):
    """Loops over limbs, whose numbers wait in local memory."""
    model = robot(name)
    for function in ("forward_dynamics", "inverse_dynamics"):
        found = functions.find(function, model)
        loops = unrolled_program(model, found, fold="loops")
        # the inverse dynamics of twelve joints is too short to be folded
        assert any(isinstance(s, Loop) for s in loops.body) or (name, function) == ("solo12", "inverse_dynamics")
        shapes = {n: functions.resolve(s, functions.sizes(model)) for n, s in found.inputs.items()}
        inputs = random_inputs(model, shapes, (300,), dtype)
        same_bits(compile_for_cuda(loops, dtype=dtype)(*inputs), compile_function(loops, dtype=dtype)(*inputs))


@pytest.mark.parametrize("method", ["semi_implicit_euler", "rk4"])
def test_rollouts_have_the_bits_of_the_cpu(method):
    model = robot("Panda")
    gpu, cpu = (wt.compile(model, target=target) for target in ("cuda", "cpu"))
    q, v = random_inputs(model, {"q": (model.nq,), "v": (model.nv,)}, (77,), "float64")
    tau = np.random.default_rng(1).uniform(-1, 1, (77, 20, model.nv))
    found, expected = (
        [*dyn.rollout(q, v, tau, 1e-3, method=method), dyn.rollout.status, dyn.rollout.steps] for dyn in (gpu, cpu)
    )
    for a, b in zip(found, expected, strict=True):
        same_bits(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_loops_over_bodies_have_the_bits_of_the_cpu(dtype):
    model = wt.mechanisms.chain(500)
    gpu, cpu = (wt.compile(model, target=target, dtype=dtype) for target in ("cuda", "cpu"))
    shapes = {"q": (model.nq,), "v": (model.nv,), "tau": (model.nv,)}
    inputs = random_inputs(model, shapes, (333,), dtype)
    same_bits(gpu.forward_dynamics(*inputs), cpu.forward_dynamics(*inputs))
    same_bits(gpu.inverse_dynamics(*inputs), cpu.inverse_dynamics(*inputs))


@pytest.mark.parametrize("batch", [(), (0,), (1,), (31,), (33,), (1000,), (3, 5, 7), (1, 4)])
def test_any_batch(batch):
    model = robot("UR5")
    gpu, cpu = (wt.compile(model, target=target) for target in ("cuda", "cpu"))
    shapes = {"q": (6,), "v": (6,), "tau": (6,)}
    inputs = random_inputs(model, shapes, batch, "float64")
    same_bits(np.asarray(gpu.forward_dynamics(*inputs)), np.asarray(cpu.forward_dynamics(*inputs)))


def test_contact_rollouts_have_the_bits_of_the_cpu():
    model = wt.mechanisms.rocking_block()
    gpu, cpu = (wt.compile(model, target=target) for target in ("cuda", "cpu"))
    v = 0.2 * np.random.default_rng(0).normal(size=(77, model.nv))
    given = model.home.q, v, np.zeros((20, model.nv)), 1e-3
    for a, b in zip(gpu.contact_rollout(*given), cpu.contact_rollout(*given), strict=True):
        same_bits(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_tables_are_looked_up_as_on_the_cpu(dtype):
    trace = Trace()
    x = trace.inputs(3)
    table = Table(np.random.default_rng(0).normal(size=50))
    code = finish(trace, [entry(table, x[0]) * x[1], entry(table, x[2] - x[0])])
    program = straight_program("table", code, [Buffer("x", "input", (3,))], [Buffer("y", "output", (2,))])
    given = np.random.default_rng(1).uniform(-20, 80, (300, 3)).astype(dtype)
    given[5], given[77] = np.nan, [np.inf, 1, -np.inf]
    same_bits(compile_for_cuda(program, dtype=dtype)(given), compile_function(program, dtype=dtype)(given))


def test_a_status_per_state():
    """A four-bar that is stretched to a line has dependent rows."""
    model = wt.mechanisms.four_bar()
    gpu, cpu = (wt.compile(model, target=target) for target in ("cuda", "cpu"))
    inputs = random_inputs(model, {"q": (3,), "v": (3,), "tau": (3,)}, (37,), "float64")
    inputs[0][[5, 36]] = 0.0
    same_bits(*evaluate(gpu, "forward_dynamics", [], inputs), *evaluate(cpu, "forward_dynamics", [], inputs))
    same_bits(gpu.forward_dynamics.status, cpu.forward_dynamics.status)
    assert np.flatnonzero(gpu.forward_dynamics.status).tolist() == [5, 36]


@pytest.mark.parametrize("dtype", DTYPES)
def test_elementary_functions_have_the_bits_of_the_cpu(dtype):
    program = elementary_program()
    rng = np.random.default_rng(0)
    x = np.stack([rng.normal(scale=30, size=100_000), np.exp(rng.normal(scale=20, size=100_000))], axis=1).astype(dtype)
    x[:6] = [[np.nan, 1], [np.inf, 0], [-np.inf, np.inf], [0, np.nan], [0.5, -2], [3, -2]]
    same_bits(compile_for_cuda(program, dtype=dtype)(x), compile_function(program, dtype=dtype)(x))
