"""Pairs without a closed form, to rounding and in motion: gaps against a search, rows and biases against differences,
and simulations by events against the closed forms of the same scene."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pytest
from scipy.optimize import minimize

import whippletree as wt
from contact_scenes import SHAPES, TENT
from whippletree.contact.geometry.bounds import at_least_apart
from whippletree.contact.geometry.separation import BoundedShape, farthest, reach_along, search_direction, separation
from whippletree.contact.geometry.shapes import Ball, Box, Capsule, Cylinder, Ellipsoid, Hull
from whippletree.contact.kinematics.large_scenes import snapshot
from whippletree.simulation.contacts_in_python import UNUSED_GAP, PlainContacts
from whippletree.tree.mechanism import Mechanism

WRITTEN = {
    ("capsule", "capsule"),
    ("sphere", "sphere"),
    ("box", "sphere"),
    ("cylinder", "sphere"),
    ("capsule", "sphere"),
}
PAIRS = [pair for pair in combinations_with_replacement(SHAPES, 2) if pair not in WRITTEN]


def two_bodies(first: str, second: str) -> wt.Model:
    builder = wt.Builder(f"{first} on {second}")
    for name, kind in (("a", first), ("b", second)):
        builder.body(name, 1.0, inertia=(0.1, 0.1, 0.1)).joint(f"{name}_free", "free", "world", name)
        builder.geometry(name, name, kind, position=(0.02, 0.01, -0.03), **SHAPES[kind])
    return builder.contact("touch", "a", "b").build()


def poses(model: wt.Model, q: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    ref = wt.reference(model)
    whole = [ref.pose(name)(q) @ model.geometry(name).pose.astype(float) for name in ("a", "b")]
    return [(X[:3, :3], X[:3, 3]) for X in whole]


def random_state(model: wt.Model, rng: np.random.Generator, spread: float) -> tuple[np.ndarray, np.ndarray]:
    scale = np.tile([1, 1, 1, spread, spread, spread], 2)
    return wt.reference(model).integrate(model.neutral.q, rng.normal(size=12) * scale), rng.normal(size=12)


def least_gap(shapes: tuple[BoundedShape, BoundedShape], X, Y) -> float:
    """The largest separation over all directions, by Nelder and Mead from many starts."""

    def apart(u):
        return -separation(*shapes, X, Y, u / np.linalg.norm(u))

    starts = np.random.default_rng(0).normal(size=(400, 3))
    best = sorted(starts, key=apart)[:4]
    options = {"xatol": 1e-11, "fatol": 1e-14, "maxiter": 1500}
    return -min(minimize(apart, u, method="Nelder-Mead", options=options).fun for u in best)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_smallest_gap_is_the_distance_to_rounding(first, second):
    model = two_bodies(first, second)
    system, rng = wt.contact_set(model), np.random.default_rng(5)
    for _ in range(4):
        q, _ = random_state(model, rng, 0.5)
        expected = least_gap(system.pairs[0].shapes, *poses(model, q))
        gaps = snapshot(model, q).points.gap
        if expected > 0:
            assert gaps.min() == pytest.approx(expected, abs=1e-9)
        elif "box" not in (first, second) and "mesh" not in (first, second):
            # of flat shapes, corners may be deeper in the other than the shortest way out
            assert gaps.min() <= expected + 1e-9


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_rows_are_rates_of_gaps_and_biases_rates_of_velocities(first, second):
    """By differences, also inside each other; what is compared must not change its feature in between."""
    model = two_bodies(first, second)
    ref, m, system, rng = wt.reference(model), Mechanism.of(model), wt.contact_set(model), np.random.default_rng(1)
    h, compared = 1e-5, 0
    for _ in range(6):
        q, v = random_state(model, rng, 0.3)
        state = q.astype(object), v.astype(object)
        velocity, bias = system.velocity(m, *state).astype(float), system.bias(m, *state).astype(float)
        assert velocity == pytest.approx(system.jacobian(m, state[0]).astype(float) @ v, abs=1e-12)
        ends = [ref.integrate(q, s * h * v).astype(object) for s in (1, -1)]
        ahead, behind = (system.points(m, end).gap.astype(float) for end in ends)
        used = np.isfinite(ahead) & np.isfinite(behind) & np.isfinite(system.points(m, state[0]).gap.astype(float))
        compared += used.sum()
        assert velocity[::3][used] == pytest.approx((ahead[used] - behind[used]) / (2 * h), abs=1e-6)
        u = [system.velocity(m, end, state[1]).astype(float) for end in ends]
        rows = np.repeat(used, 3)
        assert bias[rows] == pytest.approx((u[0] - u[1])[rows] / (2 * h), abs=1e-3, rel=1e-5)
    assert compared > 5


def test_simulations_see_the_same_numbers():
    """Compiled poses and vectorised rates against the generic code."""
    model = two_bodies("cylinder", "box")
    system, m, rng = wt.contact_set(model), Mechanism.of(model), np.random.default_rng(2)
    plain = PlainContacts(wt.compile(model), system)
    states = [random_state(model, rng, 0.4) for _ in range(3)]
    q, v = (np.array(column) for column in zip(*states, strict=True))
    for name in ("velocity", "bias"):
        expected = [getattr(system, name)(m, *(x.astype(object) for x in state)).astype(float) for state in states]
        assert plain.evaluate(f"contact_{name}", q, v) == pytest.approx(np.array(expected), abs=1e-11)
    gaps = np.array([system.points(m, state[0].astype(object)).gap.astype(float) for state in states])
    assert plain.evaluate("contact_gaps", q) == pytest.approx(np.minimum(gaps, UNUSED_GAP), abs=1e-14)
    rows = np.array([system.jacobian(m, state[0].astype(object)).astype(float) for state in states])
    assert plain.evaluate("contact_jacobian", q) == pytest.approx(rows, abs=1e-13)


def test_a_broad_phase_never_hides_a_contact():
    solids = [
        Ball(0.2), Capsule(0.1, 0.3), Cylinder(0.2, 0.3), Box((0.1, 0.2, 0.3)), Ellipsoid((0.1, 0.2, 0.3)),
        Hull(np.array(TENT, dtype=float) + 0.4),
    ]  # fmt: skip
    rng = np.random.default_rng(3)
    for first, second in combinations_with_replacement(solids, 2):
        X, Y = ((np.linalg.qr(rng.normal(size=(3, 3)))[0], 0.5 * rng.normal(size=3)) for _ in range(2))
        assert at_least_apart(first, second, X, Y) <= search_direction(first, second, X, Y).gap + 1e-12
        along = rng.normal(size=3)
        assert farthest(first, along) @ along == pytest.approx(reach_along(first, along[None])[0], abs=1e-12)


def test_pairs_out_of_reach_are_left_out():
    model = two_bodies("box", "cylinder")
    q = model.neutral.q
    q[0] = 3.0
    at = snapshot(model, q)
    assert np.all(np.isinf(at.within(1.0).gap))
    assert at.points.gap.min() == pytest.approx(3.0 - 0.25 - 0.25, abs=1e-12)


# --- simulations by events --------------------------------------------------------------------------------------------


def on_table(kind: str, start: tuple[float, ...], friction: float, ground: str = "box", **numbers) -> wt.Model:
    """A body over a table whose top is z = 0: a box, or the half-space of the closed forms."""
    builder = wt.Builder("table")
    if ground == "box":
        builder.geometry("table", "world", "box", size=(2, 2, 0.2), position=(0, 0, -0.1))
    else:
        builder.geometry("table", "world", "half_space")
    builder.body("body", 1.0, inertia=(0.02, 0.02, 0.005)).joint("free", "free", "world", "body", start=start)
    return (
        builder.geometry("shape", "body", kind, **numbers).contact("touch", "shape", "table", friction=friction).build()
    )


@pytest.mark.slow
def test_a_cylinder_rolls_on_a_box_on_the_same_two_points():
    """No event, no slip: x = v t, and the points in the slots stay those of the two rims."""
    half = np.sqrt(0.5)
    model = on_table("cylinder", (0, 0, 0.1, half, half, 0, 0), 0.5, radius=0.1, length=0.3)
    run = wt.simulate(model, v0=[0, 0, -10.0, 1.0, 0, 0], duration=0.005, method="events", saltation=False)
    assert run.attrs["failure"] == ""
    assert list(run.attrs["event_names"]) == []
    assert float(run.q[-1, 0]) == pytest.approx(0.005, abs=1e-12)
    closed = np.flatnonzero(run["contact_state"].values[-1])
    assert [run.attrs["contact_names"][k] for k in closed] == ["touch.0", "touch.4"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "numbers", "start"),
    [
        ("cylinder", {"radius": 0.1, "length": 0.3}, (0, 0, 0.151, 1, 0, 0, 0)),
        ("mesh", {"vertices": [(x, y, z) for x in (-0.1, 0.1) for y in (-0.1, 0.1) for z in (-0.1, 0.1)]},
         (0, 0, 0.1184, 0.995, 0.0998, 0, 0)),
    ],
)  # fmt: skip
def test_landing_on_a_box_is_landing_on_its_plane(kind, numbers, start):
    """Events and states against the same scene with closed forms."""
    runs = []
    for ground in ("box", "half_space"):
        model = on_table(kind, start, 0.4, ground, **numbers)
        runs.append(wt.simulate(model, duration=0.03, method="events", saltation=False))
    ours, theirs = runs
    assert ours.attrs["failure"] == theirs.attrs["failure"] == ""
    assert len(theirs.attrs["event_times"]) > 0
    assert np.unique(ours.attrs["event_times"]) == pytest.approx(np.unique(theirs.attrs["event_times"]), abs=1e-9)
    assert ours.q[-1].values == pytest.approx(theirs.q[-1].values, abs=1e-8)
    assert ours.v[-1].values == pytest.approx(theirs.v[-1].values, abs=1e-7)
