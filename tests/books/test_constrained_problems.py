"""Published numbers and closed forms of constrained systems, and massless links against light ones."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints import dynamics, kkt
from whippletree.constraints.route_choice import ROUTES
from whippletree.mechanisms.andrews import MOTOR_TORQUE
from whippletree.tree.mechanism import Mechanism


def test_block_matrix_with_a_massless_link():
    """000, eq. 33 and 34, exactly."""
    M = np.array([[Fraction(1), Fraction(0)], [Fraction(0), Fraction(0)]])
    A = np.array([[Fraction(2), Fraction(-1)]])
    for factor in (kkt.block(M, A), kkt.augmented(M, A)):
        found = kkt.dagger(factor, 2, 1)
        assert found.M.tolist() == [[1, 2], [2, 4]]
        assert found.A.tolist() == [[0, -1]]
        assert found.Lambda.tolist() == [[0]]


@pytest.mark.parametrize(("rocker", "expected"), [(1.0, -5.886), (0.0, -5.518125)])
@pytest.mark.parametrize("make", [wt.reference, lambda model: wt.compile(model)])
def test_parallelogram_with_and_without_a_massless_rod(make, rocker, expected):
    """Side rods at 60 degrees, at rest: (2/3 + 1) θ̈ = −2 g cos θ; with one of no mass (1/3 + 1) θ̈ = −1.5 g cos θ."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 1.0, 1.0, 1.0), masses=(1.0, 1.0, rocker))
    q = wt.assemble(model, model.home.q, hold={"crank": np.pi / 3})
    a = make(model).forward_dynamics(q, np.zeros(3), np.zeros(3))
    np.testing.assert_allclose(a[model.slice("crank")], [expected], atol=1e-12)
    np.testing.assert_allclose(a[model.slice("rocker")], [expected], atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_n_four_bar_is_its_reduction_to_one_freedom(n):
    """IFToMM benchmark A02: ((N+1)/3 + N) θ̈ = −((N+1)/2 + N) g cos θ."""
    model = wt.mechanisms.n_four_bar(n)
    ref = wt.reference(model)
    home = model.home
    np.testing.assert_allclose(
        ref.twist("B0")(home.q, home.v)[3:] @ ref.pose("B0")(home.q)[:3, :3].T, [1, 0, 0], atol=1e-15
    )
    theta = 0.7
    q = np.array([theta if joint.name.startswith("side") else -theta for joint in model.joints])
    a = ref.forward_dynamics(q, home.v * 2.5, np.zeros(model.nv))
    expected = -((n + 1) / 2 + n) * 9.81 * np.cos(theta) / ((n + 1) / 3 + n)
    np.testing.assert_allclose(a[model.slice("side_0")], expected, rtol=1e-12)


def test_andrews_squeezer_at_its_start():
    """IVP test set: initial accelerations and multipliers; M a + Gᵀ λ = f, so λ = −f."""
    model = wt.mechanisms.andrews()
    ref, home = wt.reference(model), model.home
    assert np.abs(ref.constraint_residual(home.q)).max() < 1e-15
    tau = ref.passive_forces(home.q, home.v)
    tau[model.slice("beta")] += MOTOR_TORQUE
    a = ref.forward_dynamics(home.q, home.v, tau)
    np.testing.assert_allclose(a[model.slice("beta")], 14222.4439199541, rtol=1e-13)
    np.testing.assert_allclose(a[model.slice("theta")], -10666.8329399656, rtol=1e-13)
    for joint in ("gamma", "phi", "delta", "omega", "epsilon"):
        assert np.abs(a[model.slice(joint)]).max() < 1e-9
    rows = dict(zip(wt.constraint_set(model).row_names, -ref.constraint_forces(home.q, home.v, tau)))
    np.testing.assert_allclose(rows["P3.x"], 98.5668703962411, rtol=1e-13)
    np.testing.assert_allclose(rows["P3.y"], -6.12268834425566, rtol=1e-13)
    assert max(abs(rows[name]) for name in ("P4.x", "P4.y", "P6.x", "P6.y")) < 1e-12


def light_rod(mass, route):
    """Crank acceleration of a general four-bar whose rocker has this mass, by a route, at a fixed state."""
    model = wt.mechanisms.four_bar(lengths=(2.0, 1.0, 2.2, 1.7), masses=(1.0, 1.0, mass))
    q = wt.assemble(model, hold={"crank": 1.1})
    v = wt.reference(wt.mechanisms.four_bar(lengths=(2.0, 1.0, 2.2, 1.7))).project_velocity(
        q, np.array([1.0, 0.2, 0.3])
    )
    mechanism = Mechanism.of(model)
    mechanism.route = route
    zero = np.zeros(3, dtype=object)
    with np.errstate(all="ignore"):
        return dynamics.solve(mechanism, q.astype(object), v.astype(object), zero, 0, None)[0].astype(float)


def test_massless_is_the_limit_of_light():
    """The answer approaches the massless one linearly in the mass until rounding, by the default route."""
    limit = light_rod(0.0, None)
    slope = np.abs(light_rod(1e-4, None) - limit).max() / 1e-4
    for exponent in range(2, 15):
        mass = 10.0**-exponent
        error = np.abs(light_rod(mass, None) - limit).max()
        assert error < 1.2 * slope * mass + 1e-13
        if exponent <= 10:
            assert error > 0.8 * slope * mass - 1e-13


def test_which_route_keeps_how_many_digits():
    """docs/constraints.md has this table: the Schur complement of M loses a digit per digit of the mass, the others
    none."""
    exact = light_rod(0.0, "block")
    slope = np.abs(light_rod(1e-4, "block") - exact).max() / 1e-4
    for route in ("augmented", "nullspace", "block"):
        assert all(
            np.abs(light_rod(10.0**-k, route) - exact).max() < 1.3 * slope * 10.0**-k + 1e-12 for k in (6, 10, 14)
        )
    assert np.abs(light_rod(1e-14, "schur") - exact).max() > 1e-6


def test_peaucellier_draws_a_straight_line():
    model = wt.mechanisms.peaucellier()
    ref = wt.reference(model)
    for angle in np.linspace(-1.0, 1.0, 9):
        q = wt.assemble(model, model.home.q, hold={"crank": angle})
        assert abs(ref.pose("tracer")(q)[0, 3] - (1 - 0.25) / 0.7) < 1e-10


def test_freedoms_of_the_ready_made_mechanisms():
    make = wt.mechanisms
    expected = {
        make.four_bar: 1,
        make.crank_slider: 1,
        make.n_four_bar: 1,
        make.peaucellier: 1,
        make.gear_train: 1,
        make.andrews: 1,
        make.stewart_platform: 6,
        make.delta_robot: 3,
        make.rolling_disc: 3,
        make.knife_edge_sleigh: 2,
    }
    for function, freedoms in expected.items():
        model = function()
        ref, home = wt.reference(model), model.home
        system = wt.constraint_set(model)
        assert system.structure.mobility == freedoms, model
        assert not system.structure.redundant, model
        if system.position_rows:
            assert np.abs(ref.constraint_residual(home.q)).max() < 1e-14, model
        assert np.abs(ref.constraint_velocity(home.q, home.v)).max() < 1e-14, model


def test_gear_train_adds_reflected_inertias():
    """Discs ½ m r² in mesh: a torque on the first feels Σ ½ mₖ rₖ² (r₁/rₖ)² = ½ r₁² Σ mₖ."""
    model = wt.mechanisms.gear_train(radii=(0.1, 0.2, 0.05), masses=(1.0, 2.0, 3.0))
    a = wt.reference(model).forward_dynamics(np.zeros(3), np.zeros(3), [1.0, 0.0, 0.0])
    np.testing.assert_allclose(a, 1 / (0.5 * 0.01 * 6.0) * np.array([1, -0.5, 2.0]), rtol=1e-12)


def test_chaplygin_sleigh():
    """(I + m a²) ω̇ = −m a ω u and u̇ = a ω², with u along the blade (Bloch, Nonholonomic Mechanics and Control,
    §1.7)."""
    m, inertia, offset, speed, turn = 1.3, 0.2, 0.4, 1.5, 0.6
    model = wt.mechanisms.knife_edge_sleigh(m, inertia=inertia, offset=offset, start=(speed, turn))
    home = model.home
    x, y, spin = wt.reference(model).forward_dynamics(home.q, home.v, np.zeros(3))
    np.testing.assert_allclose(spin, -m * offset * turn * speed / (inertia + m * offset**2), rtol=1e-13)
    np.testing.assert_allclose(x, offset * turn**2, rtol=1e-13)
    np.testing.assert_allclose(y, speed * turn, rtol=1e-13)


def test_upright_rolling_disc_carries_its_weight():
    model = wt.mechanisms.rolling_disc(mass=2.0)
    home = model.home
    ref = wt.reference(model)
    # the centre moves steadily; in the turning body's axes its velocity changes by −ω × v
    w, v = home.v[:3], home.v[3:]
    steady = np.concatenate([np.zeros(3), -np.cross(w, v)])
    np.testing.assert_allclose(ref.forward_dynamics(home.q, home.v, np.zeros(6)), steady, atol=1e-13)
    np.testing.assert_allclose(ref.constraint_forces(home.q, home.v, np.zeros(6)), [0, 0, 2 * 9.81], atol=1e-12)


def test_prescribed_motion_takes_time():
    """A driven crank: its acceleration is the second derivative of the motion, and its force is the motor's torque."""
    base = wt.mechanisms.crank_slider(rod_mass=0.3)
    builder = wt.Builder("driven", (0, -9.81, 0)).body("arm", 2.0, (0.5, 0, 0), (0, 0.1, 0.1))
    model = (
        builder.joint("hinge", "revolute", "world", "arm")
        .constraint("drive", "prescribed", "hinge", motion=lambda t: np.sin(3 * t))
        .build()
    )
    t = 0.4
    q, v = np.array([np.sin(3 * t)]), np.array([3 * np.cos(3 * t)])
    for make in (wt.reference, wt.compile):
        dyn = make(model)
        assert abs(dyn.constraint_residual(q, t)[0]) < 1e-15
        assert abs(dyn.constraint_velocity(q, v, t)[0]) < 1e-15
        a = dyn.forward_dynamics(q, v, [0.0], t)
        np.testing.assert_allclose(a, -9 * np.sin(3 * t), rtol=1e-14)
        np.testing.assert_allclose(dyn.constraint_forces(q, v, [0.0], t), dyn.inverse_dynamics(q, v, a), rtol=1e-13)
    assert "t" not in wt.compile(base).forward_dynamics.inputs


def test_parallel_chains_with_a_rod():
    """The family of GRBDA's benchmark, n = 5 and k = 2: accelerations published to eleven digits and more."""
    from benchmarks.loops import published_errors

    for route in ROUTES:
        assert published_errors(partial(wt.reference, route=route)).max() < 5e-11
    assert published_errors(wt.compile).max() < 5e-11
