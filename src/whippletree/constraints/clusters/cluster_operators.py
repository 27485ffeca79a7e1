"""The executable theory with loops: the spatial operators of 002 on a tree whose nodes are clusters.

The bodies that the same loops tie together become one node (:mod:`whippletree.graph.aggregation`). On the condensed
tree, with the resolvent A_in of the edges inside nodes,

    letter     rows × columns        meaning
    E_phi      nodes × nodes         E_c = E_out A_in
    H          freedoms × nodes      H_c = H A_in: the joints of a node act on all its bodies beyond them
    M, J       nodes, freedoms       of all bodies and joints of a node
    a          nodes                 A_in* a: what the bodies of a node accelerate with at θ̈ = 0, seen from its root
    A          rows × freedoms       the closures; block diagonal, for rows of a cluster feel none but its joints
    gamma      rows                  their bias: A θ̈ + γ = 0
    X          freedoms × motions    X_S: what the closures leave free; A X = 0

There are two roads from here.

*Dagger terms.* Of every node's block matrix [D A*; A −C] 000 gives the inverse blocks D†, A†, Λ†. With D† in place of
D⁻¹ the Riccati equation, G, K and ψ read as they do on trees, and so do

    M† = (1 − H ψ K)* D† (1 − H ψ K)        Ω = ψ* H* D† H ψ = φ* H* M† H φ

but the innovations factorisation of 𝓜 = H φ M φ* H* + J, the mass matrix of the tree, does not hold with that K: the
loops are in it.

*Minimal coordinates.* With θ̈ = X ẏ + β and H_S = X* H the closures are gone, and every equation of 002 holds as it
stands: ``minimal`` is a :class:`~whippletree.tree.operators.SpatialOperators` like that of any tree.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import kkt
from whippletree.constraints.clusters.loop_clusters import Cluster, cluster_tree
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.redundancy import free_velocities, independent_rows
from whippletree.constraints.route_choice import require_clusters
from whippletree.errors import SingularSystemError, UnsupportedError
from whippletree.graph import BlockOperator, Condensation, Operator, Partition, block_diagonal, condense
from whippletree.model import Model, require_model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.operators import SpatialOperators
from whippletree.tree.operators import spatial_operators as operators_of_tree


@dataclass(frozen=True, eq=False)
class ClusteredOperators(SpatialOperators):
    """The operators of a tree of clusters at one state; see the module's docstring for the letters.

    Every equation that a tree has with D⁻¹ holds here with D†: ``D_inverse`` is D†, ``mass_matrix_inverse`` is M†,
    ``Omega`` and ``forward_dynamics`` honour the closures. Vectors over freedoms follow the nodes: ``order`` leads from
    the model's velocities to them.
    """

    A: BlockOperator
    gamma: Array
    C: BlockOperator
    """Compliance of the rows."""
    order: tuple[int, ...]
    """x = v[order] has the freedoms of each node together."""
    tree: SpatialOperators
    """The operators of the bodies, without loops."""
    condensed: Condensation
    """Which bodies each node is made of."""

    @property
    def bodies(self) -> tuple[Hashable, ...]:
        """The bodies in the order of the operators' rows, six numbers each."""
        return tuple(body for own in self.condensed.groups.values() for body in own)

    def gather(self, v: Any) -> Array:
        """A vector over the model's velocities (nv,), node by node."""
        return np.asarray(v)[list(self.order)]

    def scatter(self, x: Any) -> Array:
        """A vector over the freedoms of the nodes (nv,), in the order of the model's velocities."""
        found = np.empty_like(np.asarray(x))
        found[list(self.order)] = x
        return found

    # -- dagger terms ----------------------------------------------------------------------------------------------

    def invert_joint(self, D: Array, joint: Hashable) -> Array:
        """D† of one node."""
        return self._blocks(D, joint).M

    @cached_property
    def dagger_blocks(self) -> Mapping[Hashable, kkt.Dagger]:
        """D†, A†, Λ† of every node."""
        return {node: self._blocks(D, node) for node, D in self.D.diagonal().items()}

    @property
    def D_dagger(self) -> BlockOperator:
        """D†, node by node."""
        return self.D_inverse

    @cached_property
    def A_dagger(self) -> BlockOperator:
        """A†, node by node: A A†* = 1 where rows are rigid."""
        blocks = {(node, node): found.A.astype(self.A.dtype) for node, found in self.dagger_blocks.items()}
        return BlockOperator(self.A.rows, self.A.cols, blocks)

    @cached_property
    def Lambda_dagger(self) -> BlockOperator:
        """Λ†, node by node."""
        blocks = {(node, node): found.Lambda.astype(self.A.dtype) for node, found in self.dagger_blocks.items()}
        return BlockOperator(self.A.rows, self.A.rows, blocks)

    @property
    def mass_matrix_dagger(self) -> Operator:
        """M† = [1 − H ψ K]* D† [1 − H ψ K]."""
        return self.mass_matrix_inverse

    @property
    def mass_matrix_innovations(self) -> Operator:
        """Does not exist: [1 + H φ K] D [1 + H φ K]* is not the mass matrix of the tree where K holds the loops.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError(
            "mass_matrix_innovations: with loops in K, [1 + H φ K] D [1 + H φ K]* is not the mass matrix of the tree. "
            "Take .minimal, whose mass matrix X* 𝓜 X has the factorisation, or .tree."
        )

    @property
    def determinant(self) -> Any:
        """Does not exist, for it would be that of the innovations factors.

        Raises:
            UnsupportedError: always.
        """
        raise UnsupportedError("determinant: take that of .minimal (of X* 𝓜 X) or of .tree (of 𝓜).")

    def corrections(self, T: Array) -> Array:
        """z = ψ (K T + P a + b − E_φ P H* g), g = A†* γ: the wrench of every node's parent on it if α − a were zero."""
        return self.psi @ (self.K @ T + self.P @ self.a + self.b - self.E_phi @ (self.P @ (self.H.T @ self._closing)))

    def forward_dynamics(self, T: Array) -> Array:
        """θ̈ = [1 − H ψ K]* (D† (T − H z) − g) − K* ψ* a, g = A†* γ: 𝓜 θ̈ + C = T + A* f and A θ̈ + γ = 0."""
        nu = self.D_inverse @ (T - self.H @ self.corrections(T)) - self._closing
        return self.innovations_factor_inverse.T @ nu - self.K.T @ (self.psi.T @ self.a)

    def interbody_forces(self, T: Array) -> Array:
        """f = φ (M α + b) of the motion that T causes: the wrench of every node's parent on it."""
        return self.forces(self.forward_dynamics(T))

    def constraint_forces(self, T: Array) -> Array:
        """f of the rows: A† (𝓜 θ̈ + C − T) + Λ† (A θ̈ + γ), where the second term is that of compliant rows."""
        qdd = self.forward_dynamics(T)
        return self.A_dagger @ (self.inverse_dynamics(qdd) - T) + self.Lambda_dagger @ (self.A @ qdd + self.gamma)

    @cached_property
    def _closing(self) -> Array:
        """g = A†* γ: what the closures take from the accelerations of their node."""
        return self.A_dagger.T @ self.gamma

    def _blocks(self, D: Array, node: Hashable) -> kkt.Dagger:
        A, C = self.A.block(node, node), self.C.block(node, node)
        if not A.size:
            return kkt.Dagger(super().invert_joint(D, node), zeros(0, len(D)), zeros(0, 0))
        factor = kkt.block(D.astype(object), A.astype(object), np.diag(C).astype(object))
        try:
            found = kkt.dagger(factor, len(D), len(A))
        except (ZeroDivisionError, SingularSystemError):
            raise SingularSystemError(
                f"spatial_operators: the block matrix of {node!r} is singular here: its closures depend on each other, "
                f"or a motion that they allow has no inertia. wt.diagnose(model, q) tells which."
            ) from None
        return kkt.Dagger(*[block.astype(D.dtype) for block in found])

    # -- minimal coordinates -----------------------------------------------------------------------------------------

    @cached_property
    def X(self) -> BlockOperator:
        """X_S, node by node: A X = 0. The motions are independent velocities of the node, chosen by pivoting."""
        blocks = {node: self._motions(node)[0] for node in self.H.rows.names}
        motions = Partition({node: X.shape[1] for node, X in blocks.items()})
        return BlockOperator(self.H.rows, motions, {(node, node): X for node, X in blocks.items()})

    @cached_property
    def beta(self) -> Array:
        """β with A β + γ = 0: θ̈ = X ẏ + β."""
        return self.H.rows.join({node: self._motions(node)[1] for node in self.H.rows.names})

    @cached_property
    def minimal(self) -> SpatialOperators:
        """The operators of ẏ: H_S = X* H, J_S = X* J X, a + H* β. The forces of ẏ are X* (T − J β)."""
        X = self.X
        J = X.T @ self.J @ X
        return SpatialOperators(
            self.E_phi, (X.T @ self.H).explicit(), self.M, J.explicit(), self.a + self.H.T @ self.beta, self.b
        )

    def minimal_forces(self, T: Array) -> Array:
        """X* (T − J β): what ``minimal.forward_dynamics`` takes for joint forces T."""
        return self.X.T @ (T - self.J @ self.beta)

    def _motions(self, node: Hashable) -> tuple[Array, Array]:
        """X and β of one node."""
        A = self.A.block(node, node)
        gamma = self.gamma[self.A.rows.slices[node]]
        if np.any(self.C.block(node, node) != 0):
            raise UnsupportedError(f"minimal: rows of {node!r} are compliant, so they leave every motion free.")
        n = A.shape[1]
        if not A.size:
            return np.eye(n, dtype=int).astype(self.A.dtype), np.zeros(n, dtype=self.A.dtype)
        numbers = A.astype(float)
        free = sorted(free_velocities(numbers[independent_rows(numbers, range(len(numbers)))], n))
        others = [i for i in range(n) if i not in free]
        right = np.concatenate([A[:, free], gamma[:, None]], axis=1)
        X, beta = np.zeros((n, len(free)), dtype=self.A.dtype), np.zeros(n, dtype=self.A.dtype)
        answer = linalg.solve_pivoted(A[:, others].astype(object), right.astype(object)).astype(self.A.dtype)
        X[free, range(len(free))] = 1
        X[others], beta[others] = -answer[:, :-1], -answer[:, -1]
        return X, beta


