"""wt.linearize and its relatives: against differences of the nonlinear motion, in batches, with contacts and time."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from strategies import make_model, make_motion, with_loops
from whippletree.model.parameters import with_parameters

LOOPS = {
    "chain": ((-1, 0, 1, 2, 3), ("revolute", "universal", "revolute", "prismatic", "revolute")),
    "two trees": ((-1, 0, -1, 2, 3), ("revolute", "revolute", "planar", "revolute", "prismatic")),
}


def on_manifold(model, dyn, q, v, free, rates, moved, faster):
    """The state whose minimal coordinates and velocities differ from (q, v) by these amounts; joints without turns."""
    q = q.copy()
    rest = [i for i in range(model.nv) if i not in free]
    target = q[free] + moved
    q[free] = target
    rows = list(wt.constraint_set(model).position_rows)
    for _ in range(20):
        A = dyn.constraint_jacobian(q)[np.ix_(rows, rest)]
        q[rest] -= np.linalg.pinv(A, rcond=1e-9) @ dyn.constraint_residual(q)
    v = v.copy()
    v[rates] += faster
    slow = [i for i in range(model.nv) if i not in rates]
    A = dyn.constraint_jacobian(q)
    v[slow] = -np.linalg.pinv(A[:, slow], rcond=1e-9) @ (A[:, rates] @ v[rates])
    return q, v


@pytest.mark.slow
@pytest.mark.parametrize("tie", ["point_on_plane", "distance", "knife_edge"])
@pytest.mark.parametrize("tree", LOOPS)
def test_linear_system_is_the_derivative_of_the_motion_on_the_manifold(tree, tie):
    """Far from equilibrium, in motion, with and without rows at velocity level: differences of second order."""
    parents, kinds = LOOPS[tree]
    model = make_model(parents, kinds, 7)
    motion = make_motion(model, 3)
    parameters = {"length": 1.5} if tie == "distance" else {"direction": (1, 0, 0)} if tie == "knife_edge" else {}
    model = with_loops(model, motion.q, [("tie", tie, "b4", "b1", parameters)])
    dyn = wt.compile(model)
    q = wt.assemble(model, motion.q)
    v = dyn.project_velocity(q, motion.v)
    system = wt.linearize(model, q, v, tau=motion.tau)
    names = [label for label in system.states if not label.startswith("rate of")]
    count = len(names)
    labels = list(system.outputs[: model.nv])
    free = [labels.index(name) for name in names]
    rates = [labels.index(name.removeprefix("rate of ")) for name in system.states[count:]]
    assert len(rates) == count - (tie == "knife_edge")

    def rate(x):
        at, fast = on_manifold(model, dyn, q, v, free, rates, x[:count], x[count:])
        assert np.abs(dyn.constraint_velocity(at, fast)).max() < 1e-9
        a = dyn.forward_dynamics(at, fast, motion.tau + dyn.passive_forces(at, fast))
        return np.concatenate([fast[free], a[rates]])

    n, h = len(system.states), 1e-5
    numeric = np.stack([(rate(h * e) - rate(-h * e)) / (2 * h) for e in np.eye(n)], axis=1)
    scale = 1 + np.abs(numeric).max()
    assert system.constant == pytest.approx(rate(np.zeros(n)), abs=1e-9 * scale)
    assert np.abs(system.A - numeric).max() < 1e-6 * scale
    # inputs: joint forces change accelerations only
    push = np.random.default_rng(0).normal(size=model.nv)
    change = dyn.forward_dynamics(q, v, motion.tau + push) - dyn.forward_dynamics(q, v, motion.tau)
    assert (system.B @ push)[count:] == pytest.approx(change[rates], abs=1e-9 * scale)
    assert not system.steady


def test_a_ball_joint_out_of_balance():
    """At rest, away from equilibrium, without a spring: the constant term, and a spin that nothing restores."""
    model = wt.Builder("ball").body("ball", 2.0, (0.3, 0, 0), (0.1, 0.2, 0.2)).joint("j", "spherical", "world", "ball")
    model = model.build()
    system = wt.linearize(model, [1, 0, 0, 0])
    assert not system.steady
    a = wt.compile(model).forward_dynamics([1, 0, 0, 0], np.zeros(3), np.zeros(3))
    assert system.constant == pytest.approx([0, 0, 0, *a])
    h, dyn = 1e-6, wt.compile(model)
    for k, e in enumerate(np.eye(3)):
        ahead, behind = (
            dyn.forward_dynamics(dyn.integrate([1.0, 0, 0, 0], s * h * e), np.zeros(3), np.zeros(3)) for s in (1, -1)
        )
        assert system.A[3:, k] == pytest.approx((ahead - behind) / (2 * h), abs=1e-6)


def test_a_tumbling_body_turns_unstably_about_its_middle_axis():
    inertias = np.array([1.0, 2.0, 2.5])
    model = (
        wt.Builder("body", (0, 0, 0)).body("body", 1.0, inertia=inertias).joint("j", "free", "world", "body").build()
    )
    system = wt.linearize(model, model.neutral.q, [0, 3.0, 0, 0, 0, 0])
    assert system.steady
    assert system.axes == "body"  # in which the inertia stands still
    growth = 3.0 * np.sqrt((2.5 - 2.0) * (2.0 - 1.0) / (1.0 * 2.5))
    assert np.linalg.eigvals(system.A).real.max() == pytest.approx(growth, abs=1e-12)


@pytest.mark.slow
def test_parameters_make_a_batch_of_designs():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    masses = np.linspace(0.5, 3.0, 7)
    opened = {"bodies.coupler rod.mass": masses}
    rest = wt.equilibrium(model, parameters=opened)
    assert rest.q.shape == (7, 3)
    assert list(rest.stability) == ["stable"] * 7
    modes = wt.eigenmodes(model, rest.q, parameters=opened)
    assert modes.frequencies.shape == (7, 1)
    for k in (0, 3, 6):
        one = replace(with_parameters(model, {"bodies.coupler rod.mass": float(masses[k])}), origin=None)
        alone = wt.equilibrium(one)
        assert alone.q == pytest.approx(rest.q[k], abs=1e-9)
        assert wt.eigenmodes(one, alone.q).frequencies == pytest.approx(modes.frequencies[k], abs=1e-9)


def test_springs_on_a_prescribed_motion_rest_where_it_stands():
    b = wt.Builder("driven", (0, 0, 0)).body("hand").body("bob", 2.0)
    b.joint("hand", "prismatic", "world", "hand", axis=(1, 0, 0))
    b.joint("spring", "prismatic", "hand", "bob", axis=(1, 0, 0), stiffness=8.0, rest=0.5)
    model = b.constraint("drive", "prescribed", "hand", motion=lambda t: 0.3 * t).build()
    rest = wt.equilibrium(model, t=2.0)
    assert rest.q == pytest.approx([0.6, 0.5])
    modes = wt.eigenmodes(model, rest.q, [0.3, 0.0], t=2.0)
    assert 2 * np.pi * modes.frequencies == pytest.approx([2.0])


def test_damping_ratio_and_frequency_response_of_one_mass():
    m, c, k = 2.0, 0.8, 50.0
    b = wt.Builder("oscillator", (0, 0, 0)).body("mass", m)
    model = b.joint("x", "prismatic", "world", "mass", axis=(1, 0, 0), stiffness=k, damping=c).build()
    modes = wt.eigenmodes(model, [0.0])
    omega = np.sqrt(k / m)
    zeta = c / (2 * m * omega)
    assert modes.frequencies == pytest.approx([omega / (2 * np.pi)])
    assert modes.ratios == pytest.approx([zeta, zeta])
    assert modes.damped_frequencies == pytest.approx([omega * np.sqrt(1 - zeta**2) / (2 * np.pi)] * 2)
    assert modes.shapes[:, 0] == pytest.approx([1 / np.sqrt(m)])  # unit modal mass
    system = wt.linearize(model, [0.0], outputs=["x"])
    f = np.array([0.0, 0.3, 0.8, 5.0])
    s = 2j * np.pi * f
    response = wt.frequency_response(system, f)
    assert response.shape == (4, 1, 1)
    assert response[:, 0, 0] == pytest.approx(1 / (m * s**2 + c * s + k))


def test_frames_as_outputs_move_with_the_state():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    rest = wt.equilibrium(model)
    system = wt.linearize(model, rest.q, outputs=["coupler end", "rocker"])
    assert system.outputs[:3] == ("coupler end.rx", "coupler end.ry", "coupler end.rz")
    assert system.outputs[-1] == "rocker"
    J = wt.compile(model).jacobian("coupler end")(rest.q)
    assert system.C[:6, 0] == pytest.approx(J @ system.positions[:, 0])


def test_named_coordinates_are_the_state():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    rest = wt.equilibrium(model)
    rocker = wt.linearize(model, rest.q, coordinates=["rocker"])
    crank = wt.linearize(model, rest.q, coordinates=["crank"])
    assert rocker.states == ("rocker", "rate of rocker")
    assert np.linalg.eigvals(rocker.A) == pytest.approx(np.linalg.eigvals(crank.A), abs=1e-9)
    assert rocker.mass[0, 0] != pytest.approx(crank.mass[0, 0])


def test_a_hair_spring_counts_beside_a_crane():
    """Stiffnesses of 1e-3 N m/rad and 1e7 N/m, inertias of 1e-10 kg m² and 500 kg in one model."""
    b = wt.Builder("watch on a crane", (0, 0, -9.81)).body("hook", 500.0)
    b.joint("cable", "prismatic", "world", "hook", axis=(0, 0, 1), stiffness=1e7)
    b.body("balance", 1e-5, (1e-3, 0, 0), (1e-10, 1e-10, 1e-10))
    b.joint("hair", "revolute", "world", "balance", axis=(0, 1, 0), stiffness=1e-6)
    model = b.build()
    rest = wt.equilibrium(model)
    hair = rest.q[model.q_slice("hair")][0]
    assert rest.stable
    assert 1e-6 * hair == pytest.approx(1e-5 * 9.81 * 1e-3 * np.cos(hair), rel=1e-9)
    assert rest.q[model.q_slice("cable")] == pytest.approx([-500 * 9.81 / 1e7], rel=1e-12)
    modes = wt.eigenmodes(model, rest.q)
    stiffness = 1e-6 + 1e-5 * 9.81 * 1e-3 * np.sin(hair)
    expected = np.sort(np.sqrt([1e7 / 500, stiffness / (1e-10 + 1e-5 * 1e-6)]))
    assert 2 * np.pi * modes.frequencies == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("spin", [30.0, 60.0, 120.0])
def test_a_sleeping_top_stands_above_its_critical_spin(spin):
    across, along, mass, length = 0.02, 0.01, 1.0, 0.2
    b = wt.Builder("top").body("top", mass, (0, 0, length), (across, across, along))
    model = b.joint("tip", "spherical", "world", "top").build()
    system = wt.linearize(model, [1, 0, 0, 0], [0, 0, spin])
    assert system.steady
    critical = np.sqrt(4 * (across + mass * length**2) * mass * 9.81 * length) / along
    assert (np.linalg.eigvals(system.A).real.max() > 1e-3) == (spin < critical)


def test_undamped_modes_under_follower_forces_and_designs_at_once():
    """Loads with a batch: two frequencies until they meet, then growth."""
    b = wt.Builder("column", (0, 0, 0)).body("lower", 2.0, center=(1, 0, 0)).body("upper", 1.0, center=(1, 0, 0))
    b.joint("foot", "revolute", "world", "lower", stiffness=1.0)
    b.joint("knee", "revolute", "lower", "upper", position=(1, 0, 0), stiffness=1.0)
    model = b.frame("tip", "upper", position=(1, 0, 0)).build()
    wrenches = np.zeros((2, 6))
    wrenches[:, 3] = -2.0, -2.2  # flutter begins at 7/2 − √2
    modes = wt.eigenmodes(model, np.zeros((2, 2)), wrenches={"tip": wrenches})
    assert list(modes.growth[0]) == [0.0, 0.0]
    assert modes.frequencies[0, 0] < modes.frequencies[0, 1]
    assert modes.growth[1].max() > 0.1
    assert modes.frequencies[1, 0] == pytest.approx(modes.frequencies[1, 1])


# --- contacts ---------------------------------------------------------------------------------------------------------


def standing(friction):
    """A block on two feet that may slide along x on the ground, with a sprung mass on top."""
    b = wt.Builder("block", (0, 0, -9.81))
    b.body("block", 3.0, (0, 0, 0.1), (0.1, 0.1, 0.1)).joint(
        "block", "free", "world", "block", start=(0, 0, 0.05, 1, 0, 0, 0)
    )
    b.body("top", 1.0).joint("top", "prismatic", "block", "top", axis=(1, 0, 0), position=(0, 0, 0.2), stiffness=40.0)
    b.geometry("ground", "world", "half_space")
    for name, x, y in (("a", 0.2, 0.1), ("b", -0.2, 0.1), ("c", 0.0, -0.1)):
        b.geometry(name, "block", "sphere", position=(x, y, 0), radius=0.05)
        b.contact(f"{name} on ground", name, "ground", friction=friction)
    return b.build()


def test_contacts_that_stick_hold_the_block():
    model = standing(0.8)
    system = wt.linearize(model, model.home.q)
    assert system.rows[:3] == ("a on ground.normal", "a on ground.tangent 1", "a on ground.tangent 2")
    modes = wt.eigenmodes(system)
    assert modes.frequencies[-1] == pytest.approx(np.sqrt(40.0) / (2 * np.pi))  # the top alone
    weight = 4.0 * 9.81
    assert system.forces[[0, 3, 6]].sum() == pytest.approx(weight)


def test_contacts_without_friction_let_it_slide():
    model = standing(0.0)
    modes = wt.eigenmodes(model, model.home.q)
    both = np.sqrt(40.0 * (1 / 3 + 1 / 1)) / (2 * np.pi)
    assert modes.frequencies[-1] == pytest.approx(both)
    assert modes.frequencies[:-1] == pytest.approx(0, abs=1e-9)


def test_sliding_friction_has_an_unsymmetric_part():
    """A pendulum on a sliding block: friction feels the pendulum's pull on the ground."""
    mu, speed = 0.3, 2.0
    b = (
        wt.Builder("sliding", (0, 0, -9.81))
        .body("block", 3.0, (0, 0, 0.05), (0.1, 0.1, 0.1))
        .body("bob", 1.0, (0, 0, -0.4))
    )
    b.joint("x", "prismatic", "world", "carrier", axis=(1, 0, 0)).body("carrier")
    b.joint("z", "prismatic", "carrier", "block", axis=(0, 0, 1), start=0.05)
    b.joint("hinge", "revolute", "block", "bob", axis=(0, 1, 0), position=(0, 0, 1.0))
    b.geometry("ground", "world", "half_space").geometry("foot", "block", "sphere", radius=0.05)
    model = b.contact("foot on ground", "foot", "ground", friction=mu).build()
    q, v = model.home.q, np.zeros(3)
    v[model.slice("x")] = speed
    system = wt.linearize(model, q, v, coordinates=["x", "hinge"])
    assert system.rows == ("foot on ground.normal",)

    # by hand: (M + m) ẍ − m l cos φ φ̈ + … with the friction −μ N, N = weight + the bob's upward pull
    def accelerations(phi, rate):
        m, M, l, g = 1.0, 3.0, 0.4, 9.81
        # bob at x − l sin φ, z − l cos φ (turning about +y); unknown ẍ, φ̈, N
        c, s = np.cos(phi), np.sin(phi)
        A = np.array(
            [
                [M + m, -m * l * c, mu],
                [-m * l * c, m * l * l, 0.0],
                [0.0, m * l * s, -1.0],
            ]
        )
        b = np.array([-m * l * s * rate**2, -m * g * l * s, -(M + m) * g - m * l * c * rate**2])
        return np.linalg.solve(A, b)

    a, phi_a, N = accelerations(0.0, 0.0)
    assert system.forces == pytest.approx([N])
    assert system.constant[2:] == pytest.approx([a, phi_a])
    h = 1e-5
    slope = (accelerations(h, 0.0) - accelerations(-h, 0.0)) / (2 * h)
    assert system.A[2:, 1] == pytest.approx(slope[:2], abs=1e-6)
    assert not np.allclose(system.stiffness, system.stiffness.T)


