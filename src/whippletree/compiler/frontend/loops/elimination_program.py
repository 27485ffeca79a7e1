"""Elimination at body level as a program of loops: over joints, over closures, over fronts, with lists of numbers.

What :mod:`whippletree.constraints.long_systems.front_elimination` does for one state in Python, for ladders, trusses
and grids of any length. The code does not grow with them: elements of joints and of constraints are traced once per
type (:mod:`~whippletree.compiler.frontend.loops.body_types`), and the fronts are dense loops whose sizes and places are
looked up (:mod:`~whippletree.compiler.frontend.loops.front_loops`).

    bodies     pose and twist of every body, its element and its joint's, from parents to tips
    closures   rows of every constraint, from the bodies that it holds on to
    assembly   elements added up in the fronts where their unknowns are eliminated
    inwards    pivots, and what is left for the parent front; right-hand sides with them
    outwards   the unknowns, from the last front to the first
    results    accelerations of joints, forces of rows
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import is_zero
from whippletree.arithmetic.trace import Traced
from whippletree.compiler.frontend.flatten import rebuild
from whippletree.compiler.frontend.loops.body_types import BodyTypes, TableColumn, classify
from whippletree.compiler.frontend.loops.demand_rows import DemandRows
from whippletree.compiler.frontend.loops.element_numbers import (
    ElementNumbers,
    ScaledNumber,
    ScaledNumbers,
    keep_numbers,
    known_numbers,
)
from whippletree.compiler.frontend.loops.front_loops import FrontLoops
from whippletree.compiler.frontend.loops.hand_traced import Code, lookups
from whippletree.compiler.frontend.unrolled import STATUS
from whippletree.compiler.program import Block, Buffer, Index, Loop, Program, Statement, Switch
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.constraints import kkt
from whippletree.constraints.clusters.clustered_mechanism import FAILURES
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.long_systems.body_elements import (
    Held,
    TiedJoint,
    closure_element,
    joint_bias,
    joint_element,
    tie_element,
)
from whippletree.constraints.long_systems.body_system import Binding, Unknowns, row_weights, unknowns_of
from whippletree.constraints.long_systems.front_elimination import EliminationPlan
from whippletree.constraints.long_systems.row_weights import Weight
from whippletree.constraints.routes import PIVOT_TOLERANCE
from whippletree.constraints.ties import demand_content
from whippletree.functions import resolve, sizes
from whippletree.functions.registry import Function
from whippletree.spatial import Pose
from whippletree.tree.links import moving_link, still_link
from whippletree.tree.skeleton import Node, Skeleton

VELOCITY_CHANGES = ("project_velocity", "impact", "velocity_step")
"""Functions that return velocities after a change."""

BY_ELIMINATION = ("forward_dynamics", "constraint_forces", "closing_step", *VELOCITY_CHANGES)
"""Functions that solve the body-level system."""

ROWS_ALONE = ("constraint_residual", "constraint_velocity")
"""Functions that need its rows only."""

STATE = 18
"""Numbers of a body that others ask for: rotation (9) and position (3) in the world, twist (6); in a velocity step also
its acceleration at θ̈ = 0 (6)."""


class NodePiece(NamedTuple):
    """Constants of a body and its joint."""

    node: Node
    shape: str
    """Contribution of its type of joint: joints of one kind may differ in that, as hinges and screws do."""
    grounded: bool
    weights: tuple[Any, ...]
    """ρ of its joint's rows."""


class ClosurePiece(NamedTuple):
    """Constants of a constraint's demand."""

    word: str
    """Which of the different demands it is."""
    poses: tuple[Pose, ...]
    weights: tuple[Any, ...]


class MemoryPlace(NamedTuple):
    """A place among the numbers of a body."""

    number: int


