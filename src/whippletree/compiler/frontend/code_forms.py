"""The form that the code of a function takes for a model: written out, placed, or as loops.

    unrolled     one straight-line block: for robots of ordinary size
    placed       the code of each kind of mechanism once: matrices and derivatives of scenes of several mechanisms
    tendons      actuators of many tendons: loops over these
    loops        over bodies, over clusters of loops, or over fronts of an elimination: for long systems
    composed     of functions that are loops: for long systems

The modules that write them are imported when one is written: where the cache knows a function, none is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from whippletree.compiler.program import Program, every_block, map_blocks
from whippletree.constraints.clusters.separate_mechanisms import by_kind, separate_mechanisms
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.body_system import rows_without_bodies
from whippletree.constraints.long_systems.long_or_wide import is_cheaper_by_bodies
from whippletree.constraints.long_systems.node_rows import is_long
from whippletree.constraints.route_choice import loops_over_clusters, loops_over_fronts
from whippletree.errors import UnsupportedError
from whippletree.functions import CATALOGUE, Function, find, sizes
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.model.parameters import with_parameters
from whippletree.tree.skeleton import skeleton

UNROLL_UP_TO = 48
"""Moving bodies up to which code is unrolled; beyond, it loops over bodies. Measured: see docs/performance.md."""

UNROLL_MATRICES_UP_TO = 150
"""Number for functions that cannot loop; beyond, they are refused rather than compiled for minutes."""

UNROLL_ENTRIES_UP_TO = 500
"""Entries of a tree's mass matrix, on its diagonal and below, up to which matrices of functions that can loop are
written out. For 500 of them the derivatives of ``forward_dynamics`` take 9 s to compile, and machine code no longer
fits into the caches: those of a chain of 30 rods then take 63 µs a call, and 16 µs by loops over columns. A humanoid of
35 velocities has 340, and is ten times faster written out."""

UNROLL_SPARSE_UP_TO = 1000
"""Number for trees with many branches, in which fewer than a quarter of all pairs of velocities and bodies have one:
loops go over all pairs. A random tree of 50 bodies has 657 and takes 9 s to compile and 42 µs a call; by loops, 5 s and
680 µs."""

UNROLL_CLUSTERS_UP_TO = 24
"""Moving bodies up to which derivatives under constraints are written out where loops over clusters could give them:
eight four-bars in a row take 6 s to compile and 18 µs a call, and by loops 0.9 s and 18 µs."""

PLACE_ABOVE = 12
"""Moving bodies above which matrices and derivatives of a scene are those of its mechanisms, each kind compiled once:
the derivatives of three four-bars as a whole take 0.6 s to compile and those of six 2.4 s, instead of 0.2 s, and run
up to a third faster."""

UNROLL_LINES_UP_TO = 500
"""Number for those of them whose code grows with the number of bodies only, such as the pose of a frame: 4 s."""

FEW_CONTACTS = 5000
"""Contacts times velocities up to which code of contacts is short beside that of the bodies: 20 contacts of 500 hinges
in a row, twice as many, take 1 s to compile for their gaps and 3 s for their Jacobian."""

SHARED_LOADS = 2000
"""Moving bodies times redundant rows up to which reactions are written out where loops are not local: those of a ladder
of 30 bodies with 27 rows too many take 4 s to compile, of 42 with 39 14 s."""

UNROLL_FLEXIBLE_UP_TO = 600
"""Moving parts up to which functions without a matrix are unrolled for models with flexible bodies, of which each has
three or more: 150 links of two modes take 43 000 operations."""


FOLDED_ON_GPU: dict[str, dict[str, int]] = {"inverse_dynamics_derivatives": {"float32": 0, "float64": 0}}
"""Functions of trees whose limbs are loops on a GPU, too: for each dtype, from how many operations in the loops on.

Elsewhere what limbs hand on goes through local memory, which costs up to three times the time of the longer code of
copies. Code of these functions waits for memory either way (nine robots on one H200, ``python -m benchmarks.gpu
folding``): they are 1.2 to 1.9 times as fast in float32 and 1.8 to 5.7 times in float64, where the driver assembles
those of a humanoid in 2 to 3 s instead of 100."""


PAIRED_ON_GPU: dict[str, dict[str, int]] = {"forward_dynamics": {"float64": 2000}}
"""Functions of trees of which two limbs that are alike are for two threads of a GPU: for each dtype, from how many
operations of a thread on.

