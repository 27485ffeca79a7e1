"""Terrains and height fields: shapes against minimisation, the spline against SciPy's, kinematics against rates."""

from __future__ import annotations

from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.interpolate import CubicSpline, RectBivariateSpline
from scipy.optimize import brentq, minimize
from scipy.spatial import KDTree

import whippletree as wt
from whippletree.arithmetic.rounding_tape import RoundingTape
from whippletree.arithmetic.scalars import Table
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.rollout import contact_kinds
from whippletree.compiler.rollout.contact_lists import contact_list_reach
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.contact.geometry.height_field import Grid, HeightsAround, spline_coefficients
from whippletree.contact.geometry.terrain import FOOT_COSINE, Jet, nearest_on_terrain
from whippletree.contact.time_step import ContactBlocks

RNG = np.random.default_rng(4)
HEIGHTS = 0.08 * RNG.normal(size=(9, 12)).cumsum(axis=0).cumsum(axis=1) / 6
CELL = (0.5, 0.4)


def hills(x, y):
    return 0.1 * np.sin(2 * x) * np.cos(1.5 * y) + 0.05 * x


SHAPES = {
    "point": {},
    "sphere": {"radius": 0.1},
    "capsule": {"radius": 0.05, "length": 0.3},
    "box": {"size": (0.2, 0.3, 0.1)},
    "cylinder": {"radius": 0.12, "length": 0.25},
    "ellipsoid": {"radii": (0.1, 0.15, 0.06)},
    "mesh": {"vertices": np.random.default_rng(8).normal(scale=0.06, size=(40, 3))},
}
GROUNDS = {"terrain": {"height": hills}, "height_field": {"heights": HEIGHTS, "cell": CELL}}
PAIRS = [(shape, ground) for shape in SHAPES for ground in GROUNDS]


def on_ground(shape: str, ground: str, **others) -> wt.Model:
    """A free body over a terrain that is turned and displaced against the world."""
    tilt = np.array([[0, -1, 0], [0.8, 0, -0.6], [0.6, 0, 0.8]])
    return (
        wt.Builder(f"{shape} on {ground}")
        .body("body", 1.0, inertia=(0.1, 0.2, 0.25))
        .joint("free", "free", "world", "body")
        .geometry("shape", "body", shape, position=(0.02, -0.01, 0.03), **SHAPES[shape])
        .geometry("ground", "world", ground, position=(0.3, 0.1, -0.2), rotation=tilt, **(others or GROUNDS[ground]))
        .contact("touch", "shape", "ground", friction=0.5)
        .build()
    )


