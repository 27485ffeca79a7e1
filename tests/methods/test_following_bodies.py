"""Bodies that leave the body-level system by their joints, and rows that need no weight."""

import math

import numpy as np
import pytest

import whippletree as wt
from long_mechanisms import floating_ladder, grid, ring_of_rings, truss
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.body_system import Unknowns, unknowns_of
from whippletree.constraints.long_systems.following_bodies import WORLD, Closing, following_bodies
from whippletree.constraints.long_systems.row_weights import NO_WEIGHT


def test_a_chain_is_the_articulated_recursion():
    """Tips first every body follows; base first only the one on the world does."""
    parents, rows = [WORLD, 0, 1, 2], [5] * 4
    assert following_bodies([3, 2, 1, 0], parents, rows, [], 0).follows == [True] * 4
    assert following_bodies([0, 1, 2, 3], parents, rows, [], 0).follows == [True, False, False, False]


def test_a_closure_waits_for_a_body_that_follows_or_the_body_does_not():
    """A four-bar: two cranks on the world, and a coupler on the first that is pinned to the second."""
    parents, rows, pin = [WORLD, 0, WORLD], [5, 5, 5], [Closing((1, 2), 2)]
    at_once = following_bodies([2, 1, 0], parents, rows, pin, 0)
    assert (at_once.follows, at_once.ends) == ([True, False, True], [1])
    patient = following_bodies([2, 1, 0], parents, rows, pin, 1)
    assert (patient.follows, patient.ends) == ([True, True, True], [0])


def test_a_closure_with_more_rows_than_the_joint_does_not_wait():
    weld = [Closing((1, 2), 6)]
    found = following_bodies([2, 1, 0], [WORLD, 0, WORLD], [5, 5, 5], weld, 1)
    assert (found.follows, found.ends) == ([True, False, True], [1])


def test_joints_that_tie_two_held_pieces_release_one():
    """Two arms on the world, 0-1-2 and 4-3, whose tips are pinned: what is tied to the world is held there alone."""
    parents, closures = [WORLD, 0, 1, 4, WORLD], [Closing((2, 3), 2)]
    found = following_bodies([2, 3, 4, 1, 0], parents, [5] * 5, closures, 0)
    assert found.ends == [3]
    # 2 would follow 1, so 3 does not follow 4; then 4 ties both to the world: 2 does not follow, and nor may 1
    assert found.follows == [True, False, False, False, True]


def held_pieces(order, parents, closures, found):
    """For each moment, the sets of held pieces that joints and ended closures tie together."""
    ends = dict(enumerate(found.ends))
    gone: set[int] = set()
    for k in order:
        gone.add(k)
        tied = {WORLD: WORLD} | {b: b for b in gone}

        def first(b, tied=tied):
            while tied[b] != b:
                b = tied[b]
            return b

        for b in gone:
            if parents[b] == WORLD or parents[b] in gone:
                tied[first(b)] = first(parents[b])
        done = [c for i, c in enumerate(closures) if order.index(ends[i]) <= order.index(k)]
        for closing in done:
            for b in closing.bodies:
                tied[first(b)] = first(closing.bodies[0])
        held = [first(WORLD)]
        held += [first(b) for b in gone if found.follows[b] and parents[b] != WORLD and parents[b] not in gone]
        yield held


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("patience", [0, 1, 3])
def test_no_two_held_pieces_are_ever_tied_together(seed, patience):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(3, 14))
    parents = [int(rng.integers(-1, k)) if k else WORLD for k in range(count)]
    closures = [
        Closing(tuple(rng.choice(np.arange(-1, count), size=2, replace=False).tolist()), int(rng.integers(1, 6)))
        for _ in range(int(rng.integers(0, 6)))
    ]
    order = rng.permutation(count).tolist()
    found = following_bodies(order, parents, rng.integers(0, 7, size=count).tolist(), closures, patience)
    place = {k: i for i, k in enumerate(order)}
    for closing, end in zip(closures, found.ends, strict=True):
        assert all(place[k] <= place[end] for k in closing.bodies if k != WORLD)
    for k, parent in enumerate(parents):
        assert not found.follows[k] or parent == WORLD or place[k] < place[parent]
    for held in held_pieces(order, parents, closures, found):
        assert len(set(held)) == len(held)


def ladder_with(rung):
    """A ladder of six rungs, of which one has other numbers."""
    rod = {"mass": 1.0, "center": (0.5, 0, 0), "inertia": (0, 1 / 12, 1 / 12)}
    builder = wt.Builder("ladder", (0, -9.81, 0))
    for k in range(6):
        builder.body(f"U{k}", **(rung if k == 3 else rod)).frame(f"top{k}", f"U{k}", position=(1, 0, 0))
        builder.joint(f"u{k}", "revolute", "world", f"U{k}", position=(k, 0, 0), start=math.pi / 2 - 0.3)
    for k in range(5):
        builder.body(f"L{k}", **rod).frame(f"end{k}", f"L{k}", position=(1, 0, 0))
        builder.joint(f"l{k}", "revolute", f"U{k}", f"L{k}", position=(1, 0, 0), start=0.3 - math.pi / 2)
        builder.constraint(f"p{k}", "pin", f"top{k + 1}", f"end{k}")
    return builder.build()


@pytest.mark.parametrize(("share", "weighted"), [(1.0, False), (0.05, False), (1e-3, True), (0.0, True)])
def test_rows_are_weighted_where_a_motion_has_little_inertia(share, weighted):
    light = {"mass": share, "center": (0.5, 0, 0), "inertia": (0, share / 12, share / 12)}
    model = ladder_with(light)
    unknowns = unknowns_of(constraint_set(model))
    closures = unknowns.weights.of_closure((0, 1), [True, False])
    assert (NO_WEIGHT in closures) is not weighted
    # rows of joints that are solved never have one
    for follows, weights in zip(unknowns.follows, unknowns.joint_weights, strict=True):
        assert not follows or set(weights) <= {NO_WEIGHT}
    q, rng = np.asarray(model.home.q), np.random.default_rng(1)
    v, tau = wt.reference(model, route="augmented").project_velocity(q, rng.normal(size=model.nv)), rng.normal(size=11)
    expected = wt.reference(model, route="block").forward_dynamics(q, v, tau)
    found = wt.compile(model, route="elimination").forward_dynamics(q, v, tau)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("make", "share"),
    [
        (lambda: wt.mechanisms.n_four_bar(20), 1.0),
        (lambda: floating_ladder(12), 0.5),
        (lambda: truss(8), 0.6),
        (lambda: ring_of_rings(8), 0.5),
        (lambda: grid(6, 6), 0.35),
    ],
    ids=["N-four-bar", "floating ladder", "truss", "ring of rings", "grid"],
)
def test_most_bodies_follow(make, share):
    system = constraint_set(make())
    unknowns = unknowns_of(system)
    assert np.mean(unknowns.follows) >= share
    assert unknowns.weights.moves_inertia
    plain = Unknowns(unknowns.tree, system.demands, system.structure.independent, system.compliance)
    assert not any(plain.follows)
    assert unknowns.cost < plain.cost
