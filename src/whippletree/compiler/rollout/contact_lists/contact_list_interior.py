"""The interior-point method for the contact problem of a list of blocks, inside a kernel.

The method is that of :mod:`whippletree.contact.problem.interior_point`: Lorentz cones in scaled variables, De Saxcé's
correction with its derivative S, Nesterov and Todd's W, Mehrotra's predictor and corrector. As everywhere in a kernel,
G = B Bᵀ is never formed; with dy = Σ Bᵀ dλ all impulses can be eliminated from a step,

    (W² + (1 + S) C) dλ = r − (1 + S) B dy        (1 + Σ Bᵀ V (1 + S) B) dy = Σ Bᵀ V r        V = (W² + (1 + S) C)⁻¹

C being the compliance of a servo's own row: one matrix of the size of the velocities, factored once for predictor and
corrector. Where all of a block is unknown and C = 0, V is W⁻² as the scaling gives it: near the solution W² spans more
orders of magnitude than numbers have digits, and its inverse has lost what is stiff (of 13 steps of belts of 100 and
200 links that the method did not solve, seven were solved by that). What a block has no unknown for (the normal of dry
friction, the tangents of a contact without any) is masked in V. Along a chain impulses are eliminated themselves, from
(W² + (1 + S) B Bᵀ) dλ = r, and nothing is inverted that spans so much
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_chains`). Where contacts are in a plane, cones are two
half lines (:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_cones`).

At first it begins near the impulses that sweeps have come to: z = λ − w, in scaled variables with
w = G λ + g + s, is parted into x − w = z with x ∘ w = ν 1, so that the beginning is on the central path of a problem
nearby, at the ν that the residual there suggests. Belts that slip and stick over their pulleys take 8 steps on the
median from there, 15 from the middle of the cones. On this way a step that the corrector's second-order term makes
short is taken without it, and after one that led nowhere slips are held. If that does not help, the method begins in
the middle of the cones, each time higher. Along a chain, the path is followed through its folds instead
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_path`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, negated, select, sqrt
from whippletree.compiler.program import If, Statement, Until
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.rollout.contact_lists.contact_list_chains import yielding
from whippletree.compiler.rollout.contact_lists.contact_list_cones import Cone, PlaneCone, SpaceCone
from whippletree.compiler.rollout.contact_lists.contact_list_path import CentralPath
from whippletree.compiler.rollout.dense_solve import multiply_in_strands
from whippletree.compiler.rollout.step_space import BLOCK, symmetric_block
from whippletree.contact.problem.cones import both, brought_inside, largest, not_less
from whippletree.contact.problem.contact_problem import block_mass
from whippletree.contact.problem.interior_point import INTERIOR_STEPS, INWARDS, STALLED_STEP
from whippletree.contact.problem.lorentz import exit_rate
from whippletree.spatial import cross

if TYPE_CHECKING:
    from whippletree.compiler.rollout.contact_lists.contact_list_solver import ListSolver

INTERIOR, CORRECTION, REFINEMENT, FOLD = "interior step", "correction", "refinement", "fold"

REFINEMENTS, CERTAIN = 5, 0.01
"""Times that a step is improved with what is left of its equations, at most; and the share of the way out of a cone
that an improvement may be for the last of them. Recursions lose digits where the inertia of a contact is large: at an
impact of a belt of 100 links, a step that was improved once led nowhere, and one improved twice to the solution."""

NEAR_STARTS, NEAR_STEPS = 2, 25
"""Times that the method begins near the impulses at hand, and steps from each such beginning: nine in ten that lead to
the solution do within 20. Along a chain, whose systems are solved exactly, such a beginning leads as far as any other,
and is followed to its end: hard landings of belts of 100 and 200 links take 14 steps on average, of 400 links 40."""

SHORT_STEP, PLAIN_CENTRING = 0.5, 0.3
"""Share of a step below which the corrector's second-order term is taken for the cause, and the least share of ν that a
step without it aims at: that term is as large as the step itself where a pair is far from the central path, and then
one such pair stops all others."""

HELD_SLIPS = 0.1
"""Share of a step below which slips are held in the next one, as if their derivative were zero: w_t that is about to
turn has the derivative of the wrong side. Of 99 steps of a belt on its pulleys, begun at the impulses of the step
before, 88 were solved with steps without second-order terms, and 94 with slips held, too."""

SHORT_OF_A_FOLD = 0.1
"""Share of a step along a chain below which the central path is taken to turn back
(:mod:`~whippletree.compiler.rollout.contact_lists.contact_list_path`)."""

MOST_FOLDS = 6
"""Times that such steps begin or go on, after folds."""

IDLE_STEPS = 6
"""Steps in a row along a chain that may fail to halve the residual before the path is followed instead. With 10 and a
share of 0.01, a landing of 400 links takes 1869 steps of both kinds and leaves two problems, with these 1472 and one:
the sooner the path is taken up, the less far off it is."""

LEAST_GAP = 1e-20
"""Smallest ν of a beginning, in variables in which the largest g is 1: its root is the share of g below which impulses
cannot be told from a solution."""


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
    """Statements of the method, for a
    :class:`~whippletree.compiler.rollout.contact_lists.contact_list_solver.ListSolver`. Buffers of the solver: B, own,
    g, friction, cap, soft, impulse, y, E, part, ``done``; those of its linear system.
    """

    def __init__(self, solver: ListSolver) -> None:
        self.solver, self.space, self.rows = solver, solver.space, solver.rows
        self.servos, self.chain = solver.servos, solver.rows.chain
        self.in_plane = self.chain is not None and self.chain.count == PlaneCone.count
        self.cone: Cone = PlaneCone() if self.in_plane else SpaceCone()
        blocks, count = solver.blocks, self.cone.count
        self.kept = [f"kept {i}" for i in range(len(self.cone.keeps))]
        """What the predictor leaves for the corrector, of every block."""
        self.space.work(**{name: (blocks, *shape) for name, shape in zip(self.kept, self.cone.keeps, strict=True)})
        self.space.work(
            inside_x=(blocks, count),
            inside_w=(blocks, count),
            scale=(blocks, count),
            unknown=(blocks, count),
            mobile=(blocks, count),
            astray=(blocks, count),  # (1 + S) times the residual of w = G λ + g + s
            aimed=(blocks, count),
            step_x=(blocks, count),
            step_w=(blocks, count),
            stature=(1,),  # the largest entry of the scaled g
            many=(1,),
            lead=(2,),  # Σ x · w, and Σ (x + t dx) · (w + t dw)
            fastest=(1,),  # 1 / the largest share of a step that stays inside all cones
            share=(1,),
            heights=(2,),
            stalled=(1,),
            near_starts=(1,),  # how often to begin near the impulses at hand, from now on
            near_steps=(1,),  # that are left then
            astray_most=(1,),  # the largest residual of these, scaled
            bent=(2,),  # factor of the second-order term, and the least share of centring
            straight=(1,),  # whether the corrector will do
            halved=(2,),  # the smallest residual, and steps since it was halved
        )
        if self.chain is None:
            self.rows.reserve("answer")  # Σ B̃ᵀ dλ
            self.space.work(
                scaled=(blocks, 3),  # what B is multiplied by, on its way into a sum
                V=(blocks, 3, 3),
                tilt=(blocks, 2),  # the first row of S
                uncertain=(1,),  # how fast the last improvement of a step leads out of a cone
                certain=(1,),
            )
        self.path = None if self.chain is None else CentralPath(self, self.chain)

    def begin(self) -> list[Statement]:
        """Before the first time that the method is asked in a step."""
        values = [[1, 1], [NEAR_STARTS]]
        return [traced_block(lambda: values, [], self.space.each(("heights", "near starts")))]

    def statements(self) -> list[Statement]:
        """The whole method; ``done`` tells whether it has solved the problem."""

        def next_start(near: Array, heights: Array) -> list[Any]:
            low, high = heights
            return [near - 1, [select(less(0, near[0]), x, y) for x, y in ((low, 10 * low), (high, 3 * high))]]

        names = self.space.each(("near starts", "heights"))
        steps = Until(INTERIOR, INTERIOR_STEPS, self.space.address("stalled"), tuple(self._step()))
        way = [*self._resume(), steps] if self.path is None else self._in_turns(self.path, steps)
        return [*self._start(), *way, traced_block(next_start, names, names)]

    def _in_turns(self, path: CentralPath, steps: Statement) -> list[Statement]:
        """Steps on which ν falls, and the path itself where it turns back."""
        note, undone = self.solver.note_undone(), self.space.address("undone")

        def judge(done: Array, past: Array) -> list[Any]:
            return [[select(less(0, done[0]), 1, -past[0])]]

        reads = self.space.each(("done", "past folds"))
        end = traced_block(judge, reads, [self.space.at("path over")])
        turn = (*self._resume(), steps, note, If(undone, tuple(path.statements())), end)
        begin = self.space.put(-1, *self.space.each(("path over", "past folds")))
        return [begin, Until(FOLD, MOST_FOLDS, self.space.address("path over"), turn)]

    def _resume(self) -> list[Statement]:
        """Before steps from where x and w are."""
        at, put = self.space.at, self.space.put
        return [
            put(-1, at("stalled")),
            put(1, at("share")),
            traced_block(lambda residual: [[residual[1], 0]], [at("residual")], [at("halved")]),
            put(NEAR_STEPS if self.chain is None else INTERIOR_STEPS, at("near steps")),
        ]

    def of_block(self, *names: str) -> list[Piece | Array]:
        """Parts of buffers for the block in hand; masks of contacts in a plane are known."""
        whole = vector(*[1] * self.cone.count)
        known = ("unknown", "mobile") if self.in_plane else ()
        return [whole if name in known else self.space.at(name, BLOCK) for name in names]

    def block(self, function: Any, reads: Sequence[Piece | Array], writes: Sequence[Piece]) -> Statement:
        """A block of a function of parts of buffers, and of numbers that are known."""

        def filled(*numbers: Any) -> Any:
            given = iter(numbers)
            return function(*[next(given) if isinstance(part, Piece) else part for part in reads])

        return traced_block(filled, [part for part in reads if isinstance(part, Piece)], writes)

    def _each(self, function: Any, reads: Sequence[Any], writes: Sequence[Piece], *then: Statement) -> Statement:
        return self.solver.each_active(self.block(function, reads, writes), *then)

    def _start(self) -> list[Statement]:
        at, each, put = self.space.at, self.space.each, self.space.put

        def classify(own: Array, g: Array, *rest: Any) -> list[Any]:
            mu, radius, (size, many) = self.solver.law(rest)
            kind = Kind.of(symmetric_block(own), mu, radius)
            found = largest([size[0], *[abs(x) for x in kind.scale * g]])
            busy = select(self._is_idle(rest, radius), 0, 1)
            masks = [] if self.in_plane else [busy * kind.unknown, busy * kind.moving]
            return [kind.scale[: self.cone.count], *masks, [found], [many[0] + 1]]

        def place(own: Array, *rest: Any) -> list[Any]:
            # radii of moments are held at what presses on them now
            _, radius, (size, heights) = self.solver.law(rest)
            root = sqrt(block_mass(symmetric_block(own))[0])
            disc = less(0, radius)
            high = select(disc, radius / (root * _nonzero(size[0])), heights[0])
            # a pair that does not move, and takes no part in the mean of x · w
            low = select(self._is_idle(rest, radius), LEAST_GAP, heights[1])
            return [high * self.cone.one(), low * self.cone.one()]

        reads = [*each(("own", "g"), BLOCK), *self.solver.bounds(), *each(("stature", "many"))]
        masks = () if self.in_plane else ("unknown", "mobile")
        classes = self._each(classify, reads, [*each(("scale", *masks), BLOCK), *each(("stature", "many"))])
        reads = [at("own", BLOCK), *self.solver.bounds(), *each(("stature", "heights"))]
        return [
            put(0, *each(("stature", "many"))),
            classes,
            self._each(place, reads, each(("inside x", "inside w"), BLOCK)),
            If(self.space.address("near starts"), tuple(self._begin_near())),
            *self.push(),
        ]

    def _is_idle(self, bounds: Sequence[Any], radius: Any) -> Any:
        """Whether a block is torsional or rolling friction of a contact that does not press: it has no unknowns."""
        if not self.solver.pressed:
            return False
        _, _, _, share, *_ = bounds
        return both(less(0, share), not_less(0, radius))

    def _begin_near(self) -> list[Statement]:
        """x and w of all cones from the impulses at hand; discs begin in their middle."""
        at, each = self.space.at, self.space.each

        def part(impulse: Array, scale: Array, unknown: Array, B: Array, g: Array, mu: Any, *rest: Any) -> list[Any]:
            y, size, most = rest
            share = [unknown[i] * impulse[i] / _nonzero(scale[i] * size[0]) for i in range(self.cone.count)]
            x, w = self.cone.of_axes(vector(*share)), self.velocity(scale, B, g, y, size)
            z = x - self.cone.add_slip(w, w, less(0, mu))
            r = self.cone.to_axes(unknown * (x - self.cone.pair.of(z, 0).x))
            return [z, [largest([most[0], *[abs(a) for a in r]])]]

        def place(z: Array, x: Array, w: Array, unknown: Array, most: Array) -> list[Any]:
            gap = largest([most[0] * most[0], LEAST_GAP])
            cone = less(0, unknown[0])
            pair = self.cone.pair.of(z, gap)
            return [
                [select(cone, a, b) for a, b in zip(pair.x, x, strict=True)],
                [select(cone, a, b) for a, b in zip(pair.w, w, strict=True)],
            ]

        reads = self.of_block("impulse", "scale", "unknown", "B", "g", "friction")
        reads += [self.rows.at("y"), *each(("stature", "astray most"))]
        inside = each(("inside x", "inside w"), BLOCK)
        return [
            self.space.put(0, at("astray most")),
            self._each(part, reads, [at("aimed", BLOCK), at("astray most")]),
            self._each(place, [*self.of_block("aimed", "inside x", "inside w", "unknown"), at("astray most")], inside),
        ]

    def _step(self) -> list[Statement]:
        at, each, put = self.space.at, self.space.each, self.space.put
        return [
            put(0, at("lead")),
            *self._prepare(),
            *self._directions(first=True),
            self._centre(),
            traced_block(lambda: [[1, 0], [-1]], [], each(("bent", "straight"))),
            Until(CORRECTION, 2, self.space.address("straight"), tuple(self._correction())),
            *self._advance(),
        ]

    def _correction(self) -> list[Statement]:
        """The corrector's step; if it is short, the next time without the second-order term."""

        def judge(fastest: Array, near: Array) -> list[Any]:
            short = both(less(0, near[0]), less(INWARDS, SHORT_STEP * fastest[0]))
            return [[select(short, -1, 1)], [0, PLAIN_CENTRING]]

        each = self.space.each
        return [
            *self._correct(),
            *self._directions(),
            traced_block(judge, each(("fastest", "near starts")), each(("straight", "bent"))),
        ]

    def _prepare(self) -> list[Statement]:
        """W, V and the residual of every block, the matrix of the step, and the right-hand side of the predictor."""
        at, each = self.space.at, self.space.each

        def prepare(x: Array, w: Array, scale: Array, unknown: Array, B: Array, g: Array, *rest: Any) -> list[Any]:
            friction, y, lead, size, share, near, *soft = rest
            cone, count = self.cone, self.cone.count
            kept, square, aimed = cone.linearise(x, w)
            rubs = both(less(0, friction), less(0, unknown[0]))
            r = cone.add_slip(self.velocity(scale, B, g, y, size) - w, w, rubs)
            # where a step has led nowhere, slips are held for the next one
            held = both(less(0, near[0]), less(share[0], HELD_SLIPS))
            left = cone.slip_slope(w, both(rubs, negated(held)))
            lead = [lead[0] + cone.inner(x, w), lead[1]]
            rows = _rows(scale, B[:count])
            if self.chain is not None:
                # rows and columns of what is not unknown are those of the identity
                astray, A = left @ r, yielding(_masked(square, unknown))
                system = [unknown * (aimed - astray), A, _rows(unknown, left @ cone.of_axes(rows)), cone.thrown(rows)]
                return [*kept, astray, aimed, lead, *system]
            compliance = soft[0] * scale[1] * scale[1] if soft else 0
            astray = left @ vector(r[0], r[1] + compliance * x[1], r[2])
            own = square + left @ np.array([[0, 0, 0], [0, compliance, 0], [0, 0, 0]], dtype=object)
            V = _masked_inverse(own, unknown)
            V = V if soft else _choose(both(less(0, unknown[0]), less(0, unknown[1])), kept[1] @ kept[1], V)
            part = V @ (aimed - astray)
            return [*kept, astray, aimed, lead, V, left[0, 1:], part, scale * part, (V @ left) * scale]

        reads = self.of_block("inside x", "inside w", "scale", "unknown", "B", "g", "friction")
        reads += [self.rows.at("y"), *each(("lead", "stature", "share", "near starts"))]
        reads += each(tuple(self.servos), BLOCK)
        writes = [*each((*self.kept, "astray", "aimed"), BLOCK), at("lead")]
        if self.chain is not None:
            writes += each(("goal", "own matrix", "pull", "thrown"), BLOCK)
            return [self._each(prepare, reads, writes)]
        writes += [*each(("V", "tilt", "part", "scaled"), BLOCK), at("slope of block")]
        rest = (self.rows.add_to("right", "scaled"), self.rows.respond(), *self.rows.add("scale"))
        begin = [*self.rows.identity(), *self.rows.clear("right")]
        return [*begin, self._each(prepare, reads, writes, *rest), *self.rows.factor()]

    def _directions(self, first: bool = False) -> list[Statement]:
        """dλ and dw of every block, improved with what is left of their equations, and how far they may go.

        ``first``: of the predictor, whose matrix is new.
        """
        at, put = self.space.at, self.space.put

        def follow(part: Array, E: Array, dy: Array, scale: Array) -> list[Any]:
            dx = part - multiply_in_strands(E, dy)
            return [dx, scale * dx]

        if self.chain is not None:
            solve = self.chain.factor_and_solve if first else self.chain.solve
            return [*solve("goal", "step x"), put(0, at("fastest")), self._direct()]
        writes = self.space.each(("step x", "scaled"), BLOCK)
        return [
            *self.rows.solve(),
            *self.rows.clear("answer"),
            self._each(follow, self._answer(), writes, self.rows.add_to("answer", "scaled")),
            put(-1, at("certain")),
            Until(REFINEMENT, REFINEMENTS, self.space.address("certain"), self._refine()),
            put(0, at("fastest")),
            self._direct(),
        ]

    def _answer(self) -> list[Piece]:
        """Numbers of which a block's dλ is made, once dy is known."""
        at, each = self.space.at, self.space.each
        return [*each(("part", "E"), BLOCK), self.rows.at("dy"), at("scale", BLOCK)]

    def _refine(self) -> tuple[Statement, ...]:
        """The equations solved again, for what is left of them; ``certain`` once that changes no direction much."""
        at = self.space.at
        return (
            *self.rows.compute_motion("answer"),
            *self.rows.clear("right"),
            self._remainder(),
            *self.rows.solve(),
            *self.rows.clear("answer"),
            self.space.put(0, at("uncertain")),
            self._improve(),
            traced_block(lambda u: [[select(less(CERTAIN, u[0]), -1, 1)]], [at("uncertain")], [at("certain")]),
        )

    def _remainder(self) -> Statement:
        """Remainder of every block's equations after dλ, as the next right-hand side."""
        each = self.space.each

        def remains(dx: Array, aimed: Array, astray: Array, tilt: Array, V: Array, *rest: Any) -> list[Any]:
            scale, B, answer = rest
            pushed = scale * multiply_in_strands(B, answer)
            pushed = vector(pushed[0] + tilt[0] * pushed[1] + tilt[1] * pushed[2], pushed[1], pushed[2])
            # not with W² dx, whose small part is lost
            part = V @ (aimed - astray - pushed) - dx
            return [part, scale * part]

        names = ("step x", "aimed", "astray", "tilt", "V", "scale", "B")
        reads = [*each(names, BLOCK), self.rows.at("answer")]
        return self._each(remains, reads, each(("part", "scaled"), BLOCK), self.rows.add_to("right", "scaled"))

    def _improve(self) -> Statement:
        """dλ with what the remainder adds, and how much that could change the way that is free."""
        at, each = self.space.at, self.space.each

        def improve(dx: Array, part: Array, E: Array, dy: Array, scale: Array, *rest: Any) -> list[Any]:
            *kept, x, w, mobile, worst = rest
            change = part - multiply_in_strands(E, dy)
            dw = mobile * self.cone.follow(kept, change)
            rates = [exit_rate(inside, sign * d) for inside, d in ((x, change), (w, dw)) for sign in (1, -1)]
            return [dx + change, scale * (dx + change), [largest([worst[0], *rates])]]

        reads = [at("step x", BLOCK), *self._answer()]
        reads += [*each((*self.kept, "inside x", "inside w", "mobile"), BLOCK), at("uncertain")]
        writes = [*each(("step x", "scaled"), BLOCK), at("uncertain")]
        return self._each(improve, reads, writes, self.rows.add_to("answer", "scaled"))

    def _direct(self) -> Statement:
        """dw, and the rate at which the first block leaves its cone."""
        at, each = self.space.at, self.space.each

        def direct(dx: Array, aimed: Array, x: Array, w: Array, mobile: Array, fastest: Array, *kept: Any) -> list[Any]:
            dw = mobile * (aimed - self.cone.follow([*kept], dx))
            return [dw, [largest([fastest[0], *self.cone.rates([*kept], x, w, dx, dw)])]]

        reads = [*self.of_block("step x", "aimed", "inside x", "inside w", "mobile"), at("fastest")]
        reads += each(tuple(self.kept), BLOCK)
        return self._each(direct, reads, [at("step w", BLOCK), at("fastest")])

    def _centre(self) -> Statement:
        """Σ (x + t dx) · (w + t dw) at the end of the predictor's way."""
        at, each = self.space.at, self.space.each

        def complementarity_ahead(x: Array, w: Array, dx: Array, dw: Array, fastest: Array, lead: Array) -> list[Any]:
            share = 1 / largest([fastest[0], 1])
            return [[lead[0], lead[1] + self.cone.inner(x + share * dx, w + share * dw)]]

        reads = [*each(("inside x", "inside w", "step x", "step w"), BLOCK), *each(("fastest", "lead"))]
        return self._each(complementarity_ahead, reads, [at("lead")])

    def _correct(self) -> list[Statement]:
        """The right-hand side of the corrector."""
        each = self.space.each

        def aim(x: Array, w: Array, dx: Array, dw: Array, astray: Array, *rest: Any) -> list[Any]:
            kept, (lead, many, bent, *more) = [*rest[: len(self.kept)]], rest[len(self.kept) :]
            gap = lead[0] / many[0]
            share = largest([lead[1] / lead[0], 0])
            centring = largest([-largest([-share * share * share, -1]), bent[1]])
            aimed = self.cone.aim(kept, x, w, dx, dw, centring * gap, bent[0])
            if self.chain is not None:
                (unknown,) = more
                return [aimed, unknown * (aimed - astray)]
            V, scale = more
            part = V @ (aimed - astray)
            return [aimed, part, scale * part]

        reads = [*each(("inside x", "inside w", "step x", "step w", "astray", *self.kept), BLOCK)]
        reads += each(("lead", "many", "bent"))
        if self.chain is not None:
            return [self._each(aim, [*reads, *self.of_block("unknown")], each(("aimed", "goal"), BLOCK))]
        then = self.rows.add_to("right", "scaled")
        reads += each(("V", "scale"), BLOCK)
        return [*self.rows.clear("right"), self._each(aim, reads, each(("aimed", "part", "scaled"), BLOCK), then)]

    def _advance(self) -> list[Statement]:
        """The step itself, the impulses that it means, and what they are worth."""
        at, each = self.space.at, self.space.each

        def move(x: Array, w: Array, dx: Array, dw: Array, share: Array) -> list[Any]:
            return [x + share[0] * dx, w + share[0] * dw]

        def judge(done: Array, share: Array, near: Array, left: Array, residual: Array, halved: Array) -> list[Any]:
            over = both(less(0, near[0]), less(left[0], 2))
            smallest, idle = halved
            again = less(2 * residual[1], smallest)
            idle = select(again, 0, idle + 1)
            least = STALLED_STEP if self.chain is None else SHORT_OF_A_FOLD
            stalled = select(over, 1, select(less(least, share[0]), done[0], 1))
            if self.chain is not None:
                stalled = select(less(IDLE_STEPS, idle), 1, stalled)
            return [[stalled], left - 1, [select(again, residual[1], smallest), idle]]

        share = traced_block(
            lambda fastest: [[INWARDS / largest([fastest[0], INWARDS])]], [at("fastest")], [at("share")]
        )
        counts = each(("done", "share", "near starts", "near steps", "residual", "halved"))
        end = traced_block(judge, counts, each(("stalled", "near steps", "halved")))
        reads = [*each(("inside x", "inside w", "step x", "step w"), BLOCK), at("share")]
        moves = traced_block(move, reads, each(("inside x", "inside w"), BLOCK))
        count = traced_block(lambda made: [made + 1], [at("newtons")], [at("newtons")])
        return [share, *self.push(moves), *self.solver.measure(), end, count]

    def velocity(self, scale: Array, B: Array, g: Array, y: Array, size: Array) -> Array:
        """Numbers of a block's scaled velocity, without slip."""
        count = self.cone.count
        u = scale * (multiply_in_strands(B[:count], y) + g[:count]) / _nonzero(size[0])
        return self.cone.of_axes(u)

    def push(self, *before: Statement) -> list[Statement]:
        """The impulses that x means and their motion y, after some statements for every block."""
        at, each = self.space.at, self.space.each

        def push(x: Array, scale: Array, size: Array, *rest: Any) -> list[Any]:
            mu, radius, _ = self.solver.law(rest)
            impulse = [size[0] * a * b for a, b in zip(scale, self.cone.to_axes(x), strict=False)]
            return [brought_inside(vector(*impulse, *[0] * (3 - len(impulse))), mu, radius)]

        reads = [*each(("inside x", "scale"), BLOCK), at("stature"), *self.solver.bounds()]
        block = traced_block(push, reads, [at("impulse", BLOCK)])
        return [
            *self.rows.clear("y"),
            self.solver.each_active(*before, block, self.rows.add_to("y", "impulse")),
            *self.rows.compute_motion("y"),
        ]