def state_over(model: wt.Model, height, seed: int, clearance: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """A random attitude, a little above the ground."""
    rng = np.random.default_rng(seed)
    pose = model.geometry("ground").pose.astype(float)
    x, y = rng.uniform(-0.9, 0.9, size=2)
    turn = rng.normal(size=4)
    q = np.concatenate([pose[:3, :3] @ [x, y, height(x, y) + clearance] + pose[:3, 3], turn / np.linalg.norm(turn)])
    return q, rng.normal(size=6)


def surface_of(ground: str):
    return hills if ground == "terrain" else lambda x, y: Grid(HEIGHTS, CELL).jet(x, y).h


def surface_point(shape: str, w: np.ndarray, end: int) -> np.ndarray:
    """A point of a ball's centre, of a cylinder's rim at one end, or of an ellipsoid, by angles w."""
    if shape == "sphere":
        return np.zeros(3)
    numbers = SHAPES[shape]
    if shape == "cylinder":
        rim = numbers["radius"] * np.array([np.cos(w[0]), np.sin(w[0])])
        return np.array([*rim, end * numbers["length"] / 2])
    return np.array(numbers["radii"]) * [np.sin(w[0]) * np.cos(w[1]), np.sin(w[0]) * np.sin(w[1]), np.cos(w[0])]


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "ground"), PAIRS)
def test_normal_rows_are_the_rates_of_the_gaps_and_bias_is_the_rate_of_the_velocity(shape, ground):
    model = on_ground(shape, ground)
    ref = wt.reference(model)
    for seed in range(3):
        q, v = state_over(model, surface_of(ground), seed)
        velocity, bias = ref.contact_velocity(q, v), ref.contact_bias(q, v)
        assert velocity == pytest.approx(ref.contact_jacobian(q) @ v, abs=1e-12)
        assert velocity[::3] == pytest.approx(ref.jvp("contact_gaps")(q, v), abs=1e-10)
        h = 1e-5
        ahead, behind = ref.integrate(q, h * v), ref.integrate(q, -h * v)
        assert velocity[::3] == pytest.approx((ref.contact_gaps(ahead) - ref.contact_gaps(behind)) / (2 * h), abs=1e-7)
        turning = (ref.contact_velocity(ahead, v) - ref.contact_velocity(behind, v)) / (2 * h)
        assert bias == pytest.approx(turning, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("shape", ["sphere", "cylinder", "ellipsoid"])
def test_the_gap_is_the_least_distance(shape, ground):
    """Against minimisation over the shape's points and the ground's at once."""
    model = on_ground(shape, ground)
    ref, height = wt.reference(model), surface_of(ground)
    for seed in range(2):
        q, _ = state_over(model, height, seed)
        pose, frame = (ref.pose("body")(q) @ model.geometry("shape").pose, model.geometry("ground").pose.astype(float))
        into = np.linalg.inv(frame) @ pose.astype(float)

        found = []
        for end, start in product((1, -1), range(4)):

            def distance(u, into=into, end=end):
                x = into[:3, :3] @ surface_point(shape, u[2:], end) + into[:3, 3]
                return np.linalg.norm(x - [u[0], u[1], height(u[0], u[1])])

            u0 = np.concatenate([into[:2, 3], np.random.default_rng(start).uniform(0, 2 * np.pi, size=2)])
            rough = minimize(distance, u0, method="BFGS", options={"gtol": 1e-11}).x
            fine = {"xatol": 1e-9, "fatol": 1e-14}
            found.append(minimize(distance, rough, method="Nelder-Mead", options=fine).fun)
        least = min(found) - (SHAPES[shape]["radius"] if shape == "sphere" else 0)
        assert ref.contact_gaps(q).min() == pytest.approx(least, abs=1e-9)


def test_on_flat_ground_every_shape_has_the_gaps_of_a_plane():
    """Heights of a plane, also an inclined one, are reproduced to rounding, beyond the border too."""
    slope = np.array([0.3, -0.2])
    x, y = (np.arange(5) - 2) * 0.1, (np.arange(4) - 1.5) * 0.2
    heights = slope[0] * x[:, None] + slope[1] * y + 0.05
    normal = np.array([-0.3, 0.2, 1]) / np.sqrt(1.13)
    for shape, numbers in SHAPES.items():
        builder = wt.Builder("one").body("body", 1, inertia=(1, 1, 1)).joint("free", "free", "world", "body")
        builder.geometry("shape", "body", shape, **numbers)
        builder.geometry("field", "world", "height_field", heights=heights, cell=(0.1, 0.2))
        builder.geometry("plane", "world", "half_space", position=(0, 0, 0.05), rotation=turn_to(normal))
        field = wt.reference(builder.contact("touch", "shape", "field").build())
        builder = wt.Builder("one").body("body", 1, inertia=(1, 1, 1)).joint("free", "free", "world", "body")
        builder.geometry("shape", "body", shape, **numbers)
        builder.geometry("plane", "world", "half_space", position=(0, 0, 0.05), rotation=turn_to(normal))
        plane = wt.reference(builder.contact("touch", "shape", "plane").build())
        for place in ((0.02, 0.1, 0.5), (3.0, -2.0, 1.9)):
            q = np.array([*place, 0.7, 0.1, -0.5, 0.5])
            ours, theirs = field.contact_gaps(q), plane.contact_gaps(q)
            assert ours[: len(theirs)] == pytest.approx(theirs, abs=1e-12), shape
            assert field.contact_points(q)[: len(theirs)] == pytest.approx(plane.contact_points(q), abs=1e-11), shape


def turn_to(normal: np.ndarray) -> np.ndarray:
    along = np.cross([0, 1, 0], normal)
    along /= np.linalg.norm(along)
    return np.stack([along, np.cross(normal, along), normal], axis=1)


# --- the spline -------------------------------------------------------------------------------------------------------


def test_the_spline_is_the_natural_one():
    """Against SciPy, in one and two dimensions; the heights themselves at the grid's points."""
    grid = Grid(HEIGHTS, CELL)
    x, y = ((np.arange(n) - (n - 1) / 2) * d for n, d in zip(HEIGHTS.shape, CELL, strict=True))
    assert [[grid.jet(a, b).h for b in y] for a in x] == pytest.approx(HEIGHTS, abs=1e-15)
    rows = CubicSpline(x, HEIGHTS, bc_type="natural", axis=0)
    for a, b in RNG.uniform(-1.5, 1.5, size=(20, 2)):
        across = CubicSpline(y, rows(a), bc_type="natural")
        jet = grid.jet(a, b)
        assert jet.h == pytest.approx(across(b), abs=1e-14)
        assert (jet.hy, jet.hyy) == pytest.approx((float(across(b, 1)), float(across(b, 2))), abs=1e-12)
        slope, curvature = (CubicSpline(y, rows(a, k), bc_type="natural") for k in (1, 2))
        assert [jet.hx, jet.hxy, jet.hxx] == pytest.approx(
            [float(k) for k in (slope(b), slope(b, 1), curvature(b))], abs=1e-12
        )


def test_many_points_against_few():
    """Smooth hills sampled on a grid: the field is off by the fourth power of the cell."""
    errors = []
    for n in (17, 33, 65):
        x = np.linspace(-2, 2, n)
        grid = Grid(hills(x[:, None], x), (x[1] - x[0],) * 2)
        places = np.random.default_rng(1).uniform(-1, 1, size=(40, 2))
        errors.append(max(abs(grid.jet(a, b).h - hills(a, b)) for a, b in places))
        assert RectBivariateSpline(x, x, grid.heights).ev(0.3, 0.2) == pytest.approx(grid.jet(0.3, 0.2).h, abs=1e-4)
    assert errors[0] / errors[1] > 10
    assert errors[1] / errors[2] > 10


def test_second_derivatives_are_continuous_over_cells_and_the_border():
    grid = Grid(HEIGHTS, CELL)
    reach = grid.reach()
    for x in (*(np.arange(9) - 4) * CELL[0], reach[0], -reach[0]):
        left, right = grid.jet(x - 1e-9, 0.123), grid.jet(x + 1e-9, 0.123)
        assert left == pytest.approx(right, abs=1e-7)
    beyond, further = grid.jet(reach[0] + 1, 0.3), grid.jet(reach[0] + 3, 0.3)
    assert further.h - beyond.h == pytest.approx(2 * beyond.hx, abs=1e-12)
    assert beyond.hxx == 0


def test_two_by_two_heights_are_a_twisted_plane():
    grid = Grid(np.array([[0.0, 0.1], [0.2, 0.5]]), (1.0, 1.0))
    assert grid.jet(0.0, 0.0).h == pytest.approx(0.2, abs=1e-15)
    assert grid.jet(0.25, -0.5).h == pytest.approx(0.15, abs=1e-15)
    assert spline_coefficients(np.array([1.0, 2.0])) == pytest.approx([0, 1, 2, 3])


# --- how far above a field --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "cell", "reach"), [((30, 41), (0.1, 0.12), 0.3), ((9, 90), (0.5, 0.02), 0.25)])
def test_nothing_of_a_field_is_nearer_than_its_clearance(shape, cell, reach):
    rng = np.random.default_rng(3)
    x, y = np.meshgrid(*[np.linspace(-1, 1, n) for n in shape], indexing="ij")
    grid = Grid(0.2 * np.sin(3 * x + 1) * np.cos(4 * y), cell)
    around = HeightsAround(grid, reach)
    half, told = np.array(grid.reach()), 0
    for place in rng.uniform(-1.2, 1.2, size=(60, 2)) * half:
        point = np.array([*place, grid.jet(*place).h + rng.uniform(-0.1, 0.8)])
        clearance = around.clearance(point)
        assert clearance <= around.reach <= reach
        if clearance > 0:
            told += 1
            near = [place + clearance * np.array(step) for step in product(np.linspace(-1, 1, 9), repeat=2)]
            below = [max(point[2] - grid.jet(*at).h, 0.0) for at in near]
            assert min(np.hypot(np.linalg.norm(near - place, axis=1), below)) >= clearance - 1e-12
    assert told > 15


def test_above_a_flat_field_the_clearance_is_the_height_up_to_the_reach():
    around = HeightsAround(Grid(np.full((6, 11), 0.5), (0.1, 0.2)), 0.4)
    for x, y in ((0, 0), (0.2, -0.9), (-0.55, 1.3)):  # the last one is beyond the border
        assert around.clearance(np.array([x, y, 0.8])) == pytest.approx(0.3, abs=1e-14)
        assert around.clearance(np.array([x, y, 2.0])) == pytest.approx(0.4, abs=1e-14)
        assert around.clearance(np.array([x, y, 0.3])) < 0
    assert around.clearance(np.array([3.0, 0, 0.8])) == -1  # too far beyond it


@pytest.mark.slow
def test_leaving_out_what_is_above_a_field_does_not_change_a_step(monkeypatch):
    builder = wt.Builder("thrown").geometry("ground", "world", "height_field", heights=HEIGHTS / 4, cell=CELL)
    for shape in ("sphere", "capsule", "cylinder", "ellipsoid", "box"):
        builder.body(shape, 1.0, inertia=(2e-3, 2e-3, 2e-3)).joint(shape, "free", "world", shape)
        builder.geometry(shape, shape, shape, position=(0.02, 0, 0), **SHAPES[shape])
        builder.contact(shape, shape, "ground", friction=0.5)
    model, rng = builder.build(), np.random.default_rng(2)
    q = np.concatenate([[0.5 * k - 1, 0.3 * k - 0.6, 0.8, 0.9, 0.1, -0.2, 0.3] for k in range(5)])
    v = 4 * rng.normal(size=model.nv)
    found = []
    for leaves_out in (True, False):
        if not leaves_out:
            monkeypatch.setattr(contact_list_reach, "can_be_far", lambda *_: False)
            monkeypatch.setattr(contact_kinds, "can_be_far", lambda *_: False)
        steps = compile_function(contact_lists_program(model), threads=1)
        blocks = ContactBlocks(model, alone=True).count
        with np.errstate(all="ignore"):
            found.append(
                steps(q, v, np.zeros((blocks, 3)), np.zeros((300, model.nv)), np.full(300, 2e-3), 1e-7, np.inf)
            )
    assert np.any(found[0][2] > 0)
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    assert wt.compile(model).contact_list_touches(found[0][0])[..., 0].min() > -1e-8


# --- scalars ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_machine_code_agrees_with_the_reference_in_every_cell():
    model = on_ground("sphere", "height_field")
    ref, dyn = wt.reference(model), wt.compile(model)
    states = [state_over(model, surface_of("height_field"), seed) for seed in range(40)]
    q, v = np.array([s[0] for s in states]), np.array([s[1] for s in states])
    q[:3, :3] += [[4, 0, 0], [0, -5, 0], [0, 0, 3]]  # beyond the border
    assert dyn.contact_gaps(q) == pytest.approx(ref.contact_gaps(q), abs=1e-12)
    assert dyn.contact_jacobian(q) == pytest.approx(ref.contact_jacobian(q), abs=1e-12)
    assert dyn.contact_bias(q, v) == pytest.approx(ref.contact_bias(q, v), abs=1e-9)


@pytest.mark.parametrize("shape", ["cylinder", "ellipsoid"])
def test_rolling_shapes_compile(shape):
    model = on_ground(shape, "terrain")
    ref, dyn = wt.reference(model), wt.compile(model)
    q, _ = state_over(model, hills, 5)
    assert dyn.contact_gaps(q) == pytest.approx(ref.contact_gaps(q), abs=1e-12)
    assert dyn.contact_jacobian(q) == pytest.approx(ref.contact_jacobian(q), abs=1e-11)


def test_symbols_and_more_digits():
    casadi = pytest.importorskip("casadi")
    grid = Grid(HEIGHTS[:4, :5], CELL)
    x, y = casadi.SX.sym("x"), casadi.SX.sym("y")
    f = casadi.Function("h", [x, y], [grid.jet(x, y).h, grid.jet(x, y).hxy])
    for a, b in RNG.uniform(-1.2, 1.2, size=(12, 2)):
        assert [float(k) for k in f(a, b)] == pytest.approx([grid.jet(a, b).h, grid.jet(a, b).hxy], abs=1e-14)
    digits = grid.jet(mpmath.mpf("0.3"), mpmath.mpf("-0.2")).h
    assert isinstance(digits, mpmath.mpf)
    assert float(digits) == pytest.approx(grid.jet(0.3, -0.2).h, abs=1e-15)


def test_many_lanes_at_once_are_the_same():
    from whippletree.contact.kinematics.large_scenes import snapshot

    builder = wt.Builder("three").geometry("ground", "world", "height_field", heights=HEIGHTS, cell=CELL)
    for k in range(3):
        builder.body(f"b{k}", 1.0, inertia=(1, 1, 1)).joint(f"j{k}", "free", "world", f"b{k}")
        builder.geometry(f"s{k}", f"b{k}", "cylinder", radius=0.1 + 0.01 * k, length=0.2)
        builder.contact(f"c{k}", f"s{k}", "ground")
    model = builder.build()
    q = np.concatenate([[0.6 * k - 0.5, 0.1 * k, 0.5, 0.5, 0.5, -0.1, 0.7] for k in range(3)])
    ref, at = wt.reference(model), snapshot(model, q)
    assert at.points.gap == pytest.approx(ref.contact_gaps(q), abs=1e-13)
    assert at.jacobian(np.arange(24)).toarray() == pytest.approx(ref.contact_jacobian(q), abs=1e-12)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({}, "a height_field needs heights (n, m) in m, finite, n and m at least 2, got nothing"),
        ({"heights": [[0, 1]], "cell": (1, 1)}, "got shape (1, 2)"),
        ({"heights": [[0, np.nan], [0, 0]], "cell": (1, 1)}, "got shape (2, 2), not all finite"),
        ({"heights": [[0, 1], [0, 0]]}, "a height_field needs cell: 2 numbers above 0 in m, got nothing"),
        (
            {"heights": [[0, 1], [0, 0]], "cell": (1, 0)},
            "a height_field needs cell: 2 numbers above 0 in m, got (1, 0)",
        ),
    ],
)
def test_what_is_no_height_field_is_refused(numbers, text):
    builder = wt.Builder("one").body("body", 1, inertia=(1, 1, 1)).joint("free", "free", "world", "body")
    builder.geometry("shape", "body", "point").geometry("ground", "world", "height_field", **numbers)
    with pytest.raises(wt.ModelError) as raised:
        wt.contact_set(builder.contact("touch", "shape", "ground").build())
    assert text in str(raised.value)


