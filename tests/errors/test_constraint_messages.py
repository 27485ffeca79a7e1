"""What is said about constraints that are wrong, cannot be met, or leave a motion undetermined."""

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints.assembly import require_consistent
from whippletree.model import Constraint, Frame


def arm(*constraints):
    builder = (
        wt.Builder("arm", (0, -9.81, 0))
        .body("upper", 1.0, (0.5, 0, 0), (0, 0.1, 0.1))
        .body("fore", 1.0, (0.5, 0, 0), (0, 0.1, 0.1))
        .joint("shoulder", "revolute", "world", "upper")
        .joint("elbow", "revolute", "upper", "fore", position=(1, 0, 0))
        .frame("hand", "fore", position=(1, 0, 0))
        .frame("anchor", "world", position=(1.2, 0.3, 0))
    )
    for name, kind, on, parameters in constraints:
        builder.constraint(name, kind, *on, **parameters)
    return builder.build()


WRITTEN = (
    "It is differentiated, so it may use + - * / @, powers and np.sin, cos, sqrt, arctan2, exp, log, tanh, maximum, "
    "minimum, clip and where, and must not branch on values"
)

FAULTS = [
    (
        ("c", "custom", ("hand",), {"residual": lambda X: []}),
        "constraint 'c': its function returns no numbers: one is expected for each row",
    ),
    (
        ("c", "custom", ("hand",), {"residual": lambda X: 1 / 0}),
        f"constraint 'c': its function residual failed with ZeroDivisionError: division by zero. {WRITTEN}",
    ),
    (
        ("c", "prescribed_frame", ("world", "hand"), {"motion": lambda t: [t, t]}),
        "constraint 'c': motion(t) must be a point (3,) or a pose (4, 4), got 2 numbers",
    ),
    (
        ("c", "point", ("hand", "ancor"), {}),
        "constraint 'c': model 'arm': there is no frame or body 'ancor'; known: 'hand', 'anchor', 'upper', 'fore'. "
        "Did you mean 'anchor'?",
    ),
    (
        ("c", "distance", ("hand", "anchor"), {"length": 0}),
        "constraint 'c': a distance needs length > 0, got 0; at zero its direction is lost: use kind 'point'",
    ),
    (
        ("c", "point_on_line", ("hand", "anchor"), {"direction": (0, 0, 0)}),
        "constraint 'c': direction (0, 0, 0) has no direction: it must not be zero",
    ),
    (
        ("c", "rolling", ("world", "hand"), {}),
        "constraint 'c': rolling needs radius > 0, got None",
    ),
    (
        ("c", "gear", ("shoulder", "elbow"), {"ratios": (1,)}),
        "constraint 'c': a gear needs one ratio per joint, not all zero: got ratios (1,) for joints "
        "('shoulder', 'elbow')",
    ),
    (
        ("c", "coupling", ("shoulder", "elbow", "elbow"), {}),
        "constraint 'c': a coupling ties one or two joints (y, x), got 3: ('shoulder', 'elbow', 'elbow')",
    ),
    (
        ("c", "custom", ("hand",), {}),
        "constraint 'c': kind 'custom' needs residual=, a plain NumPy function",
    ),
    (
        ("c", "point", ("hand",), {}),
        "constraint 'c': kind 'point' ties two frames, got 1: ('hand',)",
    ),
    (
        ("c", "point", ("hand", "anchor"), {"compliance": -1}),
        "constraint 'c': compliance -1 must not be negative",
    ),
]


@pytest.mark.parametrize(("constraint", "message"), FAULTS, ids=[f[0][1] + str(k) for k, f in enumerate(FAULTS)])
def test_faulty_constraints_are_named(constraint, message):
    with pytest.raises(wt.ModelError) as caught:
        wt.reference(arm(constraint)).forward_dynamics(np.zeros(2), np.zeros(2), np.zeros(2))
    assert str(caught.value) == f"model 'arm': {message}"


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(wt.ModelError, match=r"unknown kind 'hinged'; known: point, .*Did you mean 'hinge'\?"):
        wt.reference(arm(("c", "hinged", ("hand", "anchor"), {}))).constraint_residual(np.zeros(2))


def test_switches_that_cannot_hold_at_once_are_told_as_that():
    """A latch that holds a hand at one place or at another: the loops are closed with both on."""
    there = ("there", "pin", ("world", "hand"), {"switchable": True})
    model = arm(("here", "pin", ("anchor", "hand"), {"switchable": True}), there)
    why = (
        "Switchable constraints are all on where loops are closed and rows are counted, whatever active says later: of "
        "'here', 'there', those that cannot hold at once need models of their own"
    )
    with pytest.raises(wt.AssemblyError) as caught:
        wt.reference(model).forward_dynamics(np.zeros(2), np.zeros(2), np.zeros(2), [1, 0])
    assert str(caught.value).endswith(f"or check the lengths. {why}.")
    assert why in str(wt.diagnose(model))


