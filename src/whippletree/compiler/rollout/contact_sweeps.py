"""Sweeps over the blocks of any contact problem as one kernel, whose size the arrays of a call decide."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import sqrt
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import CompiledFunction, compile_function
from whippletree.compiler.program import Block, Buffer, Dimension, Loop, Program, Statement, straight_program
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block
from whippletree.contact.problem.cones import largest
from whippletree.contact.problem.contact_problem import ContactProblem, Local, Measure, block_measure, local, respond
from whippletree.contact.problem.delassus import DelassusProduct, pick_rows

BLOCK, OTHER, SWEEP = "block", "other", "sweep"
LOCAL = len(Local._fields)


@cache
def contact_sweeps(loaded: bool = False) -> CompiledFunction:
    """(G, g, friction, cap, [loads], impulse, kappa, rounds (S,)) → (impulse, kappa, measure (3,), local): S sweeps.

    The arrays are those of :class:`whippletree.contact.problem.contact_problem.ContactProblem`; only the length of
    ``rounds`` counts. ``local`` (k, 9) is scratch. ``loaded``: with the matrix of
    :meth:`~whippletree.contact.problem.contact_problem.LoadedDiscs.loads`.
    """
    return compile_function(sweeps_program(loaded), threads=1)


def sweeps_program(loaded: bool = False) -> Program:
    """Impulses are improved in place in the output; free velocities, and what presses on the discs of moments, are
    summed up in work space."""
    return _SweepsBuilder(loaded).program()


class _SweepsBuilder:
    """Writes the statements of sweeps over a dense problem."""

    def __init__(self, loaded: bool) -> None:
        self.loaded = loaded
        vectors, numbers = ("K", 3), ("K",)
        shares = {"loads": ("K", "K")} if loaded else {}
        self.buffers: dict[str, Buffer] = {}
        self._add("input", G=("K", 3, "K", 3), g=vectors, friction=numbers, cap=numbers, **shares)
        self._add("input", start=vectors, start_kappa=numbers, rounds=("S",))
        self._add("output", impulse=vectors, kappa=numbers, measure=(3,), local=("K", LOCAL))
        self._add("work", free=(3,), **({"load": (1,)} if loaded else {}))
        self.itself = self._at("G", BLOCK, None, BLOCK, None)
        self.sums = [self._at("free"), *([self._at("load")] if loaded else [])]
        """The velocity of a block and, on a disc of moments, what presses on it."""

    def program(self) -> Program:
        """A start, sweeps, and the measure of what came out."""
        measure = [self._at("measure")]
        body = (
            Loop(BLOCK, "K", self._begin()),
            Loop(SWEEP, "S", (Loop(BLOCK, "K", (*self._velocity(), self._answer())),)),
            traced_block(lambda: [[0, 0, 0]], [], measure),
            Loop(BLOCK, "K", (*self._velocity(), self._judge())),
            traced_block(lambda squares: [[sqrt(squares[0]), sqrt(squares[1]), squares[2]]], measure, measure),
        )
        return Program("contact_sweeps" + "_of_moments" * self.loaded, tuple(self.buffers.values()), body)

    def _begin(self) -> tuple[Block, ...]:
        copy = traced_block(lambda x, k: [x, k], self._here("start", "start_kappa"), self._here("impulse", "kappa"))
        return copy, traced_block(lambda G: [list(local(G))], [self.itself], self._here("local"))

    def _velocity(self) -> tuple[Statement, ...]:
        """The velocity of a block under all impulses."""

        def add(total: Array, G: Array, other: Array, *pressed: Any) -> list[Any]:
            more = [[pressed[0][0] + pressed[1] * largest([other[0], 0])]] if pressed else []
            return [total + G @ other, *more]

        free, *load = self.sums
        reads = [free, self._at("G", BLOCK, None, OTHER, None), self._at("impulse", OTHER, None), *load]
        reads += [self._at("loads", BLOCK, OTHER)] if self.loaded else []
        return (
            traced_block(lambda g: [g, *[[0]] * self.loaded], self._here("g"), self.sums),
            Loop(OTHER, "K", (traced_block(add, reads, self.sums),)),
        )

    def _answer(self) -> Block:
        """A block's impulse for the velocity that the others leave it."""

        def answer(total: Array, G: Array, old: Array, mu: Any, cap: Any, kappa: Any, own: Array, *load: Any) -> Any:
            return list(respond(Local(*own), total - G @ old, mu, _loaded_radius(cap, load), kappa))

        free, *load = self.sums
        reads = [free, self.itself, *self._here("impulse", "friction", "cap", "kappa", "local"), *load]
        return traced_block(answer, reads, self._here("impulse", "kappa"))

    def _judge(self) -> Block:
        """The worst of all blocks, squared but for the last number."""

        def judge(total: Array, G: Array, impulse: Array, mu: Any, cap: Any, worst: Array, *load: Any) -> list[Any]:
            found = block_measure(G, impulse, total, mu, _loaded_radius(cap, load))
            return [[largest([x, y]) for x, y in zip(found, worst)]]

        free, *load = self.sums
        reads = [free, self.itself, *self._here("impulse", "friction", "cap"), self._at("measure"), *load]
        return traced_block(judge, reads, [self._at("measure")])

    def _add(self, role: Literal["input", "output", "work"], **shapes: tuple[Dimension, ...]) -> None:
        self.buffers |= {name: Buffer(name, role, shape) for name, shape in shapes.items()}

    def _at(self, name: str, *indices: str | None) -> Piece:
        return piece(self.buffers[name], *indices)

    def _here(self, *names: str) -> list[Piece]:
        """The rows of the block in hand."""
        return [self._at(name, BLOCK, *[None] * (len(self.buffers[name].shape) - 1)) for name in names]