@pytest.mark.parametrize(
    ("height", "text"),
    [
        (np.exp, "height cannot be differentiated"),
        (lambda x, y: np.floor(x), "height cannot be differentiated"),
        (lambda x, y: (x, y), "height gives 2 numbers instead of one"),
        (None, "a terrain needs height, a plain NumPy function of x and y, got None"),
    ],
)
def test_a_terrain_that_cannot_be_followed_is_refused(height, text):
    builder = wt.Builder("one").body("body", 1, inertia=(1, 1, 1)).joint("free", "free", "world", "body")
    builder.geometry("shape", "body", "point").geometry("ground", "world", "terrain", height=height)
    with pytest.raises(wt.ModelError) as raised:
        wt.contact_set(builder.contact("touch", "shape", "ground").build())
    assert text in str(raised.value)


def test_a_terrain_may_use_the_elementary_functions():
    """A hill exp(−x² − y²): the point at its foot falls on the slope that its derivative has there."""
    builder = wt.Builder("one").body("body", 1, inertia=(1, 1, 1)).joint("free", "free", "world", "body")
    hill = {"height": lambda x, y: np.exp(-(x**2) - y**2)}
    builder.geometry("shape", "body", "point").geometry("ground", "world", "terrain", **hill)
    model = builder.contact("touch", "shape", "ground").build()
    x = 0.4
    q = np.array([x, 0, np.exp(-(x**2)), 1, 0, 0, 0])
    normal = np.array([2 * x * np.exp(-(x**2)), 0, 1])
    axes = wt.compile(model).contact_axes(q)[0]
    np.testing.assert_allclose(np.abs(axes[0] @ normal), np.linalg.norm(normal), rtol=1e-12)