def test_all_faults_are_reported_at_once():
    model = arm(("c", "point", ("hand", "nowhere"), {}), ("d", "distance", ("hand", "anchor"), {"length": -1}))
    with pytest.raises(wt.ModelError, match="2 faults"):
        wt.constraint_set(model)


def test_a_loop_that_cannot_close_is_named_with_its_gap():
    model = wt.mechanisms.four_bar(lengths=(2.0, 1.0, 2.2, 1.7))
    with pytest.raises(wt.AssemblyError) as caught:
        wt.assemble(model, hold={"crank": 0.0, "rocker": 3.0})
    text = str(caught.value)
    assert text.startswith(
        "model 'four-bar': no configuration near the guess with crank = 0.0, rocker = 3.0 held meets these constraints "
        "within 1e-11:\n"
        "  - 'pin' ('rocker end' to 'coupler end') stays open: x = "
    )
    assert text.endswith("Move the guess, hold fewer joints, or check the lengths.")
    gap = np.linalg.norm(list(caught.value.residuals.values()))
    end = np.array([2 + 1.7 * np.cos(3.0), 1.7 * np.sin(3.0)])
    assert abs(gap - abs(np.linalg.norm(end - [1.0, 0.0]) - 2.2)) < 1e-6


def test_a_model_whose_loops_cannot_close_has_no_home_but_a_diagnosis():
    model = arm(("far", "point", ("anchor", "hand"), {}))
    model = replace(model, frames=(*model.frames[:1], replace(model.frames[1], pose=_at(5.0, 0.0))))
    with pytest.raises(wt.AssemblyError, match=r"'far' \('anchor' to 'hand'\) stays open: x = -3 m"):
        _ = model.home
    report = str(wt.diagnose(model))
    assert "rows in conflict, which no configuration nearby meets: far.x (residual -3)" in report
    assert "cure: remove or correct one of the rows in conflict" in report


def turning(joint, speed):
    return (f"{joint} motor", "prescribed", (joint,), {"motion": lambda t: speed * t})


def test_a_motion_of_time_that_other_rows_bar_is_named():
    """Joints geared two to one, both led by motors: the gear and one motor say the same, or contradict each other."""
    gear = ("gear", "gear", ("shoulder", "elbow"), {"ratios": (1.0, -2.0)})
    agreed = wt.diagnose(arm(gear, turning("shoulder", 0.5), turning("elbow", 0.25)))
    assert agreed.fine
    assert agreed.redundant == ("elbow motor.motion",)
    found = wt.diagnose(arm(gear, turning("shoulder", 0.5), turning("elbow", 0.75)))
    assert not found.fine
    # the least change of all three rows that lets them hold: they miss by 1 = 2 · 0.75 − 0.5 along (1, −1, 2)
    assert found.barred == pytest.approx({"shoulder motor.motion": 1 / 6, "elbow motor.motion": -1 / 3})
    assert "  motions of time that other rows do not allow here: shoulder motor.motion (0.166667 per second), " in str(
        found
    )
    assert "  cure: leave the prescribed motion, or a row that bars it, out: they tie the same joints" in str(found)


def _at(x, y):
    pose = np.eye(4)
    pose[:2, 3] = x, y
    return pose


def test_a_massless_motion_that_nothing_stops_is_named():
    model = wt.mechanisms.crank_slider()
    loose = replace(model, constraints=(Constraint("rest", "coupling", ("slider",), {"coefficients": (1.0,)}),))
    message = (
        "model 'crank-slider': the motion of 'connecting rod' about joint 'rod' (direction rod +1) has no inertia and "
        "no constraint stops it (condition (32) of 000), so its acceleration is not determined. Give it mass, add the "
        'constraint that carries it, hold the joint (massless="hold"), or give it a damper or spring and relax it '
        '(massless="relax").'
    )
    q = np.array([0.3, 0.2, 1.0])
    with pytest.raises(wt.SingularSystemError) as caught:
        wt.reference(loose).forward_dynamics(q, np.zeros(3), np.zeros(3))
    assert str(caught.value) == message
    assert "massless motion that nothing stops: 'connecting rod' about joint 'rod'" in str(wt.diagnose(loose, q))
    held = wt.reference(loose, massless="hold")
    assert held.model.constraints[-1].name == "hold rod"
    assert abs(held.forward_dynamics(q, np.zeros(3), np.zeros(3))[1]) < 1e-14


