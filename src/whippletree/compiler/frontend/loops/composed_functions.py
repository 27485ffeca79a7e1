"""Functions of long systems that are made of others, which are loops: products and responses to right-hand sides.

What the loops of a function answer to many right-hand sides is the product of a matrix with them
(:func:`~whippletree.compiler.frontend.loops.looped_derivatives.directions_program`): the factors of a state are
computed once, and nothing is written out for pairs of bodies.

    J M† Jᵀ     the rows of J as joint forces; accelerations along the rows
    M†, A†      a unit force on each joint: velocities and impulses after a step of 1 s from rest
    Λ†          the rows of A† as velocities: the impulses that stop them, since A A†ᵀ = 1
    A M⁻¹ Aᵀ    the rows of A as joint forces of the tree
    Bᵀ M B      a unit force on each minimal coordinate, and the inverse of how these answer
    least f     rows of A and A†: how much each row moves with the independent ones
    Y           unit velocities: the twists of all bodies, times what each of their ten parameters makes of a motion
    reactions   accelerations and forces of rows, and what joints carry then
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array
from whippletree.compiler.frontend.code_forms import (
    FEELS_GRAVITY,
    NO_GRAVITY,
    Request,
    catalogue_program,
    looped_program,
)
from whippletree.compiler.frontend.loops import condition_loops
from whippletree.compiler.frontend.loops.looped_derivatives import ALONG, adjoint_program, directions_program
from whippletree.compiler.frontend.loops.looped_functions import LoopedMechanism, loop_program
from whippletree.compiler.frontend.loops.matrix_loops import MatrixLoops, failing
from whippletree.compiler.frontend.unrolled import STATUS, input_shapes, output_shapes
from whippletree.compiler.program import Address, Buffer, If, Index, Lookup, Loop, Program, Statement
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import inline_program
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.dynamics import UNMOVED
from whippletree.constraints.prescribed_joints import require_movable_task, task_rows
from whippletree.constraints.routes import PIVOT_TOLERANCE
from whippletree.functions import Function, Shape, find
from whippletree.functions.differentiate import derived_function
from whippletree.spatial import Pose
from whippletree.tree import inertia, inverse
from whippletree.tree import momentum as sums
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.sweeps import Field

ONE, ZERO = "one", "zero"
"""Tables of one number."""


def composed_program(request: Request) -> Program:
    """The program of a function of :data:`~whippletree.compiler.frontend.code_forms.COMPOSED`."""
    composition = Composition(request)
    WRITERS[request.function.name](composition)
    return composition.program_of_all()


class Composition(MatrixLoops):
    """Collects the statements of a function that calls others."""

    def __init__(self, request: Request) -> None:
        super().__init__()
        self.request, self.model, self.nv = request, request.model, request.model.nv
        self.body: list[Statement] = []
        self.failures: list[str] = []
        """Buffers of one number: the status of each function that was called, or of an inverse."""
        inputs = input_shapes(self.model, request.function, request.parameters)
        # a function and an open parameter may have one name: gravity
        self.own = {name: name + "_out" * (name in inputs) for name in output_shapes(self.model, request.function)}
        """Names of the outputs, and of their buffers."""
        shapes = output_shapes(self.model, request.function)
        self.results = {self.own[name]: shape for name, shape in shapes.items()}
        self.add(*[Buffer(name, "input", shape) for name, shape in inputs.items()])
        self.add(*[Buffer(name, "output", shape) for name, shape in self.results.items()])
        self.table(ONE, [1.0])
        self.table(ZERO, [0.0])
        self.single = {name: f"given {name}" for name, shape in inputs.items() if not shape}
        """Numbers by themselves, and where they are as buffers of one number."""
        for name, to in self.single.items():
            self.add(Buffer(to, "work", (1,)))
            whole = Piece((), (Address(name, ()),))
            self.body.append(traced_block(lambda x: [x], [whole], [Piece((), (Address(to, (Index(None, 0),)),))]))

    def matrix(self, name: str, rows: int, columns: int) -> str:
        """A new matrix in work space."""
        self.add(Buffer(name, "work", (rows, columns)))
        return name

    # --- functions that are called ------------------------------------------------------------------------------------

    def call(
        self,
        name: str,
        into: Mapping[str, str],
        names: tuple[Any, ...] = (),
        given: Mapping[str, str] | None = None,
    ) -> None:
        """A function of the same inputs, unless others are ``given``; ``into``: buffers for its outputs."""
        self.run(catalogue_program(replace(self.request, function=find(name, self.model), names=names)), into, given)

    def respond(
        self,
        name: str,
        x: str,
        into: Mapping[str, str],
        along: str | None = None,
        given: Mapping[str, str] | None = None,
    ) -> None:
        """Slopes of a function's outputs by an input, along the rows of a matrix, or along all unit vectors.

        All inputs that the composed function does not have are 0, unless they are ``given``; ``into``: a matrix for
        each output that is wanted, with a row for each direction.
        """
        own = looped_program(self.request, name)
        known = {b.name for b in own.of_role("input")} & {*self.buffers, *(given or {})}
        still = [b.name for b in own.of_role("input") if b.name not in known or b.name == x]
        count = None if along is None else self.extent(along)[0]
        self.run(directions_program(self.model, own, x, count, still), into, {**(given or {}), ALONG: along or ALONG})

    def pull_back(self, own: Program, x: str, into: str, bars: Mapping[str, str], still: Sequence[str] = ()) -> None:
        """(∂y/∂x)ᵀ of the adjoints of a program's outputs; ``bars``: where these are."""
        given = {f"{name}_bar": place for name, place in bars.items()}
        self.run(adjoint_program(self.model, own, x, still), {f"{x}_bar": into}, given)

    def entrywise(self, count: int, reads: Sequence[str], function: Callable[..., Any], to: str) -> None:
        """to[i] := a function of the numbers i of some vectors."""
        at = (Index("entry of vectors"),)
        pieces = [Piece((), (Address(name, at),)) for name in reads]
        block = traced_block(lambda *x: [function(*x)], pieces, [Piece((), (Address(to, at),))])
        self.body.append(Loop("entry of vectors", count, (block,)))

    def run(self, program: Program, into: Mapping[str, str], given: Mapping[str, str] | None = None) -> None:
        """The statements of a program, on buffers of this one."""
        prefix = f"part {len(self.buffers)}"
        place = (
            {b.name: self.single.get(b.name, b.name) for b in program.of_role("input")} | dict(given or {}) | {**into}
        )
        if any(b.name == STATUS for b in program.buffers):
            place[STATUS] = self.status_place()
        statements, buffers = inline_program(program, prefix, place)
        # outputs that nobody wants are work space of their own
        self.add(*[replace(b, role="work", shape=b.shape or (1,)) if b.role == "output" else b for b in buffers])
        self.body += statements

    # --- failures -----------------------------------------------------------------------------------------------------

    def status_place(self) -> str:
        """A new buffer for a status."""
        self.failures.append(f"failure {len(self.failures)}")
        self.add(Buffer(self.failures[-1], "work", (1,)))
        return self.failures[-1]

    def inverted(self, name: str, number: int | None = None) -> None:
        """A matrix := its inverse; ``number``: what the status says where a pivot is lost, if it says anything."""
        if number is None:
            self.body += self.invert(name)
            return
        noted = self.status_place()
        self.body.append(self.put(0, self.at(noted)))
        self.body += self.invert(name, failing(number, PIVOT_TOLERANCE), noted)

    def program_of_all(self) -> Program:
        """The program, with NaN in all outputs where a function that was called has no answer."""
        for name in self.failures:
            self.body.append(If(self.address(name), tuple(self.fill(to, math.nan) for to in self.results)))
        if self.failures:
            self.add(Buffer(STATUS, "output", (), integer=True))
            reads = [self.at(name) for name in self.failures]
            self.body.append(traced_block(_first_failure, reads, [Piece((), (Address(STATUS, ()),))]))
        return self.program(self.request.function.name, self.body)


