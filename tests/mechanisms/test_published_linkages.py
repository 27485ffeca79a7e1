"""Linkages whose mobility and motion are in every textbook, drawn with closing joints, through every route.

Straight lines of Peaucellier and Hoeken, six-bars of Watt and Stephenson, the planar 3-RRR, a spherical wrist (the
Agile eye), a differential inside a loop, a rope of massless links, and Bennett's loops carried by each other.
"""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints.route_choice import COMPILED_ROUTES, ROUTES

EPS = np.finfo(float).eps


class Drawing:
    """Bars of a plane drawing, hinged where they meet; spatial hinges close the loops, three rows too many each."""

    def __init__(self, name):
        self.builder, self.closures = wt.Builder(name, (0, -9.81, 0)), 0
        self.at = {"world": (np.zeros(2), 0.0)}

    def local(self, bar, point):
        origin, angle = self.at[bar]
        d, c, s = np.asarray(point, float) - origin, np.cos(angle), np.sin(angle)
        return (c * d[0] + s * d[1], c * d[1] - s * d[0], 0.0)

    def bar(self, name, parent, first, second, mass=1.0):
        first, second = np.asarray(first, float), np.asarray(second, float)
        angle, length = float(np.arctan2(*(second - first)[::-1])), float(np.linalg.norm(second - first))
        inertia = mass * length**2 / 12
        self.builder.body(name, mass, (length / 2 if mass else 0, 0, 0), (0, inertia, inertia))
        start = angle - self.at[parent][1]
        self.builder.joint(name, "revolute", parent, name, position=self.local(parent, first), start=start)
        self.at[name] = first, angle

    def close(self, one, other, point):
        self.closures += 1
        ends = {"position": self.local(one, point), "child_position": self.local(other, point)}
        self.builder.joint(f"closure {self.closures}", "revolute", one, other, **ends)

    def build(self, bar, point):
        return self.builder.frame("point", bar, position=self.local(bar, point)).build()


