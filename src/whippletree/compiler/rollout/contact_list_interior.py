"""The interior-point method for the contact problem of a list of blocks, inside a kernel.

The method is that of :mod:`whippletree.contact.problem.interior_point`: Lorentz cones in scaled variables, De Saxcé's
correction with its derivative S, Nesterov and Todd's W, Mehrotra's predictor and corrector. As everywhere in a kernel,
G = B Bᵀ is never formed; with dy = Σ Bᵀ dλ all impulses can be eliminated from a step,

    (W² + (1 + S) C) dλ = r − (1 + S) B dy        (1 + Σ Bᵀ V (1 + S) B) dy = Σ Bᵀ V r        V = (W² + (1 + S) C)⁻¹

C being the compliance of a servo's own row: one matrix of the size of the velocities, factored once for predictor and
corrector. What a block has no unknown for (the normal of dry friction, the tangents of a contact without any) is masked
in V.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.compiler.program import Each, Statement, Until
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.rollout.step_space import ACTIVE, BLOCK, STEP, symmetric_block
from whippletree.contact.problem.cones import both, brought_inside, largest, length
from whippletree.contact.problem.contact_problem import block_mass
from whippletree.contact.problem.interior_point import INTERIOR_STEPS, INWARDS, STALLED_STEP
from whippletree.contact.problem.lorentz import Scaling, exit_rate, product, quotient
from whippletree.spatial import cross

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_list_solver import ListSolver

INTERIOR = "interior step"


class Kind(NamedTuple):
    """The variables of a block: their scale, and 1 for those that there are, 0 for others."""

    scale: Array
    """λ = size · scale · x, and B, g are scaled alike, (3,)."""
    unknown: Array
    """Of x, (3,)."""
    moving: Array
    """Of w, (3,)."""

    @staticmethod
    def of(own: Array, mu: Any, cap: Any) -> Kind:
        """``own``: the block's own part (3, 3) of G."""
        mass, _ = block_mass(own)
        root = sqrt(mass)
        disc = less(0, cap)
        rubs = less(0, mu)
        normal = select(disc, 0, root / select(rubs, mu, 1))
        has_normal, has_tangent = select(disc, 0, 1), select(disc, 1, select(rubs, 1, 0))
        tangent = root * has_tangent
        unknown = vector(has_normal, has_tangent, has_tangent)
        return Kind(vector(normal, tangent, tangent), unknown, vector(1, has_tangent, has_tangent))


