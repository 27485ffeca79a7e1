"""wt.dexterity and wt.workspace: closed forms of a planar arm, singularities of linkages with loops."""

import numpy as np
import pytest

import whippletree as wt

ARM = wt.mechanisms.chain(2)


@pytest.mark.slow
def test_manipulability_of_a_planar_arm():
    angles = np.linspace(-3, 3, 41)
    found = wt.dexterity(ARM, "tip", np.stack([0.4 * np.ones(41), angles], axis=-1))
    assert found.manipulability == pytest.approx(np.abs(np.sin(angles)), abs=1e-12)
    assert found.values.shape == (41, 2)  # the third direction is no direction of a planar arm
    J = wt.compile(ARM).jacobian("tip")([0.4, 1.0])[3:5]
    assert wt.dexterity(ARM, "tip", [0.4, 1.0]).condition == pytest.approx(np.linalg.cond(J))


def test_a_stretched_arm_has_lost_a_direction():
    q = np.array([[0.3, 1.0], [0.3, 0.0]])
    found = wt.dexterity(ARM, "tip", q)
    assert list(found.singular) == ["", "input"]
    assert found.condition[1] == np.inf
    assert wt.dexterity(ARM, "tip", [0.3, 0.0]).singular == "input"  # alone as well
    assert np.all(found.output_margin > 0.9)


def test_where_crank_and_coupler_are_in_line_the_rocker_does_not_hold_them():
    ground, crank, coupler, rocker = 1.0, 0.4, 1.2, 0.8
    model = wt.mechanisms.four_bar(lengths=(ground, crank, coupler, rocker))
    reach = crank + coupler  # crank and coupler as one line from (0, 0) to the rocker's end
    angle = np.arccos((reach**2 + ground**2 - rocker**2) / (2 * reach * ground))
    q = wt.assemble(model, [angle, 0.0, 2.0], hold={"crank": angle})
    assert q[1] == pytest.approx(0.0, abs=1e-6)
    q[1] = 0.0
    held = wt.dexterity(model, "coupler rod", q, motors=["rocker"])
    assert held.singular == "output"
    driven = wt.dexterity(model, "coupler rod", q, motors=["crank"])
    assert driven.singular == ""
    assert driven.transmission[:, 0] == pytest.approx([0, crank, 0], abs=1e-9)  # the crank's end, in the coupler's axes


def test_the_workspace_of_an_arm_is_a_disc():
    x = np.linspace(-2.5, 2.5, 11)
    goals = np.stack([*np.meshgrid(x, x, indexing="ij"), np.zeros((11, 11))], axis=-1)
    found = wt.workspace(ARM, "tip", goals, starts=16)
    radius = np.linalg.norm(goals, axis=-1)
    assert np.array_equal(found.reached, radius <= 2.0)
    outside = radius > 2.0
    assert found.distance[outside] == pytest.approx(radius[outside] - 2.0, abs=1e-6)
    assert found.q.shape == (11, 11, 2)
    assert found.dexterity.condition.shape == (11, 11)
    assert repr(found) == f"<Workspace: {int(np.sum(radius <= 2))} of 121 goals reached by 'tip'>"


def test_the_delta_robot_is_well_conditioned_in_the_middle():
    model = wt.mechanisms.delta_robot()
    motors = [j.name for j in model.joints if j.kind == "revolute"]
    found = wt.dexterity(model, "platform", model.home.q, motors=motors)
    assert len(motors) == 3
    assert found.singular == ""
    # differences: drive one motor, follow the loop
    dyn, h = wt.compile(model), 1e-6
    for k, motor in enumerate(motors):
        ends = []
        for sign in (1, -1):
            hold = {m: float(model.home.q[model.q_slice(m)][0]) + (sign * h if m == motor else 0) for m in motors}
            ends.append(dyn.pose("platform")(wt.assemble(model, hold=hold)))
        R = dyn.pose("platform")(model.home.q)[:3, :3]
        speed = R.T @ (ends[0] - ends[1])[:3, 3] / (2 * h)
        assert found.transmission[:, k] == pytest.approx(speed, abs=1e-5)


def test_bad_input_is_named():
    with pytest.raises(wt.NameLookupError, match="there is no frame or body 'hand'"):
        wt.dexterity(ARM, "hand", [0, 0])
    with pytest.raises(wt.UnsupportedError, match="its Jacobian has nothing but zeros"):
        wt.dexterity(ARM, "world", [0, 0])
    with pytest.raises(wt.NameLookupError, match="there is no part of a motion 'speed'"):
        wt.dexterity(ARM, "tip", [0, 0], part="speed")
    with pytest.raises(wt.ShapeError, match="goals has shape"):
        wt.workspace(ARM, "tip", (1, 0, 0))
