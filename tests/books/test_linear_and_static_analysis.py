"""Published equilibria, frequencies, stability limits and regulators, each rebuilt from its source's own data.

The spring four-bar is IFToMM's linearisation benchmark, the four-bar with a force MotionGenesis' example, the column
Ziegler's (1952), the disc that of every book on non-holonomic systems, the cart-pole that of the University of
Michigan's control tutorials.
"""

import itertools

import numpy as np
import pytest
import scipy.linalg
from scipy.optimize import brentq

import whippletree as wt
from whippletree.mechanisms.linkages import rod

EXACT = 1e-9


# --- spring four-bar --------------------------------------------------------------------------------------------------


def spring_four_bar(damper=1.0):
    """A parallelogram of 1 m and 1 kg rods; spring and damper, a massless sprung slide, from (0, 0) to its far pin."""
    b = wt.Builder("spring four-bar", (0, -9.81, 0))
    for name in ("left", "coupler", "right"):
        b.body(f"{name} rod", **rod(1.0, 1.0))
    b.joint("left", "revolute", "world", "left rod", start=np.pi / 2)
    b.joint("coupler", "revolute", "left rod", "coupler rod", position=(1, 0, 0), start=-np.pi / 2)
    b.joint("right", "revolute", "world", "right rod", position=(1, 0, 0), start=np.pi / 2)
    b.frame("coupler end", "coupler rod", position=(1, 0, 0)).frame("right end", "right rod", position=(1, 0, 0))
    b.constraint("pin", "pin", "coupler end", "right end")
    b.body("tube").body("piston")
    b.joint("aim", "revolute", "world", "tube", start=np.pi / 4)
    sprung = {"stiffness": 25.0, "damping": damper, "rest": np.sqrt(2), "start": np.sqrt(2)}
    b.joint("spring", "prismatic", "tube", "piston", axis=(1, 0, 0), **sprung)
    return b.constraint("eye", "pin", "piston", "right end").build()


@pytest.mark.slow
def test_spring_four_bar_rests_and_vibrates_as_published():
    model = spring_four_bar()
    rest = wt.equilibrium(model, wt.assemble(model, hold={"right": 2.2}))
    assert rest.stable
    assert rest.stability == "stable"
    assert rest.q[model.q_slice("right")] == pytest.approx([2.234331019017586], abs=EXACT)
    modes = wt.eigenmodes(model, rest.q)
    assert modes.eigenvalues == pytest.approx(
        [-0.242385809310505 - 2.133955028348380j, -0.242385809310505 + 2.133955028348380j], abs=EXACT
    )
    assert 2 * np.pi * modes.frequencies == pytest.approx([2.147676638502278], abs=EXACT)
    free = wt.eigenmodes(spring_four_bar(damper=0.0), rest.q)
    assert free.eigenvalues == pytest.approx([-2.147676638502278j, 2.147676638502278j], abs=EXACT)


def test_the_upright_spring_four_bar_is_unstable_and_is_left_downhill():
    model = spring_four_bar()
    upright = wt.equilibrium(model, minimise=False)
    assert upright.q[model.q_slice("right")] == pytest.approx([np.pi / 2], abs=EXACT)
    assert upright.stability == "unstable"
    assert not upright.stable
    assert wt.equilibrium(model).stability == "stable"


# --- four-bar with a force --------------------------------------------------------------------------------------------


def test_four_bar_with_a_force():
    b = wt.Builder("four-bar with a force", (9.81, 0, 0))
    b.body("crank rod", **rod(10.0, 1.0)).body("coupler rod", **rod(20.0, 2.0)).body("rocker rod", **rod(20.0, 2.0))
    b.joint("crank", "revolute", "world", "crank rod", start=0.3)
    b.joint("coupler", "revolute", "crank rod", "coupler rod", position=(1, 0, 0), start=0.9)
    b.joint("rocker", "revolute", "world", "rocker rod", position=(0, 1, 0), start=0.6)
    b.frame("pin", "coupler rod", position=(2, 0, 0)).frame("rocker end", "rocker rod", position=(2, 0, 0))
    model = b.constraint("loop", "pin", "pin", "rocker end").build()
    pushed = {"pin": (0, 200, 0)}
    rest = wt.equilibrium(model, forces=pushed)
    crank, coupler, rocker = rest.q
    found = np.degrees([crank, crank + coupler, rocker])
    assert found == pytest.approx([19.986905545705, 71.662020524518, 38.324885021187], abs=EXACT)
    assert rest.stable
    omega = 2 * np.pi * wt.eigenmodes(model, rest.q, forces=pushed).frequencies
    assert omega == pytest.approx([3.0048175439216], abs=EXACT)


# --- Ziegler's column -------------------------------------------------------------------------------------------------


def column(damper=0.0):
    b = wt.Builder("Ziegler's column", (0, 0, 0))
    b.body("lower", 2.0, center=(1, 0, 0)).body("upper", 1.0, center=(1, 0, 0))
    b.joint("foot", "revolute", "world", "lower", stiffness=1.0, damping=damper)
    b.joint("knee", "revolute", "lower", "upper", position=(1, 0, 0), stiffness=1.0, damping=damper)
    return b.frame("tip", "upper", position=(1, 0, 0)).build()


