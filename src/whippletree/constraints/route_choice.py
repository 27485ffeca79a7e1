"""Which route solves the block matrix of a model: the one that it calls for, or the one that was asked for.

The route needs no choosing. ``schur`` where every motion of the tree has inertia and no loop is nearly massless, else
``augmented``, which is exact for massless links. ``recursion`` forms no mass matrix: accelerations, forces and
corrections of deep trees (humanoids, chains) by sweeps, and everything beyond 200 velocities. ``embedding`` takes loops
one by one, ``elimination`` those that reach far: ladders, trusses, grids. All of these are free of branches on values,
so they compile; ``nullspace``, which reveals ranks, and ``block``, the literal block matrix, are the reference's alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from whippletree.constraints.clusters.loop_clusters import cluster_tree, is_cheaper_by_clusters, rows_without_cluster
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.long_systems.body_system import find_body_fronts, rows_without_bodies
from whippletree.constraints.long_systems.long_or_wide import is_cheaper_by_bodies, is_faster_by_fronts
from whippletree.constraints.long_systems.node_rows import fits, is_swept
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.errors import NameLookupError, UnsupportedError
from whippletree.model import Model
from whippletree.tree.mechanism import Mechanism

COMPILED_ROUTES = ("schur", "augmented", "recursion", "embedding", "elimination")
"""Routes that never branch on a value."""

ROUTES = (*COMPILED_ROUTES, "nullspace", "block")


def default_route(m: Mechanism, system: ConstraintSet) -> str:
    """The route that needs no choosing; ``tree`` where no constraint is on and the articulated recursion is enough."""
    if not m.tree.model.constraints:
        return "tree"
    if is_cheaper_by_clusters(system):
        return "embedding"
    if is_cheaper_by_bodies(system):
        return "elimination"
    return whole_route(m, system)


def route_reason(m: Mechanism, system: ConstraintSet, route: str) -> str:
    """Why a route was taken, in words; nothing where there was no choice."""
    if route == "embedding":
        clusters = cluster_tree(system)
        assert clusters is not None
        sizes = [(clusters.kinds[c.word].nv, len(c.kept)) for c in clusters.looped]
        n, k = max(sizes)
        if len(sizes) == 1:
            return f"{n} velocities and {k} rows of its loops cost less by themselves than carried to the world"
        return (
            f"{len(sizes)} clusters of loops, the largest of {n} velocities and {k} rows, cost less one by one than "
            f"rows that are carried to the world"
        )
    if route == "elimination":
        fronts = find_body_fronts(system)
        widest = max(1 + len(front.boundary) for front in fronts)
        return (
            f"its loops reach far: {len(m.tree.nodes)} bodies are eliminated one by one, at most {widest} of them "
            f"coupled at a time, which costs less than one matrix of {system.model.nv} velocities and "
            f"{len(system.structure.independent)} rows"
        )
    if route == "augmented":
        return "some motion of the tree has little or no inertia of its own"
    if route == "recursion":
        return "the tree is deep, and sweeps form no mass matrix"
    return "every motion of the tree has inertia" if route == "schur" else ""


def whole_route(m: Mechanism, system: ConstraintSet) -> str:
    """The route that the block matrix of the whole calls for, where its inverse blocks are wanted."""
    if m.tree.model.nv > LONG_SYSTEM:
        return "recursion"
    if system.light:
        return "augmented"
    # a joint may lack inertia in some states (a gimbal without mass, where two axes meet) or calls (an open parameter)
    carried = bool(m.tree.doubtful) and (m.tree.model.origin is not None or system.feels_weightless)
    return "augmented" if carried else "schur"


def by_clusters(m: Mechanism) -> bool:
    """Whether loops are embedded: the recursion over a tree of clusters solves the system."""
    if m.route is None:
        return default_route(m, constraint_set(m.tree.model)) == "embedding"
    return m.route == "embedding"


def reveals_by_clusters(model: Model, route: str | None) -> bool:
    """Whether the rank-revealing route is taken by single clusters where rows depend on each other at a state.

    A mechanism that cannot move at all, though its rows allow it to first order, is a matter of the whole.
    """
    system = constraint_set(model)
    embeds = route == "embedding" or (route is None and is_cheaper_by_clusters(system))
    return embeds and not system.structure.stuck


def answers_singular_states(model: Model, route: str | None) -> bool:
    """Whether a state at which rows depend on each other is answered in milliseconds to seconds: cluster by cluster, or
    by the block matrix of the whole, which takes minutes beyond ``LONG_SYSTEM`` velocities."""
    return bool(model.constraints) and (model.nv <= LONG_SYSTEM or reveals_by_clusters(model, route))


def loops_over_clusters(model: Model, route: str | None) -> bool:
    """Whether constrained functions may run as loops over clusters: rows that can be switched, and flexible bodies, are
    written out."""
    system = constraint_set(model)
    if system.switches or model.is_flexible or route not in (None, "embedding"):
        return False
    return route == "embedding" or is_cheaper_by_clusters(system)


def loops_over_fronts(model: Model, route: str | None) -> bool:
    """Whether constrained functions may run as loops over the fronts of the body-level system: flexible bodies are
    written out. One answer for every target: a GPU and exported C have the bits of the CPU."""
    if not model.constraints or model.is_flexible or route not in (None, "elimination"):
        return False
    system = constraint_set(model)
    if route == "elimination":
        return True
    faster = is_cheaper_by_bodies(system) or is_faster_by_fronts(system)
    return faster and not is_cheaper_by_clusters(system)


def require_route(model: Model, route: str | None, known: Sequence[str]) -> None:
    """Refuse a route that does not exist, or that the model's constraints do not fit.

    Raises:
        NameLookupError: with the routes that there are.
        UnsupportedError: rows that belong to no loop cannot be embedded.
    """
    if route is not None and route not in known:
        hint = f". wt.reference(model, route={route!r}) has it" if route in ROUTES else ""
        raise NameLookupError("route", route, known, hint=hint)
    if route == "embedding" and model.constraints:
        require_clusters(constraint_set(model))
    if route == "elimination" and model.constraints:
        require_bodies(constraint_set(model))


def require_clusters(system: ConstraintSet) -> None:
    """Refuse the embedding of constraints that belong to no cluster.

    Raises:
        UnsupportedError: naming them.
    """
    if cluster_tree(system) is None:
        names = ", ".join(repr(c.constraint.name) for c in rows_without_cluster(system))
        raise UnsupportedError(
            f"route 'embedding': model {system.model.name!r} has rows that belong to no loop ({names}): massless "
            f"motions that springs and dampers decide depend on the whole mechanism. Leave route= out."
        )


def by_bodies(m: Mechanism) -> bool:
    """Whether the block matrix is factored at body level."""
    if m.route is None:
        return default_route(m, constraint_set(m.tree.model)) == "elimination"
    return m.route == "elimination"


def require_bodies(system: ConstraintSet) -> None:
    """Refuse the elimination of constraints that have no place at body level.

    Raises:
        UnsupportedError: naming them.
    """
    left = rows_without_bodies(system)
    if left:
        names = ", ".join(repr(c.constraint.name) for c in left)
        raise UnsupportedError(
            f"route 'elimination': model {system.model.name!r} has rows that no body or joint feels by itself "
            f"({names}): massless motions that springs and dampers decide depend on the whole mechanism. Leave route= "
            f"out."
        )


def by_sweeps(m: Mechanism) -> bool:
    """Whether sweeps alone solve the system: cheaper than a factor of M where the tree is deep."""
    if m.route is None:
        return not by_clusters(m) and not by_bodies(m) and is_swept(m.tree.model)
    return m.route == "recursion" and fits(constraint_set(m.tree.model))
