"""Limbs that are alike are compiled once: the same bits, less code."""

from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import whippletree as wt
from emulated_cuda import install
from nvidia_assembler import assemble, needs_assembler
from strategies import make_limbed_model, make_motion
from walkers import programs, state, walker
from whippletree import functions
from whippletree.arithmetic.trace import Straight, Trace, evaluate, finish
from whippletree.arithmetic.trace.passes import live
from whippletree.arithmetic.trace.schedule import crowding, order_for_registers
from whippletree.arithmetic.trace.signed import Emitter, Term, set_signs_apart
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.ptx_target import kernel_ir, ptx_text
from whippletree.compiler.frontend.code_forms import PAIRED_ON_GPU, Request, catalogue_program
from whippletree.compiler.frontend.limbs import NODES, NUMBERS, rotations
from whippletree.compiler.llvm import copied_results, jit
from whippletree.compiler.llvm.ir import MachineLanes
from whippletree.compiler.llvm.kernel import LOOP_SYMBOL
from whippletree.compiler.named_function import as_tuple
from whippletree.compiler.program import Block, Buffer, Loop, Program, every_block, folding
from whippletree.compiler.program.check import check
from whippletree.compiler.program.folding_plan import MINUS, PLUS, LimbTurning, Parities
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.contact_lists.contact_list_limbs import limbs_beside
from whippletree.files.cache import CodeCache
from whippletree.tree.links import world_poses
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Skeleton, skeleton


@pytest.mark.parametrize("odd", [False, True])
def test_a_walker_is_folded_into_loops_with_the_bits_of_its_copies(odd: bool) -> None:
    model = walker(pairs=1, links=5, odd=odd)
    plain, copies, loops = programs(model, "forward_dynamics")
    check(loops)
    assert all(live(block.code) == block.code for block in every_block(loops.body))  # nothing is written in vain
    assert any(isinstance(statement, Loop) for statement in loops.body)
    assert [type(statement) for statement in copies.body] == [Block]
    written = [sum(block.code.operations for block in every_block(p.body)) for p in (plain, loops)]
    assert written[1] < 0.65 * written[0]
    given_ = state(model)
    results = [interpret(program, given_)["a"] for program in (plain, copies, loops)]
    assert results[1].tobytes() == results[2].tobytes()
    if odd:
        # zeros of one side are numbers of the other: fused operations are chosen anew
        np.testing.assert_allclose(results[0], results[1], rtol=1e-11, atol=1e-11)
    else:
        np.testing.assert_array_equal(results[0], results[1])


def test_compiled_limbs_have_the_same_bits_alone_and_in_any_batch() -> None:
    model = walker(pairs=1, links=5, odd=True)
    dyn = wt.compile(model, threads=1)
    inputs = [np.stack(x) for x in zip(*[state(model, seed).values() for seed in range(11)], strict=True)]
    together = dyn.forward_dynamics(*inputs)
    alone = np.stack([dyn.forward_dynamics(*[x[i] for x in inputs]) for i in range(11)])
    assert together.tobytes() == alone.tobytes()
    reference = wt.reference(model).forward_dynamics(*inputs)
    np.testing.assert_allclose(together, reference, rtol=1e-10, atol=1e-10)
    still = [inputs[0], 0 * inputs[1], 0 * inputs[2]]
    np.testing.assert_allclose(dyn.forward_dynamics(*still), wt.reference(model).forward_dynamics(*still), atol=1e-10)