def pressed(model, force):
    """A of the straight column under a force that follows its tip."""
    return wt.linearize(model, [0.0, 0.0], wrenches={"tip": (0, 0, 0, -force, 0, 0)})


def test_flutter_of_an_undamped_column():
    model = column()

    def discriminant(force):
        stiffness = pressed(model, force).A[2:, :2]
        return np.trace(stiffness) ** 2 - 4 * np.linalg.det(stiffness)

    assert brentq(discriminant, 1.5, 2.5, xtol=1e-14) == pytest.approx(7 / 2 - np.sqrt(2), abs=EXACT)
    assert not np.allclose(pressed(model, 1.0).stiffness, pressed(model, 1.0).stiffness.T)


@pytest.mark.parametrize("damper", [0.01, 0.1, 0.5])
def test_flutter_of_a_damped_column(damper):
    model = column(damper)

    def hurwitz(force):
        _, a, b, c, d = np.poly(pressed(model, force).A)
        return c * (a * b - c) - a * a * d

    assert brentq(hurwitz, 1.2, 2.0, xtol=1e-14) == pytest.approx(41 / 28 + damper**2 / 2, abs=EXACT)


def test_the_column_is_judged_by_its_motion():
    for force, word in ((1.4, "stable"), (1.6, "unstable")):
        assert wt.equilibrium(column(0.1), wrenches={"tip": (0, 0, 0, -force, 0, 0)}).stability == word
    # without dampers nothing decays, and without a potential nothing else decides
    assert wt.equilibrium(column(), wrenches={"tip": (0, 0, 0, -2.0, 0, 0)}).stability == "neutral"


# --- rolling ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("speed", [0.3, 1.0, 3.0])
def test_upright_rolling_disc(speed):
    radius, mass = 0.3, 1.0
    disc = wt.mechanisms.rolling_disc(radius=radius, mass=mass, speed=speed)
    A, C, omega = mass * radius**2 / 4, mass * radius**2 / 2, speed / radius
    square = (mass * 9.81 * radius - C * (C + mass * radius**2) * omega**2 / A) / (A + mass * radius**2)
    system = wt.linearize(disc, disc.home.q, disc.home.v)
    assert system.steady
    assert system.axes == "parent"
    assert len(system.states) == 8  # five places, three velocities
    found = np.linalg.eigvals(system.A)
    for expected in (np.emath.sqrt(square), -np.emath.sqrt(square)):
        assert np.abs(found - expected).min() < EXACT


# --- chains -----------------------------------------------------------------------------------------------------------


def test_hanging_chain():
    count, length, mass, span = 10, 0.2, 0.1, 1.5
    b = wt.Builder("hanging chain", (0, -9.81, 0))
    for k in range(count):
        b.body(f"rod {k}", **rod(mass, length))
        before, at = ("world", 0) if k == 0 else (f"rod {k - 1}", length)
        b.joint(f"joint {k}", "revolute", before, f"rod {k}", position=(at, 0, 0), start=-0.8 if k == 0 else 0.16)
    b.frame("end", f"rod {count - 1}", position=(length, 0, 0)).frame("hook", "world", position=(span, 0, 0))
    model = b.constraint("hook", "pin", "hook", "end").build()
    rest = wt.equilibrium(model)
    assert rest.stable
    assert rest.rows == ("hook.x", "hook.y")
    assert abs(rest.forces[0]) == pytest.approx(2.7161492451733, abs=EXACT)
    assert abs(rest.forces[1]) == pytest.approx(count * mass * 9.81 / 2, abs=EXACT)
    lowest = wt.compile(model).pose("rod 5")(rest.q)[1, 3]
    assert lowest == pytest.approx(-0.592039130704987, abs=EXACT)


def test_pendulum_of_a_point_mass_and_a_distance():
    """Its mass has no stiffness of its own: all of it is −∂(Aᵀ f)/∂q at the rod's fixed force."""
    for length in (0.5, 2.0):
        b = wt.Builder("point on a rod", (0, 0, -9.81)).body("bob", 1.5)
        b.body("x").body("y").joint("x", "prismatic", "world", "x", axis=(1, 0, 0))
        b.joint("y", "prismatic", "x", "y", axis=(0, 1, 0))
        b.joint("z", "prismatic", "y", "bob", axis=(0, 0, 1), start=-length)
        model = b.constraint("rod", "distance", "world", "bob", length=length).build()
        rest = wt.equilibrium(model, wt.assemble(model, [0.3 * length, 0.2 * length, -length]))
        assert rest.stable
        assert rest.q == pytest.approx([0, 0, -length], abs=1e-12)
        omega = 2 * np.pi * wt.eigenmodes(model, rest.q).frequencies
        assert omega == pytest.approx([np.sqrt(9.81 / length)] * 2, abs=EXACT)


BEAM = np.array([1.875104068711961, 4.694091132974175]) ** 2
"""First two frequencies of a cantilever, in √(EI / ρA L⁴)."""