def spatial_operators(
    model: Model, q: Any, v: Any = None, *, t: Any = 0, active: Any = None
) -> SpatialOperators | ClusteredOperators:
    """The spatial operators of a model at a state: of its bodies, or, where it has loops, of clusters of them.

    Gravity enters as the acceleration −g of the world, which a(k) of every node on the ground contains. Springs,
    dampers and friction are joint forces: they belong to T, not to the operators.

    Args:
        model: with or without constraints; ``model.tree`` leaves them out.
        q: coordinates (nq,), of any scalar type that the joints' sines and cosines exist for.
        v: velocities (nv,); at rest if None.
        t: time, for constraints that depend on it.
        active: 1 or 0 for every switchable constraint.

    Returns:
        Without constraints, :class:`~whippletree.tree.operators.SpatialOperators` on the bodies (vectors of 6 numbers
        each, angular first) and joints (nv numbers). With constraints, :class:`ClusteredOperators`, whose nodes have 6
        numbers for each of their bodies. A node of several bodies is named after the first of its closures.

    Raises:
        UnsupportedError: rows that belong to no loop, of massless motions that springs decide.
        ShapeError: q or v of another size.
    """
    require_model(model, "spatial_operators")
    found = operators_of_tree(model.tree, q, v)
    if not model.constraints:
        return found
    system = constraint_set(model)
    require_clusters(system)
    return _aggregate_operators(
        system, found, np.asarray(q), np.zeros(model.nv) if v is None else np.asarray(v), t, active
    )