def _first_failure(*numbers: Array) -> list[Any]:
    found: Any = 0
    for (number,) in reversed(numbers):
        found = scalars.select(scalars.less(0, number), number, found)
    return [found]


# --- inertia of tasks -------------------------------------------------------------------------------------------------


def _operational_inverse(c: Composition, to: str) -> None:
    """J M† Jᵀ of the rows of a task; without constraints J M⁻¹ Jᵀ."""
    chosen = task_rows(Mechanism.of(c.model), c.request.names[0])
    count = sum(len(own) for _, own in chosen)
    rows, answers = c.matrix("task rows", count, c.nv), c.matrix("task answers", count, c.nv)
    start = 0
    for number, (frame, own) in enumerate(chosen):
        jacobian = c.matrix(f"jacobian {number}", 6, c.nv)
        c.call("jacobian", {"jacobian": jacobian}, (frame,))
        c.body.append(c.rows_of(jacobian, own, rows, start))
        start += len(own)
    if c.model.constraints:
        c.respond("forward_dynamics", "tau", {"a": answers}, rows)
    else:
        c.respond("mass_matrix_solve", "b", {"x": answers}, rows)
    across = c.matrix("task columns", c.nv, count)
    c.body += [c.columns_as_rows(rows, range(c.nv), across), c.product(answers, across, to)]