def cantilever(count, EI=3.0, rho=2.0, length=1.5):
    """Rigid links with the beam's bending in their hinges; the first hinge, at the wall, has half a link to bend."""
    part = length / count
    b = wt.Builder(f"cantilever of {count} links", (0, 0, 0))
    for k in range(count):
        b.body(f"link {k}", **rod(rho * part, part))
        before, at = ("world", 0) if k == 0 else (f"link {k - 1}", part)
        stiffness = (2 if k == 0 else 1) * EI / part
        b.joint(f"hinge {k}", "revolute", before, f"link {k}", position=(at, 0, 0), stiffness=stiffness)
    return b.build(), np.sqrt(EI / (rho * length**4))


@pytest.mark.slow
def test_a_cantilever_of_rigid_links_approaches_the_beam():
    errors = []
    for count in (5, 10, 20):
        model, unit = cantilever(count)
        omega = 2 * np.pi * wt.eigenmodes(model, np.zeros(count)).frequencies[:2] / unit
        errors.append(np.abs(omega / BEAM - 1))
    assert np.all(errors[-1] < (2e-3, 1e-2))
    for coarse, fine in itertools.pairwise(errors):  # second order: a quarter of the error with twice the links
        assert coarse / fine == pytest.approx([4, 4], rel=0.15)


# --- regulator --------------------------------------------------------------------------------------------------------


def test_lqr_of_the_cart_pole():
    b = wt.Builder("cart-pole", (0, -9.8, 0))
    b.body("cart", 0.5).body("pole", 0.2, (0, 0.3, 0), (0.006, 0, 0.006))
    b.joint("slide", "prismatic", "world", "cart", axis=(1, 0, 0), damping=0.1)
    model = b.joint("hinge", "revolute", "cart", "pole").build()
    system = wt.linearize(model, [0, 0], inputs=["slide"])
    assert system.states == ("slide", "hinge", "rate of slide", "rate of hinge")
    assert system.inputs == ("slide",)
    Q = np.diag([5000.0, 100.0, 0.0, 0.0])
    S = scipy.linalg.solve_continuous_are(system.A, system.B, Q, np.eye(1))
    K = (system.B.T @ S)[0, [0, 2, 1, 3]]
    assert pytest.approx([-70.7106781187, -37.8344539935, 105.529781916, 20.9238437492], rel=1e-10, abs=2e-9) == K


# --- sharing of loads -------------------------------------------------------------------------------------------------


def test_motors_of_a_parallelogram_share_its_weight():
    model = wt.mechanisms.four_bar(angle=np.pi / 3)
    for side in (wt.compile(model), wt.reference(model)):
        one, _, residual = side.inverse_dynamics_with_motors(("crank",))(model.home.q, [0] * 3, [0] * 3, [1] * 3)
        assert one == pytest.approx([9.81, 0, 0], abs=EXACT)
        assert residual == pytest.approx([0] * 3, abs=EXACT)
        two = side.inverse_dynamics_with_motors(("crank", "rocker"))(model.home.q, [0] * 3, [0] * 3, [1] * 3)[0]
        assert two == pytest.approx([4.905, 0, 4.905], abs=EXACT)


FEET = {"+ +": (0.5, 0.3), "+ -": (0.5, -0.3), "- +": (-0.5, 0.3), "- -": (-0.5, -0.3)}
SHARES = [33.5175, 25.3425, 23.7075, 15.5325]


def test_a_table_on_four_feet_as_constraints():
    b = wt.Builder("table").body("table", 10.0, (0.1, 0.05, 0.5), (1, 1, 1)).joint("table", "free", "world", "table")
    for name, (x, y) in FEET.items():
        b.frame(name, "table", position=(x, y, 0)).frame(f"floor {name}", "world", position=(x, y, 0))
        b.constraint(f"foot {name}", "point_on_plane", f"floor {name}", name, normal=(0, 0, 1))
    b.constraint("bolt", "custom", "table", residual=lambda X: [X[0, 3], X[1, 3], X[1, 0]], rows=("x", "y", "turn"))
    model = b.build()
    f = wt.compile(model).constraint_forces_least_norm(model.home.q, [0] * 6, [0] * 6, [1] * 7)
    assert f[:4] == pytest.approx(SHARES, abs=EXACT)
    # statics shares in the same way, without a word of mass
    assert wt.equilibrium(model).forces[:4] == pytest.approx(SHARES, abs=EXACT)


def test_a_table_on_four_feet_in_contact():
    b = wt.Builder("table").body("table", 10.0, (0.1, 0.05, 0.5), (1, 1, 1)).joint("table", "free", "world", "table")
    b.geometry("floor", "world", "half_space")
    for name, (x, y) in FEET.items():
        b.geometry(name, "table", "sphere", position=(x, y, 0.01), radius=0.01).contact(f"on {name}", name, "floor")
    model = b.build()
    function = wt.compile(model).inverse_dynamics_in_contact(())
    zero = np.zeros(6)
    _, _, p, residual = function(model.home.q, zero, zero, np.ones(6), np.ones(12), np.ones(4))
    assert p[::3] == pytest.approx(SHARES, abs=EXACT)
    assert residual == pytest.approx(zero, abs=EXACT)