def test_massless_tip_of_a_tree():
    model = wt.mechanisms.double_pendulum(masses=(1.0, 0.0))
    assert "massless" in str(wt.diagnose(model.tree))
    with pytest.raises(wt.SingularSystemError, match="'lower' about joint 'elbow'"):
        wt.reference(model).forward_dynamics(np.zeros(2), np.zeros(2), np.zeros(2))
    a = wt.reference(model, massless="hold").forward_dynamics(np.zeros(2), np.zeros(2), np.zeros(2))
    np.testing.assert_allclose(a, [-9.81, 0.0], atol=1e-14)
    with pytest.raises(wt.NameLookupError, match="there is no choice of massless 'ignore'"):
        wt.reference(model, massless="ignore")


def test_functions_that_cannot_honour_constraints_refuse():
    model = wt.mechanisms.four_bar()
    message = (
        "interbody_forces: model 'four-bar' has 1 constraints ('pin'), which this function cannot honour: use "
        "model.tree for the tree without them"
    )
    for make in (wt.reference, wt.compile):
        with pytest.raises(wt.UnsupportedError) as caught:
            _ = make(model).interbody_forces
        assert str(caught.value) == message
    with pytest.raises(wt.UnsupportedError, match="dagger: model 'pendulum' has no constraints"):
        _ = wt.reference(wt.mechanisms.pendulum()).dagger


def test_a_dead_point_is_reported_by_compiled_functions():
    model = wt.mechanisms.n_four_bar(2)
    dead = np.zeros(5), model.home.v, np.zeros(5)
    with pytest.raises(wt.SingularSystemError, match="depend on each other at this configuration"):
        wt.compile(model).forward_dynamics_derivatives(*dead)
    dynamics = wt.compile(model).forward_dynamics
    np.testing.assert_array_equal(dynamics(*dead), wt.reference(model).forward_dynamics(*dead))
    with pytest.warns(RuntimeWarning) as told:
        dynamics(*(np.stack([x, x]) for x in dead))
    assert str(told[0].message) == (
        "forward_dynamics: machine code has no answer for 2 of 2 states, whose constraint rows depend on each other; "
        "a rank-revealing route in Python has answered them one by one, which is slow (status -2 in "
        "forward_dynamics.status); the first is (0,)"
    )
    report = str(wt.diagnose(model, np.zeros(5)))
    assert "mobility at this configuration: 3. It is singular" in report
    assert "rows that depend on others here: pin_1.x, pin_2.x" in report


def test_wrong_shapes():
    with pytest.raises(wt.ShapeError, match=r"assemble: guess has shape \(2,\), expected \(3,\)"):
        wt.assemble(wt.mechanisms.four_bar(), np.zeros(2))
    with pytest.raises(wt.ShapeError, match=r"diagnose: q has shape \(2,\), expected \(3,\)"):
        wt.diagnose(wt.mechanisms.four_bar(), np.zeros(2))


def test_an_inconsistent_state_is_reported_with_its_size():
    model = wt.mechanisms.four_bar()
    q, v = model.home.q, np.array([0.1, 0.0, 0.0])
    with pytest.raises(wt.AssemblyError) as caught:
        require_consistent(model, q, v)
    assert str(caught.value) == (
        "model 'four-bar': v violates its constraints: pin.x = -0.1, pin.y = 0.1 per second (more than 1e-08). "
        "project_velocity(q, v) gives the closest velocity that they allow."
    )
    with pytest.raises(wt.AssemblyError, match=r"q does not meet its constraints: pin.x = .*wt.assemble"):
        require_consistent(model, q + 0.1, v)
    require_consistent(model, q, wt.reference(model).project_velocity(q, v))


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [("weld", {}), ("point", {}), ("knife_edge", {}), ("weld", {"switchable": True}), ("weld", {"compliance": 0.1})],
)
def test_a_tie_within_one_body_asks_for_nothing(kind, parameters):
    """Two frames of one body: its rows are what rounding leaves of zero, and not independent of anything."""
    pose = np.eye(4)
    pose[:3, :3] = [[0.36, 0.48, -0.8], [-0.8, 0.6, 0.0], [0.48, 0.64, 0.6]]
    twins = (Frame("palm", "fore", pose), Frame("grip", "fore", pose))
    tie = Constraint("tie", kind, ("palm", "grip"), parameters)
    model = replace(arm(), frames=(*arm().frames, *twins), constraints=(tie,))
    found = wt.constraint_set(model).structure
    rows = wt.constraint_set(model).row_names
    assert found.mobility == 2
    assert wt.constraint_set(model).named(found.redundant) == (() if "compliance" in parameters else rows)
    state = np.array([0.3, -0.7]), np.array([1.0, 2.0]), np.array([0.1, -0.2])
    expected = wt.reference(arm()).forward_dynamics(*state)
    active = ([1.0],) if "switchable" in parameters else ()
    for functions in (wt.reference(model), wt.compile(model)):
        np.testing.assert_allclose(functions.forward_dynamics(*state, *active), expected, atol=1e-12)