def test_long_loops_over_limbs_are_compiled_with_less_effort_and_the_bits_of_none() -> None:
    plain, _, loops = programs(walker(pairs=2, links=6), "forward_dynamics")
    texts = [numpy_loop(program, MachineLanes(2, "double"), LOOP_SYMBOL) for program in (plain, loops)]
    assert jit.LONG_TEXT_OF_STATEMENTS < len(texts[1]) < len(texts[0]) < jit.LONG_TEXT
    machine, made = jit.host(), []
    for program, text, effort in zip((plain, loops), texts, (2, 1), strict=True):
        made.append(jit.object_code(text, machine, statements=len(program.body)))
        assert made[-1] == jit.object_code(text, machine, level=effort)
    assert made[1] != jit.object_code(texts[1], machine)  # level 2 would do something else
    given_ = [np.stack([x, x + 0.1, x - 0.2]) for x in state(walker(pairs=2, links=6)).values()]
    results = [compile_function(loops, level=level, threads=1)(*given_) for level in (0, 2)]
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.parametrize("first", ["cuda", "cpu"])
def test_loops_of_a_cpu_and_copies_of_a_gpu_share_a_cache(
    first: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both are the same function of the same model: with one key the CPU's code was run without its tables."""
    install(monkeypatch)
    monkeypatch.setenv("WHIPPLETREE_CACHE", str(tmp_path))
    monkeypatch.setattr(folding, "MOST_LEFT", 1)
    monkeypatch.setattr(folding, "WORTH_FOLDING", 0)
    model = walker(pairs=1, links=2, odd=True, free=False)
    inputs = [np.stack(x) for x in zip(*[state(model, seed).values() for seed in range(5)], strict=True)]
    order = sorted(["cuda", "cpu"], key=lambda target: target != first)
    results = [
        np.asarray(wt.compile(model, target=target, threads=1).forward_dynamics(*inputs))
        for _ in range(2)  # made, and read from the cache
        for target in order
    ]
    assert len({result.tobytes() for result in results}) == 1
    np.testing.assert_allclose(results[0], wt.reference(model).forward_dynamics(*inputs), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_over_limbs_have_the_bits_of_copies_in_the_code_of_a_gpu(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With work space of a thread, and tables in the memory of the device."""
    install(monkeypatch)
    model = walker(pairs=1, links=5, odd=True)
    _, copies, loops = programs(model, "forward_dynamics")
    inputs = [np.stack(x).astype(dtype) for x in zip(*[state(model, seed).values() for seed in range(37)], strict=True)]
    results = [compile_for_cuda(p, dtype=dtype, cache=CodeCache(None))(*inputs) for p in (copies, loops)]
    on_cpu = compile_function(loops, dtype=dtype, cache=CodeCache(None), threads=1)(*inputs)
    assert {np.asarray(result).tobytes() for result in results} == {on_cpu.tobytes()}


@pytest.mark.parametrize("name", ["forward_dynamics", "inverse_dynamics"])
def test_copies_let_no_more_numbers_wait_than_code_without_limbs(name: str) -> None:
    """They go limb after limb. With both at once 1.13 and 2.7 times as many waited for a register of a GPU thread."""
    plain, copies, _ = programs(walker(pairs=1, links=9), name)
    registers = 110
    codes = [order_for_registers(next(every_block(p.body)).code, registers) for p in (plain, copies)]
    waiting = [crowding(code.nodes, range(len(code.nodes)), registers) for code in codes]
    assert waiting[1] < 1.03 * waiting[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gpu_has_loops_where_they_were_faster(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Derivatives of inverse dynamics are; long forward dynamics, in float64, are for pairs of threads."""
    model = walker(pairs=1, links=5, odd=True)

    def loops_of(name: str) -> bool:
        request = Request(model, functions.find(name, model), on_cpu=False, dtype=dtype)
        return any(isinstance(statement, Loop) for statement in catalogue_program(request).body)

    assert loops_of("inverse_dynamics_derivatives")
    assert not loops_of("inverse_dynamics")
    assert not loops_of("forward_dynamics")
    monkeypatch.setitem(PAIRED_ON_GPU["forward_dynamics"], "float64", 100)
    assert loops_of("forward_dynamics") == (dtype == "float64")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_in_loops_on_a_gpu_have_the_bits_of_the_cpu(
    dtype: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install(monkeypatch)
    monkeypatch.setenv("WHIPPLETREE_CACHE", str(tmp_path))
    model = walker(pairs=1, links=3, odd=True)
    q, v, a = (np.stack(x).astype(dtype) for x in zip(*[state(model, seed).values() for seed in range(9)], strict=True))
    results = [
        wt.compile(model, target=target, dtype=dtype, threads=1).inverse_dynamics_derivatives(q, v, a)
        for target in ("cuda", "cpu")
    ]
    on_gpu, on_cpu = (b"".join(np.asarray(x).tobytes() for x in found) for found in results)
    assert on_gpu == on_cpu


@pytest.mark.parametrize("real", ["float", "double"])
def test_ptx_of_four_legs_is_shorter_as_loops(real: Literal["float", "double"]) -> None:
    _, copies, loops = programs(walker(pairs=2, links=3), "forward_dynamics")
    lengths = [len(ptx_text(kernel_ir(program, real), "sm_90")) for program in (copies, loops)]
    assert lengths[1] < 0.65 * lengths[0]


@needs_assembler
@pytest.mark.parametrize("real", ["float", "double"])
def test_nvidias_assembler_accepts_loops_over_limbs(real: Literal["float", "double"], tmp_path: Path) -> None:
    loops = programs(walker(pairs=1, links=5, odd=True), "forward_dynamics")[2]
    assemble(ptx_text(kernel_ir(loops, real), "sm_90"), "sm_90", tmp_path)


@pytest.mark.parametrize("name", ["inverse_dynamics", "mass_matrix", "forward_dynamics_derivatives"])
def test_other_functions_fold_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_LEFT", 1)
    monkeypatch.setattr(folding, "WORTH_FOLDING", 0)
    model = walker(pairs=1, links=2, free=False)
    plain, copies, loops = programs(model, name)
    assert any(isinstance(statement, Loop) for statement in loops.body)
    numbers = state(model)
    given_ = {b.name: numbers.get(b.name, numbers["tau"]) for b in plain.of_role("input")}
    results = [interpret(program, given_) for program in (plain, copies, loops)]
    for key in results[0]:
        np.testing.assert_array_equal(results[1][key], results[2][key])
        np.testing.assert_allclose(results[0][key], results[1][key], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["mass_matrix", "inverse_dynamics_derivatives", "forward_dynamics_derivatives"])
def test_many_results_wait_in_work_space_and_are_copied_from_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeros, values alone and those of limbs, with either sign: the bits of the same results written one by one."""
    monkeypatch.setattr(folding, "MOST_LEFT", 1)
    monkeypatch.setattr(folding, "WORTH_FOLDING", 0)
    model = walker(pairs=1, links=2, odd=True)
    directly = programs(model, name)[2]
    monkeypatch.setattr(folding, "MANY_RESULTS", 1)
    monkeypatch.setattr(copied_results, "FEWEST_LISTED", 1)
    copied = programs(model, name)[2]
    check(copied)
    assert {node[0] for node in copied.body[-1].code.nodes} <= {"input", "neg"}
    given_ = [np.stack(x) for x in zip(*[state(model, seed).values() for seed in range(11)], strict=True)]
    inputs = given_[: len(directly.of_role("input"))]
    results = [as_tuple(compile_function(p, cache=CodeCache(None), threads=1)(*inputs)) for p in (directly, copied)]
    for one, other in zip(*results, strict=True):
        assert one.tobytes() == other.tobytes()


def test_code_without_anything_alike_is_not_folded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two inputs take each other's places, and nothing is computed of the second."""
    monkeypatch.setattr(folding, "WORTH_FOLDING", 0)
    trace = Trace()
    x, _ = trace.inputs(2)
    buffers = [Buffer("x", "input", (2,))], [Buffer("y", "output", (1,))]
    assert folding.fold_code(finish(trace, [x * x + 3]), *buffers, LimbTurning(2, (1, 0), (0, 1))) is None


@pytest.mark.parametrize("odd", [False, True])
def test_derivatives_leave_little_more_than_half_of_their_operations(odd: bool) -> None:
    """Sums over limbs have no mirror image in the code; what is made of them for each limb has one all the same."""
    model = walker(pairs=1, links=3, odd=odd)
    plain, copies, loops = programs(model, "forward_dynamics_derivatives")
    check(loops)
    written = [sum(block.code.operations for block in every_block(p.body)) for p in (plain, loops)]
    assert written[1] < 0.7 * written[0]
    assert sum(isinstance(statement, Loop) for statement in loops.body) <= 3
    numbers = state(model)
    given_ = {b.name: numbers.get(b.name, numbers["tau"]) for b in plain.of_role("input")}
    results = [interpret(program, given_) for program in (plain, copies, loops)]
    for key in results[0]:
        assert results[1][key].tobytes() == results[2][key].tobytes()
        np.testing.assert_allclose(results[0][key], results[1][key], rtol=1e-8, atol=1e-8)


def test_four_legs_are_one_leg_four_times() -> None:
    model = walker(pairs=2, links=3)
    plain, copies, loops = programs(model, "forward_dynamics")
    assert [s.count for s in loops.body if isinstance(s, Loop)] == [4, 4]
    written = [sum(block.code.operations for block in every_block(p.body)) for p in (plain, loops)]
    assert written[1] < 0.45 * written[0]
    results = [interpret(program, state(model))["a"] for program in (copies, loops)]
    assert results[0].tobytes() == results[1].tobytes()


@pytest.mark.slow
@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    limbs=st.integers(2, 4),
    families=st.integers(1, 2),
    name=st.sampled_from(["forward_dynamics", "inverse_dynamics", "mass_matrix", "inverse_dynamics_derivatives"]),
)
def test_random_limbs_have_the_bits_of_their_copies(seed: int, limbs: int, families: int, name: str) -> None:
    """Reflected, turned, in any order, two-, three- and fourfold: whichever values are taken for images."""
    model = make_limbed_model(seed, limbs, families=families)
    with pytest.MonkeyPatch.context() as patch:
        for limit, value in (("WORTH_FOLDING", 0), ("MOST_LEFT", 1), ("MOST_STAGES", 1000)):
            patch.setattr(folding, limit, value)
        _, copies, loops = programs(model, name)
    check(loops)
    assert any(isinstance(statement, Loop) for statement in loops.body)
    motions = [make_motion(model, seed + k)._asdict() for k in range(3)]
    inputs = [np.stack([motion[b.name] for motion in motions]) for b in loops.of_role("input")]
    results = [
        as_tuple(compile_function(p, cache=CodeCache(None), level=0, threads=1)(*inputs)) for p in (copies, loops)
    ]
    exact = as_tuple(getattr(wt.reference(model), name)(*inputs))
    for one, other, reference in zip(*results, exact, strict=True):
        assert one.tobytes() == other.tobytes()
        np.testing.assert_allclose(other, reference, rtol=1e-9, atol=1e-9 * np.abs(reference).max())


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize(("pairs", "links"), [(1, 4), (2, 3), (3, 2)])
def test_limbs_of_one_state_are_lanes_with_the_bits_of_lanes_that_are_states(pairs: int, links: int, odd: bool) -> None:
    """Poses and momenta in the world, and a product of both, of limbs side by side, of each limb by itself, and of
    states side by side."""
    model = walker(pairs, links, odd=odd)
    tree, size = skeleton(model), 3 * (1 + 2 * pairs * links)

    def follow(tree: Skeleton, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> list:
        m = Mechanism(tree)
        links = m.moving(q, v)
        poses = world_poses(m.sweep, links)
        forces = [pose.force(link.M @ link.V) for pose, link in zip(poses, links, strict=True)]
        return [np.concatenate([own * force[3:] for own, force in zip(p, forces, strict=True)])]

    names = {"q": (model.nq,), "v": (model.nv,), "p": (size // 3, 3)}
    words = [("nq",), ("nv",), (NODES, NUMBERS)]

    def program(beside: bool) -> Program:
        space = WorkSpace()
        space.add(*[Buffer(name, "input", shape) for name, shape in names.items()], Buffer("y", "output", (size,)))
        reads = list(zip(space.each(list(names)), words, strict=True))
        found = limbs_beside(space, "follow", tree, follow, reads, [space.at("y")])
        assert any(isinstance(s, Loop) and s.side_by_side for s in found)  # or there is nothing to compare
        if not beside:
            found = [replace(s, side_by_side=False) if isinstance(s, Loop) else s for s in found]
        return space.program("follow", found)

    one, other = (compile_function(program(beside), threads=1, cache=CodeCache(None)) for beside in (True, False))
    given_ = [state(model, seed) for seed in range(9)]
    arrays = [np.stack([s[name] for s in given_]) for name in ("q", "v")]
    arrays.append(np.random.default_rng(0).normal(size=(9, *names["p"])))
    alone = np.stack([one(*[x[i] for x in arrays]) for i in range(9)])
    assert alone.tobytes() == one(*arrays).tobytes() == other(*arrays).tobytes()
    exact = np.stack([follow(tree, *[x[i] for x in arrays])[0] for i in range(9)]).astype(float)
    np.testing.assert_allclose(alone, exact, rtol=1e-12, atol=1e-12)


def test_limbs_of_other_joints_are_not_twins() -> None:
    builder = wt.Builder("odd walker")
    builder.body("trunk", 8.0, (0.01, 0, 0.02), (0.3, 0.2, 0.25))
    builder.joint("base", "free", "world", "trunk")
    for side, sign, kind in (("left", 1, "revolute"), ("right", -1, "prismatic")):
        builder.body(side, 1.0, (0.01, 0.02 * sign, -0.1), (0.01, 0.012, 0.004))
        builder.joint(side, kind, "trunk", side, axis=(0, 1, 0), position=(0, 0.1 * sign, 0))
    assert rotations(skeleton(builder.build())) == []


def test_constants_of_twins_stay_constants_and_twins() -> None:
    trace = Trace()
    mass, offset = trace.twin_number(), trace.twin_number()
    left, right = ([trace.twin_constant(x, number, part) for number, x in numbers] for part, numbers in enumerate([
        [(mass, 2.0), (offset, 0.5)], [(mass, 3.0), (offset, -0.25)],
    ]))  # fmt: skip
    x = trace.input()
    moments = [m * c + 1 for m, c in (left, right)]
    nodes = [trace.nodes[moment.index] for moment in moments]
    assert [node[:2] for node in nodes] == [("const", 2.0), ("const", 0.25)]
    assert nodes[0][2] == nodes[1][2]
    assert [node[3] for node in nodes] == [0, 1]
    # of both parts together: a constant like any other
    assert trace.nodes[(left[0] + right[0]).index] == ("const", 5.0)
    # x − c and c − x are one value, as x + c and −c − x are
    assert (-(x - left[0])).index == (left[0] - x).index
    assert evaluate(finish(trace, [left[0] - x, x * moments[0]]), [0.5]) == [1.5, 1.0]


def test_six_equal_legs_turn_round_in_a_circle() -> None:
    model = walker(pairs=3, links=3, free=False)
    found = rotations(skeleton(model))
    assert sorted(r.limbs for r in found) == [2, 3, 6]
    for rotation in found:
        for node in range(len(rotation.image)):
            seen = node
            for _ in range(rotation.limbs):
                seen = rotation.image[seen]
            assert seen == node
        assert rotation.moved == 18


def test_a_chain_has_no_limbs() -> None:
    assert rotations(skeleton(wt.mechanisms.chain(5))) == []


def test_signs_set_apart_and_put_back_give_the_same_numbers() -> None:
    trace = Trace()
    x, y, z = trace.inputs(3)
    outputs = [x * y - z, z - x * y, -(x + y), (y - x) * 3, (x - y).sin() * -2, 1 / (x - y), abs(y - x), 2.5]
    code = finish(trace, outputs)
    apart = set_signs_apart(code)
    emitter, known = Emitter(), []
    for i, operation in enumerate(apart.operations):
        if operation in ("input", "const"):
            known.append(emitter.node(operation, apart.contents[i]))
        else:
            known.append(emitter.operation(operation, apart.signs[i], [known[j] for j in apart.operands[i]]))
    back = [emitter.with_sign(known[t.value], t.sign) if isinstance(t, Term) else t for t in apart.outputs]
    again = Straight(emitter.nodes, back)
    assert apart.operations.count("fma") == 1  # x y − z and z − x y are one value
    numbers = [0.3, -1.7, 0.9]
    assert evaluate(code, numbers) == evaluate(again, numbers)


@given(st.lists(st.tuples(st.integers(0, 63), st.integers(0, 1)), max_size=12))
def test_equations_of_signs_are_solved_or_refused(wanted: list[tuple[int, int]]) -> None:
    parities = Parities()
    unknowns = [parities.unknown() for _ in range(6)]
    demanded = []
    for mask, constant in wanted:
        form = constant
        for k, unknown in enumerate(unknowns):
            form ^= unknown if mask >> k & 1 else PLUS
        consistent = any(all(_value(f, bits) == PLUS for f in [*demanded, form]) for bits in range(64))
        assert parities.equate(form, PLUS) == consistent
        if consistent:
            demanded.append(form)
    assert all(parities.sign(form) == 1 for form in demanded)
    assert parities.sign(MINUS) == -1


def _value(form: int, bits: int) -> int:
    return (form & 1) ^ (bin((form >> 1) & bits).count("1") & 1)


def test_zeros_of_one_limb_are_kept_where_its_twin_has_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "WORTH_FOLDING", 0)
    model = walker(pairs=1, links=3, odd=True)
    exact = wt.reference(model)
    loops = programs(model, "inverse_dynamics")[2]
    numbers = state(model)
    given_ = {b.name: numbers.get(b.name, numbers["tau"]) for b in loops.of_role("input")}
    fractions = exact.inverse_dynamics(given_["q"], given_["v"], given_["a"])
    np.testing.assert_allclose(interpret(loops, given_)["tau"], fractions, rtol=1e-10, atol=1e-10)
