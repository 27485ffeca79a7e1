"""Mechanisms that are nobody's test case: six bars, spatial loops, gears and massless couplers together, a cart.

Each must be diagnosed, and its accelerations must meet the equations of motion and every row, in the reference and
compiled; its power must balance.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.model import Constraint

Z = (0, 0, 1)


def planar(name):
    return wt.Builder(name, (0, -9.81, 0))


def rod(builder, name, parent, length, position, start, mass=1.0):
    across = mass * length * length / 12
    builder.body(name, mass, center=(length / 2, 0, 0), inertia=(0, across, across))
    builder.joint(f"j_{name}", "revolute", parent, name, position=(*position, 0), axis=Z, start=start)
    builder.frame(f"{name} end", name, position=(length, 0, 0))


def watt(massless=()):
    """Watt's six-bar, closed by spatial hinges."""
    b = planar("watt")
    rods = {
        "crank": ("world", 0.6, (0, 0), 1.0),
        "ternary": ("crank", 1.5, (0.6, 0), -0.6),
        "rocker": ("world", 1.2, (1.6, 0), 1.4),
        "fifth": ("ternary", 1.0, (0.9, 0.5), 0.3),
        "sixth": ("rocker", 1.1, (0.8, 0.4), 0.2),
    }
    for name, (parent, length, position, start) in rods.items():
        rod(b, name, parent, length, position, start, 0.0 if name in massless else 1.0)
    b.constraint("main", "hinge", "rocker end", "ternary end").constraint("dyad", "hinge", "fifth end", "sixth end")
    return b.build()


def geared_five_bar():
    """Two geared cranks whose massless couplers meet in a spatial point."""
    b = planar("geared five-bar")
    rod(b, "left", "world", 0.5, (0, 0), 1.8)
    rod(b, "left coupler", "left", 1.0, (0.5, 0), -1.2, 0.0)
    rod(b, "right", "world", 0.5, (1, 0), 1.0)
    rod(b, "right coupler", "right", 1.0, (0.5, 0), 1.2, 0.0)
    b.constraint("tip", "point", "left coupler end", "right coupler end")
    return b.constraint("gears", "gear", "j_left", "j_right", ratios=(1, 1), offset=2.8).build()


def double_parallelogram():
    """A coupler on three equal side rods: one row too many, by its lengths only."""
    b = planar("double parallelogram")
    rod(b, "first", "world", 1.0, (0, 0), 1.0)
    rod(b, "coupler", "first", 2.0, (1, 0), -1.0)
    for k, name in enumerate(("second", "third"), start=1):
        rod(b, name, "world", 1.0, (k, 0), 1.0)
        b.frame(f"on coupler {k}", "coupler", position=(k, 0, 0))
        b.constraint(f"pin {k}", "pin", f"{name} end", f"on coupler {k}")
    return b.build()


def spatial(joint="universal", axial=1e-4, **options):
    """Two cranks about skew axes and a coupler between two balls (one may be a universal joint)."""
    b = wt.Builder("spatial four-bar")
    b.body("input", 1.0, center=(0.1, 0, 0), inertia=(0.001, 0.01, 0.01))
    b.joint("input", "revolute", "world", "input", axis=Z, start=0.3)
    b.body("coupler", 0.5, center=(0.45, 0, 0), inertia=(axial, 0.05, 0.05))
    b.joint("ball", joint, "input", "coupler", position=(0.3, 0, 0), **options)
    b.body("output", 1.0, center=(0, 0.3, 0), inertia=(0.03, 0.001, 0.03))
    b.joint("output", "revolute", "world", "output", axis=(1, 0, 0), position=(1, 0, 0), start=0.4)
    b.frame("coupler end", "coupler", position=(0.9, 0, 0)).frame("output end", "output", position=(0, 0.6, 0))
    return b.constraint("ball 2", "point", "output end", "coupler end").build()


def universal_spatial():
    return spatial(axis=Z, second_axis=(0, 1, 0))


def cart():
    """Two driven wheels that roll without slip, and a caster that slides on the ground."""
    b = wt.Builder("cart")
    b.body("chassis", 5.0, center=(0, 0, 0.02), inertia=(0.1, 0.1, 0.15))
    b.joint("base", "free", "world", "chassis", start=(0, 0, 0.1, 1, 0, 0, 0))
    for side, y in (("left", 0.2), ("right", -0.2)):
        b.body(f"{side} wheel", 0.5, inertia=(0.001, 0.002, 0.001))
        b.joint(side, "revolute", "chassis", f"{side} wheel", axis=(0, 1, 0), position=(0, y, 0))
        b.constraint(f"roll {side}", "rolling", "world", f"{side} wheel", radius=0.1, normal=Z, axis=(0, 1, 0))
    b.frame("caster", "chassis", position=(-0.3, 0, -0.1))
    return b.constraint("slide", "point_on_plane", "world", "caster", normal=Z).build()


