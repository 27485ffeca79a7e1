"""Beams that turn, hang and slide: numbers of the reference problems, §11, which nobody here computed."""

import numpy as np
import pytest

import whippletree as wt

UNIT = {"length": 1.0, "bending_stiffness": 1.0, "mass_per_length": 1.0}


def small_motions(model, v=None, kept=slice(None)):
    """rad/s of the coordinates ``kept`` about the home state, on a steady motion v of the others."""
    ref, q = wt.reference(model), model.home.q
    still = np.zeros(model.nv)
    v = still if v is None else v
    steps = [q + 1e-30j * e for e in np.eye(model.nv)]
    K = np.array([(ref.bias(s, v) - ref.passive_forces(s, still)).imag for s in steps]).T / 1e-30
    K, M = K[kept, kept], ref.mass_matrix(q)[kept, kept]
    return np.sort(np.sqrt(np.linalg.eigvals(np.linalg.solve(M, K)).real))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("speed", "expected"),
    [
        (1, [3.68164681396, 22.1810111506]),
        (2, [4.13731957303]),
        (4, [5.58500142088]),
        (10, [11.2023277622, 33.6403658542]),
    ],
)
def test_rotating_cantilever_flapwise(speed, expected):
    """The centrifugal load stiffens it. Shapes xᵏ⁺²: they hold what clamped modes need dozens for."""
    shapes = [lambda x, k=k: x**2 * np.polynomial.Legendre.basis(k, [0, 1])(x) for k in range(8)]
    beam = wt.flexible.beam(**UNIT, shapes={"z": shapes}, stiffening=True)
    model = (
        wt.Builder("rotor", (0, 0, 0)).flexible_body("blade", beam).joint("hub", "revolute", "world", "blade").build()
    )
    v = np.zeros(model.nv)
    v[0] = speed
    np.testing.assert_allclose(small_motions(model, v, slice(1, None))[: len(expected)], expected, rtol=2e-7)


@pytest.mark.parametrize("ends", ["pinned-free", "clamped-free"])
def test_hanging_flexible_pendulum(ends):
    """ρA g L³/EI = 1: the weight stiffens it. Two bases: a frame tangent to the root, and one that swings with it."""
    beam = wt.flexible.beam(**UNIT, modes=6, ends=ends, stiffening=True)
    model = wt.Builder("bob", (1, 0, 0)).flexible_body("rod", beam).joint("pin", "revolute", "world", "rod").build()
    accuracy = 1e-7 if ends == "pinned-free" else 1e-6
    np.testing.assert_allclose(small_motions(model)[:2], [1.224039588767, 15.71410937637], rtol=accuracy)


def test_flexible_slider_crank_at_its_straight_start():
    """IVP test set, with the physical axial mass: ẍ₃ = −225, q̈₃ = 4668.75, q̈₄ = 4837.5."""
    model = wt.mechanisms.flexible_slider_crank(speed=150.0)
    rod = model.joints[model.joint_index("rod/modes")].flexible
    assert abs(rod.integrals.rigid().rotation[2, 2] - 0.0045339259) < 1e-10
    ref, q = wt.reference(model), model.home.q
    v = ref.project_velocity(q, np.array([150.0, -225.0, 0, 0, 0, 0, 75.0]), 0.0)
    a = ref.forward_dynamics(q, v, ref.passive_forces(q, v), 0.0)
    np.testing.assert_allclose(a[model.slice("rod/modes")], [0, 0, 4668.75, 4837.5], atol=1e-6)
    acceleration = ref.jacobian("slider")(q) @ a + ref.jacobian_bias("slider")(q, v)
    np.testing.assert_allclose(acceleration[3:], [-225, 0, 0], atol=1e-7)


@pytest.mark.parametrize(("load", "drop", "ends_at"), [(1, 0.3017207738, 0.11), (2, 0.493457480397, 0.4)])
def test_elastica_says_where_linear_modes_end(load, drop, ends_at):
    """A tip load of P L²/EI: linear modes drop by P/3, right for small loads only; a chain of links follows it."""
    beam = wt.flexible.beam(**UNIT, modes=4, ends="clamped-interface")
    phi = beam.frame("tip").shapes[:, 1]
    linear = phi @ np.linalg.solve(beam.stiffness, load * phi)
    assert abs(linear - load / 3) < 1e-9
    assert abs(linear / drop - 1) < ends_at
    links = 20
    builder = wt.flexible.lumped_chain(wt.Builder("chain", (0, 0, 0)), "rod", "world", **UNIT, links=links)
    model = builder.build()
    ref, q = wt.reference(model), np.full(links, -load / 60)
    for _ in range(12):  # Newton: springs against a dead load at the tip
        X = ref.pose("rod tip")(q)
        J = X[:3, :3] @ ref.jacobian("rod tip")(q)[3:]
        force = ref.passive_forces(q, np.zeros(links)) - load * J[1]
        arm = X[:3, 3] - np.array([ref.pose(f"rod {k}")(q)[:3, 3] for k in range(1, links + 1)])
        # ∂J₁ₖ/∂qⱼ is minus the height of the tip above the later of both hinges
        heights = np.array([[arm[max(j, k), 1] for j in range(links)] for k in range(links)])
        q = q - np.linalg.solve(-np.eye(links) * links + load * heights, force)
    assert abs(-ref.pose("rod tip")(q)[1, 3] / drop - 1) < 3e-3
