"""Newton's and interior-point steps of scenes of many bodies: their linear systems, and where they lead."""

from unittest import mock

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Address, Buffer, Collect, If, Index, Lookup, Loop
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.scenes import scene_newton, scene_solver
from whippletree.compiler.rollout.scenes.scene_contacts import BODY
from whippletree.compiler.rollout.scenes.scene_elimination import MOST_NEIGHBOURS, BodyElimination
from whippletree.contact.kinematics.scene_layout import scene_layout
from whippletree.simulation.time_stepping import impulse_step, scene_method
from whippletree.simulation.time_stepping.scene_run import ROWS, SteppedScene, Warm

H = 2e-3


# ---- elimination on a graph of bodies --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def eliminate():
    """x with A x = b, from blocks of bodies and of pairs, and whether there was an order."""
    space = WorkSpace()
    space.add(
        Buffer("own", "input", ("N", 6, 6)),
        Buffer("free", "input", ("N",)),
        Buffer("right", "input", ("N", 6)),
        Buffer("between", "input", ("P", 2, 6, 6)),
        Buffer("edge room", "input", ("E",)),
        Buffer("pairs", "input", ("P", 2), integer=True),
    )
    graph, at = BodyElimination(space), space.at
    space.numbers_list("bodies", "N")
    space.add(Buffer("found", "output", ("N", 6)), Buffer("solved", "output", ()))
    sides = [Lookup(name, Address("pairs", (Index("pair"), Index(None, k))), "N") for k, name in enumerate("ab")]
    blocks = [at("coupling", "edge"), at("coupling", "edge back")]
    add = traced_block(lambda x, y, two: [x + two[0], y + two[1]], [*blocks, at("between", "pair")], blocks)
    join = (*sides, *graph.join("a", "b"), *graph.edge_between(space.address("sought")), add)
    join = (*join, graph.count_contact())
    one = Piece((), (space.address("in graph", BODY),))
    copy = traced_block(
        lambda A, b, free: [A, b, [free]],
        [*space.each(("own", "right", "free"), BODY)],
        [at("own part", BODY), at("aside of body", BODY), one],
    )
    result = traced_block(lambda x: [x], [at("aside of body", BODY)], [at("found", BODY)])
    body = (
        *graph.begin_call(),
        Loop(BODY, "N", (copy,)),
        Collect("bodies", BODY, "N", space.address("in graph", BODY)),
        *graph.clear("bodies"),
        Loop("pair", "P", join),
        *graph.find_order("bodies"),
        If(space.address("solvable"), (*graph.factor(), *graph.solve())),
        Loop(BODY, "N", (result,)),
        traced_block(lambda solvable: [solvable[0]], [at("solvable")], [at("solved")]),
    )
    function = compile_function(space.program("elimination", body), threads=1)

    def solve(own, pairs, between, right, room=400):
        world = np.zeros((1, 6))
        free = np.append(np.ones(len(own)), -1.0)
        given = (np.concatenate([own, np.zeros((1, 6, 6))]), free, np.concatenate([right, world]), between)
        found, solved = function.ufunc(*given, np.zeros(room), np.asarray(pairs, dtype=np.int64).reshape(-1, 2))
        return found[:-1], solved > 0

    return solve


def random_system(seed, count, extra):
    """A forest with some more pairs, some of them twice and the other way round; blocks without symmetry."""
    random = np.random.default_rng(seed)
    pairs = [(k, int(random.integers(k))) for k in range(1, count) if random.random() < 0.8]
    while extra:
        a, b = random.choice(count, 2, replace=False)
        pairs.append((int(a), int(b)))
        extra -= 1
    pairs += [(b, a) for a, b in pairs[::3]]
    between = random.normal(size=(len(pairs), 2, 6, 6))
    own = random.normal(size=(count, 6, 6)) + 40 * np.eye(6)
    A = np.zeros((count, 6, count, 6))
    A[np.arange(count), :, np.arange(count)] = own
    for (a, b), (there, back) in zip(pairs, between, strict=True):
        A[a, :, b] += there
        A[b, :, a] += back
    return own, pairs, between, A.reshape(6 * count, 6 * count), random.normal(size=(count, 6))


@pytest.mark.parametrize(("seed", "count", "extra"), [(0, 2, 0), (1, 12, 0), (2, 25, 6), (3, 40, 20), (4, 9, 12)])
def test_a_system_on_a_graph_is_solved_as_a_dense_one(eliminate, seed, count, extra):
    own, pairs, between, A, right = random_system(seed, count, extra)
    found, solved = eliminate(own, pairs, between, right)
    assert solved
    exact = np.linalg.solve(A, right.ravel())
    np.testing.assert_allclose(found.ravel(), exact, atol=1e-13 * np.linalg.cond(A) * abs(exact).max(), rtol=0)


def test_a_graph_that_is_too_dense_or_too_large_is_told(eliminate):
    count = MOST_NEIGHBOURS + 3
    pairs = [(a, b) for a in range(count) for b in range(a)]
    own, right = np.tile(np.eye(6), (count, 1, 1)), np.ones((count, 6))
    assert not eliminate(own, pairs, np.zeros((len(pairs), 2, 6, 6)), right)[1]
    own, pairs, between, _, right = random_system(5, 30, 10)
    assert eliminate(own, pairs, between, right)[1]
    assert not eliminate(own, pairs, between, right, room=20)[1]


# ---- whole steps -----------------------------------------------------------------------------------------------------


