"""Mechanisms of textbooks, and rings with joints of every kind, through every route against maximal coordinates."""

import numpy as np
import pytest

import whippletree as wt
from maximal_coordinates import Drawing, frame_along, placed, state_away
from whippletree.constraints.route_choice import COMPILED_ROUTES, ROUTES

ROUNDING = 1e-11
"""Of accelerations relative to the largest: both ways lose up to four digits at these configurations."""

FREEDOMS = {"revolute": 1, "prismatic": 1, "cylindrical": 2, "universal": 2, "planar": 3, "spherical": 3}


def meeting(a, r, b, s, side):
    """Where circles in the x-y plane meet, to the left (1) or right (−1) of the way from a to b."""
    way = np.linalg.norm(b - a)
    along = (way**2 + r**2 - s**2) / (2 * way)
    e = (b - a) / way
    return a + along * e + side * np.sqrt(r**2 - along**2) * np.array([-e[1], e[0], 0])


def klann_leg():
    """A crank, two rockers, and a leg that hangs between the upper rocker and the coupler."""
    m = Drawing("Klann's leg", (0, -9.81, 0))
    crank, upper, lower = np.zeros(3), np.array([-0.6, 0.9, 0]), np.array([-0.6, -0.4, 0])
    end = 0.27 * np.array([np.cos(0.4), np.sin(0.4), 0])
    elbow = meeting(lower, 0.35, end, 0.75, 1)
    knee = elbow + 0.6 * frame_along((0, 0, 1), elbow - end + np.array([0.0, -0.1, 0]))[:, 0]
    hip = meeting(upper, 0.6, knee, 0.85, -1)
    m.bar("crank", crank, end).bar("lower rocker", lower, elbow).bar("coupler", end, elbow)
    m.bar("upper rocker", upper, hip, mass=0.0).bar("leg", hip, knee)
    for name, parent, child, at in (
        ("a", "world", "crank", crank), ("b", "world", "lower rocker", lower), ("c", "world", "upper rocker", upper),
        ("d", "crank", "coupler", end), ("e", "coupler", "lower rocker", elbow), ("f", "upper rocker", "leg", hip),
        ("g", "coupler", "leg", knee),
    ):  # fmt: skip
        m.joint(name, "revolute", parent, child, at)
    return m


def translational_platform():
    """3-UPU: the axes of both universal joints of a leg are parallel, so the platform does not turn."""
    m = Drawing("3-UPU").body("plate", 3.0, (0, 0, 0.02), np.diag([0.3, 0.3, 0.5]), placed(np.eye(3), (0, 0, 1.2)))
    for k in range(3):
        a = 2 * np.pi * k / 3
        out, along = np.array([np.cos(a), np.sin(a), 0]), np.array([-np.sin(a), np.cos(a), 0])
        foot, top = out, 0.5 * out + np.array([0, 0, 1.2])
        way = top - foot
        m.bar(f"lower {k}", foot, foot + way / 2, 0.5).bar(f"upper {k}", foot + 0.4 * way, top, 0.5)
        m.joint(f"foot {k}", "universal", "world", f"lower {k}", foot, along, np.cross(along, way))
        m.joint(f"leg {k}", "prismatic", f"lower {k}", f"upper {k}", foot + 0.45 * way, way)
        m.joint(f"top {k}", "universal", "plate", f"upper {k}", top, along, np.cross(along, way))
    return m


def hexaglide():
    """Six carriages on parallel rails push a platform by rods between universal and ball joints."""
    m = Drawing("hexaglide").body("plate", 3.0, (0, 0, 0.02), np.diag([0.3, 0.3, 0.5]), placed(np.eye(3), (0, 0, 1.2)))
    for k in range(6):
        b = np.pi * k / 3 - 0.1 * (-1) ** k
        foot = np.array([-0.8 + 0.3 * k, 0.7 * (-1) ** k, 0])
        top = np.array([0.6 * np.cos(b), 0.6 * np.sin(b), 1.2])
        m.body(f"carriage {k}", 0.7, (0, 0, 0), np.diag([0.1, 0.12, 0.13]), placed(np.eye(3), foot))
        m.bar(f"rod {k}", foot, top, 0.4)
        m.joint(f"rail {k}", "prismatic", "world", f"carriage {k}", foot, (1, 0, 0))
        m.joint(f"foot {k}", "universal", f"carriage {k}", f"rod {k}", foot, np.cross(top - foot, (1, 0.2, 0)))
        m.joint(f"ball {k}", "spherical", f"rod {k}", "plate", top)
    return m


def three_elbows():
    """Sarrus' linkage on three elbows: the table goes straight up."""
    m = Drawing("three elbows")
    for k in range(3):
        out = np.array([np.cos(2 * np.pi * k / 3), np.sin(2 * np.pi * k / 3), 0])
        axis, up = np.array([-out[1], out[0], 0]), np.array([0, 0, 0.8])
        m.bar(f"lower {k}", out, 1.5 * out + up / 2).bar(f"upper {k}", 1.5 * out + up / 2, out + up)
        m.joint(f"a{k}", "revolute", "world", f"lower {k}", out, axis)
        m.joint(f"b{k}", "revolute", f"lower {k}", f"upper {k}", 1.5 * out + up / 2, axis)
        m.joint(f"c{k}", "revolute", f"upper {k}", "table", out + up, axis)
    return m.body("table", 2.0, (0, 0, 0.05), np.diag([0.3, 0.3, 0.5]), placed(np.eye(3), (0, 0, 0.8)))


