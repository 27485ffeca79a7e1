"""Two limbs on two threads: the bits of loops over limbs, on an emulated driver whose pairs go in step."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install, on_device
from nvidia_assembler import assemble, needs_assembler
from walkers import programs, state, walker
from whippletree.arithmetic.trace import Straight
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cuda import tuning
from whippletree.compiler.cuda.cuda_function import compile_for_cuda
from whippletree.compiler.cuda.ptx_target import how_to_start, kernel_ir, ptx_text
from whippletree.compiler.cuda.thread_pairs import CHOOSE, FIRST, MIRROR, OTHER, SECOND, pair_program
from whippletree.compiler.cuda.tuning import PAIR_FORM, Form, fit_program
from whippletree.compiler.frontend.code_forms import PAIRED_ON_GPU
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.program import Address, Block, Buffer, Index, Loop, Program, every_block
from whippletree.compiler.program.check import check
from whippletree.compiler.program.interpret import interpret
from whippletree.files.cache import CodeCache
from whippletree.functions import find

REALS = {"float32": "float", "float64": "double"}


@pytest.mark.parametrize("odd", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "links"), [("forward_dynamics", 5), ("inverse_dynamics", 9)])
def test_pairs_have_the_bits_of_loops_in_any_layout(name, links, dtype, odd, monkeypatch):
    """More states than a block has, and a last block that is not full."""
    driver = install(monkeypatch)
    model = walker(pairs=1, links=links, odd=odd)
    loops = programs(model, name)[2]
    drawn = [state(model, seed).values() for seed in range(71)]
    inputs = [np.stack(x).astype(dtype) for x in zip(*drawn, strict=True)]
    expected = compile_function(loops, dtype=dtype, cache=CodeCache(None), threads=1)(*inputs)
    f = compile_for_cuda(loops, dtype=dtype, form=PAIR_FORM[REALS[dtype]], cache=CodeCache(None))
    assert how_to_start(f._kernel.image("sm_90")).states == 64
    for columns in (False, True):
        found = f(*[on_device(x, columns=columns) for x in inputs])
        assert found.numpy().tobytes() == expected.tobytes()
    assert len(driver.paired) == 2  # one for each layout
    assert f(*[x[3] for x in inputs]).tobytes() == expected[3].tobytes()


def test_a_thread_of_a_pair_has_little_more_than_half_of_the_operations():
    _, copies, loops = programs(walker(pairs=1, links=5), "forward_dynamics")
    paired = pair_program(loops)
    count, most = (next(every_block(p.body)).code.operations for p in (paired.program, copies))
    assert count < 0.65 * most
    assert not paired.program.of_role("work")


# ---- programs of any sort --------------------------------------------------------------------------------------------


class RandomLimbs:
    """A program that goes from limbs to the rest and back, with numbers in every sort of place."""

    def __init__(self, seed, stages=3, columns=6):
        self.rng = np.random.default_rng(seed)
        self.columns = columns
        self.known = {}  # addresses that can be read, and whether in loops only
        q, table = Buffer("q", "input", (9,)), Buffer("t", "table", (2, 4), self.rng.normal(size=(2, 4)))
        for i in range(9):
            self.known[Address("q", (Index(None, i),))] = False
        for i in range(4):
            self.known[Address("t", (Index("limb"), Index(None, i)))] = True
        body, work = [], []
        for stage in range(stages):
            limbs, alone = f"limbs {stage}", f"alone {stage}"
            work += [Buffer(limbs, "work", (2, 2 * columns)), Buffer(alone, "work", (columns,))]
            body.append(self.alone(limbs, alone))
            body.append(self.loop(limbs))
        body.append(self.results(limbs))
        self.program = Program("limbs", (q, Buffer("y", "output", (16,)), *work, table), tuple(body))

    def block(self, stores, in_loop):
        addresses = [a for a, only in self.known.items() if in_loop or not only]
        chosen = [addresses[i] for i in self.rng.permutation(len(addresses))[:12]]
        nodes = [("input", i) for i in range(len(chosen))] + [("const", float(self.rng.normal()))]
        while len(nodes) < 40:
            kind = str(self.rng.choice(["add", "sub", "mul", "neg"]))
            nodes.append((kind, *map(int, self.rng.integers(0, len(nodes), 1 if kind == "neg" else 2))))
        outputs = [int(i) for i in self.rng.integers(0, len(nodes), len(stores))]
        return nodes, chosen, outputs

    def alone(self, limbs, alone):
        """Numbers for all, and for one limb and the other: neighbours of an input, with signs, and any."""
        stores = [Address(alone, (Index(None, c),)) for c in range(self.columns)]
        stores += [Address(limbs, (Index(None, p), Index(None, c))) for c in range(self.columns) for p in (0, 1)]
        nodes, loads, outputs = self.block(stores, in_loop=False)
        # a sum of both limbs, where there are some already
        sums = [a for a, only in self.known.items() if not only and a.indices[0].offset == 0 and len(a.indices) == 2]
        if sums:
            nodes += [("input", len(loads)), ("input", len(loads) + 1), ("add", len(nodes), len(nodes) + 1)]
            loads += [sums[-1], Address(sums[-1].buffer, (Index(None, 1), sums[-1].indices[1]))]
            outputs[0] = len(nodes) - 1
        # pairs of inputs, the second with another sign
        own, other = (len(nodes) + k for k in (0, 1))
        nodes += [("input", len(loads)), ("input", len(loads) + 1), ("neg", other)]
        loads += [Address("q", (Index(None, i),)) for i in (2, 7)]
        outputs[-4:] = [own, other, own, other + 1]
        for address in stores:
            self.known[address] = False
        for c in range(self.columns):
            self.known[Address(limbs, (Index("limb"), Index(None, c)))] = True
        return Block(Straight(nodes, outputs), tuple(loads), tuple(stores))

    def loop(self, limbs):
        columns = range(self.columns, 2 * self.columns)
        stores = [Address(limbs, (Index("limb"), Index(None, c))) for c in columns]
        nodes, loads, outputs = self.block(stores, in_loop=True)
        for c, address in zip(columns, stores, strict=True):
            self.known[address] = True
            for p in (0, 1):
                self.known[Address(limbs, (Index(None, p), Index(None, c)))] = False
        return Loop("limb", 2, (Block(Straight(nodes, outputs), tuple(loads), tuple(stores)),))

    def results(self, limbs):
        """Of both limbs with any signs, of one alone, a constant."""
        loads = [Address(limbs, (Index(None, p), Index(None, c))) for c in range(6, 12) for p in (0, 1)]
        nodes = [("input", i) for i in range(12)]
        nodes += [("neg", i) for i in range(12)]
        outputs = [i + 12 * int(self.rng.integers(0, 2)) for i in range(12)]
        stores = [Address("y", (Index(None, int(i)),)) for i in self.rng.permutation(16)]
        return Block(Straight(nodes, [*outputs, 0, 5, 1.5, 13]), tuple(loads), tuple(stores))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_limbs_on_pairs_of_threads(seed, dtype, monkeypatch):
    install(monkeypatch)
    program = RandomLimbs(seed).program
    check(program)
    q = np.random.default_rng(seed).normal(size=(3, 9)).astype(dtype)
    form = Form(32, keep=8, room=9, pair=True) if seed % 2 else Form(64, pair=True)
    found = compile_for_cuda(program, dtype=dtype, form=form, cache=CodeCache(None))(q)
    expected = np.stack([interpret(program, {"q": x}, dtype=dtype)["y"] for x in q])
    assert found.tobytes() == expected.tobytes()


def test_random_limbs_take_every_way():
    """What the test above is for: all operations of pairs, and results that each thread writes for itself."""
    used, moved = set(), 0
    for seed in range(12):
        (block,) = pair_program(RandomLimbs(seed).program).program.body
        used |= {node[0] for node in block.code.nodes}
        moved += sum(address.indices[0].register is not None for address in block.stores)
    assert used >= {FIRST, SECOND, OTHER, MIRROR, CHOOSE}
    assert moved > 12


# ---- what is not for pairs -------------------------------------------------------------------------------------------


def test_four_limbs_and_no_limbs_are_for_single_threads():
    _, copies, loops = programs(walker(pairs=2, links=3), "forward_dynamics")
    assert loops.body[1].count == 4
    assert pair_program(loops) is None
    assert pair_program(copies) is None
    assert not tuning.shape_program(loops, Form(pair=True)).form.pair


def test_a_limb_that_reads_what_the_other_leaves_in_the_same_loop_is_not_for_pairs():
    """In a loop the second round reads what the first one has left; of two threads neither is first."""
    program = RandomLimbs(0).program
    first = program.body[1]
    (block,) = first.body
    store = block.stores[0]
    read = Address(store.buffer, (Index(None, 0), store.indices[1]))
    changed = replace(block, loads=(read, *block.loads[1:]))
    assert pair_program(program) is not None
    assert pair_program(replace(program, body=(program.body[0], replace(first, body=(changed,))))) is None


# ---- forms -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", ["float", "double"])
def test_pairs_only_where_they_are_asked_for(real):
    model = walker(pairs=1, links=5)
    loops, pairs = (unrolled_program(model, find("forward_dynamics", model), fold=fold) for fold in ("loops", "pairs"))
    assert not fit_program(loops, real, rows=False).form.pair
    assert fit_program(pairs, real, rows=False).form == PAIR_FORM[real]
    many = unrolled_program(walker(pairs=2, links=3), find("forward_dynamics", model), fold="pairs")
    assert [type(statement) for statement in many.body] == [Block]


def test_a_function_of_the_catalogue_in_pairs(monkeypatch):
    install(monkeypatch)
    monkeypatch.setitem(PAIRED_ON_GPU, "forward_dynamics", {"float32": 1000})
    model = walker(pairs=1, links=5)
    inputs = [np.stack(x) for x in zip(*[state(model, seed).values() for seed in range(5)], strict=True)]
    single, double = (wt.compile(model, target="cuda", dtype=dtype) for dtype in ("float32", "float64"))
    on_cpu = wt.compile(model, dtype="float32", threads=1).forward_dynamics(*[x.astype("float32") for x in inputs])
    assert np.asarray(single.forward_dynamics(*[x.astype("float32") for x in inputs])).tobytes() == on_cpu.tobytes()
    assert how_to_start(single.forward_dynamics._kernel.image("sm_90")).states == 64
    assert how_to_start(double.forward_dynamics._kernel.image("sm_90")).states == 128
    monkeypatch.setitem(PAIRED_ON_GPU, "forward_dynamics", {"float32": 10_000})
    alone = wt.compile(model, target="cuda", dtype="float32").forward_dynamics
    assert how_to_start(alone._kernel.image("sm_90")).states == 128


@needs_assembler
@pytest.mark.parametrize("real", ["float", "double"])
def test_nvidias_assembler_accepts_pairs(real, tmp_path):
    loops = programs(walker(pairs=1, links=5), "forward_dynamics")[2]
    text = ptx_text(kernel_ir(loops, real, PAIR_FORM[real]), "sm_90")
    assert "shfl.sync.idx.b32" in text
    assemble(text, "sm_90", tmp_path)
