"""Pieces of a time step, each alone: separation of overlaps, blocks of the problem, forces and works."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.problem.contact_problem import ContactProblem
from whippletree.contact.problem.solver import solve
from whippletree.contact.time_step import ROLLING, SPINNING, ContactBlocks, ContactMoment, separation
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep, sweeps, without_gain

H = 1e-3


def two_sledges(damping):
    """Two bodies on a line with a damper between them; a wall far away."""
    builder = wt.Builder("sledges", (0, 0, 0)).geometry("wall", "world", "half_space", position=(0, 0, -9))
    for name, mass, x in (("front", 2.0, 0.5), ("back", 3.0, 0.0)):
        builder.body(name, mass, inertia=(0.1, 0.1, 0.1)).geometry(name, name, "sphere", radius=0.1)
        builder.joint(f"slide {name}", "prismatic", "world", name, axis=(1, 0, 0), position=(x, 0, 0))
        builder.contact(f"{name} on wall", name, "wall")
        builder.frame(f"eye of {name}", name)
    return builder.tendon("dashpot", "eye of front", "eye of back", damping=damping).build()


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_overlaps_are_separated_by_the_least_push(scale):
    """0 ≤ π ⟂ gaps + G π ≥ 0, whatever the masses; a block that nothing moves carries nothing."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(4, 6))
    G = np.zeros((5, 5))
    G[:4, :4] = scale * (root @ root.T)
    gaps = np.array([-0.02, 0.01, -0.05, -0.03, -0.04])
    push = separation(G, gaps, 400).astype(float)
    left = gaps + G @ push
    assert push.min() >= 0
    assert left[:4].min() > -1e-12
    assert np.abs(push * left).max() < 1e-12 * push.max()
    assert push[4] == 0
    assert left[4] == gaps[4]


def test_every_block_has_one_coefficient_of_each_kind():
    blocks = ContactBlocks(wt.mechanisms.quadruped(), alone=True)
    assert blocks.friction.shape == blocks.restitution.shape == (blocks.count,)
    assert len(blocks.names) == blocks.count


def test_a_damper_between_bodies_slows_what_moves_apart():
    """By the force c (v₁ − v₂), to the first order of the step; what one loses in momentum the other gains."""
    c, v = 40.0, np.array([1.0, -0.5])
    stepper = ImpulseStep(Motion(wt.compile(two_sledges(c))), 1e-9)
    y = np.concatenate([np.zeros(2), v])
    step = stepper.step(0.0, y, np.zeros((stepper.blocks.count, 3)), np.zeros(2), H)
    after = stepper.motion.split(step.state)[1]
    pull = (v - after) * [2.0, -3.0] / H  # the force between them, seen from either
    assert pull[0] == pytest.approx(pull[1], rel=1e-9)
    assert pull[0] == pytest.approx(c * (v[0] - v[1]), rel=0.05)


def test_the_work_of_a_motor_is_what_the_bodies_gain():
    """A constant force: h τ (v + v⁺) / 2 is the change of the kinetic energy, exactly."""
    stepper = ImpulseStep(Motion(wt.compile(two_sledges(0.0))), 1e-9)
    tau, v = np.array([3.0, -2.0]), np.array([0.7, 0.1])
    after = v + H * tau / [2.0, 3.0]
    gained = 0.5 * (np.array([2.0, 3.0]) * (after**2 - v**2)).sum()
    assert float(stepper.joint_work(tau, np.zeros(2), v, after, H)) == pytest.approx(gained, rel=1e-12)


def sliders():
    """Three bodies on parallel rails with stops, two of which rub."""
    builder = wt.Builder("sliders", (0, 0, 0)).geometry("wall", "world", "half_space", position=(0, 0, -9))
    for k, (mass, upper, friction) in enumerate([(1.0, 1.0, 0.0), (2.0, 1.0, 0.5), (3.0, 0.5, 1.0)]):
        builder.body(f"body {k}", mass, inertia=(0.1, 0.1, 0.1)).geometry(
            f"ball {k}", f"body {k}", "sphere", radius=0.1
        )
        rail = {"axis": (1, 0, 0), "position": (0, k, 0), "lower": -1.0, "upper": upper, "friction": friction}
        builder.joint(f"rail {k}", "prismatic", "world", f"body {k}", **rail)
        builder.contact(f"ball {k} on wall", f"ball {k}", "wall").frame(f"eye {k}", f"body {k}")
    return builder


def roped_sliders():
    """Of these, the first two are tied by a rope of at most 1.2 m."""
    return sliders().tendon("rope", "eye 0", "eye 1", limits=(0.0, 1.2)).build()


