"""Rounds of loops on rows of memory, several at a time: the bits of rounds one by one, and what may not be written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.cpu.round_rows import windows_to_read, windows_to_write
from whippletree.compiler.llvm.ir import MachineLanes
from whippletree.compiler.program import (
    SHARES,
    Address,
    Block,
    Buffer,
    Collect,
    Each,
    Index,
    Lookup,
    Loop,
    Program,
    Statement,
    map_statements,
)
from whippletree.compiler.program.check import ProgramError, check
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace

SIDES = ("first", "second")


def bodies_and_contacts() -> Program:
    """Numbers of bodies, those of some contacts from them, and totals of both, by shares."""
    space = WorkSpace()
    space.add(
        Buffer("x", "input", ("N", 5)),
        Buffer("c", "input", ("C", 3)),
        Buffer("f", "input", ("C",)),
        Buffer("g", "input", (3,)),
        Buffer("h", "input", ()),
        Buffer("node", "input", ("C", 2), integer=True),
    )
    space.work(y=("N", 2, 4), flag=("C",), z=("C", 15), total=(3, SHARES), largest=(1, SHARES))
    space.numbers_list("listed", "C")
    space.add(*[Buffer(name, "output", shape) for name, shape in
                (("ys", ("N", 8)), ("zs", ("C", 15)), ("totals", (3,)), ("worst", ()))])  # fmt: skip
    at = space.at
    totals, worst = (by_share(name, size) for name, size in (("total", 3), ("largest", 1)))

    def of_body(x: Any, g: Any, h: Any, total: Any) -> list[Any]:
        return [np.outer([x[0] * x[1] + h, x[2] / x[3]], [g[0], x[4], g[1] - x[0], g[2] * h]), total + x[:3]]

    def choose(c: Any, f: Any) -> list[Any]:
        return [[select(less(c[0], f), 1, -1)], [0] * 15]

    def of_contact(first: Any, second: Any, c: Any, f: Any, worst: Any) -> list[Any]:
        a, b = first.ravel(), second.ravel()
        square = c @ c
        return [[*(c[0] * a[:6]), *(b[1:7] + f), *(c / sqrt(1 + square))], [select(less(worst[0], f), f, worst[0])]]

    bodies = traced_block(of_body, [at("x", "i"), at("g"), at("h"), totals], [at("y", "i"), totals])
    chosen = traced_block(choose, [at("c", "k"), at("f", "k")], [at("flag", "k"), at("z", "k")])
    look_up = [Lookup(side, Address("node", (Index("k"), Index(None, n))), "N") for n, side in enumerate(SIDES)]
    reads = [*[at("y", side) for side in SIDES], at("c", "k"), at("f", "k"), worst]
    contacts = traced_block(of_contact, reads, [at("z", "k"), worst])
    return space.program("bodies_and_contacts", (
        space.put(0, at("total")),
        space.put(-9, at("largest")),
        Loop("i", "N", (bodies,), share="share"),
        Loop("k", "C", (chosen,), share="share"),
        Collect("listed", "k", "C", space.address("flag", "k")),
        Each("k", "listed", (*look_up, contacts), share="share"),
        traced_block(lambda total: [total.sum(axis=1)], [at("total")], [at("totals")]),
        traced_block(lambda row: [most(row[0])], [at("largest")], [at("worst")]),
        Loop("i", "N", (traced_block(lambda y: [y.ravel()], [at("y", "i")], [at("ys", "i")]),)),
        Loop("k", "C", (traced_block(lambda z: [z], [at("z", "k")], [at("zs", "k")]),)),
    ))  # fmt: skip


def by_share(name: str, size: int) -> Piece:
    return Piece((size,), tuple(Address(name, (Index(None, i), Index("share"))) for i in range(size)))


def most(row: Any) -> Any:
    found = row[0]
    for x in row[1:]:
        found = select(less(found, x), x, found)
    return found


def numbers(bodies: int, contacts: int, *, strided: bool = False) -> dict[str, Any]:
    random = np.random.default_rng(100 * bodies + contacts)
    x = random.normal(size=(bodies, 10))[:, ::2] if strided else random.normal(size=(bodies, 5))
    node = random.integers(-1, bodies + 2, size=(contacts, 2))  # some beyond what there is
    c, f = random.normal(size=(contacts, 3)), random.normal(size=contacts)
    return {"x": x, "c": c, "f": f, "g": random.normal(size=3), "h": 0.3, "node": node}


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize(("bodies", "contacts"), [(1, 1), (7, 9), (8, 16), (19, 45), (31, 200)])
def test_rounds_on_rows_have_the_bits_of_rounds_one_by_one(bodies: int, contacts: int, strided: bool) -> None:
    program = bodies_and_contacts()
    check(program)
    kernel, arguments = compile_function(program, threads=1).ufunc, numbers(bodies, contacts, strided=strided)
    assert kernel is not None
    for name, found, expected in zip(("ys", "zs", "totals", "worst"), kernel(*arguments.values()),
                                     interpret(program, arguments).values(), strict=True):  # fmt: skip
        np.testing.assert_array_equal(found, expected, err_msg=name)


def test_rounds_on_rows_do_what_they_say() -> None:
    given = numbers(19, 45)
    found = interpret(bodies_and_contacts(), given)
    x, c, f = given["x"], given["c"], given["f"]
    heads = np.stack([x[:, 0] * x[:, 1] + 0.3, x[:, 2] / x[:, 3]], axis=1)
    g = given["g"]
    tails = np.stack([g[0] + 0 * x[:, 0], x[:, 4], g[1] - x[:, 0], g[2] * 0.3 + 0 * x[:, 0]], axis=1)
    ys = (heads[:, :, None] * tails[:, None]).reshape(-1, 8)
    np.testing.assert_allclose(found["ys"], ys, rtol=1e-14)
    np.testing.assert_allclose(found["totals"], x[:, :3].sum(axis=0), rtol=1e-12)
    listed = c[:, 0] < f
    first, second = (ys[np.clip(given["node"][:, n], 0, 18)] for n in (0, 1))
    rows = [c[:, :1] * first[:, :6], second[:, 1:7] + f[:, None], c / np.sqrt(1 + (c * c).sum(axis=1))[:, None]]
    np.testing.assert_allclose(found["zs"], np.where(listed[:, None], np.concatenate(rows, axis=1), 0), rtol=1e-13)
    assert found["worst"] == f[listed].max()


def test_no_list_at_all_leaves_totals_as_they_were() -> None:
    given = numbers(3, 20) | {"f": np.full(20, -100.0)}
    kernel = compile_function(bodies_and_contacts(), threads=1).ufunc
    assert kernel is not None
    *_, zs, _, worst = kernel(*given.values())
    assert not zs.any()
    assert worst == -9


def test_single_precision_has_its_own_bits() -> None:
    program, given = bodies_and_contacts(), numbers(9, 33)
    kernel = compile_function(program, threads=1, dtype=np.float32).ufunc
    assert kernel is not None
    arguments = {name: np.asarray(x, dtype=None if name == "node" else np.float32) for name, x in given.items()}
    expected = interpret(program, arguments, np.float32)
    for found, name in zip(kernel(*arguments.values()), ("ys", "zs", "totals", "worst"), strict=True):
        np.testing.assert_array_equal(found, expected[name], err_msg=name)


def test_rounds_are_computed_in_vectors() -> None:
    program = bodies_and_contacts()

    def alone(statement: Statement) -> Statement:
        return replace(statement, share=None) if isinstance(statement, Loop) and statement.counter == "k" else statement

    for kind, those in (("sqrt.v8f64(<8 x double> %", program), ("fcmp olt <8 x double>", program)):
        assert kind in numpy_loop(those, MachineLanes(1, "double"), "loop")
    fewer = numpy_loop(replace(program, body=map_statements(program.body, alone)), MachineLanes(1, "double"), "loop")
    assert len(fewer) < len(numpy_loop(program, MachineLanes(1, "double"), "loop"))


OFFSETS = st.sets(st.integers(0, 40), min_size=1, max_size=20).map(sorted)


@given(OFFSETS, st.none() | st.integers(0, 8))
def test_windows_that_are_read_hold_what_is_wanted(offsets: list[int], spare: int | None) -> None:
    end = None if spare is None else offsets[-1] + 1 + spare
    windows = windows_to_read(offsets, end)
    assert all(any(first <= x < first + width for first, width in windows) for x in offsets)
    assert all(first >= 0 and (end is None or first + width <= end) for first, width in windows)


@given(OFFSETS)
def test_windows_that_are_written_hold_nothing_else(offsets: list[int]) -> None:
    windows = windows_to_write(offsets)
    assert sorted(first + k for first, width in windows for k in range(width)) == offsets


X, OUT = Buffer("x", "input", ("N", 3)), Buffer("out", "output", ("N",))
NODE = Buffer("node", "input", ("N",), integer=True)
W, V, Z = Buffer("w", "work", ("N", 3)), Buffer("v", "work", ("N",)), Buffer("z", "work", ("N", SHARES))
REAL = Buffer("real", "input", ("N",))


def step(source: Any, target: Any) -> Block:
    one = [Piece((), (address,)) for address in (source, target)]
    return traced_block(lambda x: [x + 1], one[:1], one[1:])


def here(name: str, *indices: Any) -> Address:
    return Address(name, tuple(i if isinstance(i, Index) else Index(i) for i in indices))


FIRST, LAST = Index(None, 0), Index(None, 2)


@pytest.mark.parametrize(("message", "body", "options"), [
    ("forwards", (step(here("x", "k", FIRST), here("v", "k")),), {"backwards": True}),
    ("forwards", (step(here("v", "k"), here("v", "k")),), {"side_by_side": True}),
    ("lookups and blocks alone", (Loop("l", 2, (step(here("x", "k", FIRST), here("v", "k")),)),), {}),
    ("may meet in 'w'", (step(here("x", "k", FIRST), here("w", Index(None), FIRST)),), {}),
    ("in rows and by shares", (step(here("z", FIRST, "share"), here("z", "k", FIRST)),), {}),
    ("moves within the rows", (step(here("z", "k", "share"), here("v", "k")),), {}),
    ("rows of inputs alone", (step(here("x", "k", FIRST), here("out", "k")),), {}),
    ("moves within the rows", (Lookup("m", here("node", "k"), 3), step(here("w", "k", "m"), here("v", "k"))), {}),
    ("integers alone", (Lookup("m", here("real", "k"), "N"), step(here("w", "m", LAST), here("v", "k"))), {}),
])  # fmt: skip
def test_rounds_that_may_meet_are_refused(message: str, body: tuple[Statement, ...], options: dict[str, Any]) -> None:
    loop = Loop("k", "N", body, share="share", **options)
    with pytest.raises(ProgramError, match=message):
        check(Program("bad", (X, NODE, REAL, OUT, W, V, Z), (loop,)))