class EliminationProgram(WorkSpace):
    """Writes the program of one function of one model."""

    def __init__(self, function: Function, tree: Skeleton, unknowns: Unknowns | None = None) -> None:
        """``unknowns``: of the model's system, in the order in which they are eliminated."""
        super().__init__()
        self.function, self.tree = function, tree
        self.system: ConstraintSet = constraint_set(tree.model)
        self.un = unknowns_of(self.system) if unknowns is None else unknowns
        known = sizes(tree.model)
        self.inputs = {name: Buffer(name, "input", resolve(s, known)) for name, s in function.inputs.items()}
        self.outputs = {
            name: Buffer(f"{name}_out" if name in function.inputs else name, "output", resolve(s, known))
            for name, s in function.outputs.items()
        }
        self.add(*self.inputs.values(), *self.outputs.values())
        self.solves = function.name in BY_ELIMINATION
        self.forward = function.name in ("forward_dynamics", "constraint_forces")
        self.steps = function.name == "velocity_step"
        self.moves = "v" in function.inputs
        self.numbers = STATE + 6 * self.steps
        self.add(Buffer("state", "work", (len(tree.nodes) + 1, self.numbers)))
        self._classify()

    # --- types --------------------------------------------------------------------------------------------------------

    def _classify(self) -> None:
        made: dict[tuple[Any, ...], NodePiece] = {}
        pieces = []
        nodes = zip(self.tree.nodes, self.un.shapes, self.tree.parents, self.un.joint_weights, strict=True)
        for node, shape, parent, weights in nodes:
            key = (id(node), parent < 0, *weights)
            if key not in made:
                made[key] = NodePiece(node, str(shape), parent < 0, tuple(w.up / w.down for w in weights))
            pieces.append(made[key])
        self.node_types = classify([pieces], len(pieces))
        self.shapes = [
            self.un.shapes[int(np.argmax(self.node_types.of == number))] for number in range(len(self.node_types.types))
        ]
        self.table("node table", np.append(self.node_types.table, 0.0))
        words: dict[tuple[Any, ...], str] = {}
        self.examples: dict[str, Binding] = {}
        holds = []
        for binding in self.un.demands:
            content = (
                demand_content(binding.prepared),
                tuple(i for i, _ in binding.rigid),
                tuple(k < 0 for k, _ in binding.places),
                tuple((int(self.node_types.of[k]), i) for k, i in binding.joints),
            )
            word = words.setdefault(content, f"demand {len(words)}")
            self.examples.setdefault(word, binding)
            rho = tuple(w.up / w.down for w in row_weights(self.un, binding))
            holds.append(ClosurePiece(word, tuple(pose for _, pose in binding.places), rho))
        self.closure_types = classify([holds], len(holds))
        self.table("closure table", np.append(self.closure_types.table, 0.0))

    def _piece(self, code: Code, types: BodyTypes, number: int, table: str) -> Any:
        """The constants of one type, those that differ loaded from its table."""
        kind = types.types[number]
        leaves = [
            code.load(table, Index("constants", x.place)) if isinstance(x, TableColumn) else x for x in kind.leaves
        ]
        return rebuild(kind.structure, leaves)[0]

    # --- bodies -------------------------------------------------------------------------------------------------------

    def bodies(self) -> list[Statement]:
        """The loop over bodies; afterwards it is known which numbers of a body are the same for all of them."""
        rest = np.zeros(self.numbers - 9, dtype=int)
        template = np.concatenate([np.eye(3, dtype=int).ravel(), rest]).astype(object)
        while True:
            self.template = template
            self.node_values: list[ElementNumbers] = []
            cases = []
            different = [isinstance(x, MemoryPlace) for x in template]
            for number in range(len(self.node_types.types)):
                code, state = self._body(number)
                cases.append((code.block(),))
                different = [d or x != y for d, x, y in zip(different, _constants(state), template, strict=True)]
            if all(isinstance(x, MemoryPlace) == d for x, d in zip(template, different, strict=True)):
                break
            # a number that differs somewhere is loaded everywhere: look again at what follows from that
            template = vector(
                *[MemoryPlace(i) if d else x for i, (x, d) in enumerate(zip(template, different, strict=True))]
            )
        return [self._world(), self._loop_over_bodies(cases)]

    def _world(self) -> Block:
        code = Code()
        identity = [*np.eye(3).ravel(), *[0.0] * (self.numbers - 9)]
        for i, x in enumerate(identity):
            code.store(x, "state", Index(None, 0), Index(None, i))
        return code.block()

    def _held_body(self, code: Code, register: str) -> Held:
        """A body's pose and twist."""
        numbers = self._state_numbers(code, register, 0, STATE)
        return Held(Pose(numbers[:9].reshape(3, 3), numbers[9:12]), numbers[12:])

    def _state_numbers(self, code: Code, register: str, start: int, stop: int) -> Array:
        """Some numbers of a body, those that are the same for all bodies folded."""
        return vector(
            *[
                code.load("state", Index(register), Index(None, i)) if isinstance(x, MemoryPlace) else x
                for i, x in enumerate(self.template[start:stop], start)
            ]
        )

    def _body(self, number: int) -> tuple[Code, list[Any]]:
        """The code of one type of body, and its state."""
        code = Code()
        piece: NodePiece = self._piece(code, self.node_types, number, "node table")
        joint, shape = piece.node.joint, self.shapes[number]
        above = self._held_body(code, "above")
        drift = self._state_numbers(code, "above", STATE, self.numbers)
        if piece.grounded:
            above, drift = Held(Pose.identity(), zeros(6)), 0 * drift
        q = code.vector("q", "q at", joint.nq)
        if self.moves:
            link = moving_link(above.V, piece.node, q, code.vector("v", "v at", joint.nv))
        else:
            link = still_link(piece.node, q)._replace(V=zeros(6))
        X = above.X @ link.X  # type: ignore[operator]
        if self.steps:
            drift = link.X.motion(drift) + link.a
        state = [*X.R.ravel(), *X.p, *link.V, *drift]
        for i, x in enumerate(state):
            if isinstance(self.template[i], MemoryPlace):
                code.store(x, "state", Index("body"), Index(None, i))
        if self.solves:
            element = joint_element(link, shape, piece.grounded, tuple(map(Weight, piece.weights)))
            gamma, shift = zeros(len(shape.blocked)), zeros(shape.n)
            load = zeros(element.B.shape[1])
            if self.forward:
                gamma, shift = joint_bias(link, shape)
                load = load + element.h @ (code.vector("tau", "v at", shape.n) + link.J * shift)
            if self.forward or self.steps:
                gravity = X.R.T @ np.asarray(self.tree.model.gravity).astype(object)
                fall = np.concatenate([zeros(3), gravity])
                load[:6] = load[:6] + link.M @ (fall - drift if self.steps else fall) - (link.b - link.r)
                load = load - element.h @ (link.H.T @ (zeros(len(link.H)) + link.r))
            if self.steps:  # changes of velocities and impulses in place of accelerations and forces
                load = (load + element.h @ code.vector("tau", "v at", shape.n)) * code.load("h")
            self.node_values.append(keep_numbers(code, element, load, gamma, shift))
        return code, state

    def _loop_over_bodies(self, cases: Sequence[tuple[Statement, ...]]) -> Statement:
        count = len(self.tree.nodes)
        self.index("body type", self.node_types.of)
        self.index("body constants", self.node_types.rows)
        self.index("q start", [part.start for part in self.tree.q_slices])
        self.index("v start", [part.start for part in self.tree.v_slices])
        self.index("above body", [parent + 1 for parent in self.tree.parents])
        self.index("body state", np.arange(1, count + 1))
        looks = [
            ("type", "body type"),
            ("constants", "body constants"),
            ("q at", "q start"),
            ("v at", "v start"),
            ("above", "above body"),
            ("body", "body state"),
        ]
        if self.solves:
            widths = [self.node_values[t].size for t in self.node_types.of]
            self.node_starts = np.cumsum([0, *widths])
            self.index("body values", self.node_starts[:-1])
            looks.append(("values at", "body values"))
        return Loop("node", count, (*lookups("node", looks), Switch("type", tuple(cases))))

    # --- closures -----------------------------------------------------------------------------------------------------

    def closures(self) -> Statement:
        """The loop over constraints: their rows, or what they are asked for."""
        un, count = self.un, len(self.un.demands)
        self.closure_values: list[ElementNumbers] = []
        cases = [(self._closure(number).block(),) for number in range(len(self.closure_types.types))]
        self.index("closure type", self.closure_types.of)
        self.index("closure constants", self.closure_types.rows)
        looks = [("type", "closure type"), ("constants", "closure constants")]
        for i in range(max(len(b.places) for b in un.demands)):
            self.index(f"held {i}", [b.places[i][0] + 1 if i < len(b.places) else 0 for b in un.demands])
            looks.append((f"body {i}", f"held {i}"))
        tree = self.tree
        for i in range(max(len(b.joints) for b in un.demands)):
            tied = [b.joints[i][0] if i < len(b.joints) else 0 for b in un.demands]
            self.index(f"tied q {i}", [tree.q_slices[k].start for k in tied])
            self.index(f"tied v {i}", [tree.v_slices[k].start for k in tied])
            looks += [(f"q of {i}", f"tied q {i}"), (f"v of {i}", f"tied v {i}")]
            if self.solves:
                self.index(f"tied values {i}", [self.node_starts[k] for k in tied])
                looks.append((f"values of {i}", f"tied values {i}"))
        if self.solves:
            widths = [self.closure_values[t].size for t in self.closure_types.of]
            self.closure_starts = self.node_starts[-1] + np.cumsum([0, *widths])
            self.index("closure values", self.closure_starts[:-1])
            looks.append(("values at", "closure values"))
        else:
            position = {row: i for i, row in enumerate(self.system.position_rows)}
            first = [b.rows[0] if self.moves else position.get(b.rows[0], 0) for b in un.demands]
            self.index("closure rows", first)
            looks.append(("row", "closure rows"))
        return Loop("closure", count, (*lookups("closure", looks), Switch("type", tuple(cases))))

    def _closure(self, number: int) -> Code:
        code = Code()
        piece: ClosurePiece = self._piece(code, self.closure_types, number, "closure table")
        binding = self.examples[piece.word]
        t = code.load("t") if "t" in self.inputs else 0
        rows = DemandRows(binding, piece.poses, self._held_by(code, binding), self._tied_by(code, binding), t)
        if not self.solves:
            level = binding.prepared.demand.level
            if self.moves or level == "position":
                name = next(iter(self.outputs.values())).name
                for i, x in enumerate(rows.velocity() if self.moves else rows.residual()):
                    code.store(x, name, Index("row", i))
            return code
        chosen = [i for i, _ in binding.rigid]
        weights = tuple(Weight(w) for w in piece.weights)
        G = rows.jacobian()
        element = closure_element(G[chosen], weights, zeros(0, G.shape[1]), zeros(0)).element
        gamma = self._demanded_bias(code, rows)[chosen]
        self.closure_values.append(keep_numbers(code, element, zeros(G.shape[1]), gamma, zeros(0)))
        return code

    def _held_by(self, code: Code, binding: Binding) -> list[Held]:
        """The bodies that a demand holds on to."""
        return [
            Held(Pose.identity(), zeros(6)) if k < 0 else self._held_body(code, f"body {i}")
            for i, (k, _) in enumerate(binding.places)
        ]

    def _tied_by(self, code: Code, binding: Binding) -> list[TiedJoint]:
        """The joints that a demand ties."""
        found = []
        for i, (k, freedom) in enumerate(binding.joints):
            x = code.load("q", Index(f"q of {i}")) if binding.prepared.demand.on == "joints" else 0
            rate = code.load("v", Index(f"v of {i}", freedom)) if self.moves else 0
            h, shift = zeros(0), 0
            if self.solves:
                values = self.node_values[self.node_types.of[k]]
                z = 1 + max(a for a, _ in values.h)
                h = vector(*[_number(code, values.h[a, freedom], f"values of {i}") for a in range(z)])
                shift = _number(code, values.shift[freedom], f"values of {i}")
            found.append(TiedJoint(x, rate, h, shift))
        return found

    def _demanded_bias(self, code: Code, rows: DemandRows) -> Array:
        """γ of a demand's rows: what the function is to take away."""
        name = self.function.name
        if self.forward:
            return rows.bias()
        if name == "closing_step":
            demand = rows.binding.prepared.demand
            return rows.residual() if demand.level == "position" else zeros(len(demand.rows))
        factor = 1 + code.load("restitution") if name == "impact" else 1
        return np.asarray(rows.velocity() * factor)

    # --- fronts -------------------------------------------------------------------------------------------------------

    def assembly(self) -> list[Statement]:
        """Elements added up in fronts, right-hand sides in y; the plan of elimination is made here."""
        un = self.un
        parts = [
            (self.node_values[t], own, rows)
            for t, own, rows in zip(self.node_types.of, un.of_node, un.rows_of_node, strict=True)
        ]
        parts += [
            (self.closure_values[t], b.unknowns, tuple(x for _, x in b.rigid))
            for t, b in zip(self.closure_types.of, un.demands, strict=True)
        ]
        seeds = [own[i] for values, own, _ in parts for (i, _), x in values.h.items() if x != ScaledNumber(0.0)]
        seeds += [x for _, _, rows in parts[len(self.tree.nodes) :] for x in rows]
        parts += [(known_numbers(tie_element(un.tie_weights(tie))), tie.unknowns, tie.rows) for tie in un.ties]
        entries: list[tuple[int, int, int, ScaledNumber]] = []
        loads: list[tuple[int, int, int, ScaledNumber]] = []
        for e, (values, own, rows) in enumerate(parts):
            for i, j, share in values.K:
                entries += [(own[i], own[j], e, share)] * (2 if i != j and own[i] == own[j] else 1)
            entries += [(rows[i], own[j], e, share) for i, j, share in values.B]
            loads += [(own[i], own[i], e, share) for i, share in values.load]
            loads += [(rows[i], rows[i], e, share) for i, share in values.bias]
        table, right = ScaledNumbers.of(entries), ScaledNumbers.of(loads)
        self.plan = EliminationPlan(un, table.rows, table.columns, np.array([*right.rows, *seeds], dtype=int))
        used = self.plan.used
        table = table.chosen(used[table.rows] & used[table.columns])
        right = right.chosen(used[right.rows])
        self.work(values=(max(int(self.closure_starts[-1]), 1),), y=(un.count,), x=(un.count,), size=(un.count,))
        self.work(pivot=(un.count,), inverse=(un.count,), worst=(2,))
        starts = np.array([*self.node_starts[:-1], *self.closure_starts[:-1], *[0] * len(un.ties)], dtype=int)
        self.fronts = FrontLoops(self, self.plan, table, right, starts)
        if self.fronts.kinds.complete:
            return []  # fronts take the numbers of elements themselves
        diagonal = table.chosen((table.rows == table.columns) & ~self.plan.rows[table.rows])
        begin = self.put(0.0, self.at("x", "unknown"))
        sizes = self._begin_with("size", diagonal, self.plan.carried_inertia)
        return [
            Loop("unknown", un.count, (begin, self._begin_with("y", right), sizes)),
            *self.fronts.begin(),
            *self.fronts.scatter(),
            *self._add_list("y", right, starts),
            *self._add_list("size", diagonal, starts),
            *self.fronts.mobilities(),
        ]

    def _begin_with(self, target: str, shares: ScaledNumbers, beside: Array | float = 0.0) -> Block:
        """target[unknown] := what is known of it beforehand, and ``beside``."""
        known, total = shares.chosen(shares.known), np.full(self.un.count, beside, dtype=float)
        np.add.at(total, known.rows, known.factors)
        if not np.any(total):
            return self.put(0.0, self.at(target, "unknown"))
        self.table(f"known {target}", total)
        code = Code()
        code.store(code.load(f"known {target}", Index("unknown")), target, Index("unknown"))
        return code.block()

    def _add_list(self, target: str, shares: ScaledNumbers, starts: Array) -> list[Statement]:
        """target[unknown] += the shares of numbers in memory, or −= where a share is −1 of one."""
        found: list[Statement] = []
        for sign, word in ((1, "to"), (-1, "from")):
            own = shares.chosen((shares.factors == sign) & ~shares.known)
            if len(own.rows):
                self.index(f"{word} {target}", own.rows)
                self.index(f"values {word} {target}", starts[own.elements] + own.places)
                code = Code()
                x = code.load(target, Index("unknown")) + sign * code.load("values", Index("value"))
                code.store(x, target, Index("unknown"))
                looks = lookups("number", [("unknown", f"{word} {target}"), ("value", f"values {word} {target}")])
                found.append(Loop("number", len(own.rows), (*looks, code.block())))
        return found

    # --- results ------------------------------------------------------------------------------------------------------

    def verdict(self) -> list[Statement]:
        """The status: 0, or which kind of pivot has failed: rows, where both have."""
        self.work(verdict=(1,))
        self.add(Buffer(STATUS, "output", (), integer=True))
        code = Code()
        verdict: Any = 0.0
        for number, kind in enumerate((kkt.MASS, kkt.ROWS)):
            failed = float(len(self.tree.nodes) + 1 + FAILURES[kind])
            verdict = scalars.select(scalars.less(0, code.load("worst", Index(None, number))), verdict, failed)
        code.store(verdict, "verdict", Index(None, 0))
        code.store(verdict, STATUS)
        return [*([] if self.fronts.kinds.complete else [self._judged()]), code.block()]

    def _no_margins(self) -> Block:
        """Before the first pivot, margins that no pivot can have: of motions, of rows."""
        return self.put(1.0, self.at("worst"))

    def _judged(self) -> Statement:
        """The smallest margins of pivots, where fronts have not found them themselves."""
        judged = self.plan.judged
        self.index("judged", judged)
        self.index("judged kind", self.plan.rows[judged].astype(int))
        self.table("judged sign", np.where(self.plan.rows[judged], -1.0, 1.0))
        code = Code()
        sign = code.load("judged sign", Index("judge"))
        margin = code.load("pivot", Index("unknown")) * sign - PIVOT_TOLERANCE * code.load("size", Index("unknown"))
        # one that is NaN is not smaller: the answer is NaN then, and nothing is singular
        before = code.load("worst", Index("kind"))
        code.store(scalars.select(scalars.less(margin, before), margin, before), "worst", Index("kind"))
        looks = lookups("judge", [("unknown", "judged"), ("kind", "judged kind")])
        return Loop("judge", len(judged), (*looks, code.block()))

    def results(self) -> list[Statement]:
        """Accelerations of joints or changed velocities, and forces of rows, NaN where there is no answer."""
        found: list[Statement] = []
        for name, shape in self.function.outputs.items():
            buffer = self.outputs[name].name
            found += self._joint_results(buffer) if shape == ("nv",) else self._row_results(buffer)
        return found

    def _valid(self, code: Code, x: Any) -> Any:
        return scalars.select(scalars.less(0, code.load("verdict", Index(None, 0))), math.nan, x)

    def _joint_results(self, buffer: str) -> list[Statement]:
        cases = []
        for number, kind in enumerate(self.node_types.types):
            code, values = Code(), self.node_values[number]
            piece: NodePiece = rebuild(kind.structure, kind.leaves)[0]
            shape = self.shapes[number]
            bases = [("own at", 6)] + ([] if piece.grounded else [("above at", 6)])
            bases += [("freedom at", shape.n)] if shape.explicit else []
            z = [(register, i) for register, count in bases for i in range(count)]
            for j in range(shape.n):
                total: Any = 0
                for i, (register, offset) in enumerate(z):
                    h = _number(code, values.h[i, j], "values at")
                    if not is_zero(h):
                        total = total + h * code.load("x", Index(register, offset))
                total = total - _number(code, values.shift[j], "values at")
                if self.function.name in VELOCITY_CHANGES:
                    total = total + code.load("v", Index("v at", j))
                code.store(self._valid(code, total), buffer, Index("v at", j))
            cases.append((code.block(),))
        self.index("own start", 6 * np.arange(len(self.tree.nodes)))
        self.index("above start", [6 * max(parent, 0) for parent in self.tree.parents])
        self.index(
            "freedom start",
            [own[-s.n] if s.explicit else 0 for own, s in zip(self.un.of_node, self.un.shapes, strict=True)],
        )
        looks = [
            ("type", "body type"),
            ("v at", "v start"),
            ("values at", "body values"),
            ("own at", "own start"),
            ("above at", "above start"),
            ("freedom at", "freedom start"),
        ]
        body = (*lookups("node", looks), Switch("type", tuple(cases)))
        return [Loop("node", len(self.tree.nodes), body)]

    def _row_results(self, buffer: str) -> list[Statement]:
        nothing = Code()
        nothing.store(self._valid(nothing, 0), buffer, Index("row"))
        pairs = [(b.rows[i], x) for b in self.un.demands for i, x in b.rigid]
        self.index("force row", [row for row, _ in pairs])
        self.index("force unknown", [x for _, x in pairs])
        code = Code()
        code.store(self._valid(code, -code.load("x", Index("unknown"))), buffer, Index("row"))
        looks = lookups("force", [("row", "force row"), ("unknown", "force unknown")])
        every = Loop("row", len(self.system.row_names), (nothing.block(),))
        return [every, Loop("force", len(pairs), (*looks, code.block()))]

    def write(self) -> Program:
        """The whole program."""
        body: list[Statement] = [*self.bodies(), self.closures()]
        if self.solves:
            body += [
                *self.assembly(),
                self._no_margins(),
                self.fronts.inwards(),
                self.fronts.outwards(),
                *self.verdict(),
                *self.results(),
            ]
        return self.program(self.function.name, body)


