"""Newton's method on the equations of a collocation step, as statements of its kernel.

The mathematics is that of :mod:`whippletree.simulation.adaptive.newton`: one J = ∂ẏ/∂y for all points, from differences
of the rates, and one complex system (1 − z J) x = b, z = h λ, for each mode λ of the step's weights. Matrices are built
and inverted in loops, so that the code does not grow with them. Where the first half of the state is the integral of
the second (q̇ = v), the systems are (1 − z ∂a/∂v − z² ∂a/∂q) xᵥ = bᵥ + z ∂a/∂q b_q, of half the size.

Elimination goes without exchanges, and says so where a pivot is small in its row: then the reference decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.scalars import exp, less, log, maximum, minimum, select, sqrt
from whippletree.compiler.program import Address, Index, Lookup, Loop, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.model import Model

if TYPE_CHECKING:
    from whippletree.compiler.rollout.collocation.collocation_frame import Scheme

MODE, ROW, PIVOT, OTHER, COLUMN, POWER, AT = "mode", "row", "pivot", "other", "column", "power", "at point"
"""Counters of the loops over modes, rows and pivots of their matrices, rows beside the pivot's, columns of J, powers of
J, and points."""

POWERS, UNCOUNTED = 24, 8
"""Products with J whose growth gives the rate of its fastest part, and how many of the first do not count."""

LEAST_NEWTON_PIVOT = 1e-20
"""Square of a pivot against that of its row's largest entry, from which elimination without exchanges is in doubt."""


