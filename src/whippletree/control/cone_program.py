"""A quadratic program with limits and friction cones, solved inside a kernel: statements of bounded length.

    minimise   ½ Σ ωᵣ (Rᵣ x − bᵣ)² + ½ Σ dᵢ xᵢ² + c · x + ½ Σ eᵤ (Uᵤ x + u₀)²
    such that  Rᵣ x = bᵣ  for rows that are hard                lo ≤ U x + u₀ ≤ hi
               lo ≤ x ≤ hi  for some entries                    x in a Lorentz cone, three entries each

A primal-dual interior-point method in Nesterov and Todd's scaling with Mehrotra's predictor and corrector; hard rows
are part of an augmented Lagrangian: a row keeps a multiplier y, and its ω is a penalty that decides how fast, not where
the iteration ends. Limits of entries of x yield in the same way, by δ times the change of their multiplier in a round.
So rows may depend on each other, and rows that contradict the limits leave a *residual*, the least in Σ ω r², instead
of no answer: every number stays finite, and the caller sees which row is not met.

Each round solves one positive definite system (H₀ + Uᵀ D U + diagonal + blocks of the cones) dx = r by Cholesky's
method on tiles of :data:`TILE` × :data:`TILE` numbers, whose loops are short code for any size. Every entry of x that
lies in a cone is strictly inside at every round: the cones are never left.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.program import Index, Loop, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.contact.problem.cones import largest
from whippletree.control.cone_steps import (
    BlockScaling,
    cone_product,
    cone_quotient,
    exit_rate,
    inverse_factor,
    scaling_of,
)

TILE = 6
"""Rows and columns of a tile: two cones."""

ROUNDS = 40
"""Rounds at most. A standing humanoid takes 10 to 15; what has no answer takes them all."""

INNER = 0.99
"""Share of the way to the boundary that a step takes."""

PROXIMAL = 1e-9
"""Of the square of a step, which keeps the system definite where nothing asks for a direction. It is a cost of
changes, not of x: where the rounds end it has no part."""

SOLVED_GAP = 1e-8
"""Mean of s z at which limits and cones count as settled, relative to the gradient of the costs at the start."""

LEAST_AIM = 0.1
"""Share of that gap at which steps aim at least."""

SOLVED_ROWS = 1e-8
"""Largest |R x − b| of hard rows, in their units, and largest violation of a limit, of an answer."""

SOLVED_GRADIENT = 1e-5
"""Largest entry of the Lagrangian's gradient, relative to that of the costs at the start, of an answer. Next to a limit
at which s is 1e-9, z changes by 1e-7 for a rounding error of x: much less cannot be asked for."""

YIELDING = 1e-6
"""δ: what a limit of an entry of x yields for a change 1 of its multiplier; nothing, where the rounds end at an answer.
As for rows, it decides how fast they end."""

STALLED_CHANGE = 1e-7
"""Largest change of an unknown in a round below which rows that are not met never will be."""

NO_STEP = 1e30
"""Square of a step that is none: infinite, or no number."""

ROW, LIMIT, ROUND = "row", "limit", "round"
I, J, K, LINE = "tile row", "tile column", "tile between", "line"


class ConeSizes(NamedTuple):
    """How large a program is."""

    unknowns: int
    """Entries of x, a multiple of :data:`TILE`."""
    rows: int
    limits: int
    cones: int
    """Each takes three entries of x, from the first on."""

    @property
    def tiles(self) -> int:
        return self.unknowns // TILE

    @property
    def cone_tiles(self) -> int:
        return -(-3 * self.cones // TILE)


class ConeProgram:
    """Statements that solve a program whose numbers are in buffers of these names, all in work space:

    R, omega, aim, hard     (rows, tiles, TILE), (rows,): rows, penalties or weights, right-hand sides, 1 for hard rows
    diagonal, linear        (tiles, TILE): d and c
    U, offset, low, high    (limits, tiles, TILE), (limits,): limits of combinations of x
    has low, has high       (limits,): 1 where there is such a limit
    effort                  (limits,): e
    least, most             (tiles, TILE): limits of entries of x
    has least, has most     (tiles, TILE): 1 where there is such a limit

    They leave x (tiles, TILE), the multipliers, ``residual`` (rows,) and ``report``: gap, largest violation of a hard
    row, of a limit, of the gradient, and the number of rounds.
    """

    def __init__(self, space: WorkSpace, sizes: ConeSizes) -> None:
        self.space, self.sizes = space, sizes
        N, rows, limits, cones = sizes.tiles, sizes.rows, sizes.limits, sizes.cone_tiles
        space.work(
            R=(rows, N, TILE), omega=(rows,), aim=(rows,), hard=(rows,), y=(rows,), residual=(rows,),
            diagonal=(N, TILE), linear=(N, TILE), x=(N, TILE), dx=(N, TILE), gradient=(N, TILE), right=(N, TILE),
            U=(limits, N, TILE), offset=(limits,), low=(limits,), high=(limits,),
            has_low=(limits,), has_high=(limits,), effort=(limits,), value=(limits,), weight=(limits,), push=(limits,),
            rate=(limits,),
            limit_s=(limits, 2), limit_z=(limits, 2), limit_second=(limits, 2),
            least=(N, TILE), most=(N, TILE), has_least=(N, TILE), has_most=(N, TILE),
            box_s=(N, 2, TILE), box_z=(N, 2, TILE), box_second=(N, 2, TILE),
            box_weight=(N, TILE), box_push=(N, TILE),
            cone_z=(cones, TILE), cone_push=(cones, TILE),
            cone_matrix=(cones, 2, 3, 3), cone_inverse=(cones, 2, 3, 3), cone_square=(cones, 2, 3, 3),
            H0=(N, N, TILE, TILE), H=(N, N, TILE, TILE), inverse=(N, TILE, TILE),
            gap=(1,), pairs=(1,), fastest=(1,), share=(1,), centring=(1,), ahead=(1,),
            scale=(1,), moved=(1,), loose=(1,), report=(5,), done=(1,),
        )  # fmt: skip

    def statements(self) -> list[Statement]:
        """Start, and rounds until the program is solved."""
        put, at = self.space.put, self.space.at
        body = (
            *self._gradient(),
            *self._judge(),
            *self._assemble(),
            *self._factor(),
            *self._solve(),
            *self._predict(),
            *self._correct(),
            *self._solve(),
            *self._advance(),
        )
        return [
            *self._begin(),
            put(-1, at("done")),
            put(1, at("moved")),
            put(0, at("report")),
            Until(ROUND, ROUNDS, self.space.address("done"), body),
            *self._gradient(),
            *self._judge(count=False),
        ]

    # ---- start ---------------------------------------------------------------------------------------------------

    def _begin(self) -> list[Statement]:
        """x in the middle of its cones, slacks away from zero, multipliers of the size of the gradient."""
        at, each, put, loop = self.space.at, self.space.each, self.space.put, self._loop
        middle = vector(*([1, 0, 0] * (TILE // 3))) / max(2 * self.sizes.cones, 1)

        def slacks(value: Any, low: Any, high: Any, scale: Array) -> list[Any]:
            s = [largest([value - low, 1]), largest([high - value, 1])]
            return [s, [scale[0] / s[0], scale[0] / s[1]]]

        def limit(row: Array, x: Array, offset: Any, low: Any, high: Any, scale: Array) -> list[Any]:
            return slacks(_dot(row, x) + offset, low, high, scale)

        def box(x: Array, least: Array, most: Array, scale: Array) -> list[Any]:
            s = [[largest([a - lo, 1]) for a, lo in zip(x, least)], [largest([hi - a, 1]) for a, hi in zip(x, most)]]
            return [s, [[scale[0] / one for one in side] for side in s]]

        begin: list[Statement] = [put(0, at("x")), put(0, at("y"))]
        begin += loop(I, self.sizes.cone_tiles, lambda: [middle], [], [at("x", I)])
        outer = self._products("R", "omega", None, "H0")
        own = traced_block(
            lambda H, d: [H + np.diag(d + PROXIMAL)], [at("H0", I, I), at("diagonal", I)], [at("H0", I, I)]
        )
        begin.append(Loop(I, self.sizes.tiles, (Loop(J, Index(I, 1), (outer,)), own)))
        begin += [put(1, at("scale")), put(0, at("limit z")), put(0, at("box z")), put(0, at("cone z"))]
        begin += self._gradient(costs_alone=True)
        begin += loop(
            I, self.sizes.tiles,
            lambda scale, g: [[largest([scale[0], *g, *(-g)])]], [at("scale"), at("gradient", I)], [at("scale")],
        )  # fmt: skip
        begin += loop(
            LIMIT, self.sizes.limits, limit,
            [at("U", LIMIT), at("x"), *each(("offset", "low", "high"), LIMIT), at("scale")],
            each(("limit s", "limit z"), LIMIT),
        )  # fmt: skip
        begin += loop(
            I, self.sizes.tiles, box, [*each(("x", "least", "most"), I), at("scale")], each(("box s", "box z"), I)
        )
        begin += loop(
            I, self.sizes.cone_tiles, lambda scale: [scale[0] * vector(*([1, 0, 0] * (TILE // 3)))],
            [at("scale")], [at("cone z", I)],
        )  # fmt: skip
        return begin

    # ---- where the round stands ----------------------------------------------------------------------------------

    def _gradient(self, *, costs_alone: bool = False) -> list[Statement]:
        """∇ of the augmented Lagrangian without the terms of limits and cones; residuals of rows, values of limits.

        ``costs_alone``: without hard rows, whose penalties say nothing of how large a gradient is.
        """
        at, each, loop = self.space.at, self.space.each, self._loop

        def row(R: Array, x: Array, aim: Any, omega: Any, hard: Any, y: Any, g: Array) -> list[Any]:
            r = _dot(R, x) - aim
            push = (1 - hard) * omega * r if costs_alone else omega * r + hard * y
            return [g + R * push, r]

        def limit(U: Array, x: Array, offset: Any, effort: Any, g: Array) -> list[Any]:
            value = _dot(U, x) + offset
            return [g + U * (effort * value), value]

        return [
            *loop(
                I, self.sizes.tiles, lambda d, c, x: [d * x + c], each(("diagonal", "linear", "x"), I),
                [at("gradient", I)],
            ),
            *loop(
                ROW, self.sizes.rows, row,
                [at("R", ROW), at("x"), *each(("aim", "omega", "hard", "y"), ROW), at("gradient")],
                [at("gradient"), at("residual", ROW)],
            ),
            *loop(
                LIMIT, self.sizes.limits, limit,
                [at("U", LIMIT), at("x"), *each(("offset", "effort"), LIMIT), at("gradient")],
                [at("gradient"), at("value", LIMIT)],
            ),
        ]  # fmt: skip

    def _judge(self, *, count: bool = True) -> list[Statement]:
        """How far the program is from solved: gap, rows, limits, gradient."""
        at, each, loop, put = self.space.at, self.space.each, self._loop, self.space.put

        def row(r: Any, hard: Any, report: Array) -> list[Any]:
            return [_with(report, 1, largest([report[1], hard * r, -(hard * r)]))]

        def limit(
            value: Any, low: Any, high: Any, has: Any, has_high: Any, s: Array, z: Array, report: Array, gap: Array,
            pairs: Array, loose: Array, U: Array, g: Array,
        ) -> list[Any]:  # fmt: skip
            missing = largest([report[2], has * (low - value), has_high * (value - high)])
            apart = largest([loose[0], has * (value - low - s[0]), has_high * (high - value - s[1])])
            found = gap[0] + has * s[0] * z[0] + has_high * s[1] * z[1]
            return [
                _with(report, 2, missing), [found], [pairs[0] + has + has_high], [apart],
                g - U * (has * z[0] - has_high * z[1]),
            ]  # fmt: skip

        def box(
            x: Array, least: Array, most: Array, has: Array, has_most: Array, s: Array, z: Array, report: Array,
            gap: Array, pairs: Array, loose: Array, g: Array,
        ) -> list[Any]:  # fmt: skip
            missing = largest([report[2], *(has * (least - x)), *(has_most * (x - most))])
            apart = largest([loose[0], *(has * (x - least - s[0])), *(has_most * (most - x - s[1]))])
            found = gap[0] + (has * s[0]) @ z[0] + (has_most * s[1]) @ z[1]
            total = pairs[0] + _sum(has) + _sum(has_most)
            return [_with(report, 2, missing), [found], [total], [apart], g - has * z[0] + has_most * z[1]]

        def cone(x: Array, z: Array, gap: Array, pairs: Array, g: Array) -> list[Any]:
            return [[gap[0] + x @ z], [pairs[0] + TILE // 3], g - z]

        def slope(g: Array, report: Array) -> list[Any]:
            return [_with(report, 3, largest([report[3], *g, *(-g)]))]

        def decide(report: Array, gap: Array, pairs: Array, loose: Array, scale: Array, moved: Array) -> list[Any]:
            mean = gap[0] / largest([pairs[0], 1])
            # rows and limits are met, or they contradict each other and nothing moves any more
            met = largest([report[1], report[2]]) / SOLVED_ROWS
            met = select(less(moved[0], STALLED_CHANGE), 0, met)
            met = largest([met, loose[0] / SOLVED_ROWS])  # a slack that is too small is no contradiction
            worst = largest([mean / (scale[0] * SOLVED_GAP), met, report[3] / (scale[0] * SOLVED_GRADIENT)])
            # NaN is not less than 1: a program that is lost is not solved
            done = select(less(worst, 1), 1, -1)
            made = report[4] + select(less(worst, 1), 0, 1) if count else report[4]
            return [[mean, *report[1:4], made], [mean], [done]]

        totals = each(("report", "gap", "pairs", "loose"))
        return [
            traced_block(lambda report: [[0, 0, 0, 0, report[4]]], [at("report")], [at("report")]),
            put(0, at("gap"), at("pairs"), at("loose")),
            traced_block(lambda g: [g], [at("gradient")], [at("right")]),
            *loop(ROW, self.sizes.rows, row, [*each(("residual", "hard"), ROW), at("report")], [at("report")]),
            *loop(
                LIMIT, self.sizes.limits, limit,
                [*each(("value", "low", "high", "has low", "has high", "limit s", "limit z"), LIMIT), *totals,
                 at("U", LIMIT), at("right")],
                [*totals, at("right")],
            ),
            *loop(
                I, self.sizes.tiles, box,
                [*each(("x", "least", "most", "has least", "has most", "box s", "box z"), I), *totals, at("right", I)],
                [*totals, at("right", I)],
            ),
            *loop(
                I, self.sizes.cone_tiles, cone, [*each(("x", "cone z"), I), at("gap"), at("pairs"), at("right", I)],
                [at("gap"), at("pairs"), at("right", I)],
            ),
            *loop(I, self.sizes.tiles, slope, [at("right", I), at("report")], [at("report")]),
            traced_block(decide, [*totals, at("scale"), at("moved")], [at("report"), at("gap"), at("done")]),
        ]  # fmt: skip

    # ---- the linear system ---------------------------------------------------------------------------------------

    def _assemble(self) -> list[Statement]:
        """H, and the right-hand side of the predictor."""
        at, each, loop = self.space.at, self.space.each, self._loop

        def limit(value: Any, low: Any, high: Any, has: Any, has_high: Any, effort: Any, s: Array, z: Array) -> Any:
            w = [has * z[0] / s[0], has_high * z[1] / s[1]]
            push = -w[0] * (value - low - s[0]) + w[1] * (high - value - s[1])
            return [w[0] + w[1] + effort, push]

        def box(x: Array, least: Array, most: Array, has: Array, has_most: Array, s: Array, z: Array) -> list[Any]:
            soft = [s[0] + YIELDING * z[0], s[1] + YIELDING * z[1]]
            w = [has * z[0] / soft[0], has_most * z[1] / soft[1]]
            up, down = YIELDING * z[0] - (x - least - s[0]), YIELDING * z[1] - (most - x - s[1])
            return [w[0] + w[1], w[0] * up - w[1] * down]

        def cone(x: Array, z: Array) -> list[Any]:
            W = [scaling_of(x[k : k + 3], z[k : k + 3]) for k in range(0, TILE, 3)]
            return [np.stack([w.matrix for w in W]), np.stack([w.inverse for w in W]), np.stack([w.square for w in W])]

        def own(H: Array, box: Array) -> list[Any]:
            return [H + np.diag(box)]

        def cone_own(H: Array, blocks: Array) -> list[Any]:
            full = zeros(TILE, TILE)
            for k in range(TILE // 3):
                full[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = blocks[k]
            return [H + full]

        bounds = each(("low", "high", "has low", "has high", "effort", "limit s", "limit z"), LIMIT)
        ends = each(("x", "least", "most", "has least", "has most", "box s", "box z"), I)
        tile = self._products("U", "weight", "H0", "H")
        diagonal = at("H", I, I)
        return [
            *loop(LIMIT, self.sizes.limits, limit, [at("value", LIMIT), *bounds], each(("weight", "push"), LIMIT)),
            *loop(I, self.sizes.tiles, box, ends, each(("box weight", "box push"), I)),
            *loop(
                I,
                self.sizes.cone_tiles,
                cone,
                each(("x", "cone z"), I),
                each(("cone matrix", "cone inverse", "cone square"), I),
            ),
            Loop(I, self.sizes.tiles, (Loop(J, Index(I, 1), (tile,)),)),
            *loop(I, self.sizes.tiles, own, [diagonal, at("box weight", I)], [diagonal]),
            *loop(I, self.sizes.cone_tiles, cone_own, [diagonal, at("cone square", I)], [diagonal]),
            self.space.put(0, at("cone push")),
            *self._right(),
        ]

    def _right(self) -> list[Statement]:
        """−∇ + what limits and cones push."""
        at, each, loop = self.space.at, self.space.each, self._loop
        return [
            *loop(
                I, self.sizes.tiles, lambda g, push: [push - g], each(("gradient", "box push"), I), [at("dx", I)]
            ),
            *loop(
                I, self.sizes.cone_tiles, lambda x, push: [x + push], each(("dx", "cone push"), I), [at("dx", I)]
            ),
            *loop(
                LIMIT, self.sizes.limits, lambda x, U, push: [x + U * push],
                [at("dx"), *each(("U", "push"), LIMIT)], [at("dx")],
            ),
        ]  # fmt: skip

    def _factor(self) -> list[Statement]:
        """H = L Lᵀ by rows of tiles; the inverses of the diagonal tiles of L are kept."""
        at, line = self.space.at, self.space.at("H", I, J, LINE)

        def scaled(h: Array, inverse: Array) -> list[Any]:
            return [[h[: k + 1] @ inverse[k, : k + 1] for k in range(TILE)]]

        columns = self._lines(traced_block(scaled, [line, at("inverse", J)], [line]))
        invert = traced_block(lambda H: [inverse_factor(H)], [at("H", I, I)], [at("inverse", I)])
        below = Loop(J, Index(I), (Loop(K, Index(J), (self._minus(J),)), columns))
        return [Loop(I, self.sizes.tiles, (below, Loop(K, Index(I), (self._minus(I),)), invert))]

    def _lines(self, block: Statement) -> Statement:
        """A block for every row of a tile.

        In a row each number of the right factor is used once, so that it is read where it is needed: all of a tile at
        once would not fit into registers.
        """
        return Loop(LINE, TILE, (block,))

    def _minus(self, column: str) -> Statement:
        """H[I, column] −= H[I, K] H[column, K]ᵀ."""
        at = self.space.at
        here, left = at("H", I, column, LINE), at("H", I, K, LINE)
        return self._lines(traced_block(lambda h, a, b: [h - b @ a], [here, left, at("H", column, K)], [here]))

    def _products(self, name: str, weights: str, start: str | None, result: str) -> Statement:
        """result[I, J] := start[I, J] + Σ weightᵣ Rᵣ Rᵣᵀ."""
        at, buffer = self.space.at, self.space.buffers[name]
        sides = [piece(buffer, None, I, LINE), piece(buffer, None, J, None)]

        def row(weight: Array, left: Array, right: Array, *given: Array) -> list[Any]:
            total = given[0] if given else zeros(TILE)
            for k in range(len(weight)):
                total = total + (weight[k] * left[k]) * right[k]
            return [total]

        given = [at(start, I, J, LINE)] if start else []
        return self._lines(traced_block(row, [at(weights), *sides, *given], [at(result, I, J, LINE)]))

    def _solve(self) -> list[Statement]:
        """dx := H⁻¹ dx."""
        at, tiles = self.space.at, self.sizes.tiles
        down = traced_block(lambda x, H, y: [x - H @ y], [at("dx", I), at("H", I, K), at("dx", K)], [at("dx", I)])
        up = traced_block(lambda x, H, y: [x - H.T @ y], [at("dx", K), at("H", I, K), at("dx", I)], [at("dx", K)])
        ahead = traced_block(lambda x, L: [L @ x], [at("dx", I), at("inverse", I)], [at("dx", I)])
        back = traced_block(lambda x, L: [L.T @ x], [at("dx", I), at("inverse", I)], [at("dx", I)])
        return [
            Loop(I, tiles, (Loop(K, Index(I), (down,)), ahead)),
            Loop(I, tiles, (back, Loop(K, Index(I), (up,))), backwards=True),
            *self._loop(
                LIMIT, self.sizes.limits, lambda U, dx: [_dot(U, dx)], [at("U", LIMIT), at("dx")], [at("rate", LIMIT)]
            ),
        ]

    # ---- steps ---------------------------------------------------------------------------------------------------

    def _steps(self, then: str) -> list[Statement]:
        """How far a step goes; ``then`` is ``second`` (keep products of steps) or ``share`` (nothing)."""
        at, each, loop = self.space.at, self.space.each, self._loop
        ahead = then == "second"

        def limit(
            rate: Any, value: Any, low: Any, high: Any, has: Any, has_high: Any, s: Array, z: Array,
            second: Array, centring: Array, fastest: Array,
        ) -> list[Any]:  # fmt: skip
            steps = _limit_steps(rate, value, low, high, s, z, second, centring, ahead)
            rates = [-on * d / a for on, d, a in zip((has, has_high) * 2, steps, (*s, *z))]
            moved = [steps[0] * steps[2], steps[1] * steps[3]] if ahead else second
            return [moved, [largest([fastest[0], *rates])]]

        def box(
            dx: Array, x: Array, least: Array, most: Array, has: Array, has_most: Array, s: Array, z: Array,
            second: Array, centring: Array, fastest: Array,
        ) -> list[Any]:  # fmt: skip
            steps = _box_steps(dx, x, least, most, s, z, second, centring, ahead)
            rates = [-on * d / a for on, d, a in zip((has, has_most) * 2, steps, (*s, *z))]
            moved = [steps[0] * steps[2], steps[1] * steps[3]] if ahead else second
            return [moved, [largest([fastest[0], *np.concatenate(rates)])]]

        def cone(dx: Array, x: Array, z: Array, push: Array, square: Array, fastest: Array) -> list[Any]:
            rates = []
            for k in range(0, TILE, 3):
                part = slice(k, k + 3)
                dz = push[part] - z[part] - square[k // 3] @ dx[part]
                rates += [exit_rate(x[part], dx[part]), exit_rate(z[part], dz)]
            return [[largest([fastest[0], *rates])]]

        shared = each(("centring", "fastest"))
        bounds = each(("value", "low", "high", "has low", "has high", "limit s", "limit z", "limit second"), LIMIT)
        ends = each(("dx", "x", "least", "most", "has least", "has most", "box s", "box z", "box second"), I)
        return [
            self.space.put(0, at("fastest")),
            *loop(
                LIMIT, self.sizes.limits, limit, [at("rate", LIMIT), *bounds, *shared],
                [at("limit second", LIMIT), at("fastest")],
            ),
            *loop(I, self.sizes.tiles, box, [*ends, *shared], [at("box second", I), at("fastest")]),
            *loop(
                I, self.sizes.cone_tiles, cone,
                [*each(("dx", "x", "cone z", "cone push", "cone square"), I), at("fastest")],
                [at("fastest")],
            ),
        ]  # fmt: skip

    def _predict(self) -> list[Statement]:
        """How far the predictor goes, and by Mehrotra's rule how much to centre."""
        at, each, loop, put = self.space.at, self.space.each, self._loop, self.space.put

        def limit(
            rate: Any, value: Any, low: Any, high: Any, has: Any, has_high: Any, s: Array, z: Array,
            second: Array, centring: Array, share: Array, ahead: Array,
        ) -> list[Any]:  # fmt: skip
            d = _limit_steps(rate, value, low, high, s, z, second, centring, True)
            t = share[0]
            after = [(s[k] + t * d[k]) * (z[k] + t * d[k + 2]) for k in (0, 1)]
            return [[ahead[0] + has * after[0] + has_high * after[1]]]

        def box(
            dx: Array, x: Array, least: Array, most: Array, has: Array, has_most: Array, s: Array, z: Array,
            second: Array, centring: Array, share: Array, ahead: Array,
        ) -> list[Any]:  # fmt: skip
            d = _box_steps(dx, x, least, most, s, z, second, centring, True)
            t = share[0]
            after = [(s[k] + t * d[k]) * (z[k] + t * d[k + 2]) for k in (0, 1)]
            return [[ahead[0] + has @ after[0] + has_most @ after[1]]]

        def cone(
            dx: Array, x: Array, z: Array, push: Array, square: Array, share: Array, ahead: Array
        ) -> list[Any]:  # fmt: skip
            total, t = ahead[0], share[0]
            for k in range(0, TILE, 3):
                part = slice(k, k + 3)
                dz = push[part] - z[part] - square[k // 3] @ dx[part]
                total = total + (x[part] + t * dx[part]) @ (z[part] + t * dz)
            return [[total]]

        def centre(ahead: Array, gap: Array, pairs: Array, scale: Array) -> list[Any]:
            left = largest([ahead[0] / largest([pairs[0], 1]) / gap[0], 0])
            aim = select(less(left, 1), left * left * left, 1) * gap[0]
            # rows may take longer than cones: a point that comes closer to their boundary is lost to rounding
            return [[largest([aim, LEAST_AIM * SOLVED_GAP * scale[0]])]]

        bounds = each(("value", "low", "high", "has low", "has high", "limit s", "limit z", "limit second"), LIMIT)
        ends = each(("dx", "x", "least", "most", "has least", "has most", "box s", "box z", "box second"), I)
        shared = each(("centring", "share", "ahead"))
        return [
            put(0, at("centring"), at("limit second"), at("box second")),
            *self._steps("share"),
            traced_block(lambda fastest: [[1 / largest([fastest[0], 1])]], [at("fastest")], [at("share")]),
            put(0, at("ahead")),
            *loop(LIMIT, self.sizes.limits, limit, [at("rate", LIMIT), *bounds, *shared], [at("ahead")]),
            *loop(I, self.sizes.tiles, box, [*ends, *shared], [at("ahead")]),
            *loop(
                I, self.sizes.cone_tiles, cone,
                [*each(("dx", "x", "cone z", "cone push", "cone square"), I), at("share"), at("ahead")], [at("ahead")],
            ),
            *self._steps("second"),
            traced_block(centre, each(("ahead", "gap", "pairs", "scale")), [at("centring")]),
        ]  # fmt: skip

    def _correct(self) -> list[Statement]:
        """The right-hand side with centring and second-order terms."""
        at, each, loop = self.space.at, self.space.each, self._loop

        def limit(has: Any, has_high: Any, s: Array, second: Array, push: Any, centring: Array) -> list[Any]:
            t = centring[0]
            return [push + has * (t - second[0]) / s[0] - has_high * (t - second[1]) / s[1]]

        def box(
            has: Array, has_most: Array, s: Array, z: Array, second: Array, push: Array, centring: Array
        ) -> list[Any]:  # fmt: skip
            t, soft = centring[0], [s[0] + YIELDING * z[0], s[1] + YIELDING * z[1]]
            return [push + has * (t - second[0]) / soft[0] - has_most * (t - second[1]) / soft[1]]

        def cone(dx: Array, z: Array, matrix: Array, inverse: Array, square: Array, centring: Array) -> list[Any]:
            found = []
            for k in range(0, TILE, 3):
                part = slice(k, k + 3)
                W = BlockScaling(matrix[k // 3], inverse[k // 3], square[k // 3])
                dz = -z[part] - W.square @ dx[part]
                second = cone_product(W.inverse @ dx[part], W.matrix @ dz)
                target = vector(centring[0] - second[0], -second[1], -second[2])
                found.append(W.inverse @ cone_quotient(target, W.matrix @ z[part]))
            return [np.concatenate(found)]

        return [
            *loop(
                I, self.sizes.cone_tiles, cone,
                [*each(("dx", "cone z", "cone matrix", "cone inverse", "cone square"), I), at("centring")],
                [at("cone push", I)],
            ),
            *loop(
                LIMIT, self.sizes.limits, limit,
                [*each(("has low", "has high", "limit s", "limit second", "push"), LIMIT), at("centring")],
                [at("push", LIMIT)],
            ),
            *loop(
                I, self.sizes.tiles, box,
                [*each(("has least", "has most", "box s", "box z", "box second", "box push"), I), at("centring")],
                [at("box push", I)],
            ),
            *self._right(),
        ]  # fmt: skip

    def _advance(self) -> list[Statement]:
        """x, slacks and multipliers after the step."""
        at, each, loop = self.space.at, self.space.each, self._loop

        def limit(
            rate: Any, value: Any, low: Any, high: Any, has: Any, has_high: Any, s: Array, z: Array,
            second: Array, centring: Array, share: Array,
        ) -> list[Any]:  # fmt: skip
            d = _limit_steps(rate, value, low, high, s, z, second, centring, False)
            on, t = (has, has_high), share[0]
            return [[s[k] + t * on[k] * d[k] for k in (0, 1)], [z[k] + t * on[k] * d[k + 2] for k in (0, 1)]]

        def box(
            dx: Array, x: Array, least: Array, most: Array, has: Array, has_most: Array, s: Array, z: Array,
            second: Array, centring: Array, share: Array,
        ) -> list[Any]:  # fmt: skip
            d = _box_steps(dx, x, least, most, s, z, second, centring, False)
            on, t = (has, has_most), share[0]
            return [[s[k] + t * on[k] * d[k] for k in (0, 1)], [z[k] + t * on[k] * d[k + 2] for k in (0, 1)]]

        def cone(dx: Array, z: Array, push: Array, square: Array, share: Array) -> list[Any]:
            moved = np.concatenate([square[k] @ dx[3 * k : 3 * k + 3] for k in range(TILE // 3)])
            return [z + share[0] * (push - z - moved)]

        def move(x: Array, dx: Array, share: Array, moved: Array) -> list[Any]:
            step = share[0] * dx
            # what is no number is no step: x stays at the last point that was one
            step = vector(*[select(less(d * d, NO_STEP), d, 0) for d in step])
            return [x + step, [largest([moved[0], *step, *(-step)])]]

        def row(R: Array, dx: Array, omega: Any, hard: Any, y: Any, r: Any, share: Array) -> list[Any]:
            # the multiplier of the point that a whole step leads to
            return [y + share[0] * hard * omega * (r + _dot(R, dx))]

        bounds = each(("value", "low", "high", "has low", "has high", "limit s", "limit z", "limit second"), LIMIT)
        ends = each(("dx", "x", "least", "most", "has least", "has most", "box s", "box z", "box second"), I)
        shared = each(("centring", "share"))
        return [
            *self._steps("share"),
            traced_block(
                lambda fastest: [[INNER / largest([fastest[0], INNER])]],
                [at("fastest")], [at("share")],
            ),
            *loop(
                LIMIT, self.sizes.limits, limit, [at("rate", LIMIT), *bounds, *shared],
                each(("limit s", "limit z"), LIMIT),
            ),
            *loop(I, self.sizes.tiles, box, [*ends, *shared], each(("box s", "box z"), I)),
            *loop(
                I, self.sizes.cone_tiles, cone,
                [*each(("dx", "cone z", "cone push", "cone square"), I), at("share")], [at("cone z", I)],
            ),
            *loop(
                ROW, self.sizes.rows, row,
                [at("R", ROW), at("dx"), *each(("omega", "hard", "y", "residual"), ROW), at("share")], [at("y", ROW)],
            ),
            self.space.put(0, at("moved")),
            *loop(
                I, self.sizes.tiles, move, [*each(("x", "dx"), I), at("share"), at("moved")], [at("x", I), at("moved")]
            ),
        ]  # fmt: skip

    # ---- how statements are written ------------------------------------------------------------------------------

    def _loop(self, register: str, count: int, function: Any, reads: Sequence[Piece], writes: Sequence[Piece]) -> Any:
        """A block inside a loop; nothing where there is nothing to loop over."""
        return [Loop(register, count, (traced_block(function, reads, writes),))] if count else []


# --- one limit, one cone ----------------------------------------------------------------------------------------------


def _limit_steps(
    rate: Any, value: Any, low: Any, high: Any, s: Array, z: Array, second: Array, centring: Array,
    ahead: bool,
) -> list[Any]:  # fmt: skip
    """Steps of both slacks and both multipliers of a limit."""
    ds = [rate + value - low - s[0], -rate + high - value - s[1]]
    aims = [0, 0] if ahead else [centring[0] - second[0], centring[0] - second[1]]
    return [*ds, *[aim / a - b - b / a * d for aim, a, b, d in zip(aims, s, z, ds)]]


def _box_steps(
    dx: Array, x: Array, least: Array, most: Array, s: Array, z: Array, second: Array, centring: Array, ahead: bool
) -> list[Any]:
    """Those of the entries of a tile, whose limits yield."""
    ways = [dx + x - least - s[0], -dx + most - x - s[1]]
    aims = [0 * dx, 0 * dx] if ahead else [centring[0] - second[0], centring[0] - second[1]]
    dz = [(aim - a * b - b * way) / (a + YIELDING * b) for aim, a, b, way in zip(aims, s, z, ways)]
    return [*[way + YIELDING * d for way, d in zip(ways, dz)], *dz]


def _dot(a: Array, b: Array) -> Any:
    """Sum of the products of two arrays of tiles; four sums that do not wait for each other."""
    a, b = np.ravel(a), np.ravel(b)
    parts = [a[k::4] @ b[k::4] for k in range(min(4, len(a)))]
    return _sum(parts)


def _sum(values: Any) -> Any:
    total: Any = 0
    for value in values:
        total = total + value
    return total


def _with(values: Array, place: int, value: Any) -> list[Any]:
    """The values, one of them replaced."""
    return [value if k == place else old for k, old in enumerate(values)]