In double precision the numbers of one limb are as many as a thread has registers for: forward dynamics of humanoids
are 1.8 to 2.3 times as fast as copies. In single precision, and in inverse dynamics, those of both limbs are: pairs
take 1.0 to 1.2 and 1.3 to 1.7 times as long as copies."""


@dataclass(frozen=True)
class MatricesOf:
    """How the outputs of a function, all of them matrices, are derivatives of another one, which has one output."""

    function: str
    moving: tuple[str, ...]
    """For each of them, the input that it is the derivative by."""
    still: tuple[str, ...] = ()
    """Inputs that are 0."""


MATRICES = {
    "forward_dynamics_derivatives": MatricesOf("forward_dynamics", ("q", "v", "tau")),
    "inverse_dynamics_derivatives": MatricesOf("inverse_dynamics", ("q", "v", "a")),
    "gravity_derivatives": MatricesOf("gravity", ("q",)),
    "mass_matrix": MatricesOf("inverse_dynamics", ("a",), ("v", "a")),
    "mass_matrix_inverse": MatricesOf("mass_matrix_solve", ("b",), ("b",)),
    "jacobian": MatricesOf("twist", ("v",), ("v",)),
    "constraint_jacobian": MatricesOf("constraint_velocity", ("v",), ("v",)),
    "constraint_forces_derivatives": MatricesOf("constraint_forces", ("q", "v", "tau")),
    "null_projector": MatricesOf("project_velocity", ("v",), ("v",)),
}
"""Functions of the catalogue that are matrices of others, for long systems."""


class ComposedOf(NamedTuple):
    """How a function is made of others for long systems."""

    functions: tuple[str, ...]
    """Those that must be loops."""
    linear: bool = False
    """Whether its code, written out, grows with the number of bodies only, but for loops that are local: short for
    longer."""


COMPOSED = {
    "operational_inertia": ComposedOf(("forward_dynamics",), linear=True),
    "operational_inertia_inverse": ComposedOf(("forward_dynamics",), linear=True),
    "dagger": ComposedOf(("velocity_step",)),
    "apparent_inertia": ComposedOf(("velocity_step",)),
    "weighted_pseudo_inverse": ComposedOf(("velocity_step",)),
    "constraint_forces_least_norm": ComposedOf(("velocity_step", "constraint_forces", "constraint_velocity")),
    "schur_projector": ComposedOf(("project_velocity",)),
    "delassus": ComposedOf(("mass_matrix_solve", "constraint_velocity")),
    "reduced_mass_matrix": ComposedOf(("forward_dynamics",)),
    "allowed_motions": ComposedOf(("forward_dynamics",)),
    "force_sensitivity": ComposedOf(("forward_dynamics",)),
    "regressor": ComposedOf(("inverse_dynamics",)),
    "condition_number": ComposedOf(("inverse_dynamics",)),
    "equilibrated_condition_number": ComposedOf(("inverse_dynamics",)),
    "pivot_ratios": ComposedOf(("inverse_dynamics",)),
    "diagonal_ratio": ComposedOf(("diagonal_of_mass_matrix",), linear=True),
    "forward_dynamics_with_diagonal_ratio": ComposedOf(("forward_dynamics", "diagonal_of_mass_matrix")),
    # where loops are not local; elsewhere they are loops themselves
    "forward_dynamics_with_diagonal": ComposedOf(("forward_dynamics", "diagonal_of_mass_matrix")),
    "forward_dynamics_with_wrench": ComposedOf(("forward_dynamics",)),
    "constraint_bias": ComposedOf(("constraint_velocity",)),
    # where loops are not local and no row is redundant
    "joint_reactions": ComposedOf(("forward_dynamics", "constraint_forces")),
    "joint_reactions_with_weights": ComposedOf(("forward_dynamics", "constraint_forces")),
}
"""Functions that are made of others for long systems
(:mod:`~whippletree.compiler.frontend.loops.composed_functions`)."""


FEELS_GRAVITY = {
    "forward_dynamics": "tau",
    "forward_dynamics_with_wrench": "tau",
    "forward_dynamics_with_diagonal": "tau",
    "constraint_forces": "tau",
    "velocity_step": "tau",
    "inverse_dynamics": None,
    "inverse_dynamics_with_wrench": None,
    "bias": None,
    "gravity": None,
}
"""Functions that feel gravity as joint forces: the input that these can be added to, or None where the output has them
with the other sign."""

NO_GRAVITY = (
    "pose",
    "jacobian",
    "jacobian_bias",
    "twist",
    "integrate",
    "difference",
    "rate",
    "mass_matrix",
    "mass_matrix_inverse",
    "mass_matrix_solve",
    "kinetic_energy",
    "momentum",
    "center_of_mass",
    "diagonal_of_mass_matrix",
    "constraint_residual",
    "constraint_jacobian",
    "constraint_velocity",
    "constraint_bias",
    "project_velocity",
    "null_projector",
    "closing_step",
    "impact",
    "passive_forces",
)
"""Functions that do not depend on it, but for forces of elements."""


@dataclass(frozen=True)
class Request:
    """A function that is to be written for a model."""

    model: Model
    function: Function
    names: tuple[Any, ...] = ()
    parameters: tuple[str, ...] = ()
    route: str | None = None
    on_cpu: bool = True
    exported: bool = False
    """Whether it becomes C code, which has no loops."""
    dtype: str = "float64"

    @property
    def parts(self) -> int:
        """Moving parts of the model."""
        return len(skeleton(self.model).nodes)

    @property
    def may_fold(self) -> bool:
        """Whether limbs that are alike may be loops."""
        if self.on_cpu or self.exported or self.in_pairs:
            return not self.exported
        return not self.model.constraints and self.dtype in FOLDED_ON_GPU.get(self.function.name, {})

    @property
    def in_pairs(self) -> bool:
        """Whether two limbs that are alike are for two threads."""
        trees_of_gpu = not (self.on_cpu or self.exported or self.model.constraints)
        return trees_of_gpu and self.dtype in PAIRED_ON_GPU.get(self.function.name, {})

    @property
    def folded_from(self) -> int:
        """Operations in loops over limbs from which on loops are taken."""
        return 0 if self.on_cpu else (PAIRED_ON_GPU if self.in_pairs else FOLDED_ON_GPU)[self.function.name][self.dtype]

    @property
    def linear(self) -> bool:
        """Whether its code grows with the number of bodies, and not with that of their pairs."""
        if self.function.derived:
            return False
        if self.function.linear == "determinate":
            return self._is_determinate
        if self.function.linear == "few contacts":
            return sizes(self.model)["contacts"] * self.model.nv <= FEW_CONTACTS
        return self.function.linear

    @property
    def _is_determinate(self) -> bool:
        """Whether no row is redundant, and accelerations need no matrix of the whole."""
        if not self.model.constraints:
            return True
        system = constraint_set(self.model)
        local = loops_over_clusters(self.model, self.route) or loops_over_fronts(self.model, self.route)
        return local and len(system.structure.independent) == len(system.row_names)

    @property
    def _shares_loads(self) -> bool:
        """Whether it has to share loads out among redundant rows, of loops that are not local."""
        if self.function.linear != "determinate" or not self.model.constraints or self._is_determinate:
            return False
        return not loops_over_clusters(self.model, self.route)

    @property
    def _is_long_and_determinate(self) -> bool:
        """Whether no row is redundant, and accelerations are found by an elimination body by body; of so many bodies
        that what else there is can be written out."""
        by_fronts = bool(self.model.constraints) and loops_over_fronts(self.model, self.route)
        return by_fronts and self._is_determinate and self.parts <= UNROLL_LINES_UP_TO

    @property
    def loops_over_clusters(self) -> bool:
        """Whether it honours constraints by passes over clusters."""
        entry = CATALOGUE.get(self.function.name)
        if self.function.derived or entry is None or not entry.loops or entry.constraints == "tree":
            return False
        return bool(self.model.constraints) and loops_over_clusters(self.model, self.route)

    @property
    def can_loop(self) -> bool:
        """Whether it can be a loop over bodies or clusters."""
        by_bodies = self.function.loops or (self.route == "recursion" and is_long(self.model))
        # gravity is what sweeps start with, which is a constant of their code; energy needs it after all of them
        opened = "gravity" in self.parameters and self.function.name != "potential_energy"
        return (by_bodies or self.loops_over_clusters) and not opened and not self.by_whole_matrix

    @property
    def by_whole_matrix(self) -> bool:
        """Whether it has to solve for constraints by one matrix, of all velocities or of all rows."""
        solves = self.function.may_fail and self.function.constraints != "tree"
        if not (solves and self.model.constraints):
            return False
        # what loops over bodies leave over is a matrix of all rows, written out: too many where loops reach far
        left = self.route == "recursion" or (self.route is None and self.parameters)
        return self.route in ("schur", "augmented") or bool(left and is_cheaper_by_bodies(constraint_set(self.model)))

    @property
    def source(self) -> Request | None:
        """The function of which it is a derivative, if that is a loop; None if it is not, or there is none."""
        entry = self.function.derivative.function if self.function.derivative is not None else None
        if self.function.name in MATRICES:
            entry = find(MATRICES[self.function.name].function, self.model)
        return self.loops_of(entry, self.names) if entry is not None else None

    def loops_of(self, entry: Function, names: tuple[Any, ...] = ()) -> Request | None:
        """Another function of the model, if its code is loops that can be put into that of this one."""
        if self.exported or not self.on_cpu:
            return None
        # what would factor the matrix of the whole may be eliminated here, unless the user has chosen
        for route in (None, "elimination") if self.route is None else (self.route,):
            found = replace(self, function=entry, names=names, route=route)
            if found.is_looped:
                return found
        return None

    @property
    def without_gravity(self) -> Request | None:
        """The function of the model without gravity, if that is what open gravity is added to; None otherwise."""
        name = self.function.name
        known = "gravity" in self.parameters and (name in FEELS_GRAVITY or name in NO_GRAVITY)
        if not known or self.model.elements or self.exported or not self.on_cpu:
            return None
        others = tuple(path for path in self.parameters if path != "gravity")
        model = _weightless(self.model)
        found = replace(self, model=model, function=find(name, model), parameters=others)
        return found if found.is_looped or found.source is not None or found.composed_of is not None else None

    @property
    def composed_of(self) -> Request | None:
        """The first of the functions that it is made of, if all of them are loops; None otherwise."""
        own = COMPOSED.get(self.function.name)
        if own is None or self.is_looped or "gravity" in self.parameters:
            return None
        if self.function.constraints != "tree" and self.model.constraints:
            system = constraint_set(self.model)
            if system.switches or any(system.compliance):  # whose blocks no response from rest gives
                return None
        if self.function.linear == "determinate" and not self._is_long_and_determinate:
            return None
        found = [self.loops_of(find(name, self.model)) for name in own.functions]
        return found[0] if all(one is not None for one in found) else None

    @property
    def loops_over_fronts(self) -> bool:
        """Whether it honours constraints by an elimination body by body."""
        if self.parameters or self.function.derived or not loops_over_fronts(self.model, self.route):
            return False
        from whippletree.compiler.frontend.loops.elimination_program import can_eliminate

        system = constraint_set(self.model)
        return can_eliminate(self.function, system) and not rows_without_bodies(system)

    @property
    def is_looped(self) -> bool:
        """Whether its code does not grow with the number of bodies."""
        return self.can_loop or self.loops_over_fronts

    @property
    def is_short(self) -> bool:
        """Whether it is written out."""
        if self.without_gravity is not None:
            return self.without_gravity.is_short
        if self.linear and self.function.names == ("frame",) and (self.can_loop or self.source is not None):
            # only bodies between the frame and the base are written out
            node = skeleton(self.model).place(self.names[0]).node
            return self.parts <= UNROLL_LINES_UP_TO and len(skeleton(self.model).path(node)) <= UNROLL_UP_TO
        return self.is_short_for([self.model])

    def is_short_for(self, models: Sequence[Model]) -> bool:
        """Whether it is written out for these models, one after the other."""
        source, parts = self.source or self.composed_of, sum(len(skeleton(model).nodes) for model in models)
        if self.function.name not in (*MATRICES, *COMPOSED) or source is None:
            return parts <= self.unrolled_up_to
        if source.loops_over_clusters:
            return parts <= UNROLL_CLUSTERS_UP_TO
        if self.function.linear == "determinate":  # a matrix of the whole is what it must not write out
            return False
        if self.function.name in COMPOSED and COMPOSED[self.function.name].linear:
            return parts <= UNROLL_MATRICES_UP_TO
        if source.loops_over_fronts:
            return parts <= UNROLL_UP_TO
        entries, whole = sum(map(matrix_entries, models)), sum(model.nv for model in models) * parts
        most = UNROLL_ENTRIES_UP_TO if 4 * entries > whole else UNROLL_SPARSE_UP_TO
        return parts <= UNROLL_MATRICES_UP_TO and entries <= most

    @property
    def unrolled_up_to(self) -> int:
        """Moving parts up to which it is written out."""
        if self.can_loop or self.source is not None:
            return UNROLL_UP_TO
        entry = CATALOGUE.get(self.function.name)
        grows = self.function.derived or entry is None or not entry.loops or bool(self.model.constraints)
        if self.model.is_flexible and not grows:
            return UNROLL_FLEXIBLE_UP_TO
        if self._shares_loads:
            structure = constraint_set(self.model).structure
            return min(UNROLL_MATRICES_UP_TO, SHARED_LOADS // max(1, len(structure.redundant)))
        return UNROLL_LINES_UP_TO if self.linear else UNROLL_MATRICES_UP_TO


@found_once
def _weightless(model: Model) -> Model:
    """A model without gravity."""
    return with_parameters(model, {"gravity": np.zeros(3)})


def matrix_entries(model: Model) -> int:
    """Entries of the mass matrix of a model's tree that are not 0, on the diagonal and below."""
    tree = skeleton(model)
    along: list[int] = []
    """Velocities on the way from the base to each node, its own included."""
    total = 0
    for parent, own in zip(tree.parents, tree.nodes, strict=True):
        count = own.joint.nv
        before = along[parent] if parent >= 0 else 0
        along.append(before + count)
        total += count * before + count * (count + 1) // 2
    return total