def _masked_inverse(A: Array, known: Array) -> Array:
    """The inverse of the part of a matrix (3, 3) whose rows and columns are not masked by 0, and 0 elsewhere."""
    M = _masked(A, known)
    rows = [vector(*row) for row in M]
    cofactors = [cross(rows[1], rows[2]), cross(rows[2], rows[0]), cross(rows[0], rows[1])]
    det = rows[0] @ cofactors[0]
    return np.array([[cofactors[j][i] / det * known[i] * known[j] for j in range(3)] for i in range(3)], dtype=object)


def _masked(A: Array, known: Array) -> Array:
    """A (n, n), with rows and columns of the identity in place of those that are masked by 0."""
    size = range(len(A))
    M = np.array([[A[i, j] * known[i] * known[j] for j in size] for i in size], dtype=object)
    for i in size:
        M[i, i] = M[i, i] + (1 - known[i])
    return M


def _rows(factors: Array, A: Array) -> Array:
    """The rows of a matrix (3, n), each times its factor (3,)."""
    return (A.T * factors).T


def _choose(condition: Any, A: Array, B: Array) -> Array:
    """A or B, entry by entry."""
    return np.array([select(condition, a, b) for a, b in zip(A.flat, B.flat, strict=True)], dtype=object).reshape(3, 3)


def _nonzero(x: Any) -> Any:
    return select(less(0, x), x, 1)