def _operational_inertia_inverse(c: Composition) -> None:
    count, _ = c.results["inverse"]
    _operational_inverse(c, c.matrix("task inverse", count, count))
    c.body.append(c.copy("task inverse", "inverse"))


def _operational_inertia(c: Composition) -> None:
    plain = Mechanism.of(c.model)
    require_movable_task(plain, task_rows(plain, c.request.names[0]))
    count, _ = c.results["inertia"]
    _operational_inverse(c, c.matrix("task inverse", count, count))
    c.inverted("task inverse", c.request.parts + UNMOVED + 1)
    c.body.append(c.copy("task inverse", "inertia"))


# --- blocks of the inverse of [M Aᵀ; A 0] -----------------------------------------------------------------------------


def _answers_to_forces(c: Composition, accelerations: str | None = None) -> str:
    """−A† (rows, nv) as a matrix (nv, rows), and M† (nv, nv) in a matrix of that name."""
    count = len(constraint_set(c.model).row_names)
    forces = c.matrix("forces of rows", c.nv, count)
    into = {"impulses": forces} | ({} if accelerations is None else {"v_out": accelerations})
    c.respond("velocity_step", "tau", into, given={"h": ONE})
    return forces


def _inertia_of_rows(c: Composition, rows: str, to: str, factor: int) -> None:
    """``factor`` · Λ† (k, k) from the rows of A† (k, nv): the impulses that stop the velocities A†ᵀ."""
    system = constraint_set(c.model)
    kept = system.structure.independent
    impulses = c.matrix("impulses of rows", len(kept), len(system.row_names))
    c.respond("velocity_step", "v", {"impulses": impulses}, rows, {"h": ZERO})
    c.body.append(c.columns_as_rows(impulses, kept, to, factor))  # which is symmetric


def _rows_of_dagger(c: Composition, forces: str) -> str:
    """A† (k, nv) of the independent rows."""
    kept = constraint_set(c.model).structure.independent
    rows = c.matrix("rows of dagger", len(kept), c.nv)
    c.body.append(c.columns_as_rows(forces, kept, rows, -1))
    return rows


def _dagger(c: Composition) -> None:
    rows = _rows_of_dagger(c, _answers_to_forces(c, "M_dagger"))
    c.body.append(c.copy(rows, "A_dagger"))
    _inertia_of_rows(c, rows, "Lambda_dagger", 1)


def _apparent_inertia(c: Composition) -> None:
    _inertia_of_rows(c, _rows_of_dagger(c, _answers_to_forces(c)), "inertia", -1)


def _weighted_pseudo_inverse(c: Composition) -> None:
    c.body.append(c.copy(_answers_to_forces(c), "pseudo_inverse", lambda x: -x))


