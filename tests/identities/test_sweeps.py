"""Scatter and gather: adjoint to each other, for forests, any order, any depth and any block weights."""

import random
from typing import NamedTuple

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from strategies import block_systems, rigid_systems
from whippletree.tree.forward import articulate, forward_dynamics, forward_dynamics_squared, hybrid_dynamics
from whippletree.tree.inverse import accelerations, inverse_dynamics, inverse_dynamics_by_composites
from whippletree.tree.links import Link, add_wrenches
from whippletree.tree.operators import SpatialOperators
from whippletree.tree.sweeps import DenseWeight, Unrolled, add

systems = st.one_of(rigid_systems(), block_systems())


def scattered(system, x):
    """φ* x, with nothing from the world."""

    def step(parent, link, own):
        value = own + (link.X.motion(parent) if parent is not None else 0)
        return value, value

    return system.sweep.scatter(step, None, system.links, x)


def gathered(system, y):
    """φ y."""

    def step(children, link, own):
        value = own + children
        return link.X.force(value), value

    return system.sweep.gather(step, 0, system.links, y)


def body_vectors(system, field):
    """One vector per body, of the body's size."""
    return [getattr(link, field) for link in system.links]


def same(a, b):
    return all((x == y).all() for x, y in zip(a, b, strict=True))


# --- the recursions ---------------------------------------------------------------------------------------------------


@given(systems)
def test_gather_is_the_transpose_of_scatter(system):
    """(φ* x) · y = x · (φ y), exactly."""
    x, y = body_vectors(system, "a"), body_vectors(system, "b")
    left = sum(u @ v for u, v in zip(scattered(system, x), y))
    assert left == sum(u @ v for u, v in zip(x, gathered(system, y)))


@given(systems)
def test_the_recursions_are_the_resolvent(system):
    ops = SpatialOperators.from_links(system.parents, system.links)
    x = body_vectors(system, "a")
    assert (np.concatenate(scattered(system, x)) == ops.phi.T @ np.concatenate(x)).all()
    assert (np.concatenate(gathered(system, x)) == ops.phi @ np.concatenate(x)).all()


@given(systems, st.randoms(use_true_random=False))
def test_any_order_with_parents_first_gives_the_same(system, rng):
    order = shuffled(system.parents, rng)
    place = {k: i for i, k in enumerate(order)}
    parents = [place[system.parents[k]] if system.parents[k] >= 0 else -1 for k in order]
    other = system._replace(
        parents=tuple(parents), links=[system.links[k] for k in order], tau=[system.tau[k] for k in order]
    )
    here = forward_dynamics(system.sweep, system.links, system.tau, system.base)
    there = forward_dynamics(other.sweep, other.links, other.tau, other.base)
    assert same([here[k] for k in order], there)


def shuffled(parents, rng):
    """The bodies in a random order with parents first."""
    ready, order = [k for k, parent in enumerate(parents) if parent < 0], []
    while ready:
        k = ready.pop(rng.randrange(len(ready)))
        order.append(k)
        ready += [child for child, parent in enumerate(parents) if parent == k]
    return order


@given(block_systems(), block_systems())
def test_the_trees_of_a_forest_do_not_feel_each_other(left, right):
    shift = len(left.parents)
    parents = (*left.parents, *(p + shift if p >= 0 else -1 for p in right.parents))
    both = forward_dynamics(Unrolled(parents), still(left.links + right.links), left.tau + right.tau, None)
    for system, part in ((left, slice(0, shift)), (right, slice(shift, None))):
        alone = forward_dynamics(system.sweep, still(system.links), system.tau, None)
        assert same(both[part], alone)


class Grounded(NamedTuple):
    """A weight whose parent may be a world at rest, whatever its size."""

    w: np.ndarray

    def motion(self, V):
        return self.w.T @ V if V is not None else np.zeros(self.w.shape[1], dtype=object)

    def force(self, f):
        return self.w @ f

    def inertia(self, P):
        return self.w @ P @ self.w.T


def still(links):
    """The same links, on a world at rest."""
    return [link._replace(X=Grounded(link.X.w)) for link in links]


def test_steps_see_what_they_should():
    """The tree 0 → (1 → 3, 2): depths by a scatter, sizes by a gather, and what a step keeps may be anything."""
    sweep, names = Unrolled((-1, 0, 0, 1)), "abcd"
    assert sweep.scatter(lambda depth, name: (depth + 1, f"{name}{depth}"), 0, names) == ["a0", "b1", "c1", "d2"]
    assert sweep.gather(lambda size, name: (size + 1, f"{name}{size}"), 0, names) == ["a3", "b1", "c0", "d0"]
    assert sweep.map(lambda name, k: name * k, names, (1, 2, 0, 1)) == ["a", "bb", "", "d"]
    assert sweep.total(lambda k: k, 10, (1, 2, 3, 4)) == 20
    assert Unrolled(()).gather(lambda *_: 1 / 0, 0) == []


def test_messages_may_be_tuples():
    class Pair(NamedTuple):
        a: int
        b: int

    assert add((1, 2), Pair(3, 4)) == Pair(4, 6)
    assert isinstance(add((0, 0), Pair(3, 4)), Pair)
    assert isinstance(add(Pair(0, 0), Pair(3, 4)), Pair)
    assert type(add((1, 2), (3, 4))) is tuple
    assert add(1, 2) == 3
    count = Unrolled((-1, 0, 0)).gather(lambda sum_, k: (Pair(sum_[0] + k, 1), sum_), Pair(0, 0), (5, 6, 7))
    assert count[0] == Pair(13, 2)