def test_blocks_are_numbered_in_the_order_of_their_names():
    blocks = ContactBlocks(roped_sliders(), alone=True)
    assert blocks.first_tendon == blocks.names.index("limit of tendon rope") == 6
    assert blocks.closing == blocks.names.index("friction rail 1") == 7
    assert blocks.first_moment == blocks.count == 9
    assert [ContactMoment(0, 0.1, axes).word for axes in (SPINNING, ROLLING)] == ["torsion", "rolling"]


def test_each_impulse_of_a_step_belongs_to_its_own_block():
    """One body runs into its stop while two others stretch their rope: only these impulses change their momentum."""
    stepper = ImpulseStep(Motion(wt.compile(roped_sliders())), 1e-9)
    q, v = np.array([0.0, 0.663, 0.4999]), np.array([-3.0, 0.5, 2.0])
    step = stepper.step(0.0, np.concatenate([q, v]), np.zeros((stepper.blocks.count, 3)), np.zeros(3), H)
    names = stepper.blocks.names
    acting = {name: impulse for name, impulse in zip(names, step.impulses, strict=True) if np.abs(impulse).max() > 1e-9}
    assert set(acting) == {"limit rail 2", "limit of tendon rope", "friction rail 1", "friction rail 2"}
    after_q, after_v = stepper.motion.split(step.state)
    assert np.hypot(after_q[1] - after_q[0], 1) == pytest.approx(1.2, abs=1e-8)
    assert after_q[2] == pytest.approx(0.5, abs=1e-9)
    # the rope pulls both alike; friction acts against the second, which ends backwards, and against the third
    assert 1.0 * (after_v[0] - v[0]) == pytest.approx(-2.0 * (after_v[1] - v[1]) + 0.5 * H, abs=1e-9)
    assert 3.0 * (after_v[2] - v[2]) == pytest.approx(-acting["limit rail 2"][0] - 1.0 * H, abs=1e-9)


def test_a_servo_alone_makes_a_step_implicit_in_python_too():
    """(m + h d + h² k) v⁺ = m v + h k (u − q), where no joint has a spring."""
    k, d, u, v = 1e6, 300.0, 0.2, -0.4
    model = sliders().actuator("servo", "rail 0", gain=(k, 0.0, 0.0), bias=(0.0, -k, -d)).build()
    stepper = ImpulseStep(Motion(wt.compile(model)), 1e-9)
    start = np.array([0.0, 0.0, 0.0, v, 0.0, 0.0])
    step = stepper.step(0.0, start, np.zeros((stepper.blocks.count, 3)), np.zeros(3), H, np.array([u]))
    after = stepper.motion.split(step.state)[1]
    assert after[0] == pytest.approx((v + H * k * u) / (1.0 + H * d + H * H * k), rel=1e-9)


def test_a_share_of_a_bounce_counts_the_work_of_both_solutions():
    """A rod that strikes with friction would gain energy from a full bounce; what was done for it is not forgotten."""
    G = np.array([[3.0, -1.8, 0.0], [-1.8, 2.2, 0.0], [0.0, 0.0, 1.0]])
    approach = np.array([[-1.0, 0.6, 0.0]])
    friction, shift = np.array([0.5]), np.array([1.0])
    problem = ContactProblem.of(G, approach + shift[:, None] * [-1.0, 0, 0], friction, np.zeros(1))
    full = solve(problem, np.zeros((1, 3)), sweeps, tolerance=1e-10)
    told = full._replace(sweeps=1000, converged=False)
    less = without_gain(problem, told, -shift, np.zeros(1), approach, np.zeros(1, dtype=int), 1e-10)
    assert less.impulse[0, 0] < full.impulse[0, 0]
    assert less.sweeps > 1000
    assert not less.converged


def test_what_is_on_its_way_out_of_an_overlap_is_not_pushed():
    """A ball 0.1 mm in the floor that rises by 1 mm in the step is clear of it by itself."""
    dyn = wt.compile(wt.mechanisms.bouncing_ball(height=1.0, restitution=0.0))
    home = dyn.model.home
    q, v = np.array(home.q), np.zeros(dyn.model.nv)
    gap = dyn.contact_gaps(q)[0]
    up = np.flatnonzero(np.abs(dyn.contact_jacobian(q)[0, 0]) > 0)[0]
    q[up] -= gap + 1e-4
    v[up] = 1.0
    found = dyn.contact_rollout(q, v, np.zeros((1, dyn.model.nv)), H)
    assert found.q[-1, up] == pytest.approx(q[up] + H * (1.0 - 9.81 * H), abs=1e-12)
