"""Where shapes touch: every closed form against an independent answer, and its kinematics against derivatives.

Gaps against the collision library coal and against minimisation; the normal rows of J against the derivative of the
gap, and the bias against the derivative of J v, both exactly (dual numbers) and by differences; machine code against
the reference.
"""

from __future__ import annotations

from fractions import Fraction

import coal
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

import whippletree as wt
from whippletree.contact.geometry.shapes import shape_of

SHAPES = {
    "point": ("point", {}),
    "sphere": ("sphere", {"radius": 0.3}),
    "capsule": ("capsule", {"radius": 0.15, "length": 0.7}),
    "cylinder": ("cylinder", {"radius": 0.25, "length": 0.6}),
    "box": ("box", {"size": (0.4, 0.6, 0.9)}),
    "ellipsoid": ("ellipsoid", {"radii": (0.2, 0.35, 0.5)}),
    "mesh": ("mesh", {"vertices": ((0.3, 0, 0), (-0.2, 0.3, 0), (-0.2, -0.3, 0.1), (0, 0.05, 0.4), (0, 0, 0.1))}),
    "stone": ("mesh", {"vertices": np.random.default_rng(8).normal(scale=0.2, size=(60, 3))}),
    "half_space": ("half_space", {}),
    "terrain": ("terrain", {"height": lambda x, y: 0.1 * np.sin(2 * x) * np.cos(1.5 * y) + 0.05 * x}),
}
SOLIDS = ("point", "sphere", "capsule", "cylinder", "box", "mesh", "stone")
PAIRS = [
    *((solid, "half_space") for solid in (*SOLIDS, "ellipsoid")),
    *(("sphere", other) for other in ("sphere", "capsule", "box", "cylinder")),
    *(("point", other) for other in ("sphere", "capsule", "box", "cylinder")),
    ("capsule", "capsule"),
    ("box", "sphere"),  # the other order, which is turned round
    ("half_space", "capsule"),
]
ON_TERRAIN = [(solid, "terrain") for solid in SOLIDS if solid != "cylinder"]