def _constraint_forces_least_norm(c: Composition) -> None:
    """W⁻¹ K (Kᵀ W⁻¹ K)⁻¹ f₁ with K = A A₁†ᵀ, f₁ and A₁† of the independent rows; K is 1 where none is redundant."""
    system = constraint_set(c.model)
    kept, count = system.structure.independent, len(system.row_names)
    k = len(kept)
    c.add(Buffer("forces", "work", (count,)))
    c.call("constraint_forces", {"f": "forces"})
    rows = _rows_of_dagger(c, _answers_to_forces(c))
    c.call("constraint_jacobian", {"jacobian": c.matrix("all rows", count, c.nv)})
    across, K, upright = c.matrix("own columns", c.nv, k), c.matrix("K", count, k), c.matrix("K upright", k, count)
    scaled, gram = c.matrix("K scaled", count, k), c.matrix("gram", k, k)
    c.body += [
        c.columns_as_rows(rows, range(c.nv), across),
        c.product("all rows", across, K),
        c.columns_as_rows(K, range(k), upright),
        c.scale_rows(K, "weights", scaled),
        c.product(upright, scaled, gram),
    ]
    c.inverted(gram)
    own, shares, all_forces = c.matrix("own forces", k, 1), c.matrix("shares", k, 1), c.matrix("all forces", count, 1)
    c.body += [
        c.pick_numbers("forces", kept, own),
        c.product(gram, own, shares),
        c.product(scaled, shares, all_forces),
    ]
    whole, entry = (
        Piece((), (Address("f", (Index("force row"),)),)),
        Address(all_forces, (Index("force row"), Index(None, 0))),
    )
    c.body.append(Loop("force row", count, (traced_block(lambda x: [x], [Piece((), (entry,))], [whole]),)))


def _schur_projector(c: Composition) -> None:
    """M M† is the transpose of M† M."""
    c.call("null_projector", {"projector": c.matrix("null projector", c.nv, c.nv)})
    c.body.append(c.columns_as_rows("null projector", range(c.nv), "projector"))


def _delassus(c: Composition) -> None:
    system = constraint_set(c.model)
    kept = system.structure.independent
    rows, answers = c.matrix("own rows", len(kept), c.nv), c.matrix("answers", len(kept), c.nv)
    across, product = c.matrix("own columns", c.nv, len(kept)), c.matrix("product", len(kept), len(kept))
    c.call("constraint_jacobian", {"jacobian": c.matrix("all rows", len(system.row_names), c.nv)})
    c.body.append(c.rows_of("all rows", kept, rows))
    c.respond("mass_matrix_solve", "b", {"x": answers}, rows)
    c.body += [c.columns_as_rows(rows, range(c.nv), across), c.product(answers, across, product)]
    c.body.append(c.copy(product, "delassus"))


def _answers_of_free(c: Composition) -> tuple[str, str]:
    """M†[free] (d, nv), and the inverse of its block M†[free, free]."""
    free = constraint_set(c.model).free
    units, answers = c.matrix("unit forces", len(free), c.nv), c.matrix("free answers", len(free), c.nv)
    block = c.matrix("free inertia", len(free), len(free))
    c.body += c.unit_rows(units, free)
    c.respond("forward_dynamics", "tau", {"a": answers}, units)
    c.body.append(c.columns_as_rows(answers, free, block))  # which is symmetric
    c.inverted(block)
    return answers, block


def _reduced_mass_matrix(c: Composition) -> None:
    c.body.append(c.copy(_answers_of_free(c)[1], "M"))


def _allowed_motions(c: Composition) -> None:
    answers, block = _answers_of_free(c)
    motions = c.matrix("motions", c.extent(block)[0], c.nv)
    c.body += [c.product(block, answers, motions), c.columns_as_rows(motions, range(c.nv), "B")]