def heap(kind, count, seed, friction=0.6, masses=(1.0, 1.0)):
    """Bodies turned at random, one above the other, about to fall on a heap."""
    random = np.random.default_rng(seed)
    builder, names = wt.Builder("heap").geometry("floor", "world", "half_space"), ["floor"]
    shapes = {"box": {"size": (0.1, 0.08, 0.06)}, "capsule": {"radius": 0.03, "length": 0.08}}
    for k in range(count):
        turn = random.normal(size=4)
        mass = float(np.exp(random.uniform(*np.log(masses))))
        builder.body(f"thing {k}", mass, inertia=(mass * 1e-3,) * 3)
        place = (*random.uniform(-0.02, 0.02, 2), 0.08 + 0.15 * k)
        builder.joint(f"joint {k}", "free", "world", f"thing {k}", start=(*place, *turn / np.linalg.norm(turn)))
        builder.geometry(f"shape {k}", f"thing {k}", kind, **shapes[kind])
        names.append(f"shape {k}")
    return wt.without_overlaps(builder.contact_group("all", names, friction=friction).build())


def advance(model, count, tolerance=1e-10, effort=100_000):
    """States and accounts of so many steps of the kernel of scenes, one after the other."""
    scene, warm, told = SteppedScene(scene_layout(model), tolerance, 1e-11, effort), Warm.cold(), []
    q, v = np.array(model.home.q, dtype=float), np.zeros(model.nv)
    for _ in range(count):
        taken = scene.advance(q, v, warm, np.zeros(model.nv), np.array([H]))
        q, v, warm = taken.q, taken.v, taken.warm
        told.append(taken)
    return told


def one_step_in_python(model, q, v):
    """Velocities after a step by the path in Python: its own Newton and interior-point methods, from no impulses."""
    with (
        mock.patch.object(scene_method, "is_scene", return_value=False),
        mock.patch.object(impulse_step, "suits_lists", return_value=False),
    ):
        run = wt.simulate(model, q, v, duration=H, output_dt=H, method="time_stepping", step=H, tolerance=1e-10)
    assert run.attrs["unconverged_steps"] == 0
    return run.v.values[-1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("before", "between", "path"),
    [(1, 1, 1000), (1, 2, 0), (20, 5, 6)],
    ids=["Newton at once", "interior points at once", "as usual"],
)
def test_whatever_way_leads_to_it_the_solution_is_that_of_the_reference(monkeypatch, before, between, path):
    monkeypatch.setattr(scene_solver, "PAIRS_BEFORE", before)
    monkeypatch.setattr(scene_solver, "PAIRS_BETWEEN", between)
    monkeypatch.setattr(scene_newton, "STEPS_BEFORE_PATH", path)
    model = heap("capsule", 10, seed=3)
    told = advance(model, 240)
    compared = 0
    for start, own in zip(told[150::12], told[151::12], strict=False):
        if own.account[0, ROWS["residual_velocity"]] > 1e-10:
            continue
        # M Δv / h is the wrench on each body, so these are the same, too
        np.testing.assert_allclose(own.v, one_step_in_python(model, start.q, start.v), atol=1e-7)
        compared += 1
    assert compared >= 5
    assert own.account[0, ROWS["contacts"]] >= 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "seed", "masses", "tolerance"),
    [
        ("box", 1, (1.0, 1.0), 1e-5),
        ("box", 5, (1.0, 1.0), 1e-5),
        ("capsule", 2, (0.01, 10.0), 1e-7),
        ("capsule", 3, (0.01, 10.0), 1e-7),
    ],
)
def test_heaps_are_solved_in_every_step(kind, seed, masses, tolerance):
    told = advance(heap(kind, 12, seed, masses=masses), 400, tolerance=tolerance, effort=4000)
    assert max(own.account[0, ROWS["residual_velocity"]] for own in told) <= tolerance
    assert max(own.account[0, ROWS["cone_violation"]] for own in told) <= 1e-12


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("boxes", [2, 4])
def test_what_much_rests_on_little_is_solved(boxes):
    """A box of 1000 t stands on some of 1 kg, a little beside each other: no step is left unsolved."""
    builder, names = wt.Builder("stack").geometry("floor", "world", "half_space"), ["floor"]
    for k in range(boxes):
        mass = 1e6 if k == boxes - 1 else 1.0
        builder.body(f"thing {k}", mass, inertia=(mass * 0.04 / 6,) * 3)
        builder.joint(f"joint {k}", "free", "world", f"thing {k}", start=(0.01 * k, 0, 0.1 + 0.2 * k, 1, 0, 0, 0))
        builder.geometry(f"shape {k}", f"thing {k}", "box", size=(0.2, 0.2, 0.2))
        names.append(f"shape {k}")
    model = builder.contact_group("all", names, friction=0.5).build()
    run = wt.simulate(model, duration=1.0, step=H, output_dt=1.0, method="time_stepping", tolerance=1e-7)
    assert run.attrs["unconverged_steps"] == 0
    assert run.attrs["largest_residual_velocity"] <= 1e-7
    heavy = run.contact_wrench.values[-1, -1, 5]
    # at rest to the residual: what is left of it would be a force of m u / h
    np.testing.assert_allclose(heavy, 1e6 * 9.81, rtol=0, atol=1e6 * 1e-7 / H)
    np.testing.assert_allclose(run.q.values[-1][2::7], [0.1 + 0.2 * k for k in range(boxes)], atol=1e-4)


def test_contacts_without_friction_take_no_path(monkeypatch):
    """Interior-point steps divide by the friction; such islands are left to Newton's method and sweeps."""
    monkeypatch.setattr(scene_solver, "PAIRS_BEFORE", 1)
    monkeypatch.setattr(scene_newton, "STEPS_BEFORE_PATH", 0)
    told = advance(heap("box", 3, seed=3, friction=0.0), 100, tolerance=1e-8)
    assert max(own.account[0, ROWS["residual_velocity"]] for own in told) <= 1e-8
