"""Pieces of a time step, each alone: separation of overlaps, blocks of the problem, forces and works."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.time_step import ContactBlocks, separation
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

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