# --- simulations ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_events_on_a_fine_field_are_those_on_its_plane():
    """A ball falls on a slope of 101 by 101 heights, bounces not, and rolls: as on the half-space."""
    x = np.linspace(-1, 1, 101)
    slope = 0.25
    normal = np.array([-slope, 0, 1]) / np.sqrt(1 + slope**2)
    runs = []
    for kind, numbers in (
        ("height_field", {"heights": slope * x[:, None] + 0 * x, "cell": (0.02, 0.02)}),
        ("half_space", {"rotation": turn_to(normal)}),
    ):
        builder = wt.Builder("slope").geometry("ground", "world", kind, **numbers)
        builder.body("ball", 1.0, inertia=(0.004,) * 3).joint(
            "free", "free", "world", "ball", start=(0, 0, 0.15, 1, 0, 0, 0)
        )
        builder.geometry("skin", "ball", "sphere", radius=0.1).contact("touch", "skin", "ground", friction=0.5)
        runs.append(wt.simulate(builder.build(), duration=0.3, method="events", saltation=False))
    ours, theirs = runs
    assert list(ours.attrs["event_names"]) == list(theirs.attrs["event_names"]) != []
    assert ours.attrs["event_times"] == pytest.approx(theirs.attrs["event_times"], abs=1e-11)
    assert ours.q[-1].values == pytest.approx(theirs.q[-1].values, abs=1e-9)