def meeting(a, r, b, s, side=1):
    """Where circles about a and b meet."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    way = b - a
    far = np.linalg.norm(way)
    along = (r * r - s * s + far * far) / (2 * far)
    across = side * np.sqrt(r * r - along * along)
    return a + (along * way + across * np.array([-way[1], way[0]])) / far


def peaucellier(mass=1.0):
    """The crank is as long as the ground: its end moves on a circle through the centre of inversion."""
    centre, near = (1.0, 0.0), np.array([1 + np.cos(0.5), np.sin(0.5)])
    left, right = (meeting((0, 0), 3.0, near, 1.4, side) for side in (1, -1))
    far = left + right - near
    d = Drawing("Peaucellier")
    d.bar("crank", "world", centre, near)
    for side, corner in (("left", left), ("right", right)):
        d.bar(f"{side} arm", "world", (0, 0), corner)
        d.bar(f"{side} near", "crank", near, corner, mass)
        d.bar(f"{side} far", f"{side} arm", corner, far)
        d.close(f"{side} arm", f"{side} near", corner)
    d.close("left far", "right far", far)
    return d.build("left far", far)


def hoeken():
    """1 : 2 : 2.5 : 2.5, and the coupler as long again."""
    end = np.array([np.cos(2.8), np.sin(2.8)])
    knee = meeting(end, 2.5, (2, 0), 2.5)
    d = Drawing("Hoeken")
    d.bar("crank", "world", (0, 0), end)
    d.bar("coupler", "crank", end, 2 * knee - end)
    d.bar("rocker", "world", (2, 0), knee)
    d.close("rocker", "coupler", knee)
    return d.build("coupler", 2 * knee - end)


def watt_second():
    """Two four-bars in series: the rocker of the first drives the second."""
    end, out = np.array([0.5, 0.9]), np.array([2 + 1.2 * np.cos(1.0), 1.2 * np.sin(1.0)])
    knee, last = meeting(end, 2.0, (2, 0), 1.4), meeting(out, 2.0, (4, 0.2), 1.5)
    d = Drawing("Watt II")
    d.bar("crank", "world", (0, 0), end)
    d.bar("first coupler", "crank", end, knee)
    d.bar("ternary", "world", (2, 0), knee)
    d.close("ternary", "first coupler", knee)
    d.bar("second coupler", "ternary", out, last)
    d.bar("output", "world", (4, 0.2), last)
    d.close("output", "second coupler", last)
    return d.build("output", last)


def stephenson_third():
    """A dyad on the coupler of a four-bar."""
    end = np.array([0.4, 0.8])
    knee = meeting(end, 2.0, (2, 0), 1.3)
    held = (end + knee) / 2 + np.array([-0.1, 0.4])
    last = meeting(held, 1.1, (1, 3), 1.2)
    d = Drawing("Stephenson III")
    d.bar("crank", "world", (0, 0), end)
    d.bar("coupler", "crank", end, knee)
    d.bar("rocker", "world", (2, 0), knee)
    d.close("rocker", "coupler", knee)
    d.bar("second coupler", "coupler", held, last)
    d.bar("output", "world", (1, 3), last)
    d.close("output", "second coupler", last)
    return d.build("output", last)


def planar_platform():
    """3-RRR: three legs of two bars."""
    corners = [np.array([1.5 + 0.4 * np.cos(t), 0.9 + 0.4 * np.sin(t)]) for t in (3.6, 5.8, 1.57)]
    d = Drawing("3-RRR")
    for k, (foot, corner) in enumerate(zip(((0, 0), (3, 0), (1.5, 2.6)), corners, strict=True)):
        knee = meeting(foot, 1.0, corner, 0.9)
        d.bar(f"upper {k}", "world", foot, knee)
        d.bar(f"lower {k}", f"upper {k}", knee, corner)
        if k == 0:
            d.bar("table", "lower 0", corner, corners[1])
        else:
            d.close(f"lower {k}", "table", corner)
    return d.build("table", corners[0])


def agile_eye():
    """Three legs of three hinges whose axes all meet in one point: the eye turns about it and goes nowhere."""
    b, axes = wt.Builder("Agile eye"), np.eye(3)
    for k in range(3):
        for part, parent, turn in (("inner", "world", 0), ("outer", f"inner {k}", 1)):
            b.body(f"{part} {k}", 1.0, (0.1, 0.2, 0.15), (0.2, 0.2, 0.2))
            b.joint(f"{part} {k}", "revolute", parent, f"{part} {k}", axis=axes[(k + turn) % 3])
        if k == 0:
            b.body("eye", 1.0, (0.1, 0.0, 0.2), (0.2, 0.2, 0.2))
        b.joint(f"eye {k}", "revolute", f"outer {k}", "eye", axis=axes[(k + 2) % 3])
    return b.frame("point", "eye").build()


def differential():
    """The cage of a differential, 2 cage = left + right, is the crank of a four-bar."""
    end = np.array([0.3, 0.5])
    knee = meeting(end, 1.3, (1.5, 0), 0.9)
    d = Drawing("differential")
    d.bar("cage", "world", (0, 0), end)
    d.bar("coupler", "cage", end, knee)
    d.bar("rocker", "world", (1.5, 0), knee)
    d.close("rocker", "coupler", knee)
    angle = d.at["cage"][1]
    for side, more in (("left", 0.4), ("right", -0.4)):
        d.bar(side, "world", (0, 0), (0.3 * np.cos(angle + more), 0.3 * np.sin(angle + more)))
    d.builder.constraint("bevels", "gear", "cage", "left", "right", ratios=(2, -1, -1))
    return d.build("coupler", knee)


def rope():
    """Massless links between balls: two of them hang from the ceiling, one swings on each and one between."""
    d = Drawing("rope")
    d.bar("left", "world", (0, 0), (0.6, -0.8), 0.0)
    d.bar("middle", "left", (0.6, -0.8), (1.4, -0.8))
    d.bar("right", "world", (2, 0), (1.4, -0.8), 0.0)
    d.close("right", "middle", (1.4, -0.8))
    d.bar("tail", "middle", (1.0, -0.8), (1.2, -1.6), 0.0)
    d.bar("brace", "middle", (0.7, -0.8), (1.2, -1.6), 0.0)
    d.bar("bob", "tail", (1.2, -1.6), (1.3, -2.0))
    d.close("brace", "tail", (1.2, -1.6))
    return d.build("bob", (1.3, -2.0))


def bennett_series(cells=3):
    """Each loop stands on the second link of the one before: a tree of overconstrained clusters."""
    a, b, twist, angle = 1.0, 1.4, 0.7, 1.1
    other = np.arcsin(b / a * np.sin(twist))
    second = 2 * np.arctan(np.sin((other + twist) / 2) / np.sin((other - twist) / 2) / np.tan(angle / 2))
    lengths, twists, angles = (a, b, a, b), (twist, other, twist, other), (angle, second, -angle, -second)
    builder, root = wt.Builder("Bennett series"), "world"
    for cell in range(cells):
        parent, place, turned = root, np.array([0.3 * (cell > 0), 0.1 * cell, 0]), np.eye(3)
        ground = place
        for k in range(3):
            name = f"link {cell}.{k}"
            builder.body(name, 1.0, (lengths[k] / 2, 0.02, 0.01), (0.1, 0.2, 0.2))
            builder.joint(name, "revolute", parent, name, position=place, rotation=turned, start=angles[k])
            parent, place, turned = name, np.array([lengths[k], 0, 0]), about(twists[k], (0, 1))
        builder.frame(f"tip {cell}", parent, position=place, rotation=turned)
        R = about(-twists[3], (0, 1))
        ends = {"position": ground + R @ np.array([-b, 0, 0]), "rotation": R @ about(-angles[3], (2, 0))}
        builder.frame(f"ground {cell}", root, **ends)
        builder.constraint(f"closure {cell}", "hinge", f"ground {cell}", f"tip {cell}")
        root = f"link {cell}.1"
    return builder.frame("point", root).build()


def about(angle, plane):
    """A turn about x, for the plane (0, 1), or about z, for (2, 0)."""
    c, s = np.cos(angle), np.sin(angle)
    if plane == (0, 1):
        return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


LINKAGES = {
    "Peaucellier": (peaucellier, 1, 9),
    "Peaucellier, massless": (lambda: peaucellier(0.0), 1, 9),
    "Hoeken": (hoeken, 1, 3),
    "Watt II": (watt_second, 1, 6),
    "Stephenson III": (stephenson_third, 1, 6),
    "3-RRR": (planar_platform, 3, 6),
    "Agile eye": (agile_eye, 3, 6),
    "differential": (differential, 2, 3),
    "rope": (rope, 2, 6),
    "Bennett series": (bennett_series, 3, 9),
}
"""Maker, published mobility, rows too many: three of each hinge in a plane or about a point, three of each Bennett."""


def moved(model, steps=30, seed=1):
    """A state away from the drawing: a motion that the loops allow, followed for a while."""
    rng = np.random.default_rng(seed)
    ref = wt.reference(model, watch="never", route="nullspace")
    q = model.home.q
    v = ref.project_velocity(q, rng.normal(size=model.nv))
    v = v / np.abs(v).max()
    for _ in range(steps):
        q = wt.assemble(model, ref.integrate(q, 0.02 * v))
        v = ref.project_velocity(q, v)
    return q, v, rng.normal(size=model.nv)


@pytest.mark.slow
@pytest.mark.parametrize("name", LINKAGES)
def test_mobility_and_every_route(name):
    make, mobility, redundant = LINKAGES[name]
    model = make()
    report = wt.diagnose(model)
    assert report.fine
    assert report.freedoms == mobility
    assert len(report.redundant) == redundant
    assert report.route == wt.diagnose(model, model.home.q).route
    state = moved(model)
    ref = wt.reference(model, watch="never", route="nullspace")
    right = ref.forward_dynamics(*state)
    condition = float(wt.reference(model, watch="never").block_condition_numbers(state[0])[0])
    bound = max(1.0, np.abs(right).max()) * 200 * EPS * condition
    for make_functions, routes in ((wt.reference, ROUTES), (wt.compile, COMPILED_ROUTES)):
        for route in routes:
            functions = make_functions(model, route=route, watch="never")
            try:
                a = functions.forward_dynamics(*state)
            except wt.SingularSystemError:
                assert route == "recursion"  # sweeps divide by the inertia of each joint
                continue
            assert np.abs(a - right).max() < bound, (make_functions.__name__, route)
    (first, *_) = wt.embed(model).independent
    for functions in (wt.reference(model, route="embedding"), wt.compile(model, route="embedding")):
        a, tau = functions.hybrid_dynamics(first)(*state)
        caused = ref.forward_dynamics(*state[:2], tau)
        assert np.abs(a - caused).max() < 100 * bound * max(1.0, np.abs(tau).max())


@pytest.mark.parametrize("mass", [1.0, 0.0])
def test_peaucellier_draws_a_straight_line(mass):
    model = peaucellier(mass)
    pose = wt.reference(model).pose("point")
    places = [pose(wt.assemble(model, hold={"crank": angle}))[:2, 3] for angle in np.linspace(0.1, 0.7, 7)]
    assert np.ptp([x for x, _ in places]) < 1e-12
    np.testing.assert_allclose([x for x, _ in places], (3.0**2 - 1.4**2) / 2, rtol=1e-12)  # k² / diameter
    assert np.ptp([y for _, y in places]) > 1.0


def test_hoeken_goes_straight_at_almost_constant_speed_for_half_a_turn():
    model = hoeken()
    pose, q, places = wt.reference(model).pose("point"), model.home.q, []
    for angle in np.linspace(np.pi / 2, 3 * np.pi / 2, 41):
        q = wt.assemble(model, q, hold={"crank": angle})
        places.append(pose(q)[:2, 3])
    x, y = np.array(places).T
    assert abs(x[-1] - x[0]) == pytest.approx(4.0, rel=1e-9)  # four cranks long
    assert np.ptp(y) < 0.012
    assert np.ptp(np.diff(x)[5:-5]) < 0.12 * np.abs(np.diff(x)).mean()


def test_the_agile_eye_turns_about_its_centre_in_every_way():
    model = agile_eye()
    q = moved(model, steps=10)[0]
    eye = wt.reference(model)
    assert np.abs(eye.pose("point")(q)[:3, 3]).max() < 1e-12
    turns = eye.jacobian("point")(q) @ eye.allowed_motions(q)
    assert np.linalg.matrix_rank(turns[:3], tol=1e-6) == 3
    assert np.abs(turns[3:]).max() < 1e-12