def catalogue_program(request: Request) -> Program:
    """The program of a function, in the form that suits it.

    Raises:
        UnsupportedError: if it would be too long.
    """
    found = _by_fronts(request) or _by_tendons(request) or _placed_program(request) or _from_loops(request)
    found = found or _composed_program(request)
    if found is not None:
        return found
    return _unrolled_program(request) if request.is_short else _looped_program(request)


def _from_loops(request: Request) -> Program | None:
    """A derivative or a matrix of a long system, from the loops of the function that it is a derivative of."""
    source = request.source
    if source is None or request.is_short:
        return None
    from whippletree.compiler.frontend.loops.looped_derivatives import jvp_program, matrix_program, vjp_program

    own = _by_fronts(source) or _looped_program(source)
    if request.function.derivative is None:
        of = MATRICES[request.function.name]
        return matrix_program(request.model, request.function, own, of, request.parameters)
    write = jvp_program if request.function.derivative.kind == "jvp" else vjp_program
    return write(request.model, request.function, own, request.parameters)


def _composed_program(request: Request) -> Program | None:
    """A function of a long system that is made of others, which are loops."""
    still = request.without_gravity
    if (request.composed_of is None and still is None) or request.is_short:
        return None
    from whippletree.compiler.frontend.loops.composed_functions import composed_program, program_with_gravity

    return composed_program(request) if still is None else program_with_gravity(request, still)