def test_touching_contacts_of_a_batch_must_be_named():
    model = standing(0.0)
    q = np.stack([model.home.q] * 2)
    with pytest.raises(wt.ShapeError, match="which contacts touch may differ"):
        wt.linearize(model, q)
    held = {f"{name} on ground": "frictionless" for name in "abc"}
    assert wt.linearize(model, q, contacts=held).A.shape[0] == 2


# --- shapes -----------------------------------------------------------------------------------------------------------


def test_shapes_are_orthogonal_and_can_be_animated(tmp_path):
    model = wt.mechanisms.chain(3)
    rest = wt.equilibrium(model)
    modes = wt.eigenmodes(model, rest.q)
    M = wt.compile(model).mass_matrix(rest.q)
    assert modes.shapes.T @ M @ modes.shapes == pytest.approx(np.eye(3), abs=1e-10)
    run = modes.motion(0, amplitude=0.2, moments=17)
    assert run["q"].shape == (17, 3)
    assert np.abs(run["q"].values - rest.q).max() == pytest.approx(0.2)
    assert run["time"].values[-1] == pytest.approx(1 / modes.frequencies[0])
    page = wt.export_html(model, run, tmp_path / "mode.html")
    assert page.stat().st_size > 10_000


def test_an_animated_loop_stays_closed():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    run = wt.eigenmodes(model, wt.equilibrium(model).q).motion(0, amplitude=0.3)
    assert np.abs(wt.compile(model).constraint_residual(run["q"].values)).max() < 1e-11
    with pytest.raises(wt.NameLookupError, match="there is no mode 1"):
        wt.eigenmodes(model, wt.equilibrium(model).q).motion(1)
