"""Newton's method on the equations of a collocation step, for states of any size whose rates are called.

The mathematics is that of :mod:`whippletree.simulation.adaptive.newton`. Neighbours of the middle are asked for in
bundles of as many as a step has points, so that a call has the same number of states whatever it is for; the systems of
all modes λ of the step's weights are eliminated together. J is kept where a step is tried again, shorter.

A state is two parts, and J knows components by their place in the whole state: the call tells the place of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import exp, less, log, maximum, minimum, select, sqrt
from whippletree.compiler.program import Address, Buffer, Dimension, If, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.collocation.collocation_newton import POWERS, UNCOUNTED
from whippletree.compiler.rollout.collocation.complex_elimination import (
    COLUMN,
    ROW,
    ComplexElimination,
    complex_product,
)

if TYPE_CHECKING:
    from whippletree.compiler.rollout.collocation.collocation_frame import Scheme

COMPONENT, PLACE, OTHER_PLACE, BUNDLE, LANE, POWER = "component", "place", "other place", "bundle", "lane", "power"
"""Counters of the loops over the components of a part, places of components in the whole state, bundles of neighbours
and their lanes, and powers of J."""


class CalledNewton:
    """Adds its buffers to those of a program, which has, of each part (n components),

    y (n), G (n, s)         the start of the step, and the last polynomial
    K, F, X (n, s)          slopes at the points of the step, and rates F at states X

    and now, bounds, T, doubt as in
    :class:`~whippletree.compiler.rollout.collocation.collocation_newton.NewtonIteration`. Its own arguments of a call:
    ``place`` of each component in the whole state, and ``number``, the same as a float; ``columns`` (bundles, s): the
    place of the component that a neighbour is moved along, and ``moved``, the same as a float, but -1 for the very
    first, which is the middle itself; ``first probe`` (all): what powers of J are applied to.
    """

    def __init__(
        self, space: WorkSpace, scheme: Scheme, difference: float, parts: Mapping[str, Dimension], halved: bool
    ) -> None:
        """``parts``: with their dimensions; ``halved``: whether the first is the integral of the second, component by
        component, both of one dimension."""
        self.space, self.difference, self.parts, self.halved = space, difference, parts, halved
        self.s = len(scheme.nodes)
        assert scheme.values is not None
        assert scheme.into is not None
        assert scheme.back is not None
        p = self.modes = len(scheme.values)
        space.work(looking=(1,), stale=(1,), first=(1,), delta=("all",), JT=("all", "all"))
        space.work(**{f"{name}_{part}": (n,) for name in ("centre", "base") for part, n in parts.items()})
        space.work(probe=("all",), image=("all",), size=(1,), rate=(1,), radius=(1,), unclear=(1,))
        space.work(z=(2, p), zz=(2, p))
        if halved:
            space.work(own_q=(parts["q"], 2, p), products=(parts["v"], 2, p))
        space.table("modes", np.stack([scheme.values.real, scheme.values.imag]))
        space.table("into", np.stack([scheme.into.real.T, scheme.into.imag.T]))
        space.table("back", np.stack([scheme.back.real.T, -scheme.back.imag.T]))
        space.table("counts", [0.0] * UNCOUNTED + [1 / (POWERS - UNCOUNTED)] * (POWERS - UNCOUNTED))
        self.systems = ComplexElimination(space, parts["v"] if halved else "all", p)

    @staticmethod
    def inputs(points: int, parts: Mapping[str, Dimension]) -> tuple[list[Buffer], dict[str, tuple[Dimension, ...]]]:
        """Integers that come first in a call, and further arguments."""
        integers = [Buffer(f"place {part}", "input", (n,), integer=True) for part, n in parts.items()]
        integers.append(Buffer("columns", "input", ("bundles", points), integer=True))
        numbers: dict[str, tuple[Dimension, ...]] = {f"number {part}": (n,) for part, n in parts.items()}
        return integers, numbers | {"moved": ("bundles", points), "first probe": ("all",)}

    def _each_part(self, work: Callable[[str], Sequence[Statement]]) -> list[Statement]:
        """Loops over the components of both parts, whose places are known there."""
        return [Loop(COMPONENT, n, (self._place(part), *work(part))) for part, n in self.parts.items()]

    def _place(self, part: str, counter: str = COMPONENT, place: str = PLACE) -> Lookup:
        """The place of a component in the whole state."""
        return Lookup(place, Address(f"place {part}", (Index(counter),)), "all")

    def _of(self, name: str, part: str) -> Piece:
        return self.space.at(f"{name} {part}", COMPONENT)

    # ---- J, from the rates at neighbours of the middle -----------------------------------------------------------

    def look(self, rates: Sequence[Statement]) -> list[Statement]:
        """The matrices of a step: J, if the step begins anew, and the systems of all modes. X and T are used up."""
        done = self.space.put(-1, self.space.at("stale"))
        return [
            If(self.space.address("stale"), (*self._differences(rates), done)),
            *self._shifts(),
            *(self._build_halved() if self.halved else self._build()),
            *self.systems.factor(),
        ]

    def _differences(self, rates: Sequence[Statement]) -> list[Statement]:
        at, put, each, address = self.space.at, self.space.put, self.space.each, self.space.address

        def lengths(start: Any, G: Array, now: Array, bounds: Array) -> list[Any]:
            y = start + now[1] / 2 * G[0]
            rtol, atol = bounds[2], bounds[3]
            # below the absolute tolerance over the relative one, numbers are of no interest
            some = less(0, rtol)
            least = select(some, minimum(atol / select(some, rtol, 1), 1), 1)
            # as the computer adds it, so that q̇ = v gives exactly 1
            return [y, (y + self.difference * maximum(abs(y), least)) - y]

        def place(y: Any, number: Any, delta: Any, moved: Array) -> list[Any]:
            return [[select(less(number, m) | less(m, number), y, y + delta) for m in moved]]

        def begin(part: str) -> list[Statement]:
            reads = [self._of("y", part), self._of("G", part), *each(["now", "bounds"])]
            return [traced_block(lengths, reads, [self._of("centre", part), at("delta", PLACE)])]

        def neighbours(part: str) -> list[Statement]:
            reads = [self._of("centre", part), self._of("number", part), at("delta", PLACE), at("moved", BUNDLE)]
            return [traced_block(place, reads, [self._of("X", part)])]

        def start(part: str) -> list[Statement]:
            own = Piece((), (Address(f"F {part}", (Index(COMPONENT), Index(None, 0))),))
            return [traced_block(lambda x: [x], [own], [self._of("base", part)])]

        def divide(moved: Any, base: Any, delta: Any) -> list[Any]:
            return [(moved - base) / delta]

        def slopes(part: str) -> list[Statement]:
            reads = [at(f"F {part}", COMPONENT, LANE), self._of("base", part), at("delta", COLUMN)]
            return [traced_block(divide, reads, [at("JT", COLUMN, PLACE)])]

        column = Lookup(COLUMN, Address("columns", (Index(BUNDLE), Index(LANE))), "all")
        bundle = (
            *self._each_part(neighbours),
            *rates,
            If(address("first"), (*self._each_part(start), put(-1, at("first")))),
            Loop(LANE, self.s, (column, *self._each_part(slopes))),
        )
        return [
            traced_block(lambda now: [[now[0] + now[1] / 2] * self.s, [1]], [at("now")], each(["T", "first"])),
            *self._each_part(begin),
            Loop(BUNDLE, "bundles", bundle),
        ]

    # ---- how fast its fastest part is ----------------------------------------------------------------------------

    def radius(self) -> list[Statement]:
        """The largest |eigenvalue| of J, or something below it where that is too fast for Picard iteration already.

        The mean of the squared eigenvalues, tr J² / n, is not above the square of the largest.
        """
        at, each, put = self.space.at, self.space.each, self.space.put

        def judge(size: Array, bounds: Array, control: Array) -> list[Any]:
            least = sqrt(abs(size[0]) / bounds[6])
            return [[least], [select(less(control[0] * least, bounds[5]), 1, -1)]]

        # one sum for each column: a single one would wait for itself
        sums = at("image", COLUMN)
        own = traced_block(lambda x: [x * x], [at("JT", COLUMN, COLUMN)], [sums])
        reads = [sums, at("JT", COLUMN, ROW), at("JT", ROW, COLUMN)]
        pairs = traced_block(lambda total, a, b: [total + 2 * (a * b)], reads, [sums])
        return [
            Loop(COLUMN, "all", (own,)),
            Loop(ROW, "all", (Loop(COLUMN, Index(ROW), (pairs,)),)),
            put(0, at("size")),
            Loop(COLUMN, "all", (traced_block(lambda size, x: [size + x], [at("size"), sums], [at("size")]),)),
            traced_block(judge, each(["size", "bounds", "control"]), each(["radius", "unclear"])),
            If(self.space.address("unclear"), tuple(self._powers())),
        ]

    def _powers(self) -> list[Statement]:
        """|J^24 x| against |J^8 x|, to the power 1/16: about the largest |eigenvalue|."""
        at, put, each = self.space.at, self.space.put, self.space.each

        def multiply(image: Any, entry: Any, x: Any) -> list[Any]:
            return [image + entry * x]

        def rescale(size: Array, rate: Array, share: Any) -> list[Any]:
            length = sqrt(size[0])
            some = less(0, length)
            length = select(some, length, 1)
            # a nilpotent J, of a free flight, has no rate
            return [[1 / length], [select(some, rate[0] + share * log(length), -1e3)]]

        image, probe = at("image", ROW), at("probe", ROW)
        reads = [image, at("JT", COLUMN, ROW), at("probe", COLUMN)]
        product = (
            Loop(ROW, "all", (put(0, image),), side_by_side=True),
            Loop(COLUMN, "all", (Loop(ROW, "all", (traced_block(multiply, reads, [image]),), side_by_side=True),)),
            put(0, at("size")),
            Loop(ROW, "all", (traced_block(lambda n, x: [n + x * x], [at("size"), image], [at("size")]),)),
            traced_block(rescale, [*each(["size", "rate"]), at("counts", POWER)], each(["size", "rate"])),
            Loop(ROW, "all", (traced_block(lambda n, x: [x * n[0]], [at("size"), image], [probe]),), side_by_side=True),
        )
        return [
            Loop(ROW, "all", (traced_block(lambda x: [x], [at("first probe", ROW)], [probe]),)),
            put(0, at("rate")),
            Loop(POWER, POWERS, product),
            traced_block(lambda rate: [[exp(rate[0])]], [at("rate")], [at("radius")]),
        ]

    # ---- the systems of a step -----------------------------------------------------------------------------------

    def _shifts(self) -> list[Statement]:
        """z = h λ of each mode, and its square."""
        at = self.space.at

        def shifts(modes: Array, now: Array) -> list[Array]:
            z = now[1] * modes
            return [z, complex_product(z, z)]

        return [traced_block(shifts, [at("modes"), at("now")], [at("z"), at("zz")])]

    def _build(self) -> list[Statement]:
        """1 − z J."""
        at = self.space.at
        entry = traced_block(lambda z, J: [-z * J], [at("z"), at("JT", COLUMN, ROW)], [at("W", ROW, COLUMN)])
        return [Loop(ROW, "all", (Loop(COLUMN, "all", (entry,)), self._add_identity()))]

    def _build_halved(self) -> list[Statement]:
        """1 − z ∂a/∂v − z² ∂a/∂q."""
        at, size = self.space.at, self.parts["v"]

        def build(z: Array, zz: Array, by_v: Any, by_q: Any) -> list[Array]:
            return [-z * by_v - zz * by_q]

        own = self._place("v", ROW)
        places = self._place("v", COLUMN, OTHER_PLACE), self._place("q", COLUMN, "place of q")
        reads = [at("z"), at("zz"), at("JT", OTHER_PLACE, PLACE), at("JT", "place of q", PLACE)]
        entry = traced_block(build, reads, [at("W", ROW, COLUMN)])
        return [Loop(ROW, size, (own, Loop(COLUMN, size, (*places, entry)), self._add_identity()))]

    def _add_identity(self) -> Statement:
        own = self.space.at("W", ROW, ROW)
        return traced_block(lambda x: [[x[0] + 1, x[1]]], [own], [own])

    # ---- the correction of slopes --------------------------------------------------------------------------------

    def correction(self) -> list[Statement]:
        """K + Re(T x) with x = (1 − h λ J)⁻¹ T⁻¹ (F − K), all modes together."""
        at = self.space.at

        def project(F: Array, K: Array, into: Array) -> list[Array]:
            return [np.stack([(F - K) @ into[0], (F - K) @ into[1]])]

        def give(K: Array, x: Array, back: Array) -> list[Array]:
            return [K + (x[0] @ back[0] + x[1] @ back[1])]

        def right(part: str) -> Piece:
            return self._of("own", part) if self.halved and part == "q" else at("right", self._unknown)

        def begin(part: str) -> list[Statement]:
            return [traced_block(project, [self._of("F", part), self._of("K", part), at("into")], [right(part)])]

        def end(part: str) -> list[Statement]:
            own = self._of("K", part)
            return [traced_block(give, [own, right(part), at("back")], [own])]

        around = (self._gather(), self._integrate()) if self.halved else ([], [])
        return [*self._each_part(begin), *around[0], *self.systems.solve(), *around[1], *self._each_part(end)]

    @property
    def _unknown(self) -> str:
        """The register of a component's place among the unknowns of a system."""
        return COMPONENT if self.halved else PLACE

    def _gather(self) -> list[Statement]:
        """bᵥ + z ∂a/∂q b_q."""
        at, size = self.space.at, self.parts["v"]
        products, own = at("products", ROW), at("right", ROW)
        reads = [products, at("JT", OTHER_PLACE, PLACE), at("own q", COLUMN)]
        add = traced_block(lambda total, entry, b: [total + entry * b], reads, [products])
        give = traced_block(lambda b, z, total: [b + complex_product(z, total)], [own, at("z"), products], [own])
        rows = Loop(ROW, size, (self._place("v", ROW), add))
        return [
            Loop(ROW, size, (traced_block(lambda: [zeros(2, self.modes)], [], [products]),)),
            Loop(COLUMN, size, (self._place("q", COLUMN, OTHER_PLACE), rows)),
            Loop(ROW, size, (give,)),
        ]

    def _integrate(self) -> list[Statement]:
        """x_q = b_q + z xᵥ."""
        at = self.space.at
        own = at("own q", ROW)
        block = traced_block(lambda b, z, x: [b + complex_product(z, x)], [own, at("z"), at("right", ROW)], [own])
        return [Loop(ROW, self.parts["v"], (block,))]