def rough_field(rng, cell=0.2):
    """Hills with noise on them: radii of curvature of centimetres, seen from a metre above."""
    x = np.linspace(-2, 2, 21)
    return Grid(0.08 * np.sin(3 * x)[:, None] * np.cos(2.5 * x) + 0.02 * rng.normal(size=(21, 21)), (cell, cell))


@pytest.mark.parametrize("seed", range(3))
def test_far_above_rough_ground_no_gap_is_far_off(seed):
    """Newton's method may find no foot there: what is told then is no overlap, and not much nearer than the ground."""
    rng = np.random.default_rng(seed)
    grid = rough_field(rng)
    knots, x = np.linspace(-2, 2, 21), np.linspace(-2, 2, 401)
    along = CubicSpline(knots, grid.heights, bc_type="natural")(x)
    heights = CubicSpline(knots, along, axis=1, bc_type="natural")(x)
    ground = np.stack([*np.meshgrid(x, x, indexing="ij"), heights], axis=-1).reshape(-1, 3)
    least = 1 / np.sqrt(1 + sum(np.max(np.square(slope)) for slope in np.gradient(heights, 0.01)))
    points = rng.uniform((-1.5, -1.5, -0.3), (1.5, 1.5, 1.0), size=(300, 3))
    distances, _ = KDTree(ground).query(points)
    for point, near in zip(points, distances, strict=True):
        foot, axes = nearest_on_terrain(grid.jet, point)
        off = point[2] - grid.jet(*point[:2]).h
        gap = axes[0] @ (point - foot)
        assert gap * off >= 0
        assert np.hypot(*(foot - point)[:2]) <= abs(off) * (1 + 1e-12)
        assert abs(gap) <= abs(off) * (1 + 1e-12)
        assert abs(gap) >= min(least, FOOT_COSINE) * (near - 0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("box", {"size": (0.2, 0.15, 0.1)}),
        ("cylinder", {"radius": 0.1, "length": 0.1}),
        ("ellipsoid", {"radii": (0.12, 0.08, 0.06)}),
    ],
)
def test_what_falls_on_rough_ground_feels_nothing_before_it_lands(kind, numbers):
    grid = rough_field(np.random.default_rng(0))
    builder = wt.Builder("thrown").geometry("ground", "world", "height_field", heights=grid.heights, cell=grid.cell)
    builder.body("thing", 1.0, inertia=(0.004, 0.004, 0.004)).geometry("thing", "thing", kind, **numbers)
    builder.joint("free", "free", "world", "thing", start=(0.1, 0.2, 1.0, 1, 0.2, 0.1, 0))
    model = builder.contact("touch", "thing", "ground", friction=0.7).build()
    run = wt.simulate(model, duration=1.5, step=2e-3, output_dt=2e-3, method="time_stepping")
    flying = run.time.values < np.sqrt(2 * (1.0 - 0.15 - 0.2) / 9.81)
    assert run.penetration.values.max() < 1e-8
    assert np.abs(run.contact_force.values[flying]).max() == 0
    energy = run.kinetic_energy.values + run.potential_energy.values
    assert (energy < energy[0] + 1e-9).all()