def _aggregate_operators(
    system: ConstraintSet, fine: SpatialOperators, q: Array, v: Array, t: Any, active: Any
) -> ClusteredOperators:
    model = system.model
    groups = _groups(system)
    condensed = condense(fine.E_phi.graph, {name: bodies for name, (bodies, _) in groups.items()})
    inner = condensed.regroup(condensed.inner_resolvent(fine.E_phi))
    joint_of = dict(zip(fine.H.cols.names, fine.H.rows.names, strict=True))
    by_body = block_diagonal({body: fine.H.block(joint, body) for body, joint in joint_of.items()})
    rotors = block_diagonal({body: fine.J.block(joint, joint) for body, joint in joint_of.items()})
    H = (condensed.regroup(by_body) @ inner).explicit()
    names: list[Hashable] = [body.name for body in model.bodies]
    places = dict(zip(names, model.v_slices, strict=True))
    order = [
        i for own in condensed.groups.values() for body in own for i in range(places[body].start, places[body].stop)
    ]
    a, b = (_regrouped_vector(fine, condensed, x) for x in (fine.a, fine.b))
    A, gamma, C = _closures(system, condensed, groups, H.rows, order, (q, v, t, active), fine.H.dtype)
    return ClusteredOperators(
        condensed.adjacency(fine.E_phi),
        H,
        condensed.regroup(fine.M),
        condensed.regroup(rotors),
        inner.T @ a,
        b,
        A=A,
        gamma=gamma,
        C=C,
        order=tuple(order),
        tree=fine,
        condensed=condensed,
    )