def looped_program(request: Request, name: str) -> Program:
    """The loops of a function that one of :data:`COMPOSED` is made of."""
    own = request.loops_of(find(name, request.model))
    assert own is not None
    return _by_fronts(own) or _looped_program(own)


def _by_fronts(request: Request) -> Program | None:
    if not request.loops_over_fronts:
        return None
    from whippletree.compiler.frontend.loops.elimination_program import elimination_program

    return elimination_program(request.function, skeleton(request.model))


def _by_tendons(request: Request) -> Program | None:
    plain = request.on_cpu and not request.exported and not request.parameters and not request.function.derived
    if not plain or request.function.name != "actuator_forces" or request.parts > UNROLL_LINES_UP_TO:
        return None
    from whippletree.compiler.frontend.tendon_loops import actuator_forces_program, looped_actuators

    if not looped_actuators(request.model):
        return None
    return actuator_forces_program(skeleton(request.model), request.function)


def _placed_program(request: Request) -> Program | None:
    # on a GPU loops cost more than code, as long as that is short
    above = PLACE_ABOVE if request.on_cpu else request.unrolled_up_to
    if request.parts <= above or request.can_loop or request.parameters or request.exported:
        return None
    if request.source is not None or request.composed_of is not None:
        # of many kinds of mechanisms the code of all is as long as that of one mechanism
        kinds = by_kind(separate_mechanisms(request.model))
        if not request.is_short_for([own[0].model for own in kinds]):
            return None
    from whippletree.compiler.frontend.placed_mechanisms import placed_program

    return placed_program(request.model, request.function, route=request.route, largest=request.unrolled_up_to)