def height_of_capsule_in_bowl(curvature, half, radius):
    """Of its axis, where the balls at its ends touch the parabola z = curvature x²."""

    def foot(z):
        return brentq(lambda u: (u - half) + (curvature * u * u - z) * 2 * curvature * u, 0, 2 * half)

    return brentq(lambda z: np.hypot(foot(z) - half, curvature * foot(z) ** 2 - z) - radius, radius, radius + half)


CURVATURE = 0.2
ACROSS = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "numbers", "height"),
    [
        ("sphere", {"radius": 0.1}, 0.1),
        ("box", {"size": (0.3, 0.2, 0.1)}, CURVATURE * (0.15**2 + 0.1**2) + 0.05),
        (
            "capsule",
            {"radius": 0.05, "length": 0.3, "rotation": ACROSS},
            height_of_capsule_in_bowl(CURVATURE, 0.15, 0.05),
        ),
    ],
    ids=["sphere", "box", "capsule"],
)
def test_shapes_rest_in_a_bowl_where_closed_forms_say(kind, numbers, height):
    """A spline has the parabola's heights to rounding, but for the ends, which are twenty cells away: 1e-11 of them is
    left. MuJoCo's triangles and soft contacts are 3e-5, 7e-6 and 4e-4 m off."""
    x = np.linspace(-2, 2, 41)
    heights = CURVATURE * (x[:, None] ** 2 + x**2)
    builder = wt.Builder("bowl").geometry("bowl", "world", "height_field", heights=heights, cell=(0.1, 0.1))
    builder.body("thing", 1.0, inertia=(0.004, 0.004, 0.004)).geometry("thing", "thing", kind, **numbers)
    builder.joint("free", "free", "world", "thing", start=(0, 0, 0.2, 1, 0, 0, 0))
    model = builder.contact("rest", "thing", "bowl", friction=0.7).build()
    run = wt.simulate(model, duration=0.5, step=2e-3, output_dt=0.1, method="time_stepping")
    assert run.q.values[-1, 2] == pytest.approx(height, abs=1e-9)
    assert run.penetration.values.max() < 1e-9


def test_a_table_is_read_at_a_recorded_number():
    tape = RoundingTape()
    assert [Table([3.0, 4.0, 5.0]).at(tape.number(x)) for x in (-1.0, 1.5, 9.0)] == [3.0, 4.0, 5.0]


def test_ground_that_is_steep_beyond_measure_has_a_foot():
    """(1 + hx²)(1 + hy²) − (hx hy)² cancelled to 0, which divides."""

    def wall(x, y):
        return Jet(1e9 * (x + y), 1e9, 1e9, -1e30, 0.0, -1e30)

    foot, axes = nearest_on_terrain(wall, np.array([0.1, 0.2, 0.3]))
    assert np.isfinite(foot.astype(float)).all()
    np.testing.assert_allclose((axes @ axes.T).astype(float), np.eye(3), atol=1e-15)