def ring(seed):
    """A closed chain of joints of random kinds at random places, with one to three freedoms; one link may lack mass."""
    rng = np.random.default_rng(seed)
    while True:
        kinds = rng.choice(list(FREEDOMS), size=rng.integers(3, 6))
        if 7 <= sum(FREEDOMS[kind] for kind in kinds) <= 9 and list(kinds).count("prismatic") < 2:
            break
    m = Drawing(" ".join(kinds))
    names = ["world", *(f"link {k}" for k in range(len(kinds) - 1))]
    for name in names[1:]:
        S = rng.normal(size=(3, 3)) / 4
        S = S @ S.T + 0.02 * np.eye(3)
        pose = placed(frame_along(rng.normal(size=3), rng.normal(size=3)), rng.normal(size=3))
        m.body(name, 1 + rng.random(), 0.2 * rng.normal(size=3), np.trace(S) * np.eye(3) - S, pose)
    for k, kind in enumerate(kinds):
        parent, child = (names[k], names[k + 1]) if k + 1 < len(kinds) else ("world", names[-1])
        m.joint(f"joint {k}", kind, parent, child, rng.normal(size=3), rng.normal(size=3), rng.normal(size=3))
    return m, [f"joint {rng.integers(len(kinds))}"]


def errors(drawing, model, state, routes, compiled):
    """Of every route, relative to the largest acceleration; and the freedoms of the oracle."""
    q, v, tau = state
    right, freedoms = drawing.accelerations(model, q, v, tau)
    found = {}
    for make, own in ((wt.reference, routes), (wt.compile, compiled)):
        for route in own:
            a = np.asarray(make(model, route=route, watch="never").forward_dynamics(q, v, tau), float)
            error = np.abs(drawing.accelerations_of(model, q, v, a) - right).max() / np.abs(right).max()
            found[make.__name__, route] = error
    return found, freedoms


@pytest.mark.slow
@pytest.mark.parametrize("make", [klann_leg, three_elbows, translational_platform, hexaglide])
def test_every_route_of_a_drawn_mechanism(make):
    drawing = make()
    model = drawing.build()
    found, freedoms = errors(drawing, model, state_away(model), ROUTES, COMPILED_ROUTES)
    assert max(found.values()) < ROUNDING, found
    assert wt.diagnose(model).freedoms == freedoms
    assert wt.diagnose(model).fine


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 12))])
def test_rings_of_every_joint_cut_anywhere(seed):
    """By the default cut, and by one at random."""
    drawing, cut = ring(seed)
    for own in ((), cut):
        model = drawing.build(cut=own)
        found, freedoms = errors(drawing, model, state_away(model), ("embedding", "elimination"), (None,))
        assert max(found.values()) < ROUNDING, (drawing.name, own, found)
        assert wt.diagnose(model).freedoms == freedoms


# --- rows that vanish, of which others take the place -----------------------------------------------------------------


def folded(model, angle):
    """Three elbows with every lower arm turned by an angle from the drawing."""
    guess = np.zeros(model.nq)
    for k in range(3):
        guess[model.q_slice(f"a{k}")], guess[model.q_slice(f"b{k}")] = angle, -2 * angle
    guess[model.q_slice("c0")] = angle
    return wt.assemble(model, guess, hold={"a0": angle})


def test_rows_are_kept_that_are_clear_at_the_start():
    """One tilt of each hinge asks for nothing at the drawing: the other one is kept, and machine code serves."""
    drawing = three_elbows()
    model = drawing.build()
    found = wt.diagnose(model)
    assert found.fine
    assert found.redundant == ("c1.tilt_u", "c2.tilt_u", "c2.tilt_v", "c2.z")
    v = np.asarray(wt.reference(model).project_velocity(model.home.q, np.ones(model.nv)))
    answer = wt.compile(model).forward_dynamics
    q, tau = model.home.q, np.zeros(model.nv)
    right, _ = drawing.accelerations(model, q, v, tau)
    np.testing.assert_allclose(drawing.accelerations_of(model, q, v, answer(q, v, tau)), right, atol=1e-10)
    assert answer.status == 0


@pytest.mark.slow
def test_where_a_kept_row_vanishes_another_takes_its_place():
    """A quarter of a turn on, the tilt that was kept asks for nothing; the mechanism is as regular as before."""
    drawing = three_elbows()
    model = drawing.build()
    q = folded(model, np.pi / 2)
    found = wt.diagnose(model, q)
    assert (found.fine, found.exchanged, found.dependent, found.astray) == (True, ("c1.tilt_u",), ("c1.tilt_v",), ())
    assert "needed at this configuration in their place: c1.tilt_u" in str(found)
    v = np.asarray(wt.reference(model).project_velocity(q, np.ones(model.nv)))
    for speeds in (v, 0 * v):
        errors_of, _ = errors(drawing, model, (q, speeds, np.zeros(model.nv)), COMPILED_ROUTES, COMPILED_ROUTES)
        assert max(errors_of.values()) < ROUNDING, errors_of
    minimal = wt.embed(model)
    np.testing.assert_allclose(minimal.velocity(q, minimal.rates(v)), v, atol=1e-12)
    run = wt.simulate(model, q, 0 * v, duration=0.2)
    assert run.attrs["failure"] == ""
    energy = (run.kinetic_energy + run.potential_energy).values
    np.testing.assert_allclose(energy, energy[0], atol=1e-7)