class NewtonIteration:
    """Adds its buffers to those of a kernel, which has

    y, G, now, bounds       the start of the step, the last polynomial, (t, h, …) and (…, …, rtol, atol, …)
    X, T, wanted, F         states and times at which rates F are wanted
    K                       slopes at the points of the step
    doubt                   raised where a matrix cannot be trusted
    """

    def __init__(self, space: WorkSpace, model: Model, scheme: Scheme, difference: float) -> None:
        self.space, self.difference = space, difference
        self.nq, self.n, self.s = model.nq, model.nq + model.nv, len(scheme.nodes)
        # of joints with one velocity, its coordinate is its integral
        self.halved = not model.constraints and all(kind.nq == kind.nv == 1 for kind in model.joint_types)
        assert scheme.values is not None
        assert scheme.into is not None
        assert scheme.back is not None
        self.modes = len(scheme.values)
        m = self.size = model.nv if self.halved else self.n
        n, p = self.n, self.modes
        space.work(
            looking=(1,), centre=(n,), delta=(n,), JT=(n, n), W=(p, 2, m, m), b=(2, n), right=(2, m), x=(p, 2, n)
        )
        space.work(probe=(n,), image=(n,), rate=(1,), radius=(1,), ratio=(2,))
        space.table("modes", np.stack([scheme.values.real, scheme.values.imag], axis=1))
        space.table("into", np.stack([scheme.into.real, scheme.into.imag], axis=1))
        space.table("back", np.stack([scheme.back.real, -scheme.back.imag], axis=2))
        space.table("first probe", np.cos(np.arange(1, n + 1) ** 2))  # which no eigenvector is at right angles to
        space.table("counts", [0.0] * UNCOUNTED + [1 / (POWERS - UNCOUNTED)] * (POWERS - UNCOUNTED))
        space.index("other rows", [[i for i in range(m) if i != k] or [0] for k in range(m)])

    def _one(self, name: str, *indices: Index | int | str) -> Piece:
        found = tuple(
            i if isinstance(i, Index) else Index(i) if isinstance(i, str) else Index(None, i) for i in indices
        )
        return Piece((), (Address(name, found),))

    def _row(self, name: str, *indices: Index | int | str) -> Piece:
        """All entries along the last dimension."""
        size = self.space.buffers[name].shape[-1]
        return Piece((int(size),), tuple(self._one(name, *indices, i).addresses[0] for i in range(int(size))))

    # ---- rates are asked for at neighbours of the middle ---------------------------------------------------------

    def neighbours(self) -> list[Statement]:
        """The middle of the step, as the mean slope of the last one leads there, moved along each component; the last
        is the middle itself."""
        at, n = self.space.at, self.n

        def steps(y: Array, bounds: Array) -> list[Any]:
            rtol, atol = bounds[2], bounds[3]
            # below the absolute tolerance over the relative one, numbers are of no interest
            some = less(0, rtol)
            least = select(some, minimum(atol / select(some, rtol, 1), 1), 1)
            # as the computer adds it, so that q̇ = v gives exactly 1
            return [[(a + self.difference * maximum(abs(a), least)) - a for a in y]]

        def middle(y: Array, slope: Array, now: Array) -> list[Array]:
            return [y + now[1] / 2 * slope]

        def place(y: Array, now: Array) -> list[Any]:
            return [y, now[0] + now[1] / 2, 1]

        base = [self._row("X", n), self._one("T", n), self._one("wanted", n)]
        given, placed = self.space.each(["centre", "now"]), self.space.each(["X", "T", "wanted"], COLUMN)
        return [
            traced_block(middle, [at("y"), self._row("G", 0), at("now")], [at("centre")]),
            traced_block(steps, self.space.each(["centre", "bounds"]), [at("delta")]),
            Loop(
                COLUMN,
                n,
                (
                    traced_block(place, given, placed),
                    traced_block(
                        lambda y, d: [y + d],
                        [self._one("centre", COLUMN), self._one("delta", COLUMN)],
                        [self._one("X", COLUMN, COLUMN)],
                    ),
                ),
            ),
            traced_block(place, given, base),
        ]

    # ---- J, how fast its fastest part is, and the inverses -------------------------------------------------------

    def matrices(self) -> list[Statement]:
        """J from the rates at the neighbours, its spectral radius, and (1 − z J)⁻¹ for each mode."""
        at = self.space.at
        derivative = traced_block(
            lambda moved, base, d: [(moved - base) / d],
            [at("F", COLUMN), self._row("F", self.n), self._one("delta", COLUMN)],
            [at("JT", COLUMN)],
        )
        return [
            Loop(COLUMN, self.n, (derivative,)),
            *self._radius(),
            Loop(MODE, self.modes, (self._shifts(), Loop(ROW, self.size, tuple(self._build())), *self._invert())),
        ]

    def _radius(self) -> list[Statement]:
        """|J^24 x| against |J^8 x|, to the power 1/16: about the largest |eigenvalue|."""
        at, put = self.space.at, self.space.put
        multiply = traced_block(
            lambda image, column, x: [image + x * column],
            [at("image"), at("JT", COLUMN), self._one("probe", COLUMN)],
            [at("image")],
        )

        def scale(image: Array, rate: Array, share: Any) -> list[Any]:
            size = sqrt(image @ image)
            some = less(0, size)
            size = select(some, size, 1)
            # a nilpotent J, of a free flight, has no rate
            return [image / size, [select(some, rate[0] + share * log(size), -1e3)]]

        rescale = traced_block(scale, [at("image"), at("rate"), self._one("counts", POWER)], [at("probe"), at("rate")])
        return [
            traced_block(lambda x: [x, [0]], [at("first probe")], [at("probe"), at("rate")]),
            Loop(POWER, POWERS, (put(0, at("image")), Loop(COLUMN, self.n, (multiply,)), rescale)),
            traced_block(lambda rate: [[exp(rate[0])]], [at("rate")], [at("radius")]),
        ]

    def _shifts(self) -> Statement:
        """z = h λ."""
        return traced_block(
            lambda modes, now: [now[1] * modes],
            [self.space.at("modes", MODE), self.space.at("now")],
            [self.space.at("ratio")],
        )

    def _build(self) -> list[Statement]:
        """A row of 1 − z J, or of 1 − z ∂a/∂v − z² ∂a/∂q."""
        at, m = self.space.at, self.size
        parts = [self._row("W", MODE, k, ROW) for k in (0, 1)]

        def column(first: int, offset: int) -> Piece:
            """A column of JT: what a component of ẏ gets from m components of y."""
            places = [self._one("JT", first + j, Index(ROW, offset)).addresses[0] for j in range(m)]
            return Piece((m,), tuple(places))

        def whole(z: Array, J: Array) -> list[Array]:
            return [-z[0] * J, -z[1] * J]

        def halved(z: Array, by_v: Array, by_q: Array) -> list[Array]:
            re, im = z[0] * z[0] - z[1] * z[1], 2 * z[0] * z[1]
            return [-z[0] * by_v - re * by_q, -z[1] * by_v - im * by_q]

        if self.halved:
            block = traced_block(halved, [at("ratio"), column(self.nq, self.nq), column(0, self.nq)], parts)
        else:
            block = traced_block(whole, [at("ratio"), column(0, 0)], parts)
        diagonal = self._one("W", MODE, 0, ROW, ROW)
        return [block, traced_block(lambda x: [x + 1], [diagonal], [diagonal])]

    def _invert(self) -> list[Statement]:
        """Gauss and Jordan's elimination in place, without exchanges."""
        at = self.space.at
        own = [self._row("W", MODE, k, PIVOT) for k in (0, 1)]
        pivot = [self._one("W", MODE, k, PIVOT, PIVOT) for k in (0, 1)]

        def divide(re: Array, im: Array, a: Any, b: Any, doubt: Array) -> list[Any]:
            size = a * a + b * b
            largest: Any = size
            for x, y in zip(re, im, strict=True):
                largest = maximum(largest, x * x + y * y)
            small = ~less(LEAST_NEWTON_PIVOT * largest, size)
            scale = 1 / select(small, 1, size)
            p, q = a * scale, -b * scale
            return [re * p - im * q, re * q + im * p, [select(small, 1, doubt[0])], [p, q]]

        other = [self._row("W", MODE, k, OTHER) for k in (0, 1)]
        factor = [self._one("W", MODE, k, OTHER, PIVOT) for k in (0, 1)]

        def eliminate(re: Array, im: Array, c: Any, d: Any, top_re: Array, top_im: Array) -> list[Any]:
            return [re - (c * top_re - d * top_im), im - (c * top_im + d * top_re)]

        def clear(c: Any, d: Any, p: Any, q: Any) -> list[Any]:
            return [-(c * p - d * q), -(c * q + d * p)]

        # the factor of a row, before its place is overwritten
        self.space.work(factor=(2,), inverse=(2,))
        keep = traced_block(lambda c, d: [[c, d]], factor, [at("factor")])
        both = [self._one("factor", k) for k in (0, 1)]
        sweep = traced_block(eliminate, [*other, *both, *own], other)
        there = traced_block(clear, [*both, *[self._one("inverse", k) for k in (0, 1)]], factor)
        place = traced_block(lambda x: [x[0], x[1]], [at("inverse")], pivot)
        lookup = Lookup(OTHER, Address("other rows", (Index(PIVOT), Index(COLUMN))))
        rest = Loop(COLUMN, self.size - 1, (lookup, keep, sweep, there))
        return [
            Loop(
                PIVOT,
                self.size,
                (
                    traced_block(divide, [*own, *pivot, at("doubt")], [*own, at("doubt"), at("inverse")]),
                    place,
                    rest,
                ),
            )
        ]

    # ---- the correction of slopes --------------------------------------------------------------------------------

    def correction(self) -> list[Statement]:
        """K + Re(T x) with x = (1 − h λ J)⁻¹ T⁻¹ (F − K), mode by mode."""
        at, n = self.space.at, self.n
        points = Piece((self.s, n), tuple(self._one("F", i, j).addresses[0] for i in range(self.s) for j in range(n)))
        project = traced_block(lambda F, K, into: [into @ (F - K)], [points, at("K"), at("into", MODE)], [at("b")])

        def give(K: Array, back: Array, x: Array) -> list[Array]:
            return [K + back.reshape(-1) @ x.reshape(-1, n)]

        give_back = traced_block(give, [at("K", AT), at("back", AT), at("x")], [at("K", AT)])
        solve = self._solve_halved() if self.halved else self._solve()
        return [Loop(MODE, self.modes, (self._shifts(), project, *solve)), Loop(AT, self.s, (give_back,))]

    def _multiply(self, right: Piece, target: list[Piece]) -> Statement:
        """A row of the inverse times a right-hand side (2, m)."""

        def multiply(re: Array, im: Array, b: Array) -> list[Any]:
            return [re @ b[0] - im @ b[1], re @ b[1] + im @ b[0]]

        return traced_block(multiply, [self._row("W", MODE, k, ROW) for k in (0, 1)] + [right], target)

    def _solve(self) -> list[Statement]:
        target = [self._one("x", MODE, k, ROW) for k in (0, 1)]
        return [Loop(ROW, self.n, (self._multiply(self.space.at("b"), target),))]

    def _solve_halved(self) -> list[Statement]:
        at, m, nq = self.space.at, self.size, self.nq

        def gather(z: Array, by_q: Array, b: Array, own_re: Any, own_im: Any) -> list[Any]:
            re, im = by_q @ b[0, :nq], by_q @ b[1, :nq]
            return [own_re + z[0] * re - z[1] * im, own_im + z[0] * im + z[1] * re]

        by_q = Piece((nq,), tuple(self._one("JT", j, Index(ROW, nq)).addresses[0] for j in range(nq)))
        own = [self._one("b", k, Index(ROW, nq)) for k in (0, 1)]
        right = traced_block(gather, [at("ratio"), by_q, at("b"), *own], [self._one("right", k, ROW) for k in (0, 1)])
        velocity = [self._one("x", MODE, k, Index(ROW, nq)) for k in (0, 1)]

        def integrate(z: Array, b: Array, re: Array, im: Array) -> list[Any]:
            return [b[0, :nq] + z[0] * re - z[1] * im, b[1, :nq] + z[0] * im + z[1] * re]

        x = [[self._one("x", MODE, k, i).addresses[0] for i in range(self.n)] for k in (0, 1)]
        halves = [Piece((m,), tuple(part[nq:])) for part in x], [Piece((nq,), tuple(part[:nq])) for part in x]
        return [
            Loop(ROW, m, (right,)),
            Loop(ROW, m, (self._multiply(at("right"), velocity),)),
            traced_block(integrate, [at("ratio"), at("b"), *halves[0]], halves[1]),
        ]