def _unrolled_program(request: Request) -> Program:
    from whippletree.arithmetic.trace.schedule import order_for_cache
    from whippletree.compiler.frontend.unrolled import Folds, unrolled_program

    def written(fold: Folds) -> Program:
        return unrolled_program(
            request.model, request.function, request.names, request.parameters, route=request.route, fold=fold
        )

    program = written("pairs" if request.in_pairs else "loops" if request.may_fold else "copies")
    if request.may_fold and sum(block.code.operations for block in every_block(program.body)) < request.folded_from:
        program = written("copies")
    if not request.on_cpu:  # a GPU is told an order by the number of its registers
        return program
    body = map_blocks(program.body, lambda block: replace(block, code=order_for_cache(block.code)))
    return replace(program, body=body)


def _looped_program(request: Request) -> Program:
    if not request.can_loop:
        raise _too_long(request)
    from whippletree.compiler.frontend.loops import cluster_loop_program, loop_program

    write = cluster_loop_program if request.loops_over_clusters else loop_program
    return write(request.function, skeleton(request.model), names=request.names, parameters=request.parameters)


def _too_long(request: Request) -> UnsupportedError:
    model, function, most = request.model, request.function, request.unrolled_up_to
    if model.is_flexible:
        return UnsupportedError(
            f"{function.name}: model {model.name!r} has flexible bodies and {request.parts} moving parts (a flexible "
            f"body has three or more), and is only unrolled, up to {most} of them here. "
            f"wt.reference takes any number, and so does wt.flexible.lumped_chain"
        )
    reason, cure = _reason_and_cure(request)
    return UnsupportedError(
        f"{function.name}: model {model.name!r} has {request.parts} moving bodies, and a function that {reason} is "
        f"only unrolled, up to {most} bodies. {cure}, or use wt.reference, which takes any number."
    )


