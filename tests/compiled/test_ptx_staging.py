"""Large GPU kernels without a GPU: inputs and results through shared memory, values put aside."""

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install, on_device
from nvidia_assembler import assemble, needs_assembler
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.ptx_target import copies_by_itself, how_to_start, kernel_ir, ptx_text
from whippletree.compiler.cuda.staging import stage_program
from whippletree.compiler.cuda.tuning import ROOMIEST, Form, fit_program
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.llvm.spill_plan import plan
from whippletree.compiler.program import Buffer, straight_program
from whippletree.functions import find

STAGED = Form(64, keep=20, room=60)


@pytest.fixture
def driver(monkeypatch):
    return install(monkeypatch)


def laid_out(values, layout):
    """An array on the device by rows, by columns, or with room between the states."""
    if layout != "gaps":
        return on_device(values, columns=layout == "columns")
    made = on_device(np.pad(values, ((0, 0), (0, 3))))
    made.shape = values.shape
    return made


def dynamics(bodies=8):
    model = wt.mechanisms.chain(bodies)
    return model, unrolled_program(model, find("forward_dynamics", model))


def random_states(model, count, dtype):
    rng = np.random.default_rng(3)
    return [rng.uniform(-2, 2, (count, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layouts", ["rows", "columns", "gaps", ("rows", "columns", "rows")])
@pytest.mark.parametrize("count", [1, 70])
def test_every_layout_has_the_bits_of_the_cpu(driver, layouts, count, dtype):
    model, program = dynamics()
    inputs = random_states(model, count, dtype)
    inputs[0][::7] *= 1e6  # far arguments of sine and cosine
    function = compile_for_cuda(program, dtype=dtype, form=STAGED)
    given = [layouts] * 3 if isinstance(layouts, str) else layouts
    found = function(*[laid_out(x, layout) for x, layout in zip(inputs, given, strict=True)])
    np.testing.assert_array_equal(found.numpy(), compile_function(program, dtype=dtype)(*inputs))


@pytest.mark.parametrize(("keep", "room", "far"), [(20, 45, False), (8, 34, True), (40, 200, False)])
def test_few_registers_and_far_slots_change_no_bit(driver, keep, room, far):
    model, program = dynamics()
    inputs = random_states(model, 40, "float64")
    text = kernel_ir(program, "double", Form(32, keep=keep, room=room))
    assert "cp.async" in text
    assert ("store volatile" in text) == far
    found = compile_for_cuda(program, form=Form(32, keep=keep, room=room))(*inputs)
    np.testing.assert_array_equal(found, compile_function(program)(*inputs))


@pytest.mark.slow
def test_code_that_no_cache_holds_gets_most_room():
    """4100 numbers, all of them needed again in the end, the last one first."""
    trace = Trace()
    values = list(trace.inputs(8))
    while len(values) < 4100:
        values.append(values[-1] * values[-7] + values[-3])
    total = values[-1]
    for x in reversed(values[:-1]):
        total = total * x
    inputs, outputs = [Buffer("x", "input", (8,))], [Buffer("y", "output", (1,))]
    long = straight_program("long", finish(trace, [total]), inputs, outputs)
    assert fit_program(long, "float", False).form == ROOMIEST["float"]
    assert fit_program(long, "double", False).form == ROOMIEST["double"]


def awkward_program():
    """Angles that are needed themselves, an input passed through, a constant result, one number in two results."""
    trace = Trace()
    x = trace.inputs(12)
    q, v = x[:6], x[6:]
    turned = [a.sin() * b + a for a, b in zip(q, v, strict=True)]
    first = [*turned, turned[0]]
    code = finish(trace, [*first, q[2], v[1] * 2, 3.0, v[4].cos(), turned[1]])
    outputs = [Buffer("a", "output", (7,)), Buffer("b", "output", (5,))]
    return straight_program("awkward", code, [Buffer("q", "input", (6,)), Buffer("v", "input", (6,))], outputs)


def test_results_that_are_inputs_constants_or_the_same(driver):
    program = awkward_program()
    main, staging = stage_program(program, 100)
    assert [b.name for b in staging.results] == ["a"]
    assert [b.name for _, b in staging.inputs] == ["v"]  # a number of q is a result itself
    assert not staging.angles
    assert main is not program
    rng = np.random.default_rng(0)
    q, v = rng.uniform(-1, 1, (2, 67, 6))
    found = compile_for_cuda(program, form=Form(64, keep=6, room=30))(q, v)
    for a, b in zip(found, compile_function(program)(q, v), strict=True):
        np.testing.assert_array_equal(a, b)


def test_angles_that_are_needed_themselves_are_kept(driver):
    trace = Trace()
    x = trace.inputs(9)
    code = finish(trace, [a.sin() + a.cos() * a for a in x[2:8]])
    program = straight_program("angles", code, [Buffer("x", "input", (9,))], [Buffer("y", "output", (6,))])
    _, staging = stage_program(program, 100)
    (run,) = staging.angles
    assert (run.angle, run.sine, run.cosine, run.count) == (2, 9, 15, 6)
    values = np.random.default_rng(0).uniform(-9, 9, (40, 9))
    np.testing.assert_array_equal(
        compile_for_cuda(program, form=Form(64, keep=6, room=40))(values), compile_function(program)(values)
    )


def test_a_status_beside_the_results(driver):
    """Closed loops: a dead point has no answer, and the status tells."""
    model = wt.mechanisms.four_bar()
    program = unrolled_program(model, find("forward_dynamics", model))
    inputs = random_states(model, 40, "float64")
    inputs[0][[3, 35]] = 0.0
    gpu, cpu = compile_for_cuda(program, form=Form(32, keep=12, room=40)), compile_function(program)
    found = gpu(*[on_device(x) for x in inputs])
    with pytest.warns(RuntimeWarning, match="2 of 40 states failed"):
        np.testing.assert_array_equal(found.numpy(), cpu(*inputs))
    np.testing.assert_array_equal(gpu.status.numpy(), cpu.status)


def test_too_little_room_means_no_staging():
    _, program = dynamics()
    same, staging = stage_program(program, 20)
    assert same is program
    assert not staging.waiting


def test_more_results_than_room(driver):
    trace = Trace()
    x = trace.inputs(5)
    code = finish(trace, [x[i % 5] * (x[i // 12] + i) for i in range(60)])
    program = straight_program("wide", code, [Buffer("x", "input", (5,))], [Buffer("y", "output", (60,))])
    values = np.random.default_rng(0).uniform(-9, 9, (40, 5))
    for room in (40, 60, 80):
        assert bool(stage_program(program, room)[1].waiting) == (room >= 60)
        found = compile_for_cuda(program, form=Form(64, keep=6, room=room))(values)
        np.testing.assert_array_equal(found, compile_function(program)(values))


def test_older_devices_copy_through_registers(driver):
    assert copies_by_itself("sm_80")
    assert not copies_by_itself("sm_75")
    _, program = dynamics()
    assert "call void @llvm.nvvm.cp.async" not in kernel_ir(program, "float", STAGED, copies=False)


@needs_assembler
@pytest.mark.parametrize("real", ["float", "double"])
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
def test_nvidias_assembler_accepts_it(arch, real, tmp_path):
    ir = kernel_ir(dynamics(6)[1], real, STAGED, copies=copies_by_itself(arch))
    assemble(ptx_text(ir, arch), arch, tmp_path)


# ---- which form ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_put_aside_change_no_bit(driver, dtype):
    model, program = dynamics()
    inputs = random_states(model, 70, dtype)
    expected = compile_function(program, dtype=dtype)(*inputs)
    for form in (Form(64, keep=20), Form(64, keep=20, room=50), Form(32, keep=40, room=10), Form(64, keep=8, room=500)):
        text = kernel_ir(program, "float", form)
        assert ("addrspace(3) %" in text) == bool(form.room)
        np.testing.assert_array_equal(compile_for_cuda(program, dtype=dtype, form=form)(*inputs), expected)


def crowded_program(count):
    """Many numbers that are all alive in the middle."""
    trace = Trace()
    x = trace.inputs(50)
    values = [x[i % 50] * (x[7 * i % 50] + i) for i in range(count)]
    total = sum((a * b for a, b in zip(values, reversed(values), strict=True)), x[0])
    return straight_program(
        "crowded", finish(trace, [total]), [Buffer("x", "input", (50,))], [Buffer("y", "output", (1,))]
    )


@pytest.mark.parametrize(("count", "real", "threads"), [(900, "float", 64), (900, "double", 128), (100, "float", 128)])
def test_large_kernels_choose_their_form(count, real, threads):
    text = ptx_text(kernel_ir(crowded_program(count), real), "sm_90")
    found = how_to_start(text.encode())
    assert found.threads == threads
    assert (found.shared > 48 * 1024) == (count == 900)
    assert 227 * 1024 // (found.shared + 1024) >= 2


@pytest.mark.slow
def test_large_kernels_keep_their_bits(driver):
    program, x = crowded_program(900), np.random.default_rng(0).uniform(-1, 1, (70, 50))
    np.testing.assert_array_equal(compile_for_cuda(program)(x), compile_function(program)(x))


# ---- the plan --------------------------------------------------------------------------------------------------------


def random_code(rng, inputs, size):
    """Binary operations on earlier nodes, most of them recent."""
    nodes = [("input", i) for i in range(inputs)]
    while len(nodes) < size:
        recent = rng.integers(max(0, len(nodes) - 30), len(nodes))
        nodes.append(("add", int(recent), int(rng.integers(0, len(nodes)))))
    return nodes


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("registers", "room", "waiting", "results"), [(8, 12, 0, 0), (8, 30, 10, 6), (16, 20, 20, 3), (6, 12, 5, 12)]
)
def test_a_plan_can_be_followed(seed, registers, room, waiting, results):
    """A machine that notices every value that is not where it is looked for."""
    rng = np.random.default_rng(seed)
    nodes = random_code(rng, 20, 300)
    wanted = [int(i) for i in rng.integers(20, 300, results)]
    found = plan(nodes, range(300), registers, room, waiting, wanted)
    slots = {i: i for i in range(waiting)}
    here: set[int] = set()
    last = {operand: i for i, node in enumerate(nodes) if node[0] == "add" for operand in node[1:]}
    done = set()
    for step in found.steps:
        assert step.slot < found.slots
        match step.action:
            case "compute":
                node = nodes[step.node]
                assert node[0] == "input" or here.issuperset(node[1:])
                here.add(step.node)
                done.add(step.node)
            case "put":
                assert step.node in here
                slots[step.slot] = step.node
            case "take":
                assert slots[step.slot] == step.node
                here.add(step.node)
    computed = {i for i, node in enumerate(nodes) if node[0] == "add" or node[1] >= waiting}
    assert done >= {i for i in computed if i in last or i in wanted}
    assert [slots[i] for i in range(results)] == wanted