def two_bodies(first: str, second: str) -> wt.Model:
    """Two free bodies with a shape each, off their origins."""
    builder = wt.Builder(f"{first} on {second}")
    for name, shape in (("a", first), ("b", second)):
        kind, parameters = SHAPES[shape]
        builder.body(name, 1.0, inertia=(0.1, 0.2, 0.25)).joint(f"{name}_free", "free", "world", name)
        turn = [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
        builder.geometry(f"{name} shape", name, kind, position=(0.1, -0.05, 0.2), rotation=turn, **parameters)
    return builder.contact("touch", "a shape", "b shape", friction=0.4, restitution=0.25).build()


def random_state(model: wt.Model, seed: int, apart: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Two bodies at random attitudes, some distance apart."""
    rng = np.random.default_rng(seed)
    q = wt.reference(model).integrate(model.neutral.q, rng.normal(size=12) * np.tile([1, 1, 1, 0, 0, 0], 2))
    q[:3], q[7:10] = apart * rng.normal(size=3), 0
    return q, rng.normal(size=12)


def coal_shape(shape: str) -> object:
    kind, p = SHAPES[shape]
    if kind == "mesh":
        points = coal.StdVec_Vec3s()
        for vertex in p["vertices"]:
            points.append(np.array(vertex, dtype=float))
        return coal.Convex.convexHull(points, False, "")
    return {
        "point": lambda: coal.Sphere(0.0),
        "sphere": lambda: coal.Sphere(p["radius"]),
        "capsule": lambda: coal.Capsule(p["radius"], p["length"]),
        "cylinder": lambda: coal.Cylinder(p["radius"], p["length"]),
        "box": lambda: coal.Box(*p["size"]),
        "ellipsoid": lambda: coal.Ellipsoid(*p["radii"]),
        "half_space": lambda: coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0),
    }[kind]()


def coal_gap(model: wt.Model, q: np.ndarray, first: str, second: str) -> float:
    """The signed distance by coal, with our poses."""
    ref = wt.reference(model)
    places = []
    for name in ("a", "b"):
        pose = ref.pose(name)(q) @ model.geometry(f"{name} shape").pose.astype(float)
        places.append(coal.Transform3s(pose[:3, :3], pose[:3, 3]))
    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.gjk_tolerance = request.epa_tolerance = 1e-12
    return coal.distance(coal_shape(first), places[0], coal_shape(second), places[1], request, result)


def support(shape: str, u: np.ndarray) -> np.ndarray:
    """max u · x over the shape, for directions (n, 3) in its frame."""
    kind, p = SHAPES[shape]
    across = np.hypot(u[:, 0], u[:, 1])
    return {
        "point": lambda: 0 * across,
        "sphere": lambda: p["radius"] * np.linalg.norm(u, axis=1),
        "capsule": lambda: p["radius"] * np.linalg.norm(u, axis=1) + p["length"] / 2 * np.abs(u[:, 2]),
        "cylinder": lambda: p["radius"] * across + p["length"] / 2 * np.abs(u[:, 2]),
        "box": lambda: np.abs(u) @ (np.array(p["size"]) / 2),
    }[kind]()


def gap_by_support(model: wt.Model, q: np.ndarray, first: str, second: str) -> float:
    """The signed distance of convex shapes: the largest −h(−u) − h(u) over directions u, by search."""
    ref = wt.reference(model)
    (R, p), (S, o) = (
        (pose[:3, :3], pose[:3, 3])
        for pose in (ref.pose(n)(q) @ model.geometry(f"{n} shape").pose.astype(float) for n in ("a", "b"))
    )

    def separation(u: np.ndarray) -> np.ndarray:
        u = np.atleast_2d(u) / np.linalg.norm(np.atleast_2d(u), axis=1, keepdims=True)
        return u @ (p - o) - support(first, -u @ R) - support(second, u @ S)

    directions = np.random.default_rng(0).normal(size=(4000, 3))
    best = directions[np.argsort(separation(directions))[-8:]]
    options = {"xatol": 1e-10, "fatol": 1e-13, "maxiter": 2000}
    found = [minimize(lambda u: -separation(u)[0], u, method="Nelder-Mead", options=options) for u in best]
    return -min(result.fun for result in found)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_the_smallest_gap_is_the_distance(first, second):
    model = two_bodies(first, second)
    ref = wt.reference(model)
    for seed in range(8):
        q, _ = random_state(model, seed)
        theirs = coal_gap(model, q, first, second)
        if theirs > 0 or "half_space" in (first, second):
            assert ref.contact_gaps(q).min() == pytest.approx(theirs, abs=2e-6)


@pytest.mark.parametrize(("first", "second"), [pair for pair in PAIRS if "half_space" not in pair])
def test_inside_each_other_the_gap_is_minus_the_shortest_way_out(first, second):
    model = two_bodies(first, second)
    ref = wt.reference(model)
    for seed in range(3):
        q, _ = random_state(model, seed, 0.25)
        assert ref.contact_gaps(q).min() == pytest.approx(gap_by_support(model, q, first, second), abs=1e-7)


@pytest.mark.parametrize(("first", "second"), [*PAIRS, *ON_TERRAIN])
def test_normal_rows_are_the_rates_of_the_gaps_and_bias_is_the_rate_of_the_velocity(first, second):
    model = two_bodies(first, second)
    ref = wt.reference(model)
    still = np.zeros(12)
    for seed in range(3):
        # over a terrain the bodies' heights differ little: far from it the nearest point is only a guess
        q, v = random_state(model, seed, 0.2 if second == "terrain" else 1.0)
        if second == "terrain":
            q[3:7], q[10:14] = (1, 0.1, -0.1, 0.3), (1, 0, 0, 0)
        J, bias = ref.contact_jacobian(q), ref.contact_bias(q, v)
        velocity = ref.contact_velocity(q, v)
        assert velocity == pytest.approx(J @ v, abs=1e-12)
        assert velocity[::3] == pytest.approx(ref.jvp("contact_gaps")(q, v), abs=1e-11)
        assert bias == pytest.approx(ref.jvp("contact_velocity")(q, v, v, still), abs=1e-9)


@pytest.mark.parametrize(("first", "second"), [("cylinder", "half_space"), ("sphere", "box"), ("sphere", "terrain")])
def test_the_same_by_differences(first, second):
    model = two_bodies(first, second)
    ref = wt.reference(model)
    q, v = random_state(model, 3, 0.4)
    if second == "terrain":
        q[3:7], q[10:14] = (1, 0.1, -0.1, 0.3), (1, 0, 0, 0)
    h = 1e-5
    ahead, behind = ref.integrate(q, h * v), ref.integrate(q, -h * v)
    J = ref.contact_jacobian(q)
    assert (J @ v)[::3] == pytest.approx((ref.contact_gaps(ahead) - ref.contact_gaps(behind)) / (2 * h), abs=1e-8)
    turning = (ref.contact_jacobian(ahead) @ v - ref.contact_jacobian(behind) @ v) / (2 * h)
    assert ref.contact_bias(q, v) == pytest.approx(turning, abs=1e-7)
    second_derivative = (ref.contact_gaps(ahead) - 2 * ref.contact_gaps(q) + ref.contact_gaps(behind)) / h**2
    assert ref.contact_bias(q, v)[::3] == pytest.approx(second_derivative, abs=1e-4)


@pytest.mark.parametrize(("first", "second"), [*PAIRS, *ON_TERRAIN])
def test_points_lie_on_both_surfaces_and_axes_are_orthonormal(first, second):
    """Point − gap · normal is on the second surface; right-handed axes; equal and opposite in the other order."""
    model = two_bodies(first, second)
    swapped = two_bodies(second, first)
    ref, other = wt.reference(model), wt.reference(swapped)
    q, _ = random_state(model, 1, 0.7)
    gaps, points, axes = ref.contact_gaps(q), ref.contact_points(q), ref.contact_axes(q)
    assert axes @ axes.transpose(0, 2, 1) == pytest.approx(np.broadcast_to(np.eye(3), axes.shape), abs=1e-14)
    assert np.linalg.det(axes) == pytest.approx(1.0)
    turned = np.concatenate([q[7:], q[:7]])
    if first != second:
        assert other.contact_gaps(turned) == pytest.approx(gaps, abs=1e-14)
        assert other.contact_axes(turned)[:, 0] == pytest.approx(-axes[:, 0], abs=1e-14)
        assert other.contact_points(turned) == pytest.approx(points - gaps[:, None] * axes[:, 0], abs=1e-14)


def every_pair() -> wt.Model:
    """Two free bodies that carry every shape, and every pair with a closed form between them."""
    builder = wt.Builder("every pair")
    for name in ("a", "b"):
        builder.body(name, 1.0, inertia=(0.1, 0.2, 0.25)).joint(f"{name}_free", "free", "world", name)
        for shape, (kind, parameters) in SHAPES.items():
            builder.geometry(f"{name} {shape}", name, kind, position=(0.1, -0.05, 0.2), **parameters)
    # a stone, with its many corners, and boxes over planes would only take the compiler's time
    for first, second in [*PAIRS, ("sphere", "terrain")]:
        if first in ("stone", "box"):
            continue
        builder.contact(f"{first} on {second}", f"a {first}", f"b {second}")
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_machine_code_agrees_with_the_reference(dtype):
    model = every_pair()
    ref, dyn = wt.reference(model), wt.compile(model, dtype=dtype)
    states = [random_state(model, seed, 0.6) for seed in range(5)]
    q, v = np.array([s[0] for s in states], dtype=dtype), np.array([s[1] for s in states], dtype=dtype)
    tolerance = 1e-12 if dtype is np.float64 else 3e-4
    for name in ("contact_gaps", "contact_jacobian"):
        found = getattr(dyn, name)(q)
        assert found.dtype == dtype
        assert found == pytest.approx(getattr(ref, name)(q.astype(float)), abs=tolerance, rel=tolerance), name
    if dtype is np.float64:
        assert dyn.contact_bias(q, v) == pytest.approx(ref.contact_bias(q, v), abs=1e-10, rel=1e-10)
        assert dyn.contact_gaps(q[0]) == pytest.approx(ref.contact_gaps(q[0]), abs=1e-13)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("contact_points", "sphere", "cylinder"),
        ("contact_axes", "box", "sphere"),
        ("contact_velocity", "sphere", "cylinder"),
        ("contact_gaps", "stone", "half_space"),
    ],
)
def test_the_other_functions_compile_too(name, first, second):
    model = two_bodies(first, second)
    q, v = random_state(model, 4)
    inputs = (q, v) if name == "contact_velocity" else (q,)
    assert getattr(wt.compile(model), name)(*inputs) == pytest.approx(getattr(wt.reference(model), name)(*inputs))


def free_body(kind: str, gravity=(0, 0, -9.81), **parameters) -> wt.Model:
    """One free body with a shape over the ground z = 0."""
    return (
        wt.Builder("one", gravity)
        .body("body", 1, inertia=(1, 1, 1))
        .joint("free", "free", "world", "body")
        .geometry("ground", "world", "half_space")
        .geometry("shape", "body", kind, **parameters)
        .contact("touch", "shape", "ground")
        .build()
    )


@given(st.integers(0, 10**6))
def test_a_cylinder_over_a_plane_by_its_support_function(seed):
    """The least height of a cylinder with axis d: z − h |d_z| − r √(1 − d_z²)."""
    rng = np.random.default_rng(seed)
    model = free_body("cylinder", radius=0.3, length=0.8)
    turn = rng.normal(size=4)
    if seed % 5 == 0:  # standing, and lying, to the last bit
        turn = np.array([1, 0, 0, 0]) if seed % 2 else np.array([1, 1, 0, 0])
    q = np.concatenate([[0.1, 0.2, 0.5], turn / np.linalg.norm(turn)])
    ref = wt.reference(model)
    d = ref.pose("body")(q)[2, 2]
    expected = 0.5 - 0.4 * abs(d) - 0.3 * np.sqrt(max(1 - d * d, 0))
    gaps = ref.contact_gaps(q)
    assert gaps.min() == pytest.approx(expected, abs=1e-8)
    assert np.all(np.isfinite(ref.contact_bias(q, rng.normal(size=6))))
    assert len(gaps) == 8


def test_a_cylinder_stands_on_three_points_and_lies_on_two():
    ref = wt.reference(free_body("cylinder", radius=0.3, length=0.8))
    standing = np.array([0, 0, 0.4, 1, 0, 0, 0.0])
    lying = np.array([0, 0, 0.3, np.sqrt(0.5), np.sqrt(0.5), 0, 0])
    down = ref.contact_gaps(standing) < 1e-12
    assert np.linalg.matrix_rank(ref.contact_jacobian(standing)[::3][down]) == 3
    down = ref.contact_gaps(lying) < 1e-12
    assert np.linalg.matrix_rank(ref.contact_jacobian(lying)[::3][down]) == 2


def test_exact_numbers():
    """Fractions in, Fractions out, where no root is needed."""
    model = free_body("box", size=(Fraction(1, 3), Fraction(1, 2), Fraction(1)), gravity=(0, 0, -9))
    q = np.array([0, 0, Fraction(3, 4), Fraction(1), Fraction(1, 2), 0, 0], dtype=object)
    gaps = wt.reference(model).contact_gaps(q)
    # half-angle tangent 1/2 about x: sine 4/5, cosine 3/5
    s, c = Fraction(4, 5), Fraction(3, 5)
    lowest = Fraction(3, 4) - s * Fraction(1, 4) - c * Fraction(1, 2)
    assert isinstance(gaps[0], Fraction)
    assert min(gaps) == lowest


@mpmath.workdps(40)
def test_more_digits():
    model = two_bodies("capsule", "capsule")
    q, _ = random_state(model, 5)
    digits = np.array([mpmath.mpf(x) for x in q], dtype=object)
    ref = wt.reference(model)
    assert float(ref.contact_gaps(digits)[0] - mpmath.mpf(float(ref.contact_gaps(q)[0]))) == pytest.approx(0, abs=1e-15)


def test_symbols():
    casadi = pytest.importorskip("casadi")
    model = two_bodies("sphere", "box")
    q, _ = random_state(model, 2)
    found = wt.symbolic(model).contact_gaps(casadi.DM(q))
    assert np.array(found).ravel() == pytest.approx(wt.reference(model).contact_gaps(q), abs=1e-14)


def test_the_curvature_of_a_ball_is_in_the_bias():
    """A point that passes a ball of radius r at the distance ρ from its centre with the speed u: gap'' = u² / ρ."""
    model = (
        wt.Builder("pass")
        .body("p", 1.0)
        .body("carriage")
        .joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0))
        .joint("y", "prismatic", "carriage", "p", axis=(0, 1, 0))
        .geometry("ball", "world", "sphere", radius=0.25)
        .geometry("point", "p", "point")
        .contact("touch", "point", "ball")
        .build()
    )
    ref = wt.reference(model)
    q, v = np.array([0.0, 0.5]), np.array([3.0, 0.0])
    assert ref.contact_gaps(q)[0] == 0.25
    assert ref.contact_bias(q, v) == pytest.approx([9.0 / 0.5, 0, 0])
    # in the plane: tangent 1 is along x there, tangent 2 across, and nothing moves across
    assert ref.contact_axes(q)[0] == pytest.approx(np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1]]))
    assert np.all(ref.contact_jacobian(q)[2] == 0)


def test_a_terrain_against_minimisation_and_a_flat_one_against_a_plane():
    height = SHAPES["terrain"][1]["height"]
    model = two_bodies("sphere", "terrain")
    q, _ = random_state(model, 0, 0.3)
    q[2], q[3:7], q[10:14] = 0.4, (1, 0, 0, 0), (1, 0, 0, 0)
    centre = np.array([[0, -1, 0], [1, 0, 0], [0, 0, 1]]).T @ q[:3]
    nearest = minimize(lambda u: np.sum((centre - [*u, height(*u)]) ** 2), centre[:2], tol=1e-15)
    assert wt.reference(model).contact_gaps(q)[0] == pytest.approx(np.sqrt(nearest.fun) - 0.3, abs=1e-9)

    flat = free_body("capsule", radius=0.1, length=0.5)
    terrain = wt.Builder("one").body("body", 1, inertia=(1, 1, 1)).joint("free", "free", "world", "body")
    terrain.geometry("ground", "world", "terrain", height=lambda x, y: 0 * x)
    terrain.geometry("shape", "body", "capsule", radius=0.1, length=0.5).contact("touch", "shape", "ground")
    q = np.array([0.1, 0.2, 0.5, 0.7, 0.1, -0.5, 0.5])
    for name in ("contact_gaps", "contact_points", "contact_axes", "contact_jacobian"):
        ends = getattr(wt.reference(flat), name)(q)
        # on a terrain a capsule has its middle, too
        theirs = getattr(wt.reference(terrain.build()), name)(q)[: len(ends)]
        assert theirs == pytest.approx(ends, abs=1e-15)


@pytest.mark.parametrize(
    ("first", "second"), [("sphere", "sphere"), ("point", "capsule"), ("capsule", "capsule"), ("sphere", "box")]
)
def test_degenerate_places_have_finite_answers(first, second):
    """Centres that coincide, axes that cross or lie on each other: a stated direction, never NaN."""
    model = two_bodies(first, second)
    ref, q = wt.reference(model), model.neutral.q
    for values in (ref.contact_gaps(q), ref.contact_axes(q), ref.contact_jacobian(q), ref.contact_bias(q, np.ones(12))):
        assert np.all(np.isfinite(values))
    assert wt.compile(model).contact_gaps(q) == pytest.approx(ref.contact_gaps(q), abs=1e-15)


def test_nan_stays_nan_and_stays_where_it_is():
    dyn = wt.compile(free_body("sphere", radius=0.1))
    q = np.tile([0, 0, 1.0, 1, 0, 0, 0], (3, 1))
    q[1] = np.nan
    gaps = dyn.contact_gaps(q)
    assert np.isnan(gaps[1, 0])
    assert gaps[[0, 2], 0] == pytest.approx(0.9)


def test_forces_along_the_axes_do_the_work_of_the_rows():
    """Jᵀ λ is the joint force of equal and opposite forces on the two bodies at the contact point."""
    model = two_bodies("sphere", "capsule")
    ref = wt.reference(model)
    q, v = random_state(model, 7)
    force = np.array([2.0, -0.3, 0.7])
    world = force @ ref.contact_axes(q)[0]
    power = 0.0
    for name, sign in (("a", 1), ("b", -1)):
        pose, twist = ref.pose(name)(q), ref.twist(name)(q, v)
        arm = ref.contact_points(q)[0] - pose[:3, 3]
        velocity = pose[:3, :3] @ twist[3:] + np.cross(pose[:3, :3] @ twist[:3], arm)
        power += sign * world @ velocity
    assert force @ ref.contact_jacobian(q) @ v == pytest.approx(power)


def test_equal_meshes_are_one_hull():
    """Code is made for each hull of many corners: a heap of equal stones needs that of one."""
    corners = np.random.default_rng(5).normal(size=(40, 3))
    one, same, other = (
        shape_of(wt.Builder("stone").geometry("stone", "world", "mesh", vertices=points).build().geometry("stone"))
        for points in (corners, corners.copy(), 2 * corners)
    )
    assert one is same
    assert one is not other
