"""Released at rest on a dead point: the branch of least constraint is taken, ties are told, every method returns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.constraints.singular.tangent_cone import Choice, TieWarning, least_constraint
from whippletree.mechanisms.linkages import rod

IN_LINE = {
    "parallelogram": (2.0, 1.0, 2.0, 1.0),
    "rhombus": (1.0, 1.0, 1.0, 1.0),
    "kite": (2.0, 2.0, 1.0, 1.0),
    "change point": (4.0, 1.0, 3.5, 0.5),
}
MASSES = {"even": (1.0, 1.0, 1.0), "uneven": (5.0, 0.2, 0.1)}
LOADS = {
    "gravity": (0.0, 0.0, 0.0),
    "crank": (20.0, 0.0, 0.0),
    "rocker": (0.0, 0.0, 20.0),
    "coupler": (3.0, -15.0, 0.0),
}


def in_line(name, masses="even"):
    """A four-bar of which ground, crank, coupler and rocker lie on one line at q = 0."""
    return wt.mechanisms.four_bar(IN_LINE[name], masses=MASSES[masses], angle=0.3)


def branches(lengths):
    """Directions (crank, coupler, rocker) of the two branches through the line, from the closure to second order.

    With absolute angles α, β, γ: crank α + coupler β = rocker γ, and crank α² + coupler β² = rocker γ².
    """
    _, a, b, c = lengths
    found = []
    # β = (c γ − a α) / b; as a form in (α, γ): (a + a²/b) α² − 2 (a c / b) α γ + (c²/b − c) γ² = 0
    form = (a + a * a / b, -2 * a * c / b, c * c / b - c)
    for alpha in np.roots(form):
        beta = (c - a * alpha) / b
        found.append(np.array([alpha, beta - alpha, 1.0]))
    return found


def least_of(found, M, b):
    gains = [(u @ b) ** 2 / (u @ M @ u) for u in found]
    u = found[int(np.argmax(gains))]
    return u * (u @ b) / (u @ M @ u)


def rockers(count, spacing=1.0, length=1.0, start=0.7):
    """Parallel rockers on one coupler: more pins than the motion needs."""
    builder = wt.Builder(f"{count} rockers", (0, -9.81, 0)).body("coupler rod", **rod(1.0, spacing * (count - 1)))
    for k in range(count):
        builder.body(f"rocker rod {k}", **rod(1.0, length))
        builder.joint(f"rocker_{k}", "revolute", "world", f"rocker rod {k}", position=(spacing * k, 0, 0), start=start)
        builder.frame(f"end {k}", f"rocker rod {k}", position=(length, 0, 0))
        builder.frame(f"seat {k}", "coupler rod", position=(spacing * k, 0, 0))
    builder.joint("coupler", "revolute", "rocker rod 0", "coupler rod", position=(length, 0, 0), start=-start)
    for k in range(1, count):
        builder.constraint(f"pin {k}", "pin", f"end {k}", f"seat {k}")
    return builder.build()


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("masses", MASSES)
@pytest.mark.parametrize("name", IN_LINE)
def test_the_acceleration_is_that_of_least_constraint(name, masses, load):
    model = in_line(name, masses)
    reference, still = wt.reference(model), np.zeros(3)
    tau = np.array(LOADS[load])
    expected = least_of(branches(IN_LINE[name]), reference.mass_matrix(still), tau - reference.bias(still, still))
    found = reference.forward_dynamics(still, still, tau)
    assert found == pytest.approx(expected, abs=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("count", [3, 4])
@pytest.mark.parametrize("spacing", [1.0, 1.5])
def test_rows_that_are_redundant_elsewhere_hold_at_a_dead_point(count, spacing):
    """The rocker at the end cannot turn against the others, though its pin is redundant everywhere else."""
    model = rockers(count, spacing)
    tau = np.zeros(model.nv)
    tau[model.slice(f"rocker_{count - 1}")] = 20.0
    still = np.zeros(model.nv)
    a = wt.reference(model).forward_dynamics(still, still, tau)
    turns = [a[model.slice(f"rocker_{k}")][0] for k in range(count)]
    assert turns == pytest.approx([turns[0]] * count, rel=1e-9)
    assert abs(turns[0]) > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["adaptive", "events", "rk4"])
@pytest.mark.parametrize("load", ["gravity", "rocker"])
@pytest.mark.parametrize("name", IN_LINE)
def test_every_method_leaves_the_dead_point_along_the_branch(name, load, method):
    model, tau = in_line(name), np.array(LOADS[load])
    work = {"controller": lambda t, q, v: tau} if np.any(tau) else {}
    run = wt.simulate(model, np.zeros(3), np.zeros(3), duration=0.05, output_dt=0.01, method=method, **work)
    assert run.attrs["failure"] == ""
    assert run.attrs["max_residual"] < 1e-13
    reference, still = wt.reference(model), np.zeros(3)
    a = least_of(branches(IN_LINE[name]), reference.mass_matrix(still), tau - reference.bias(still, still))
    assert run.a.values[0] == pytest.approx(a, abs=1e-9 * np.abs(a).max())
    # q = a t²/2 + O(t⁴): the motion stays on the branch that it has begun
    t = run.time.values[-1]
    assert run.q.values[-1] == pytest.approx(a * t * t / 2, abs=(np.abs(a).max() * t * t) ** 2)
    if not np.any(tau):
        assert run.attrs["energy_drift"] < 1e-9


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("method", ["adaptive", "events"])
@pytest.mark.parametrize("model", [wt.mechanisms.n_four_bar(2), rockers(3)], ids=["2-four-bar", "3 rockers"])
def test_several_loops_in_line_fall_together(model, method):
    still = np.zeros(model.nv)
    run = wt.simulate(model, still, still, duration=0.05, output_dt=0.01, method=method)
    assert run.attrs["failure"] == ""
    assert run.attrs["energy_drift"] < 1e-9
    assert np.ptp(np.abs(run.q.values[-1])) < 1e-12  # all parallel


def test_a_loop_at_rest_stays_while_another_moves():
    """Of two rhombi in line, a torque on the last side turns it with its coupler; the first loop rests on its dead
    point, where its rows stay dependent all along."""
    model = replace(wt.mechanisms.n_four_bar(2), gravity=np.zeros(3))
    still, tau = np.zeros(5), np.zeros(5)
    tau[model.slice("side_2")] = 0.6
    a = wt.reference(model).forward_dynamics(still, still, tau)
    moved = wt.reference(model).integrate(still, 0.1 * a / np.abs(a).max())
    later = wt.reference(model).forward_dynamics(moved, a, tau)
    parts = [model.slice(name) for name in ("side_0", "coupler_1", "side_1")]
    assert all(np.abs(x[part]).max() < 1e-9 for x in (a, later) for part in parts)
    assert a[model.slice("side_2")] > 0.1


def tied():
    """A parallelogram in line under a load that pushes both of its branches alike."""
    model = replace(in_line("parallelogram"), gravity=np.zeros(3))
    M = wt.reference(model).mass_matrix(np.zeros(3))
    first, second = (u / math.sqrt(u @ M @ u) for u in branches(IN_LINE["parallelogram"]))
    return model, M @ (first + second)


@pytest.mark.slow
def test_a_tie_is_told():
    model, tau = tied()
    still = np.zeros(3)
    with pytest.warns(TieWarning, match="equally good by Gauss's principle of least constraint: it takes the motion"):
        a = wt.reference(model).forward_dynamics(still, still, tau)
    M = wt.reference(model).mass_matrix(still)
    assert min(np.linalg.norm(a - u * (u @ tau) / (u @ M @ u)) for u in branches(IN_LINE["parallelogram"])) < 1e-9
    with pytest.warns(TieWarning, match="simulate: model 'four-bar' is at rest on a dead point"):
        run = wt.simulate(model, still, still, duration=0.02, output_dt=0.01, controller=lambda t, q, v: tau)
    assert run.attrs["failure"] == ""
    assert "would do as well" in run.attrs["ties"]
    assert run.a.values[0] == pytest.approx(a, abs=1e-12)


def test_of_scores_of_branches_a_message_describes_two():
    model, turns = in_line("parallelogram"), np.linspace(1.0, 2.0, 40)
    told = Choice(np.ones(3), tuple(np.array([1.0, -x, x]) for x in turns)).words(model)
    assert " or 38 others would do as well." in told
    assert len(told) < 1200
    same = Choice(np.ones(3), (np.array([3.0, -2.0, 1.0]), np.array([3.0, -2.0, 1.0 + 1e-9]))).words(model)
    assert same.count("the motion of") == 2, "the one that is taken, and another one"


@pytest.mark.slow
def test_nothing_pushes_nothing_moves():
    """Balanced on the dead point, whatever branches there are."""
    model = replace(in_line("parallelogram"), gravity=np.zeros(3))
    still = np.zeros(3)
    assert np.abs(wt.reference(model).forward_dynamics(still, still, still)).max() == 0
    run = wt.simulate(model, still, still, duration=1.0)
    assert run.attrs["failure"] == ""
    assert np.abs(run.q.values).max() == 0


def test_the_cone_of_a_driven_mechanism_is_met():
    """A particular acceleration (2, 0) that the rows ask for: of a = (2, z) with z² = 1 the load takes z = 1."""
    M, b = np.eye(2), np.array([0.0, 0.3])
    form = np.array([[[1.0, 0.0], [0.0, -1.0]]])
    found = least_constraint(M, b, np.array([[0.0], [1.0]]), np.array([2.0, 0.0]), form)
    assert found is not None
    assert found.a == pytest.approx([2.0, 1.0], abs=1e-12)


def test_a_cone_without_a_motion_has_no_answer():
    form = np.array([np.diag([1.0, 2.0, 0.0])])
    assert least_constraint(np.eye(2), np.ones(2), np.eye(2), np.zeros(2), form) is None


def test_max_steps_ends_a_step_that_never_converges():
    noise = np.random.default_rng(0)
    run = wt.simulate(
        in_line("parallelogram"), duration=0.1, max_steps=5, controller=lambda t, q, v: 1e3 * noise.standard_normal(3)
    )
    assert "after 5 steps (max_steps = 5)" in run.attrs["failure"]


def test_events_do_not_blame_massless_motions_for_a_dead_point():
    model = in_line("parallelogram")
    joints = [replace(joint, friction=0.1) if joint.name == "crank" else joint for joint in model.joints]
    with pytest.raises(wt.SingularSystemError, match="depend on each other at this configuration") as caught:
        wt.simulate(replace(model, joints=tuple(joints)), np.zeros(3), np.zeros(3), duration=0.01, method="events")
    assert "massless" not in str(caught.value)
