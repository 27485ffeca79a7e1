"""Sweeps over the blocks of any contact problem as one kernel, whose size the arrays of a call decide."""

from __future__ import annotations

from functools import cache

from whippletree.compiler.blocks import piece, traced_block
from whippletree.compiler.functions import CompiledFunction, compile_function
from whippletree.compiler.program import Buffer, Loop, Program
from whippletree.contact.complementarity import Local, block_measure, local, respond
from whippletree.contact.cones import largest
from whippletree.scalars import sqrt
from whippletree.spatial import Array

BLOCK, OTHER, SWEEP = "block", "other", "sweep"
LOCAL = len(Local._fields)


@cache
def contact_sweeps() -> CompiledFunction:
    """(G, g, friction, cap, impulse, kappa, rounds (S,)) → (impulse, kappa, measure (3,), local): S sweeps.

    The arrays are those of :class:`whippletree.contact.complementarity.Problem`; only the length of ``rounds`` counts.
    ``local`` (k, 9) is scratch.
    """
    return compile_function(sweeps_program(), threads=1)


def sweeps_program() -> Program:
    """Impulses are improved in place in the output; free velocities are summed up in work space."""
    G = Buffer("G", "input", ("K", 3, "K", 3))
    g, mu, cap = Buffer("g", "input", ("K", 3)), Buffer("friction", "input", ("K",)), Buffer("cap", "input", ("K",))
    start, start_kappa = Buffer("start", "input", ("K", 3)), Buffer("start_kappa", "input", ("K",))
    rounds = Buffer("rounds", "input", ("S",))
    impulse, kappa = Buffer("impulse", "output", ("K", 3)), Buffer("kappa", "output", ("K",))
    measure, own = Buffer("measure", "output", (3,)), Buffer("local", "output", ("K", LOCAL))
    free = Buffer("free", "work", (3,))

    here = {b.name: piece(b, BLOCK, *[None] * (len(b.shape) - 1)) for b in (g, mu, cap, start, start_kappa, impulse)}
    here |= {b.name: piece(b, BLOCK, *[None] * (len(b.shape) - 1)) for b in (kappa, own)}
    itself = piece(G, BLOCK, None, BLOCK, None)
    there = [piece(free), piece(G, BLOCK, None, OTHER, None), piece(impulse, OTHER, None)]

    def add(total: Array, G: Array, other: Array) -> list[Array]:
        return [total + G @ other]

    def answer(total: Array, G: Array, old: Array, mu: float, cap: float, kappa: float, own: Array) -> list[object]:
        return list(respond(Local(*own), total - G @ old, mu, cap, kappa))

    def judge(total: Array, G: Array, impulse: Array, mu: float, cap: float, worst: Array) -> list[object]:
        found = block_measure(G, impulse, total, mu, cap)
        return [[largest([x, y]) for x, y in zip(found, worst)]]

    velocity = (
        traced_block(lambda g: [g], [here["g"]], [piece(free)]),
        Loop(OTHER, "K", (traced_block(add, there, [piece(free)]),)),
    )
    state = [here[name] for name in ("impulse", "friction", "cap")]
    sweep = traced_block(
        answer, [piece(free), itself, *state, here["kappa"], here["local"]], [here["impulse"], here["kappa"]]
    )
    body = (
        Loop(
            BLOCK,
            "K",
            (
                traced_block(
                    lambda x, k: [x, k], [here["start"], here["start_kappa"]], [here["impulse"], here["kappa"]]
                ),
                traced_block(lambda G: [list(local(G))], [itself], [here["local"]]),
            ),
        ),
        Loop(SWEEP, "S", (Loop(BLOCK, "K", (*velocity, sweep)),)),
        traced_block(lambda: [[0, 0, 0]], [], [piece(measure)]),
        Loop(
            BLOCK,
            "K",
            (*velocity, traced_block(judge, [piece(free), itself, *state, piece(measure)], [piece(measure)])),
        ),
        traced_block(lambda squares: [[sqrt(squares[0]), sqrt(squares[1]), squares[2]]], *[[piece(measure)]] * 2),
    )
    buffers = (G, g, mu, cap, start, start_kappa, rounds, impulse, kappa, measure, own, free)
    return Program("contact_sweeps", buffers, body)