def _number(code: Code, share: ScaledNumber, register: str) -> Any:
    """A number of an element whose numbers begin at a register."""
    return share.times(lambda place: code.load("values", Index(register, place)))


def _constants(numbers: Sequence[Any]) -> list[Any]:
    """The numbers, with None for those that a state decides."""
    return [None if isinstance(x, Traced) else x for x in numbers]


MOST_COST_OF_KINDS = 250
"""Cost of the order of elimination for each body from which fronts are too large for kinds: of a grid of 171 rods it is
187, and all its fronts have one; of a grid of 300 it is 300, and fronts have up to 33 unknowns."""


def elimination_program(function: Function, tree: Skeleton) -> Program:
    """The kernel program of a function that solves the body-level system, or needs its rows.

    Where not all fronts of the cheapest order have a kind, but all of one that repeats itself have, that is taken.
    """
    writer = EliminationProgram(function, tree)
    program = writer.write()
    if not writer.solves or writer.fronts.kinds.complete:
        return program
    repeating = writer.un.in_repeating_order()
    if repeating is None or repeating.cost > MOST_COST_OF_KINDS * len(tree.nodes):
        return program
    other = EliminationProgram(function, tree, repeating)
    found = other.write()
    return found if other.fronts.kinds.complete else program


def can_eliminate(function: Function, system: ConstraintSet) -> bool:
    """Whether a function can run as loops over bodies, closures and fronts."""
    return function.name in (*BY_ELIMINATION, *ROWS_ALONE) and not system.switches and not any(system.compliance)