SPRINGS_OF_JOINTS = "Give springs and dampers to joints, whose forces are loops: those of tendons and fluids are none"

CURES = {
    "qr_projector": "Use null_projector, which depends on no basis, or an SVD of constraint_jacobian by NumPy",
    "block_condition_numbers": "Take np.linalg.cond of mass_matrix, and of delassus",
    "element_forces": SPRINGS_OF_JOINTS,
    "passive_forces": SPRINGS_OF_JOINTS,
    "potential_energy": SPRINGS_OF_JOINTS,
    "hybrid_dynamics": "With D = forward_dynamics_derivatives(q, v, tau).dtau and joints j, forces "
    "np.linalg.solve(D[np.ix_(j, j)], a_j - forward_dynamics(q, v, tau)[j]) added to tau_j give them accelerations a_j",
}
"""For functions of long mechanisms that are refused, what gives their numbers, or those that they are asked for."""


def _reason_and_cure(request: Request) -> tuple[str, str]:
    """Why a function cannot be a loop for this model, and what can be called instead."""
    entry = CATALOGUE.get(request.function.name)
    if request.function.derived:
        return "is a derivative", "Take differences of the function itself along a direction, which is a loop"
    if request.parameters and entry is not None and entry.loops:
        names = ", ".join(request.parameters[:3]) + (", …" if len(request.parameters) > 3 else "")
        return (
            f"leaves parameters open ({names})",
            "Compile a model for each of their values: loops compile in a fraction of a second, and are cached",
        )
    if request.by_whole_matrix:
        return f"honours constraints by one matrix of the whole (route={request.route!r})", "Leave route= out"
    if request._shares_loads:
        return (
            "shares loads out among redundant rows",
            "Close loops without redundant rows (a pin between planar links)",
        )
    if request.linear:
        cure = "Sum over the bodies by a function that is a loop (momentum, gravity)"
        return "is written out body by body", CURES.get(request.function.name, cure)
    if entry is not None and entry.loops and request.model.constraints:
        return (
            "honours constraints by one matrix of the whole, since their loops are not local,",
            CURES.get(entry.name, "Use forward_dynamics, which is a loop there too"),
        )
    return (
        "grows faster than their number",
        CURES.get(
            request.function.name,
            "Use products that form no matrix (forward_dynamics, inverse_dynamics, mass_matrix_solve)",
        ),
    )
