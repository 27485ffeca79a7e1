"""Code in which too many numbers wait is given another order: fewer of them, and the same bits."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from whippletree.arithmetic.trace import Straight, evaluate
from whippletree.arithmetic.trace.schedule import MANY_WAITING, most_alive, order_for_cache
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend.code_forms import Request, catalogue_program
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.program import every_block
from whippletree.files.cache import CodeCache
from whippletree.functions import find


@st.composite
def random_code(draw, operations=40):
    """Inputs and a constant, and sums and products of anything before them."""
    nodes = [("input", 0), ("input", 1), ("const", 0.75)]
    for _ in range(draw(st.integers(1, operations))):
        before = st.integers(0, len(nodes) - 1)
        nodes.append((draw(st.sampled_from(("add", "mul", "sub"))), draw(before), draw(before)))
    return Straight(nodes, [len(nodes) - 1])


@given(random_code())
def test_numbers_alive_are_counted_one_place_after_the_other(code):
    counts = []
    for place in range(len(code.nodes)):
        later = {operand for node in code.nodes[place:] if node[0] not in ("input", "const") for operand in node[1:]}
        after = {i for node in code.nodes[place + 1 :] if node[0] not in ("input", "const") for i in node[1:]}
        known = {i for i in range(place) if i in later} | ({place} & after)
        counts.append(sum(code.nodes[i][0] != "const" for i in known))
    assert most_alive(code.nodes) == max(counts)


def test_an_order_with_fewer_numbers_waiting_computes_the_same():
    """Products that are made early and used late, in the opposite order."""
    nodes = [("input", i) for i in range(4)]
    waiting = 2 * MANY_WAITING
    for i in range(waiting):
        nodes.append(("mul", i % 4, len(nodes) - 1))
    first, total = len(nodes) - waiting, len(nodes) - 1
    for i in reversed(range(first, first + waiting - 1)):
        nodes.append(("add", total, i))
        total = len(nodes) - 1
    # products of inputs alone can wait as what they are made of
    nodes += [("mul", i % 4, (i // 4) % 4) for i in range(16)]
    for i in range(16):
        nodes.append(("add", total, len(nodes) - 16 - i))
        total = len(nodes) - 1
    code = Straight(nodes, [total])
    ordered = order_for_cache(code)
    assert most_alive(ordered.nodes) <= most_alive(code.nodes)
    inputs = [0.3, -1.2, 0.9, 1.1]
    assert evaluate(ordered, inputs) == evaluate(code, inputs)
    few = Straight(nodes[:20], [19])
    assert order_for_cache(few) is few


@pytest.mark.parametrize("name", ["forward_dynamics", "constraint_forces"])
def test_ten_cells_keep_fewer_numbers_and_all_bits(name, tmp_path):
    model = wt.mechanisms.four_bar_chain(10)
    function = find(name, model)
    written, ordered = unrolled_program(model, function), catalogue_program(Request(model, function))
    counts = [max(most_alive(block.code.nodes) for block in every_block(p.body)) for p in (written, ordered)]
    assert counts[0] > MANY_WAITING
    assert counts[1] < 0.8 * counts[0]
    assert sorted(node[0] for node in ordered.body[0].code.nodes) == sorted(n[0] for n in written.body[0].code.nodes)
    draw = np.random.default_rng(4)
    q = model.home.q + 1e-3 * draw.normal(size=(11, model.nq))
    v, tau = draw.normal(size=(2, 11, model.nv))
    cache = CodeCache(tmp_path)
    results = [compile_function(p, cache=cache)(q, v, tau) for p in (written, ordered)]
    assert results[0].tobytes() == results[1].tobytes()


def test_a_gpu_gets_the_order_of_the_trace():
    """It is ordered there by the number of its registers."""
    model = wt.mechanisms.four_bar_chain(10)
    function = find("forward_dynamics", model)
    assert catalogue_program(Request(model, function, on_cpu=False)).body == unrolled_program(model, function).body