def _force_sensitivity(c: Composition) -> None:
    """Row by row of M⁻¹ or M†, whose rows are its columns."""
    inverted = c.matrix("inverted", c.nv, c.nv)
    if c.model.constraints:
        c.respond("forward_dynamics", "tau", {"a": inverted})
    else:
        c.call("mass_matrix_inverse", {"inverse": inverted})
    c.work(sums=(2,))

    def add(total: Array, own: Any, force: Any) -> list[Any]:
        return [[total[0] + own * force, total[1] + abs(own) * abs(force)]]

    def growth(total: Array) -> list[Any]:
        return [total[0], inertia.growth_of_errors(*total)]

    row, column = Index("sensitive row"), Index("sensitive column")
    entry, force = Piece((), (Address(inverted, (row, column)),)), Piece((), (Address("b", (column,)),))
    results = [Piece((), (Address(name, (row,)),)) for name in ("a", "amplification")]
    each = Loop("sensitive column", c.nv, (traced_block(add, [c.at("sums"), entry, force], [c.at("sums")]),))
    turn = (c.put(0, c.at("sums")), each, traced_block(growth, [c.at("sums")], results))
    c.body.append(Loop("sensitive row", c.nv, turn))


# --- the regressor ----------------------------------------------------------------------------------------------------


class _NodeNumbers(NamedTuple):
    """Stands for an output: six numbers of every node of the tree, one after the other."""

    field: Field

    def store(self, mechanism: LoopedMechanism, buffer: str, shape: Shape) -> None:
        mechanism.sweep.offsets["node six"] = 6 * np.arange(len(mechanism.tree.parents))
        mechanism.sweep.result(buffer, "node six", self.field)


def _node_program(c: Composition, inputs: Sequence[str], find_fields: Callable[..., Any], *outputs: str) -> Program:
    """The program of vectors (6,) of all nodes."""
    known = find("inverse_dynamics", c.model).inputs
    count = 6 * c.request.parts
    shapes: dict[str, Shape] = dict.fromkeys(outputs, (count,))
    function = Function("nodes", (), {word: known[word] for word in inputs}, shapes, find_fields, True, "")
    return loop_program(function, skeleton(c.model), parameters=c.request.parameters)


def _regressor(c: Composition) -> None:
    model, tree = c.model, skeleton(c.model)
    sums.require_rigid(tree)

    def motion(m: Mechanism, q: Any, v: Any, a: Any) -> tuple[Any, Any]:
        links = m.moving(q, v)
        found = inverse.accelerations(m.sweep, links, m.velocities(a), m.base)
        return _NodeNumbers(m.sweep.map(lambda link: link.V, links)), _NodeNumbers(found)

    def twists(m: Mechanism, q: Any, v: Any) -> Any:
        return _NodeNumbers(m.sweep.map(lambda link: link.V, m.moving(q, v)))

    count = 6 * len(tree.nodes)
    into = {"V": "body twists", "A": "body accelerations"}
    c.add(*[Buffer(name, "work", (count,)) for name in into.values()])
    c.run(_node_program(c, ("q", "v", "a"), motion, *into), into)
    each = directions_program(model, _node_program(c, ("q", "v"), twists, "V"), "v", None, ["v"])
    c.run(each, {"V": c.matrix("unit twists", c.nv, count)})
    moving = [(number, *tree.bodies[body.name]) for number, body in enumerate(model.bodies)]
    moving = [own for own in moving if own[1] >= 0]
    c.matrix("shares", len(moving), 60)
    c.index("body place", [6 * node for _, node, _ in moving])
    c.index("body column", [10 * number for number, _, _ in moving])
    c.table("body pose", [[*at.R.ravel(), *at.p] for _, _, at in moving])
    c.body.append(c.fill("regressor", 0.0))
    c.body += _shares_of_bodies(c, len(moving))


def _shares_of_bodies(c: Composition, count: int) -> list[Statement]:
    """The wrenches (6, 10) of every body's parameters in its node's frame, and their power in all unit velocities."""
    body, place, column, row = "moving body", "body place", "body column", "unit velocity"

    def six(name: str, *before: Index) -> Piece:
        return Piece((6,), tuple(Address(name, (*before, Index(place, i))) for i in range(6)))

    def wrenches(V: Array, alpha: Array, at: Array) -> list[Any]:
        pose = Pose(at[:9].reshape(3, 3), at[9:])
        columns = sums.body_regressor(pose.motion(V), pose.motion(alpha))
        return [np.stack([pose.force(own) for own in columns.T])]

    def power(V: Array, shares: Array) -> list[Any]:
        return [shares.reshape(10, 6) @ V]

    looks = [Lookup(word, Address(word, (Index(body),))) for word in (place, column)]
    reads = [six("body twists"), six("body accelerations"), c.at("body pose", body)]
    first = Loop(body, count, (looks[0], traced_block(wrenches, reads, [c.at("shares", body)])))
    to = Piece((10,), tuple(Address("regressor", (Index(row), Index(column, i))) for i in range(10)))
    each = traced_block(power, [six("unit twists", Index(row)), c.at("shares", body)], [to])
    return [first, Loop(body, count, (*looks, Loop(row, c.nv, (each,))))]