CASES = {
    "watt": (watt, 1, 6),
    "watt, mostly massless": (lambda: watt(("ternary", "fifth", "rocker")), 1, 6),
    "geared five-bar": (geared_five_bar, 1, 1),
    "double parallelogram": (double_parallelogram, 1, 1),
    "spatial": (universal_spatial, 1, 0),
    "cart": (cart, 2, 1),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_equations_rows_and_power(name):
    make, freedoms, redundant = CASES[name]
    model = make()
    found = wt.diagnose(model)
    assert (found.freedoms, found.mobility, len(found.redundant)) == (freedoms, freedoms, redundant)
    assert found.fine
    ref, dyn = wt.reference(model), wt.compile(model)
    rng = np.random.default_rng(len(name))
    q = model.home.q
    v, tau = ref.project_velocity(q, rng.normal(size=model.nv)), rng.normal(size=model.nv)
    a, f = ref.forward_dynamics(q, v, tau), ref.constraint_forces(q, v, tau)
    A = ref.constraint_jacobian(q)
    np.testing.assert_allclose(dyn.forward_dynamics(q, v, tau), a, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(ref.mass_matrix(q) @ a + ref.bias(q, v), tau + A.T @ f, atol=1e-11)
    np.testing.assert_allclose(A @ a + ref.constraint_bias(q, v), 0, atol=1e-11)
    h = 1e-6

    def energy(s):
        at = ref.integrate(q, s * v + s * s / 2 * a)
        return ref.kinetic_energy(at, v + s * a) + ref.potential_energy(at)

    np.testing.assert_allclose((energy(h) - energy(-h)) / (2 * h), v @ tau, atol=1e-6)


@pytest.mark.slow
def test_a_cart_turns_on_the_circle_that_its_wheels_say():
    model = cart()
    torque = np.zeros(model.nv)
    torque[model.slice("left")], torque[model.slice("right")] = 0.1, 0.2
    run = wt.simulate(model, duration=1.0, controller=lambda t, q, v: torque, output_dt=0.5)
    q, v = run.q.values[-1], run.v.values[-1]
    left, right = q[model.q_slice("left")][0], q[model.q_slice("right")][0]
    heading = 2 * np.arctan2(q[6], q[3])
    np.testing.assert_allclose(heading, 0.1 * (right - left) / 0.4, rtol=1e-9)
    np.testing.assert_allclose(v[3], 0.1 * (v[-1] + v[-2]) / 2, rtol=1e-9)  # forward speed, in body axes
    assert np.abs(run.constraint_velocity.values).max() < 1e-12


def test_a_coupler_without_inertia_about_its_own_axis_is_held_there():
    model = spatial("spherical", axial=0.0)
    with pytest.raises(wt.SingularSystemError, match=r"'coupler' about joint 'ball' \(direction ball \[1. 0. 0.\]\)"):
        wt.reference(model).forward_dynamics(model.home.q, np.zeros(5), np.zeros(5))
    held = wt.reference(model, massless="hold")
    assert held.model.constraints[-1].name == "hold ball[0]"
    a = held.forward_dynamics(model.home.q, np.zeros(5), np.zeros(5))
    other = wt.reference(spatial("spherical", axial=0.1)).forward_dynamics(model.home.q, np.zeros(5), np.zeros(5))
    # at rest no spin is asked for, so the inertia about the axis does not matter to the cranks
    np.testing.assert_allclose(a[[0, 4]], other[[0, 4]], rtol=1e-9)
    np.testing.assert_allclose(wt.compile(model, massless="hold").forward_dynamics(held.model.home.q, a * 0, a * 0), a)


def test_a_compliant_row_is_the_inertia_one_over_c_and_is_not_closed():
    """It acts on the motion of its row as a rotor of that inertia would, beside a rigid loop that stays closed."""
    rigid = wt.mechanisms.four_bar((2.0, 0.8, 2.2, 1.7), angle=1.0)
    soft = Constraint("soft", "coupling", ("crank",), {"coefficients": (1.0,), "compliance": 0.2})
    run = wt.simulate(replace(rigid, constraints=(*rigid.constraints, soft)), duration=1.0)
    joints = tuple(replace(j, rotor_inertia=5.0) if j.name == "crank" else j for j in rigid.joints)
    same = wt.simulate(replace(rigid, joints=joints), duration=1.0)
    np.testing.assert_allclose(run.q.values, same.q.values, atol=1e-11)
    assert np.abs(run.constraint_residual.values[:, :2]).max() < 1e-12
    assert np.abs(run.constraint_residual.values[:, 2]).max() > 0.1


def test_a_massless_part_on_a_compliant_row_has_its_inertia():
    b = wt.Builder("soft", (0, -9.81, 0)).body("mass", 2.0).joint("y", "prismatic", "world", "mass", axis=(0, 1, 0))
    b.body("light").joint("x", "prismatic", "mass", "light", axis=(1, 0, 0))
    b.constraint("at y", "coupling", "y", coefficients=(0.0,), compliance=0.3)
    model = b.constraint("at x", "coupling", "x", coefficients=(0.0,), compliance=0.5).build()
    assert wt.diagnose(model).fine
    fall = -9.81 * 2.0 / (2.0 + 1 / 0.3)
    np.testing.assert_allclose(wt.reference(model).forward_dynamics([0, 0], [0, 0], [0, 1.0]), [fall, 0.5])
    np.testing.assert_allclose(wt.simulate(model, duration=1.0).q.values[-1], [fall / 2, 0.0], rtol=1e-10)