def _groups(system: ConstraintSet) -> dict[str, tuple[list[str], Cluster]]:
    """The bodies of each cluster with loops, by the name of its first constraint."""
    clusters = cluster_tree(system)
    assert clusters is not None
    tree = Mechanism.of(system.model).tree
    owner = {k: c for c in clusters.looped for k in c.members}
    found: dict[str, tuple[list[str], Cluster]] = {
        f"loop of {system.demands[c.demands[0]].constraint.name}": ([], c) for c in clusters.looped
    }
    name_of = {id(c): name for name, (_, c) in found.items()}
    for body in system.model.bodies:
        node = tree.bodies[body.name].node
        if node in owner:
            found[name_of[id(owner[node])]][0].append(body.name)
    return found


def _regrouped_vector(fine: SpatialOperators, condensed: Condensation, x: Array) -> Array:
    parts = fine.E_phi.rows.split(x)
    return np.concatenate([parts[body] for own in condensed.groups.values() for body in own])


def _closures(
    system: ConstraintSet,
    condensed: Condensation,
    groups: Mapping[str, tuple[list[str], Cluster]],
    freedoms: Partition,
    order: Sequence[int],
    state: tuple[Array, Array, Any, Any],
    dtype: Any,
) -> tuple[BlockOperator, Array, BlockOperator]:
    """A, γ and C of the factored rows, cut by nodes; rows that are off have A = 0 and C = 1, and carry nothing."""
    q, v, t, active = state
    m = Mechanism.of(system.model)
    numbers, rates = q.astype(object), v.astype(object)
    rows = system.rows(m, m.moving(numbers, rates), numbers, rates, t)
    kept = list(system.structure.independent)
    mask = system.mask(None if active is None else np.asarray(active))
    on = np.ones(len(kept), dtype=int) if mask is None else mask[kept]
    A = rows.jacobian()[kept][:, list(order)]
    gamma = rows.bias()[kept]
    soft = np.array([system.compliance[i] for i in kept], dtype=object) * on + (1 - on)
    own = {name: list(groups[str(name)][1].kept) if name in groups else [] for name in condensed.groups}
    partition = Partition({name: len(rows) for name, rows in own.items()})
    blocks_A, blocks_C = {}, {}
    for (name, mine), end in zip(own.items(), accumulate(freedoms.sizes), strict=True):
        columns = range(end - freedoms.size(name), end)
        blocks_A[name, name] = ((A[np.ix_(mine, columns)].T * on[mine]).T).astype(dtype)
        blocks_C[name, name] = np.diag(soft[mine]).astype(dtype)
    bias = np.concatenate([zeros(0), *[gamma[mine] * on[mine] for mine in own.values()]]).astype(dtype)
    return BlockOperator(partition, freedoms, blocks_A), bias, BlockOperator(partition, partition, blocks_C)