class InteriorPoint:
    """Statements of the method, for a :class:`~whippletree.compiler.rollout.contact_list_solver.ListSolver`. Buffers of
    the solver: B, own, g, friction, cap, soft, impulse, y, E, part, ``done``; those of its linear system.
    """

    def __init__(self, solver: ListSolver) -> None:
        self.solver, self.space, self.system = solver, solver.space, solver.system
        self.servos = solver.servos
        blocks, n = solver.blocks, solver.nv
        self.space.work(
            inside_x=(blocks, 3),
            inside_w=(blocks, 3),
            scale=(blocks, 3),
            unknown=(blocks, 3),
            mobile=(blocks, 3),
            NT=(blocks, 3, 3),
            NT_inverse=(blocks, 3, 3),
            V=(blocks, 3, 3),
            own_part=(blocks, 3, 3),  # W² + (1 + S) C
            tilt=(blocks, 2),  # the first row of S
            answer=(n,),  # Σ B̃ᵀ dλ
            astray=(blocks, 3),  # (1 + S) times the residual of w = G λ + g + s
            aimed=(blocks, 3),
            step_x=(blocks, 3),
            step_w=(blocks, 3),
            stature=(1,),  # the largest entry of the scaled g
            many=(1,),
            lead=(2,),  # Σ x · w, and Σ (x + t dx) · (w + t dw)
            fastest=(1,),  # 1 / the largest share of a step that stays inside all cones
            share=(1,),
            pushed=(n,),  # Σ B̃ᵀ x
            heights=(2,),
            stalled=(1,),
        )

    def begin(self) -> list[Statement]:
        """Before the first time that the method is asked in a step."""
        return [self.space.put(1, self.space.at("heights"))]

    def statements(self) -> list[Statement]:
        """The whole method, from the middle of all cones; ``done`` tells whether it has solved the problem."""
        address = self.space.address
        return [
            *self._start(),
            Until(INTERIOR, INTERIOR_STEPS, address("stalled"), tuple(self._step())),
            traced_block(
                lambda heights: [[10 * heights[0], 3 * heights[1]]],
                [self.space.at("heights")],
                [self.space.at("heights")],
            ),
        ]

    def _each(self, function: Any, reads: Any, writes: Any) -> Statement:
        return Each(BLOCK, ACTIVE, (traced_block(function, reads, writes),))

    def _start(self) -> list[Statement]:
        at, each, put = self.space.at, self.space.each, self.space.put

        def classify(own: Array, g: Array, mu: Any, cap: Any, h: Any, size: Array, many: Array) -> list[Any]:
            kind = Kind.of(symmetric_block(own), mu, h * cap)
            found = largest([size[0], *[abs(x) for x in kind.scale * g]])
            return [kind.scale, kind.unknown, kind.moving, [found], [many[0] + 1]]

        def place(own: Array, cap: Any, h: Any, size: Array, heights: Array) -> list[Any]:
            root = sqrt(block_mass(symmetric_block(own))[0])
            disc = less(0, cap)
            high = select(disc, h * cap / (root * _nonzero(size[0])), heights[0])
            return [[high, 0, 0], [heights[1], 0, 0]]

        reads = [*each(("own", "g", "friction", "cap"), BLOCK), at("dt", STEP), *each(("stature", "many"))]
        classes = self._each(
            classify, reads, [*each(("scale", "unknown", "mobile"), BLOCK), *each(("stature", "many"))]
        )
        reads = [*each(("own", "cap"), BLOCK), at("dt", STEP), *each(("stature", "heights"))]
        return [
            put(0, *each(("stature", "many"))),
            classes,
            self._each(place, reads, each(("inside x", "inside w"), BLOCK)),
            put(-1, at("stalled")),
        ]

    def _step(self) -> list[Statement]:
        at, each, put = self.space.at, self.space.each, self.space.put
        zero = put(0, at("right"))
        return [
            put(0, *each(("lead", "pushed"))),
            self._each(
                lambda x, w, scale, B, lead, y: [[lead[0] + x @ w, lead[1]], y + B.T @ (scale * x)],
                [*each(("inside x", "inside w", "scale", "B"), BLOCK), *each(("lead", "pushed"))],
                each(("lead", "pushed")),
            ),
            *self.system.identity(),
            zero,
            *self._prepare(),
            *self.system.factor(),
            *self.system.solve(),
            *self._directions(),
            self._centre(),
            zero,
            self._correct(),
            *self.system.solve(),
            *self._directions(),
            *self._advance(),
        ]

    def _prepare(self) -> list[Statement]:
        """W, V and the residual of every block, the matrix of the step, and the right-hand side of the predictor."""
        at, each = self.space.at, self.space.each

        def prepare(x: Array, w: Array, scale: Array, unknown: Array, B: Array, g: Array, *rest: Any) -> list[Any]:
            friction, pushed, size, right, *soft = rest
            W, back, square = Scaling.of(x, w)
            scaled = (B.T * scale).T
            compliance = soft[0] * scale[1] * scale[1] if soft else 0
            rubs = both(less(0, friction), less(0, unknown[0]))
            side = length(w[1], w[2])
            slides = both(rubs, less(0, side))
            e1, e2 = (select(slides, x / select(slides, side, 1), 0) for x in w[1:])
            r = scaled @ pushed + scale * g / _nonzero(size[0]) - w
            r = vector(r[0] + select(rubs, side, 0), r[1] + compliance * x[1], r[2])
            left = np.array([[1, e1, e2], [0, 1, 0], [0, 0, 1]], dtype=object)
            astray = left @ r
            own = square + left @ np.array([[0, 0, 0], [0, compliance, 0], [0, 0, 0]], dtype=object)
            V = _masked_inverse(own, unknown)
            level = W @ x
            aimed = W @ quotient(-product(level, level), level)
            part = V @ (aimed - astray)
            kept = [W, back, V, own, [e1, e2], astray, aimed, part]
            return [*kept, (V @ left) @ scaled, right + scaled.T @ part]

        reads = [*each(("inside x", "inside w", "scale", "unknown", "B", "g", "friction"), BLOCK)]
        reads += [*each(("pushed", "stature", "right")), *each(tuple(self.servos), BLOCK)]
        writes = [
            *each(("NT", "NT inverse", "V", "own part", "tilt", "astray", "aimed", "part", "E"), BLOCK),
            at("right"),
        ]
        return [Each(BLOCK, ACTIVE, (traced_block(prepare, reads, writes), self.system.add("scale")))]

    def _directions(self) -> list[Statement]:
        """dλ and dw of every block, improved once with what is left of their equations, and how far they may go."""
        at, each, put = self.space.at, self.space.each, self.space.put

        def first(part: Array, E: Array, dy: Array, scale: Array, B: Array, answer: Array) -> list[Any]:
            dx = part - E @ dy
            return [dx, answer + B.T @ (scale * dx)]

        def remains(dx: Array, aimed: Array, astray: Array, own: Array, tilt: Array, V: Array, *rest: Any) -> list[Any]:
            scale, B, answer, right = rest
            pushed = scale * (B @ answer)
            pushed = vector(pushed[0] + tilt[0] * pushed[1] + tilt[1] * pushed[2], pushed[1], pushed[2])
            part = V @ (aimed - astray - pushed - own @ dx)
            return [part, right + B.T @ (scale * part)]

        def direct(dx: Array, part: Array, E: Array, dy: Array, W: Array, aimed: Array, *rest: Any) -> list[Any]:
            x, w, mobile, fastest = rest
            dx = dx + part - E @ dy
            dw = mobile * (aimed - W @ (W @ dx))
            return [dx, dw, [largest([fastest[0], exit_rate(x, dx), exit_rate(w, dw)])]]

        shared = [*each(("scale", "B"), BLOCK), at("answer")]
        reads = [*each(("part", "E"), BLOCK), at("dy"), *shared]
        names = ("step x", "aimed", "astray", "own part", "tilt", "V")
        found = [*each(("step x", "part", "E"), BLOCK), at("dy")]
        found += [*each(("NT", "aimed", "inside x", "inside w", "mobile"), BLOCK), at("fastest")]
        return [
            put(0, at("answer"), at("right")),
            self._each(first, reads, [at("step x", BLOCK), at("answer")]),
            self._each(remains, [*each(names, BLOCK), *shared, at("right")], [at("part", BLOCK), at("right")]),
            *self.system.solve(),
            put(0, at("fastest")),
            self._each(direct, found, [*each(("step x", "step w"), BLOCK), at("fastest")]),
        ]

    def _centre(self) -> Statement:
        """Σ (x + t dx) · (w + t dw) at the end of the predictor's way."""
        at, each = self.space.at, self.space.each

        def left(x: Array, w: Array, dx: Array, dw: Array, fastest: Array, lead: Array) -> list[Any]:
            share = 1 / largest([fastest[0], 1])
            return [[lead[0], lead[1] + (x + share * dx) @ (w + share * dw)]]

        reads = [*each(("inside x", "inside w", "step x", "step w"), BLOCK), *each(("fastest", "lead"))]
        return self._each(left, reads, [at("lead")])

    def _correct(self) -> Statement:
        """The right-hand side of the corrector."""
        at, each = self.space.at, self.space.each

        def aim(
            x: Array, dx: Array, dw: Array, W: Array, back: Array, V: Array, astray: Array, *rest: Any
        ) -> list[Any]:
            scale, B, lead, many, right = rest
            gap = lead[0] / many[0]
            share = largest([lead[1] / lead[0], 0])
            centring = -largest([-share * share * share, -1])
            level = W @ x
            second = product(back @ dw, W @ dx)
            target = vector(centring * gap, 0, 0) - product(level, level) - second
            aimed = W @ quotient(target, level)
            part = V @ (aimed - astray)
            return [aimed, part, right + B.T @ (scale * part)]

        reads = [*each(("inside x", "step x", "step w", "NT", "NT inverse", "V", "astray", "scale", "B"), BLOCK)]
        reads += each(("lead", "many", "right"))
        return self._each(aim, reads, [*each(("aimed", "part"), BLOCK), at("right")])

    def _advance(self) -> list[Statement]:
        """The step itself, the impulses that it means, and what they are worth."""
        at, each, put = self.space.at, self.space.each, self.space.put

        def move(x: Array, w: Array, dx: Array, dw: Array, share: Array, scale: Array, *rest: Any) -> list[Any]:
            size, mu, cap, h, B, y = rest
            x, w = x + share[0] * dx, w + share[0] * dw
            impulse = brought_inside(size[0] * scale * x, mu, h * cap)
            return [x, w, impulse, y + B.T @ impulse]

        share = traced_block(
            lambda fastest: [[INWARDS / largest([fastest[0], INWARDS])]], [at("fastest")], [at("share")]
        )
        end = traced_block(
            lambda done, share: [[select(less(STALLED_STEP, share[0]), done[0], 1)]],
            each(("done", "share")),
            [at("stalled")],
        )
        reads = [
            *each(("inside x", "inside w", "step x", "step w"), BLOCK),
            at("share"),
            at("scale", BLOCK),
            at("stature"),
        ]
        reads += [*each(("friction", "cap"), BLOCK), at("dt", STEP), at("B", BLOCK), at("y")]
        count = traced_block(lambda made: [made + 1], [at("newtons")], [at("newtons")])
        return [
            share,
            put(0, at("y")),
            self._each(move, reads, [*each(("inside x", "inside w", "impulse"), BLOCK), at("y")]),
            *self.solver.measure(),
            end,
            count,
        ]


def _masked_inverse(A: Array, known: Array) -> Array:
    """The inverse of the part of a matrix (3, 3) whose rows and columns are not masked by 0, and 0 elsewhere."""
    M = np.array([[A[i, j] * known[i] * known[j] for j in range(3)] for i in range(3)], dtype=object)
    for i in range(3):
        M[i, i] = M[i, i] + (1 - known[i])
    rows = [vector(*row) for row in M]
    cofactors = [cross(rows[1], rows[2]), cross(rows[2], rows[0]), cross(rows[0], rows[1])]
    det = rows[0] @ cofactors[0]
    return np.array([[cofactors[j][i] / det * known[i] * known[j] for j in range(3)] for i in range(3)], dtype=object)


def _nonzero(x: Any) -> Any:
    return select(less(0, x), x, 1)