def test_motions_that_contradict_each_other_later():
    """They agree at the start to second order; the run ends where they part, and says which rows stay open."""
    follow = [(name, "prescribed", ("elbow",), {"motion": lambda t, k=k: k * t**3}) for name, k in (("a", 1), ("b", 2))]
    run = wt.simulate(arm(*follow), duration=1.0)
    assert "no motion nearby meets all constraints" in run.attrs["failure"]
    assert "b.motion = -" in run.attrs["failure"]


def test_a_function_that_needs_the_inertia_of_every_joint():
    model = wt.mechanisms.crank_slider(rod_mass=0.0)
    with pytest.raises(wt.SingularSystemError) as raised:
        wt.reference(model).delassus(model.home.q)
    assert str(raised.value) == (
        "model 'crank-slider': the motion of 'connecting rod' about joint 'rod' has no inertia without the "
        "constraints, and this function applies M⁻¹ (so does every sweep over more than 200 velocities). Give "
        "'connecting rod' mass, or use forward_dynamics of wt.reference, which needs condition (32) only."
    )


def test_a_mechanism_that_can_only_move_without_mass():
    """What is left of its inertia is rounding, which must not be taken for one."""
    builder = wt.Builder("spinning rod").body("arm", 1.0, (0.5, 0, 0), (0.1, 0.1, 0.1)).body("rod")
    builder.joint("arm", "revolute", "world", "arm", axis=(1.3, 0.9, -0.7))
    builder.joint("ball", "spherical", "arm", "rod", position=(0.1, -0.1, 0.6))
    builder.frame("end", "rod", position=(0.1, -0.5, 0.4)).frame("nail", "world", position=(0.2, -0.6, 1.0))
    builder.constraint("tie", "point", "nail", "end").constraint("held", "coupling", "arm", coefficients=(0.0,))
    model = builder.build()
    for functions in (wt.reference(model), wt.compile(model)):
        for ask in (functions.forward_dynamics, lambda q, v, tau, f=functions: f.project_velocity(q, v)):
            with pytest.raises(wt.SingularSystemError, match=r"'rod' about joint 'ball' .* has no inertia"):
                ask(model.home.q, np.ones(4), np.zeros(4))


def gimbal(held):
    """A rotor in two massless rings, whose axes meet after a quarter turn of the inner one; one joint is held."""
    builder = wt.Builder("gimbal").body("outer").body("inner").body("rotor", 1.0, (0, 0, 0.1), (0.1, 0.1, 0.2))
    carried = (("a", "world", "outer"), ("b", "outer", "inner"), ("c", "inner", "rotor"))
    for axis, (name, parent, child) in zip(np.eye(3), carried, strict=True):
        builder.joint(name, "revolute", parent, child, axis=axis)
    return builder.constraint("held", "coupling", held, coefficients=(0.0,)).build()


def test_one_state_of_a_batch_without_inertia_is_named_and_leaves_the_others_alone():
    model = gimbal("b")
    q = np.zeros((4, 3))
    dyn = wt.compile(model)
    with np.errstate(all="ignore"):
        expected = dyn.forward_dynamics(q, np.ones(3), np.zeros(3))
    q[2, 1] = np.pi / 2
    with pytest.warns(
        RuntimeWarning, match=r"1 of 4 states failed .* first is \(2,\): .* motion of 'outer' about joint 'a'"
    ):
        found = dyn.forward_dynamics(q, np.ones(3), np.zeros(3))
    np.testing.assert_array_equal(found[[0, 1, 3]], expected[[0, 1, 3]])
    assert np.isnan(found[2]).all()


def test_a_joint_without_inertia_of_its_own_is_carried_by_the_constraints_wherever_it_is():
    """With the rotor held in the rings there is inertia about both, also where the axes meet."""
    model = gimbal("c")
    state = np.array([0.3, np.pi / 2, 0.0]), np.array([1.0, 2.0, 0.0]), np.array([0.1, 0.2, 0.0])
    expected = wt.reference(model).forward_dynamics(*state)
    np.testing.assert_allclose(wt.compile(model).forward_dynamics(*state), expected, atol=1e-12)
    assert wt.diagnose(model, state[0]).fine