# --- conditioning -----------------------------------------------------------------------------------------------------


def _condition_number(c: Composition) -> None:
    c.call("mass_matrix", {"M": c.matrix("mass matrix", c.nv, c.nv)})
    c.body += condition_loops.condition_number(c, "mass matrix", "kappa")


def _equilibrated_condition_number(c: Composition) -> None:
    c.call("mass_matrix", {"M": c.matrix("mass matrix", c.nv, c.nv)})
    c.body += condition_loops.equilibrate(c, "mass matrix")
    c.body += condition_loops.condition_number(c, "mass matrix", "kappa")


def _pivot_ratios(c: Composition) -> None:
    """Tips first from the last row on, and base first with all rows and columns in reverse order."""
    c.call("mass_matrix", {"M": c.matrix("mass matrix", c.nv, c.nv)})
    backwards = range(c.nv - 1, -1, -1)
    c.body.append(c.columns_as_rows("mass matrix", backwards, c.matrix("mass matrix, turned", c.nv, c.nv)))
    c.body.append(c.columns_as_rows("mass matrix, turned", backwards, c.matrix("base last", c.nv, c.nv)))
    c.body += condition_loops.pivot_ratio(c, "base last", "base_first")
    c.body += condition_loops.pivot_ratio(c, "mass matrix", "tips_first")


# --- small additions --------------------------------------------------------------------------------------------------


def _diagonal_ratio(c: Composition) -> None:
    """The largest entry of diag M over the smallest, by one look at each."""
    c.add(Buffer("diagonal of M", "work", (c.nv,)), Buffer("extremes", "work", (3,)))
    c.call("diagonal_of_mass_matrix", {"diagonal": "diagonal of M"})
    entry = Index("entry of diagonal")
    own = Piece((), (Address("diagonal of M", (entry,)),))
    first = Piece((), (Address("diagonal of M", (Index(None, 0),)),))
    extremes = c.at("extremes")

    def look(so_far: Array, x: Any) -> list[Any]:
        return [inertia.widened(inertia.Extremes(*so_far), x)]

    c.body += [
        traced_block(lambda x: [[x, x, 0]], [first], [extremes]),
        Loop("entry of diagonal", c.nv, (traced_block(look, [extremes, own], [extremes]),)),
        traced_block(
            lambda found: [inertia.ratio_of(inertia.Extremes(*found))], [extremes], [Piece((), (Address("ratio", ()),))]
        ),
    ]


def _forward_dynamics_with_diagonal_ratio(c: Composition) -> None:
    c.call("forward_dynamics", {"a": "a"})
    _diagonal_ratio(c)


def _forward_dynamics_with_diagonal(c: Composition) -> None:
    c.call("forward_dynamics", {"a": "a"})
    c.call("diagonal_of_mass_matrix", {"diagonal": "diagonal"})


def _forward_dynamics_with_wrench(c: Composition) -> None:
    """The wrench as joint forces Jᵀ w, added to the others."""
    c.add(Buffer("joint forces", "work", (c.nv,)))
    twist = loop_program(
        find("twist", c.model), skeleton(c.model), names=c.request.names, parameters=c.request.parameters
    )
    c.pull_back(twist, "v", "joint forces", {"twist": "wrench"}, ["v"])
    c.entrywise(c.nv, ["joint forces", "tau"], lambda force, tau: force + tau, "joint forces")
    c.call("forward_dynamics", {"a": "a"}, given={"tau": "joint forces"})


