"""Sweeps over the blocks of a sparse contact problem: blocks that do not act on each other are improved side by side.

A sweep is the one of :mod:`whippletree.contact.complementarity`, in another order: *colour* by colour, no two blocks of
a colour touching the same body. So a sweep has as many steps as there are colours, a dozen or two in a pile of any
size. Each reads the velocities M† Jᵀ λ of its bodies, calls one kernel, whose lanes are the blocks, and puts its change
back into the velocities.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from whippletree.compiler.functions import CompiledFunction, compile_function
from whippletree.compiler.program import Buffer, straight_program
from whippletree.contact.complementarity import Local, Measure, Problem, block_measure, local, respond
from whippletree.contact.delassus import Product, picked
from whippletree.expression import Trace, finish
from whippletree.spatial import Array

LOCAL = len(Local._fields)


def coloured_sweeps(problem: Problem, impulse: Array, kappa: Array, count: int) -> tuple[Array, Array, Measure]:
    """Impulses (k, 3) and κ (k,) after so many sweeps over a problem with a sparse matrix, and their measure."""
    impulse, kappa = np.array(impulse, dtype=float), np.array(kappa, dtype=float)
    G: Product = problem.G
    if count:
        colours = _colours(problem)
        for _ in range(count):
            moved = G.response.T @ impulse.ravel()
            for colour in colours:
                colour.improve(moved, impulse, kappa)
    squares = _measure()(G.own, impulse, problem.velocity(impulse), problem.friction, problem.cap)
    worst = np.asarray(squares).max(axis=0, initial=0.0)
    return impulse, kappa, Measure(float(np.sqrt(worst[0])), float(np.sqrt(worst[1])), float(worst[2]))


class _Colour(NamedTuple):
    """Blocks that do not act on each other, with their parts of the problem."""

    blocks: Array
    rows: Any
    """J (3 n, nv), sparse."""
    columns: Any
    """M† Jᵀ (nv, 3 n), sparse."""
    g: Array
    own: Array
    local: Array
    friction: Array
    cap: Array

    def improve(self, moved: Array, impulse: Array, kappa: Array) -> None:
        """Let these blocks answer to the velocities (nv,) that all impulses cause; all three are changed in place."""
        before = impulse[self.blocks]
        total = self.g + (self.rows @ moved).reshape(-1, 3)
        free = total - (self.own @ before[:, :, None])[:, :, 0]
        after, kappa[self.blocks] = _respond()(self.local, free, self.friction, self.cap, kappa[self.blocks])
        impulse[self.blocks] = after
        moved += self.columns @ (after - before).ravel()


def _colours(problem: Problem) -> list[_Colour]:
    G: Product = problem.G
    number, local = _colouring(*G.touched, problem.blocks), np.asarray(_local()(G.own))
    found = []
    for c in range(number.max(initial=-1) + 1):
        blocks = np.flatnonzero(number == c)
        at = (3 * blocks[:, None] + np.arange(3)).ravel()
        parts = [x[blocks] for x in (problem.g, G.own, local, problem.friction, problem.cap)]
        found.append(_Colour(blocks, picked(G.rows, at), picked(G.response, at).T, *parts))
    return found


def _colouring(contacts: Array, parts: Array, count: int) -> Array:
    """A colour (count,) for each block: the first that no block on the same parts of the model has taken."""
    colours = [0] * count
    taken = [0] * (int(parts.max(initial=-1)) + 1)  # of each part, bit by bit
    touched: list[list[int]] = [[] for _ in range(count)]
    for contact, part in zip(contacts.tolist(), parts.tolist(), strict=True):
        touched[contact].append(part)
    for contact, own in enumerate(touched):
        used = 0
        for part in own:
            used |= taken[part]
        free = ~used & (used + 1)
        colours[contact] = free.bit_length() - 1
        for part in own:
            taken[part] |= free
    return np.array(colours, dtype=int)


@cache
def _local() -> CompiledFunction:
    return _compiled("contact_local", lambda G: list(local(G)), {"G": (3, 3)}, {"local": (LOCAL,)})


@cache
def _respond() -> CompiledFunction:
    def answer(own: Array, free: Array, mu: Any, cap: Any, kappa: Any) -> list[Any]:
        impulse, better = respond(Local(*own), free, mu[()], cap[()], kappa[()])
        return [*impulse, better]

    inputs = {"local": (LOCAL,), "free": (3,), "friction": (), "cap": (), "kappa": ()}
    return _compiled("contact_response", answer, inputs, {"impulse": (3,), "kappa_out": ()})


@cache
def _measure() -> CompiledFunction:
    def judge(G: Array, impulse: Array, velocity: Array, mu: Any, cap: Any) -> list[Any]:
        return list(block_measure(G, impulse, velocity, mu[()], cap[()]))

    inputs = {"G": (3, 3), "impulse": (3,), "velocity": (3,), "friction": (), "cap": ()}
    return _compiled("contact_measure", judge, inputs, {"measure": (3,)})


def _compiled(
    name: str, function: Callable[..., list[Any]], inputs: dict[str, tuple[int, ...]], outputs: dict[str, Any]
) -> CompiledFunction:
    trace = Trace()
    code = finish(trace, function(*[trace.inputs(*shape) for shape in inputs.values()]))
    given = [Buffer(word, "input", shape) for word, shape in inputs.items()]
    wanted = [Buffer(word, "output", shape) for word, shape in outputs.items()]
    return compile_function(straight_program(name, code, given, wanted), threads=1)
