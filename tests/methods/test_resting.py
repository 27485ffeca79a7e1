"""Equilibria on contacts and at joint limits: what pushes is carried, nothing pulls, no gap is negative."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt

WEIGHT = 9.81


def pendulum(**limits):
    b = wt.Builder("pendulum", (0, 0, -WEIGHT)).body("rod", 2.0, (0.5, 0, 0), (0.1, 0.1, 0.1))
    return b.joint("hinge", "revolute", "world", "rod", axis=(0, 1, 0), **limits).build()


def box(rotation):
    """Above the floor, turned by a quaternion."""
    b = wt.Builder("box", (0, 0, -WEIGHT)).body("box", 3.0, (0.05, 0.0, 0.0), (0.1, 0.1, 0.1))
    b.joint("fall", "free", "world", "box", start=(0, 0, 1.0, *rotation))
    b.geometry("floor", "world", "half_space").geometry("skin", "box", "box", size=(0.4, 0.3, 0.2))
    return b.contact("touch", "skin", "floor", friction=0.5).build()


def chain_over_floor(height):
    b = wt.Builder("chain", (0, 0, -WEIGHT)).geometry("floor", "world", "half_space", position=(0, 0, -height))
    parent = "world"
    for k in range(4):
        b.body(f"link {k}", 0.5, (0.15, 0, 0), (1e-3, 4e-3, 4e-3))
        place = (0.3 if k else 0, 0, 0)
        b.joint(f"joint {k}", "revolute", parent, f"link {k}", axis=(0, 1, 0), position=place, start=0.2)
        b.geometry(f"end {k}", f"link {k}", "point", position=(0.3, 0, 0))
        b.contact(f"tip {k}", f"end {k}", "floor", friction=0.3)
        parent = f"link {k}"
    return b.build()


@pytest.mark.slow
def test_a_pendulum_leans_on_its_stop():
    rest = wt.equilibrium(pendulum(lower=-2.0, upper=0.7))
    assert rest.q == pytest.approx([0.7], abs=1e-12)
    assert (rest.stability, rest.rows, rest.resting_on) == ("stable", ("hinge.upper",), ("hinge.upper",))
    assert rest.forces == pytest.approx([WEIGHT * np.cos(0.7)])
    assert rest.motions.shape == (1, 0)
    assert "resting on 'hinge.upper'" in str(rest)


def test_vibrations_about_a_stop_say_that_limits_carry_nothing():
    model = pendulum(lower=-2.0, upper=0.7)
    with pytest.raises(wt.UnsupportedError, match=r"hold what leans on hinge\.upper by a constraint"):
        wt.eigenmodes(model, wt.equilibrium(model).q)


def test_without_stops_limits_are_named():
    rest = wt.equilibrium(pendulum(lower=-2.0, upper=0.7), stops=False)
    assert rest.q == pytest.approx([np.pi / 2])
    assert (rest.beyond_limits, rest.resting_on) == (("hinge",), ())


def test_a_limit_that_is_not_reached_carries_nothing():
    rest = wt.equilibrium(pendulum(lower=-2.0, upper=2.0))
    assert rest.q == pytest.approx([np.pi / 2])
    assert (rest.rows, rest.resting_on) == ((), ())


def test_a_guess_beyond_a_limit_is_led_back():
    rest = wt.equilibrium(pendulum(lower=-2.0, upper=0.7), [1.0])
    assert rest.q == pytest.approx([0.7], abs=1e-12)


@pytest.mark.parametrize("turn", [(0.98, 0.02, 0.19, 0.05), (0.7, 0.1, 0.6, 0.2)])
def test_a_box_comes_to_lie_on_a_face(turn):
    """Anyhow turned, it ends on a face; its corners share its weight so that moments vanish too."""
    model = box(np.array(turn) / np.linalg.norm(turn))
    rest = wt.equilibrium(model)
    gaps = wt.compile(model).contact_gaps(rest.q)
    assert gaps.min() > -1e-10
    assert np.sum(gaps < 1e-9) == 4
    assert rest.forces.min() > 0
    assert rest.forces.sum() == pytest.approx(3 * WEIGHT)
    assert rest.stability == "neutral"  # it may slide and turn on the floor, friction apart
    J, r = wt.compile(model).contact_jacobian(rest.q), wt.compile(model).gravity(rest.q)
    names = wt.contact_set(model).names
    rows = [3 * names.index(name.removesuffix(".normal")) for name in rest.rows]
    assert J[rows].T @ rest.forces == pytest.approx(r, abs=1e-9)


def test_a_chain_lies_partly_on_the_floor():
    """Two links hang; of those on the floor the first leans on its end, so half of it hangs on the pin above."""
    model = chain_over_floor(0.5)
    rest = wt.equilibrium(model)
    gaps = wt.compile(model).contact_gaps(rest.q)
    assert gaps.min() > -1e-10
    assert rest.stability == "stable"
    # the second link reaches the floor on a slope, the others lie flat: halves of weights at the points
    assert dict(zip(rest.rows, rest.forces, strict=True)) == pytest.approx(
        {"tip 1.normal": 0.5 * WEIGHT, "tip 2.normal": 0.5 * WEIGHT, "tip 3.normal": 0.25 * WEIGHT}
    )
    assert rest.unbalanced < 1e-9


def test_a_batch_has_the_answers_of_its_elements():
    model = chain_over_floor(0.9)
    guesses = np.array([[0.2] * 4, [0.9] * 4, [1.2, 0.1, -0.1, 0.0]])
    many = wt.equilibrium(model, guesses)
    for k, guess in enumerate(guesses):
        one = wt.equilibrium(model, guess)
        assert many.q[k] == pytest.approx(one.q, abs=1e-9)
        assert many.stability[k] == one.stability
        assert {name: x for name, x in zip(many.rows, many.forces[k], strict=True) if x} == pytest.approx(
            dict(zip(one.rows, one.forces, strict=True))
        )
    lengths = {"joints.hinge.stiffness": np.array([0.0, 1e3])}
    limited = wt.equilibrium(pendulum(lower=-2.0, upper=0.7), parameters=lengths)
    assert limited.q[0] == pytest.approx([0.7])
    assert 0 < limited.q[1, 0] < 0.7
    assert limited.forces[:, 0] == pytest.approx([WEIGHT * np.cos(0.7), 0])


def test_a_linkage_rests_where_its_slider_stops():
    model = wt.mechanisms.crank_slider()
    free = wt.equilibrium(model)
    slider = model.q_slice("slider").start
    bound = free.q[slider] - 0.05
    joints = tuple(replace(j, lower=-9.0, upper=bound) if j.name == "slider" else j for j in model.joints)
    rest = wt.equilibrium(replace(model, joints=joints))
    assert rest.q[slider] == pytest.approx(bound, abs=1e-11)
    assert rest.stability == "stable"
    A = wt.compile(model).constraint_jacobian(rest.q)
    stop = np.zeros(3)
    stop[model.slice("slider")] = -1
    carried = A.T @ rest.forces[:-1] + stop * rest.forces[-1]
    assert carried == pytest.approx(wt.compile(model).gravity(rest.q), abs=1e-9)
    assert rest.forces[-1] > 0


def test_a_held_joint_beyond_its_limit_is_held():
    """Limits of joints that are held are not asked."""
    model = pendulum(lower=-2.0, upper=0.7)
    assert wt.equilibrium(model, hold={"hinge": 1.0}).q == pytest.approx([1.0])


def test_what_only_friction_holds_is_refused_by_name():
    c, s = np.cos(0.3), np.sin(0.3)
    b = wt.Builder("ball on a slope", (0, 0, -WEIGHT)).body("ball", 3.0, inertia=(0.1, 0.1, 0.1))
    b.joint("fall", "free", "world", "ball", start=(0, 0, 1.0, 1, 0, 0, 0))
    b.geometry("slope", "world", "half_space", rotation=[[c, 0, s], [0, 1, 0], [-s, 0, c]])
    b.geometry("skin", "ball", "sphere", radius=0.2).contact("touch", "skin", "slope", friction=0.5)
    with pytest.raises(wt.EquilibriumError, match="Friction of contacts is no part of the search"):
        wt.equilibrium(b.build(), iterations=40)