def _loaded_radius(cap: Any, load: tuple[Any, ...]) -> Any:
    """The radius of a disc: its own, and what presses on it."""
    return cap + load[0][0] if load else cap


# --- Sweeps over the blocks of a sparse contact problem: blocks that do not act on each other are improved side by side
# --- A sweep is the one of :mod:`whippletree.contact.problem.contact_problem`, in another order: *colour* by colour, no
# two blocks of a colour touching the same body. So a sweep has as many steps as there are colours, a dozen or two in a
# pile of any size. Each reads the velocities M† Jᵀ λ of its bodies, calls one kernel, whose lanes are the blocks, and
# puts its change back into the velocities.


def coloured_sweeps(problem: ContactProblem, impulse: Array, kappa: Array, count: int) -> tuple[Array, Array, Measure]:
    """Impulses (k, 3) and κ (k,) after so many sweeps over a problem with a sparse matrix, and their measure."""
    impulse, kappa = np.array(impulse, dtype=float), np.array(kappa, dtype=float)
    G: DelassusProduct = problem.G
    if count:
        colours = _colours(problem)
        for _ in range(count):
            moved = G.response.T @ impulse.ravel()
            for colour in colours:
                colour.improve(moved, impulse, kappa)
    squares = _measure()(G.own, impulse, problem.velocity(impulse), problem.friction, problem.radii(impulse))
    worst = np.asarray(squares).max(axis=0, initial=0.0)
    return impulse, kappa, Measure(float(np.sqrt(worst[0])), float(np.sqrt(worst[1])), float(worst[2]))


class _Colour(NamedTuple):
    """Blocks that do not act on each other, with their parts of the problem."""

    blocks: Array
    rows: Any
    """J (3 n, nv), sparse."""
    columns: Any
    """M† Jᵀ (nv, 3 n), sparse."""
    problem: ContactProblem
    g: Array
    own: Array
    local: Array
    friction: Array

    def improve(self, moved: Array, impulse: Array, kappa: Array) -> None:
        """Let these blocks answer to the velocities (nv,) that all impulses cause; all three are changed in place."""
        before = impulse[self.blocks]
        total = self.g + (self.rows @ moved).reshape(-1, 3)
        free = total - (self.own @ before[:, :, None])[:, :, 0]
        radii = self.problem.radii(impulse)[self.blocks]
        after, kappa[self.blocks] = _respond()(self.local, free, self.friction, radii, kappa[self.blocks])
        impulse[self.blocks] = after
        moved += self.columns @ (after - before).ravel()


def _colours(problem: ContactProblem) -> list[_Colour]:
    G: DelassusProduct = problem.G
    number, local = _colouring(*G.touching_parts, problem.blocks), np.asarray(_local()(G.own))
    found = []
    for c in range(number.max(initial=-1) + 1):
        blocks = np.flatnonzero(number == c)
        at = (3 * blocks[:, None] + np.arange(3)).ravel()
        parts = [x[blocks] for x in (problem.g, G.own, local, problem.friction)]
        found.append(_Colour(blocks, pick_rows(G.rows, at), pick_rows(G.response, at).T, problem, *parts))
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
    return _compile_sweep("contact_local", lambda G: list(local(G)), {"G": (3, 3)}, {"local": (LOCAL,)})


@cache
def _respond() -> CompiledFunction:
    def answer(own: Array, free: Array, mu: Any, cap: Any, kappa: Any) -> list[Any]:
        impulse, better = respond(Local(*own), free, mu[()], cap[()], kappa[()])
        return [*impulse, better]

    inputs = {"local": (LOCAL,), "free": (3,), "friction": (), "cap": (), "kappa": ()}
    return _compile_sweep("contact_response", answer, inputs, {"impulse": (3,), "kappa_out": ()})


@cache
def _measure() -> CompiledFunction:
    def judge(G: Array, impulse: Array, velocity: Array, mu: Any, cap: Any) -> list[Any]:
        return list(block_measure(G, impulse, velocity, mu[()], cap[()]))

    inputs = {"G": (3, 3), "impulse": (3,), "velocity": (3,), "friction": (), "cap": ()}
    return _compile_sweep("contact_measure", judge, inputs, {"measure": (3,)})


def _compile_sweep(
    name: str, function: Callable[..., list[Any]], inputs: dict[str, tuple[int, ...]], outputs: dict[str, Any]
) -> CompiledFunction:
    trace = Trace()
    code = finish(trace, function(*[trace.inputs(*shape) for shape in inputs.values()]))
    given = [Buffer(word, "input", shape) for word, shape in inputs.items()]
    wanted = [Buffer(word, "output", shape) for word, shape in outputs.items()]
    return compile_function(straight_program(name, code, given, wanted), threads=1)