def _constraint_bias(c: Composition) -> None:
    """The rate of A v + ∂g/∂t along q̇ = v, at constant v."""
    along = derived_function("jvp", find("constraint_velocity", c.model))
    c.table("no acceleration", np.zeros(c.nv))
    given = {"dq": "v", "dv": "no acceleration", "dt": ONE}
    program = catalogue_program(replace(c.request, function=along, names=()))
    c.run(program, {"dvelocity": "bias"}, {name: to for name, to in given.items() if name in along.inputs})


def _joint_reactions(c: Composition) -> None:
    """Accelerations and forces of rows by one elimination, and what joints carry then, written out."""
    forward = find("forward_dynamics", c.model)
    both = replace(forward, outputs=forward.outputs | find("constraint_forces", c.model).outputs)
    count = len(constraint_set(c.model).row_names)
    c.add(Buffer("accelerations", "work", (c.nv,)), Buffer("forces of all rows", "work", (count,)))
    known = {"a": "accelerations", "f": "forces of all rows"}
    c.run(catalogue_program(replace(c.request, function=both)), known)
    c.table("no wrenches", np.zeros((len(c.model.bodies), 6)))
    c.call("joint_reactions_of_motion", c.own, given={**known, "wrenches": "no wrenches"})


def program_with_gravity(request: Request, still: Request) -> Program:
    """A function with open gravity from that of the model without any, ``still``: weights are joint forces Pᵀ g.

    P v is the linear momentum of everything that moves, in the axes of the world.
    """
    c = Composition(request)
    name = request.function.name
    if name in NO_GRAVITY:
        c.run(catalogue_program(still), c.own)
        return c.program_of_all()
    c.add(Buffer("weights", "work", (c.nv,)), Buffer("momentum bar", "work", (6,)))
    c.body += [
        c.put(0, c.at("momentum bar")),
        traced_block(
            lambda g: [g],
            [c.at("gravity")],
            [Piece((3,), tuple(Address("momentum bar", (Index(None, 3 + i),)) for i in range(3)))],
        ),
    ]
    momentum = loop_program(find("momentum", still.model), skeleton(still.model), parameters=still.parameters)
    c.pull_back(momentum, "v", "weights", {"momentum": "momentum bar"}, ["v"])
    forces = FEELS_GRAVITY[name]
    if forces is not None:
        c.entrywise(c.nv, ["weights", forces], lambda weight, force: weight + force, "weights")
        c.run(catalogue_program(still), c.own, {forces: "weights"})
    else:
        ((name, result),) = c.own.items()
        c.add(Buffer("without weights", "work", (c.nv,)))
        c.run(catalogue_program(still), {name: "without weights"})
        c.entrywise(c.nv, ["without weights", "weights"], lambda force, weight: force - weight, result)
    return c.program_of_all()


WRITERS: dict[str, Callable[[Composition], None]] = {
    "operational_inertia": _operational_inertia,
    "operational_inertia_inverse": _operational_inertia_inverse,
    "dagger": _dagger,
    "apparent_inertia": _apparent_inertia,
    "weighted_pseudo_inverse": _weighted_pseudo_inverse,
    "constraint_forces_least_norm": _constraint_forces_least_norm,
    "schur_projector": _schur_projector,
    "delassus": _delassus,
    "reduced_mass_matrix": _reduced_mass_matrix,
    "allowed_motions": _allowed_motions,
    "force_sensitivity": _force_sensitivity,
    "regressor": _regressor,
    "condition_number": _condition_number,
    "equilibrated_condition_number": _equilibrated_condition_number,
    "pivot_ratios": _pivot_ratios,
    "diagonal_ratio": _diagonal_ratio,
    "forward_dynamics_with_diagonal_ratio": _forward_dynamics_with_diagonal_ratio,
    "forward_dynamics_with_diagonal": _forward_dynamics_with_diagonal,
    "forward_dynamics_with_wrench": _forward_dynamics_with_wrench,
    "constraint_bias": _constraint_bias,
    # weights decide only where rows are redundant
    "joint_reactions": _joint_reactions,
    "joint_reactions_with_weights": _joint_reactions,
}
"""How each of them is written."""