def test_a_hundred_thousand_bodies_in_a_row():
    n = 100_000
    sweep = Unrolled(range(-1, n - 1))
    assert sweep.scatter(lambda depth, _: (depth + 1, depth), 0, range(n))[-1] == n - 1
    assert sweep.gather(lambda size, _: (size + 1, size), 0, range(n))[0] == n - 1


def test_ten_thousand_blocks_in_a_row():
    """A chain of equal masses m = 1, each pushed along the line by its own joint: T(k) = Σ of the forces beyond."""
    n = 10_000
    one = np.array([[1]], dtype=object)
    links = [Link(DenseWeight(one), one, one)] * n
    tau = [np.array([t], dtype=object) for t in random.Random(0).choices(range(-9, 9), k=n)]
    qdd = forward_dynamics(Unrolled(range(-1, n - 1)), links, tau, np.array([0], dtype=object))
    assert same(inverse_dynamics(Unrolled(range(-1, n - 1)), links, qdd, np.array([0], dtype=object)), tau)


# --- dynamics on any blocks -------------------------------------------------------------------------------------------


@given(systems)
def test_inverse_dynamics_undoes_forward_dynamics(system):
    qdd = forward_dynamics(system.sweep, system.links, system.tau, system.base)
    assert same(inverse_dynamics(system.sweep, system.links, qdd, system.base), system.tau)


@given(systems)
def test_forward_dynamics_undoes_inverse_dynamics(system):
    tau = inverse_dynamics(system.sweep, system.links, system.qdd, system.base)
    assert same(forward_dynamics(system.sweep, system.links, tau, system.base), system.qdd)


@given(systems)
def test_composite_inertias_give_the_same_forces(system):
    newton_euler = inverse_dynamics(system.sweep, system.links, system.qdd, system.base)
    assert same(inverse_dynamics_by_composites(system.sweep, system.links, system.qdd, system.base), newton_euler)


@given(systems)
def test_the_quadratic_road_arrives_at_the_same_accelerations(system):
    fast = np.concatenate(forward_dynamics(system.sweep, system.links, system.tau, system.base))
    assert (forward_dynamics_squared(system.sweep, system.links, system.tau, system.base) == fast).all()


@given(systems)
def test_unit_accelerations_give_a_symmetric_mass_matrix(system):
    sizes = [link.H.shape[1] for link in system.links]
    links = [link._replace(a=0 * link.a, b=0 * link.b) for link in system.links]
    cuts, at_rest = np.cumsum(sizes)[:-1], 0 * system.base
    columns = [
        np.concatenate(inverse_dynamics(system.sweep, links, np.split(e, cuts), at_rest))
        for e in np.eye(sum(sizes), dtype=int).astype(object)
    ]
    M = np.array(columns, dtype=object).reshape(sum(sizes), sum(sizes))
    assert (M == M.T).all()
    assert (SpatialOperators.from_links(system.parents, system.links).mass_matrix.dense() == M).all()


@given(systems, st.randoms(use_true_random=False))
def test_hybrid_dynamics_for_any_set_of_prescribed_joints(system, rng):
    """Whatever is prescribed, the outcome is a motion whose forces inverse dynamics confirms."""
    prescribed = [rng.random() < 0.5 for _ in system.links]
    given_ = [a if fixed else t for fixed, a, t in zip(prescribed, system.qdd, system.tau)]
    outcome = hybrid_dynamics(system.sweep, system.links, prescribed, given_, system.base)
    for fixed, own, result in zip(prescribed, given_, outcome):
        assert (own == (result.qdd if fixed else result.effort)).all()
    efforts = inverse_dynamics(system.sweep, system.links, [o.qdd for o in outcome], system.base)
    assert same(efforts, [o.effort for o in outcome])


@given(systems)
def test_pivots_are_those_of_a_positive_definite_matrix(system):
    freedoms = articulate(system.sweep, system.links, system.tau)
    pivots = [d for freedom in freedoms for d in freedom.pivots]
    assert all(d > 0 for d in pivots)
    determinant = SpatialOperators.from_links(system.parents, system.links).determinant
    assert np.prod(np.array([1, *pivots], dtype=object)) == determinant


@given(systems)
def test_an_external_wrench_does_work_on_the_body_it_acts_on(system):
    """The joint forces that balance wrenches f are −(φ* H*)* f: the principle of virtual power."""
    wrenches = body_vectors(system, "b")
    balance = inverse_dynamics(
        system.sweep, add_wrenches(system.sweep, system.links, wrenches), system.qdd, system.base
    )
    free = inverse_dynamics(system.sweep, system.links, system.qdd, system.base)
    at_rest = [link._replace(a=0 * link.a) for link in system.links]
    twists = accelerations(system.sweep, at_rest, system.qdd, 0 * system.base)
    power = sum(u @ f for u, f in zip(twists, wrenches))
    assert sum((x - y) @ rate for x, y, rate in zip(free, balance, system.qdd)) == power
