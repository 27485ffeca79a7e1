"""A quadratic program with limits and friction cones, solved inside a kernel: statements of bounded length.

    minimise   ½ Σ ωᵣ (Rᵣ x − bᵣ)² + ½ Σ dᵢ xᵢ² + c · x + ½ Σ eᵤ (Uᵤ x + u₀)²
    such that  Rᵣ x = bᵣ  for rows that are hard                lo ≤ U x + u₀ ≤ hi
               lo ≤ x ≤ hi  for entries behind the cones        x in a Lorentz cone, three entries each

A primal-dual interior-point method in Nesterov and Todd's scaling with Mehrotra's predictor and corrector; hard rows
are part of an augmented Lagrangian: a row keeps a multiplier y, and its ω is a penalty that decides how fast, not where
the iteration ends. Limits of entries of x yield in the same way, by δ times the change of their multiplier in a round.
So rows may depend on each other, and rows that contradict the limits leave a *residual*, the least in Σ ω r², instead
of no answer: every number stays finite, and the caller sees which row is not met.

Each round solves one positive definite system (H₀ + Uᵀ D U + diagonal + blocks of the cones) dx = r by Cholesky's
method (:mod:`~whippletree.control.tiled_algebra`). Every entry of x that lies in a cone is strictly inside at every
round: the cones are never left.

The two sides of a limit, s₀ = value − lo and s₁ = hi − value, differ by a sign; limits of U x and of entries of x
differ by δ, which is 0 for the former. So there is one step for all of them, :func:`_side_step`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, negated, select
from whippletree.compiler.program import Index, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.problem.cones import largest
from whippletree.contact.problem.lorentz import Scaling, exit_rate, product, quotient
from whippletree.control.tiled_algebra import GROUP, LANE, LINE, TILE, I, TiledAlgebra, groups

CONE_ROUNDS = 40
"""Rounds at most. A standing humanoid takes 6 to 15; what has no answer takes them all."""

INNER = 0.99
"""Share of the way to the boundary that a step takes."""

PROXIMAL = 1e-9
"""Cost of the square of a step, which keeps the system definite where nothing asks for a direction. It is a cost of
changes, not of x: where the rounds end it has no part."""

SOLVED_GAP = 1e-8
"""Mean of s z at which limits and cones count as settled, relative to the gradient of the costs at the start."""

LEAST_AIM = 0.1
"""Share of that gap at which steps aim at least."""

SOLVED_ROWS = 1e-8
"""Largest |R x − b| of hard rows, in their units, and largest violation of a limit, of an answer."""

SOLVED_GRADIENT = 1e-6
"""Largest entry of the Lagrangian's gradient, relative to that of the costs at the start, of an answer. Next to a limit
at which s is 1e-9, z changes by 1e-7 for a rounding error of x: much less cannot be asked for."""

YIELDING = 1e-6
"""δ: what a limit of an entry of x yields for a change 1 of its multiplier; nothing, where the rounds end at an answer.
As for rows, it decides how fast they end."""

CONE_STALLED = 1e-7
"""Largest change of an unknown in a round below which rows that are not met never will be."""

NO_STEP = 1e30
"""Square of a step that is none, and gap that is none: infinite, or no number."""

CONE_ROUND = "round"
SIGNS = (1, -1)
"""Of the two sides of a limit: what its slack gains when the value grows."""
TRIANGLE = tuple((i, j) for i in range(3) for j in range(i, 3))
"""The entries of a symmetric matrix of a cone that are kept."""


class ConeSizes(NamedTuple):
    """How large a program is."""

    unknowns: int
    """Entries of x, a multiple of :data:`~whippletree.control.tiled_algebra.TILE`."""
    rows: int
    limits: int
    cones: int
    """A multiple of TILE. They take the first entries of x: all first components, then all second, then all third."""

    @property
    def tiles(self) -> int:
        return self.unknowns // TILE

    @property
    def cone_groups(self) -> int:
        """Groups of four cones."""
        return self.cones // TILE

    @property
    def free_tiles(self) -> int:
        """Tiles of x behind the cones, whose entries have limits."""
        return self.tiles - 3 * self.cone_groups

    @property
    def bounds(self) -> int:
        """Groups of limits: of U x, then of entries of x."""
        return groups(self.limits) + self.free_tiles


class ConeProgram:
    """Statements that solve a program whose numbers are in buffers of these names, all in work space:

    R, omega, aim, hard     (row groups, 4, tiles, 4), (row groups, 4): rows, penalties or weights, right-hand sides, 1
                            for hard rows
    diagonal, linear        (tiles, 4): d and c
    U                       (limit groups, 4, tiles, 4): limits of combinations of x
    offset, effort          (bounds, 4): u₀ and e; 0 for limits of entries of x
    bound, has              (2, bounds, 4): lo and hi, and 1 where there is such a limit; of U x, then of entries

    They leave x (tiles, 4), the multipliers, ``value`` (bounds, 4) of limits, ``residual`` of rows and ``report``: gap,
    largest violation of a hard row, of a limit, of the gradient, and the number of rounds.
    """

    def __init__(self, space: WorkSpace, sizes: ConeSizes) -> None:
        self.space, self.sizes, self.algebra = space, sizes, TiledAlgebra(space)
        N, B, C = sizes.tiles, sizes.bounds, sizes.cone_groups
        rows, limits = groups(sizes.rows), groups(sizes.limits)
        space.work(
            R=(rows, TILE, N, TILE), U=(limits, TILE, N, TILE), weighed=(max(rows, limits), TILE, N, TILE),
            omega=(rows, TILE), aim=(rows, TILE), hard=(rows, TILE), y=(rows, TILE), residual=(rows, TILE),
            row_push=(rows, TILE), row_miss=(rows, TILE),
            diagonal=(N, TILE), linear=(N, TILE), x=(N, TILE), dx=(N, TILE), gradient=(N, TILE), slope=(N, TILE),
            offset=(B, TILE), effort=(B, TILE), yields=(B, TILE), value=(B, TILE), rate=(B, TILE), weight=(B, TILE),
            push=(B, TILE), force=(B, TILE),
            bound=(2, B, TILE), has=(2, B, TILE), s=(2, B, TILE), z=(2, B, TILE), second=(2, B, TILE),
            ds=(2, B, TILE), dz=(2, B, TILE),
            cone_z=(3 * C, TILE), cone_push=(3 * C, TILE), cone_dz=(3 * C, TILE),
            scaling=(6, C, TILE), unscaling=(6, C, TILE), square=(6, C, TILE),
            H0=(N, TILE, N, TILE), H=(N, TILE, N, TILE), inverse=(N, TILE, TILE),
            gap=(TILE,), pairs=(TILE,), loose=(TILE,), missing=(TILE,), steepest=(TILE,), fastest=(TILE,),
            crossed=(TILE,), squared=(TILE,), moved=(TILE,),
            share=(1,), centring=(1,), mean=(1,), scale=(1,), report=(5,), done=(1,),
        )  # fmt: skip

    def statements(self) -> list[Statement]:
        """Start, and rounds until the program is solved."""
        body = (
            *self._assemble(),
            *self.algebra.factor("H", "inverse"),
            *self._aim(),
            *self._solve(),
            *self._predict(),
            *self._correct(),
            *self._aim(),
            *self._solve(),
            *self._advance(),
            *self._look(),
            *self._judge(),
        )
        begin = [*self._begin(), *self._look(), *self._judge(first=True)]
        # values were carried along from round to round
        return [*begin, Until(CONE_ROUND, CONE_ROUNDS, self.space.address("done"), body), *self._values()]

    # ---- places --------------------------------------------------------------------------------------------------

    def _bounds(self, *names: str) -> list[Piece]:
        """Numbers of the limit at hand; of those with two sides, both."""
        found = []
        for name in names:
            sides = len(self.space.buffers[name].shape) == 3
            found.append(self.space.at(name, *[None] * sides, GROUP, LANE))
        return found

    def _free(self, name: str) -> Piece:
        """The entry of x, or of a vector of its size, that has the limit at hand (counted from the first of x)."""
        return self.space.at(name, Index(GROUP, 3 * self.sizes.cone_groups), LANE)

    def _own(self, name: str) -> Piece:
        """Shares of limits in the entry of x at hand."""
        return self.space.at(name, Index(GROUP, groups(self.sizes.limits)), LANE)

    def _cones(self, *names: str) -> list[Piece]:
        """Three components of the cone at hand; of matrices, their six entries."""
        found = []
        for name in names:
            buffer, C = self.space.buffers[name], self.sizes.cone_groups
            if len(buffer.shape) == 3:
                found.append(self.space.at(name, None, GROUP, LANE))
            else:
                parts = [self.space.at(name, Index(GROUP, k * C), LANE).addresses[0] for k in range(3)]
                found.append(Piece((3,), tuple(parts)))
        return found

    def _sums(self, *names: str) -> list[Piece]:
        """Sums and maxima, one for each of four lanes."""
        return [self.space.at(name, LANE) for name in names]

    def _clear(self, *names: str) -> list[Statement]:
        return [statement for name in names for statement in self.algebra.fill(name, 0)]

    # ---- start ---------------------------------------------------------------------------------------------------

    def _begin(self) -> list[Statement]:
        """x in the middle of its cones, slacks away from zero, multipliers of the size of the gradient."""
        at, put, each, sizes = self.space.at, self.space.put, self.algebra.each, self.sizes
        B, C, height = sizes.bounds, sizes.cone_groups, 1 / max(2 * sizes.cones, 1)

        def slacks(value: Any, bound: Array, has: Array, scale: Array, pairs: Any) -> list[Any]:
            s = [largest([sign * (value - b), 1]) for sign, b in zip(SIGNS, bound)]
            return [s, [scale[0] / one for one in s], pairs + has[0] + has[1]]

        def heaviest(parts: Array) -> list[Any]:
            return [[largest([1, *parts])]]

        begin = self._clear("x", "y", "cone z", "pairs", "steepest", "moved")
        begin += each(C, lambda: [height], [], [at("x", GROUP, LANE)])
        begin += each(groups(sizes.limits), lambda: [0], [], self._bounds("yields"))
        begin += each(sizes.free_tiles, lambda: [YIELDING], [], [self._own("yields")])
        begin += self.algebra.weigh("R", "omega", "weighed")
        begin += [*self.algebra.fill("H0", 0), *self.algebra.gram("weighed", "R", "H0")]
        own = traced_block(lambda h, d: [h + (d + PROXIMAL)], [at("H0", I, LINE, I, LINE), at("diagonal", I, LINE)],
                           [at("H0", I, LINE, I, LINE)])  # fmt: skip
        begin.append(Loop(I, sizes.tiles, (Loop(LINE, TILE, (own,)),)))
        begin += [*self._measure_rows(costs_alone=True), *self._values(), *self._slope("force", costs_alone=True)]
        begin.append(traced_block(heaviest, [at("steepest")], [at("scale")]))
        begin += each(B, slacks, [*self._bounds("value", "bound", "has"), at("scale"), *self._sums("pairs")],
                      [*self._bounds("s", "z"), *self._sums("pairs")])  # fmt: skip
        begin += each(C, lambda scale: [scale[0]], [at("scale")], [at("cone z", GROUP, LANE)])
        return [*begin, put(0, at("share"), at("report")), put(-1, at("done"))]

    # ---- where the round stands ----------------------------------------------------------------------------------

    def _measure_rows(self, *, costs_alone: bool = False) -> list[Statement]:
        """Residuals of rows, their multipliers, and the gradient of the augmented Lagrangian without limits and cones.

        A step by a share t gives y ← y + t ω (r + R dx), and r + R dx = r + (r′ − r) / t is known from r′ behind it.
        ``costs_alone``: without hard rows, whose penalties say nothing of how large a gradient is.
        """
        at, each = self.space.at, self.space.each

        def rows(
            product: Array, aim: Array, omega: Array, hard: Array, y: Array, before: Array, share: Array
        ) -> list[Any]:
            r = product - aim
            if costs_alone:
                return [r, y, (1 - hard) * omega * r, hard * r]
            y = y + hard * omega * (r - (1 - share[0]) * before)
            return [r, y, omega * r + hard * y, hard * r]

        reads = [*each(("aim", "omega", "hard", "y", "residual"), GROUP), at("share")]
        writes = each(("residual", "y", "row push", "row miss"), GROUP)
        unknowns = self.space.each(("diagonal", "linear", "x"), GROUP, LANE)
        return [
            *self.algebra.products("R", "x", rows, reads, writes),
            *self.algebra.combine(
                self.sizes.tiles, lambda d, c, x: d * x + c, unknowns, "gradient", ("R", "row push")
            ),
        ]  # fmt: skip

    def _values(self) -> list[Statement]:
        """The limited quantities, U x + u₀ and entries of x, and the force of efforts alone."""
        at = self.space.at
        ends = [at("value", GROUP), at("force", GROUP)]
        return [
            *self._clear("force"),
            *self.algebra.products(
                "U", "x", lambda u, offset, e: [u + offset, e * (u + offset)],
                [at("offset", GROUP), at("effort", GROUP)], ends,
            ),
            *self.algebra.each(self.sizes.free_tiles, lambda x: [x], [self._free("x")], [self._own("value")]),
        ]  # fmt: skip

    def _look(self) -> list[Statement]:
        """Rows and limits at x: how far they are from met, and what they weigh and push in the next step."""
        sums = ("gap", "loose", "missing")

        def limit(
            value: Any, effort: Any, delta: Any, bound: Array, has: Array, s: Array, z: Array, *sums: Any
        ) -> list[Any]:  # fmt: skip
            gap, loose, missing = sums
            weight, force, push = effort, effort * value, -effort * value
            for k, sign in enumerate(SIGNS):
                margin = sign * (value - bound[k])
                gap = gap + has[k] * s[k] * z[k]
                loose = largest([loose, has[k] * (margin - s[k])])
                missing = largest([missing, -(has[k] * margin)])
                w = has[k] * z[k] / (s[k] + delta * z[k])
                weight, force = weight + w, force - sign * has[k] * z[k]
                push = push + sign * w * (delta * z[k] - (margin - s[k]))
            return [weight, force, push, gap, loose, missing]

        def cone(x: Array, z: Array, gap: Any) -> list[Any]:
            return [gap + x @ z]

        reads = [*self._bounds("value", "effort", "yields", "bound", "has", "s", "z"), *self._sums(*sums)]
        return [
            *self._measure_rows(),
            *self._clear(*sums, "steepest"),
            *self.algebra.each(
                self.sizes.bounds, limit, reads, [*self._bounds("weight", "force", "push"), *self._sums(*sums)]
            ),
            *self.algebra.each(
                self.sizes.cone_groups, cone, [*self._cones("x", "cone z"), *self._sums("gap")], self._sums("gap")
            ),
            *self._slope("force"),
        ]  # fmt: skip

    def _slope(self, forces: str, *, costs_alone: bool = False) -> list[Statement]:
        """The gradient of the Lagrangian with all its multipliers; of its entries the largest."""
        at, each, sizes = self.space.at, self.algebra.each, self.sizes
        slope = at("slope", GROUP, LANE)

        def steepest(g: Any, most: Any) -> list[Any]:
            return [largest([most, g, -g])]

        found = self.algebra.combine(
            sizes.tiles, lambda g: g, [at("gradient", GROUP, LANE)], "slope", ("U", forces)
        )  # fmt: skip
        if not costs_alone:
            found += each(3 * sizes.cone_groups, lambda g, z: [g - z], [slope, at("cone z", GROUP, LANE)], [slope])
            own = [self._free("slope"), self._own(forces)]
            found += each(sizes.free_tiles, lambda g, f: [g + f], own, [self._free("slope")])
        return [*found, *each(sizes.tiles, steepest, [slope, *self._sums("steepest")], self._sums("steepest"))]

    def _judge(self, *, first: bool = False) -> list[Statement]:
        """How far the program is from solved: gap, rows, limits, gradient."""
        at, each = self.space.at, self.space.each

        def decide(
            miss: Array, gap: Array, pairs: Array, loose: Array, missing: Array, steepest: Array, moved: Array,
            scale: Array, report: Array,
        ) -> list[Any]:  # fmt: skip
            missed = largest([0, *miss.flat, *(-miss).flat])
            mean = _sum(gap) / largest([_sum(pairs) + self.sizes.cones, 1])
            beyond, slope = largest([0, *missing]), largest([0, *steepest])
            # rows and limits are met, or they contradict each other and nothing moves any more
            met = largest([missed, beyond]) / SOLVED_ROWS
            met = met if first else select(less(largest([0, *moved]), CONE_STALLED), 0, met)
            met = largest([met, largest([0, *loose]) / SOLVED_ROWS])  # a slack that is too small is no contradiction
            worst = largest([mean / (scale[0] * SOLVED_GAP), met, slope / (scale[0] * SOLVED_GRADIENT)])
            # multipliers of rows that cannot be met grow until rounding loses them: x is the last point that was one
            lost = negated(less(mean, NO_STEP))
            mean, slope = select(lost, report[0], mean), select(lost, report[3], slope)
            done = select(lost, 1, select(less(worst, 1), 1, -1))
            return [[mean, missed, beyond, slope, report[4] + (0 if first else 1)], [mean], [done]]

        names = ("row miss", "gap", "pairs", "loose", "missing", "steepest", "moved", "scale", "report")
        return [traced_block(decide, each(names), [at("report"), at("mean"), at("done")])]

    # ---- the linear system ---------------------------------------------------------------------------------------

    def _assemble(self) -> list[Statement]:
        """H, and the scaling of the cones."""
        at, each, sizes = self.space.at, self.algebra.each, self.sizes

        def scaling_entries(x: Array, z: Array) -> list[Any]:
            return [[M[i, j] for i, j in TRIANGLE] for M in Scaling.of(x, z)]

        C, first = sizes.cone_groups, 3 * sizes.cone_groups
        own = at("H", Index(I, first), LINE, Index(I, first), LINE)
        weight = at("weight", Index(I, groups(sizes.limits)), LINE)
        entries = [
            at("H", Index(I, j * C), LINE, Index(I, i * C), LINE).addresses[0] for i, j in TRIANGLE
        ]  # the lower triangle
        blocks = Piece((6,), tuple(entries))
        add = traced_block(lambda h, w: [h + w], [own, weight], [own])
        add_cone = traced_block(lambda h, w: [h + w], [blocks, at("square", None, I, LINE)], [blocks])
        loops = [Loop(I, sizes.free_tiles, (Loop(LINE, TILE, (add,)),))] if sizes.free_tiles else []
        loops += [Loop(I, C, (Loop(LINE, TILE, (add_cone,)),))] if C else []
        return [
            *self.algebra.copy_lower("H0", "H"),
            *self.algebra.weigh("U", "weight", "weighed"),
            *self.algebra.gram("weighed", "U", "H"),
            *each(C, scaling_entries, self._cones("x", "cone z"), self._cones("scaling", "unscaling", "square")),
            *loops,
            *self._clear("cone push"),
        ]  # fmt: skip

    def _aim(self) -> list[Statement]:
        """The right-hand side: −∇ + what limits and cones push."""
        at, each, sizes = self.space.at, self.algebra.each, self.sizes
        right = at("dx", GROUP, LANE)
        return [
            *self.algebra.combine(sizes.tiles, lambda g: -g, [at("gradient", GROUP, LANE)], "dx", ("U", "push")),
            *each(3 * sizes.cone_groups, lambda r, p: [r + p], [right, at("cone push", GROUP, LANE)], [right]),
            *each(sizes.free_tiles, lambda r, p: [r + p], [self._free("dx"), self._own("push")], [self._free("dx")]),
        ]  # fmt: skip

    def _solve(self) -> list[Statement]:
        """dx := H⁻¹ dx, and how fast the values of limits change along it."""
        rate = self.space.at("rate", GROUP)
        return [
            *self.algebra.solve("H", "inverse", "dx"),
            *self.algebra.products("U", "dx", lambda u: [u], [], [rate]),
            *self.algebra.each(self.sizes.free_tiles, lambda dx: [dx], [self._free("dx")], [self._own("rate")]),
        ]

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _predict(self) -> list[Statement]:
        """How far a step without centring goes, and by Mehrotra's rule how much to centre.

        Behind a share t of it the gap is Σ (s + t ds) (z + t dz) = gap + t crossed + t² squared.
        """
        at, each = self.space.at, self.algebra.each
        sums = ("fastest", "crossed", "squared")

        def limit(
            rate: Any, value: Any, delta: Any, bound: Array, has: Array, s: Array, z: Array, *sums: Any
        ) -> list[Any]:  # fmt: skip
            fastest, crossed, squared = sums
            second = []
            for k, sign in enumerate(SIGNS):
                ds, dz = _side_step(sign, rate, value, delta, bound[k], s[k], z[k], 0)
                fastest = largest([fastest, -has[k] * ds / s[k], -has[k] * dz / z[k]])
                crossed, squared = crossed + has[k] * (s[k] * dz + z[k] * ds), squared + has[k] * ds * dz
                second.append(ds * dz)
            return [second, fastest, crossed, squared]

        def cone(dx: Array, x: Array, z: Array, square: Array, *sums: Any) -> list[Any]:
            fastest, crossed, squared = sums
            dz = -z - _symmetric(square) @ dx
            fastest = largest([fastest, exit_rate(x, dx), exit_rate(z, dz)])
            return [dz, fastest, crossed + x @ dz + z @ dx, squared + dx @ dz]

        def centre(fastest: Array, crossed: Array, squared: Array, gap: Array, mean: Array, scale: Array) -> list[Any]:
            share = 1 / largest([1, *fastest])
            whole = _sum(gap)
            # without limits and cones there is no gap, and nothing to centre
            whole = select(less(0, whole), whole, 1)
            left = largest([(whole + share * (_sum(crossed) + share * _sum(squared))) / whole, 0])
            aim = select(less(left, 1), left * left * left, 1) * mean[0]
            # rows may take longer than cones: a point that comes closer to their boundary is lost to rounding
            return [[largest([aim, LEAST_AIM * SOLVED_GAP * scale[0]])]]

        return [
            *self._clear(*sums),
            *each(
                self.sizes.bounds, limit,
                [*self._bounds("rate", "value", "yields", "bound", "has", "s", "z"), *self._sums(*sums)],
                [*self._bounds("second"), *self._sums(*sums)],
            ),
            *each(
                self.sizes.cone_groups, cone, [*self._cones("dx", "x", "cone z", "square"), *self._sums(*sums)],
                [*self._cones("cone dz"), *self._sums(*sums)],
            ),
            traced_block(centre, self.space.each((*sums, "gap", "mean", "scale")), [at("centring")]),
        ]  # fmt: skip

    def _correct(self) -> list[Statement]:
        """Pushes of limits and cones with centring and second-order terms."""
        at, each = self.space.at, self.algebra.each

        def limit(
            push: Any, delta: Any, has: Array, s: Array, z: Array, second: Array, centring: Array
        ) -> list[Any]:  # fmt: skip
            for k, sign in enumerate(SIGNS):
                push = push + sign * has[k] * (centring[0] - second[k]) / (s[k] + delta * z[k])
            return [push]

        def cone(dx: Array, dz: Array, z: Array, scaling: Array, unscaling: Array, centring: Array) -> list[Any]:
            W, back = _symmetric(scaling), _symmetric(unscaling)
            second = product(W @ dx, back @ dz)
            target = vector(centring[0] - second[0], -second[1], -second[2])
            return [W @ quotient(target, back @ z)]

        reads = self._bounds("push", "yields", "has", "s", "z", "second")
        cones = self._cones("dx", "cone dz", "cone z", "scaling", "unscaling")
        return [
            *each(self.sizes.bounds, limit, [*reads, at("centring")], self._bounds("push")),
            *each(self.sizes.cone_groups, cone, [*cones, at("centring")], self._cones("cone push")),
        ]

    def _advance(self) -> list[Statement]:
        """x, slacks and multipliers after the step, of which a share keeps all strictly inside."""
        at, each, sizes = self.space.at, self.algebra.each, self.sizes

        def limit(
            rate: Any, value: Any, delta: Any, bound: Array, has: Array, s: Array, z: Array, second: Array,
            centring: Array, fastest: Any,
        ) -> list[Any]:  # fmt: skip
            steps = [
                _side_step(sign, rate, value, delta, bound[k], s[k], z[k], centring[0] - second[k])
                for k, sign in enumerate(SIGNS)
            ]
            rates = [-has[k] * d / a for k, (ds, dz) in enumerate(steps) for d, a in ((ds, s[k]), (dz, z[k]))]
            return [*zip(*steps), largest([fastest, *rates])]

        def cone(dx: Array, x: Array, z: Array, push: Array, square: Array, fastest: Any) -> list[Any]:
            dz = push - z - _symmetric(square) @ dx
            return [dz, largest([fastest, exit_rate(x, dx), exit_rate(z, dz)])]

        def advance(value: Any, rate: Any, has: Array, s: Array, z: Array, ds: Array, dz: Array, share: Array) -> Any:
            t = share[0]
            return [value + t * rate, s + t * has * ds, z + t * has * dz]

        def move(x: Any, dx: Any, share: Array, moved: Any) -> list[Any]:
            step = share[0] * dx
            # what is no number is no step: x stays at the last point that was one
            step = select(less(step * step, NO_STEP), step, 0)
            return [x + step, largest([moved, step, -step])]

        reads = [*self._bounds("rate", "value", "yields", "bound", "has", "s", "z", "second"), at("centring")]
        moving = [*self._bounds("value", "rate", "has", "s", "z", "ds", "dz"), at("share")]
        cones = self._cones("dx", "x", "cone z", "cone push", "square")
        unknowns = [*self.space.each(("x", "dx"), GROUP, LANE), at("share"), *self._sums("moved")]
        multiplier = at("cone z", GROUP, LANE)
        return [
            *self._clear("fastest", "moved"),
            *each(sizes.bounds, limit, [*reads, *self._sums("fastest")],
                  [*self._bounds("ds", "dz"), *self._sums("fastest")]),
            *each(sizes.cone_groups, cone, [*cones, *self._sums("fastest")],
                  [*self._cones("cone dz"), *self._sums("fastest")]),
            traced_block(lambda fastest: [[INNER / largest([INNER, *fastest])]], [at("fastest")], [at("share")]),
            *each(sizes.bounds, advance, moving, self._bounds("value", "s", "z")),
            *each(3 * sizes.cone_groups, lambda z, d, share: [z + share[0] * d],
                  [multiplier, at("cone dz", GROUP, LANE), at("share")], [multiplier]),
            *each(sizes.tiles, move, unknowns, [at("x", GROUP, LANE), *self._sums("moved")]),
        ]  # fmt: skip


# --- one limit, one cone ----------------------------------------------------------------------------------------------


def _side_step(
    sign: int, rate: Any, value: Any, delta: Any, bound: Any, s: Any, z: Any, aim: Any
) -> tuple[Any, Any]:  # fmt: skip
    """Steps of slack and multiplier of one side of a limit: s + ds = its margin behind the step + δ dz, s z → aim."""
    way = sign * (rate + value - bound) - s
    dz = (aim - s * z - z * way) / (s + delta * z)
    return way + delta * dz, dz


def _symmetric(entries: Array) -> Array:
    """A symmetric matrix (3, 3) from the entries that are kept."""
    found = np.empty((3, 3), dtype=object)
    for (i, j), entry in zip(TRIANGLE, entries, strict=True):
        found[i, j] = found[j, i] = entry
    return found


def _sum(values: Array) -> Any:
    return (values[0] + values[1]) + (values[2] + values[3])
