"""Steps that gain energy from nothing are taken in halves; what is told of them is told once."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping import inertial_gain
from whippletree.simulation.time_stepping.impulse_batch import Advance
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, Steps, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

LINKS, STEP, COUNT = 60, 4e-3, 12


@pytest.fixture(scope="module")
def chain():
    """A long chain above a floor that it does not reach, without gravity: its energy stays what it is.

    Its last link turns about another axis: where all motions are in a plane, momenta are carried, and nothing gains.
    """
    b = wt.Builder("chain", gravity=(0, 0, 0)).geometry("floor", "world", "half_space", position=(0, 0, -100))
    before = "world"
    for k in range(LINKS):
        name = f"link {k}"
        b.body(name, 0.02, (0.025, 0, 0), (1e-6, 4e-6, 4e-6))
        axis = (0, 1, 0) if k < LINKS - 1 else (0, 0, 1)
        b.joint(name, "revolute", before, name, axis=axis, position=(0.05 if k else 0, 0, 0))
        b.geometry(name, name, "sphere", radius=0.01)
        b.contact(name, name, "floor")
        before = name
    return b.build()


@pytest.fixture(scope="module")
def thrown(chain):
    """Links that turn one way and the other by a quarter of a radian in a step."""
    rng = np.random.default_rng(1)
    absolute = 60 * rng.choice([-1.0, 1.0], size=LINKS)
    return np.diff(absolute, prepend=0.0)


@pytest.mark.slow
def test_a_chain_that_is_thrown_keeps_its_energy(chain, thrown):
    dyn = wt.compile(chain)
    run = wt.simulate(
        chain, v0=thrown, duration=COUNT * STEP, step=STEP, output_dt=COUNT * STEP, method="time_stepping"
    )
    before, kept = dyn.kinetic_energy(run.q.values, run.v.values)
    # the steps as they are, none refused
    stepper = ImpulseStep(Motion(dyn), 1e-7)
    y, still = np.concatenate([chain.home.q, thrown]), np.zeros((stepper.blocks.count, 3))
    steps = kernel_steps(stepper, y, still, StepPlan(np.full(COUNT, STEP), np.zeros(chain.nv)))
    torn = dyn.kinetic_energy(*stepper.motion.split(steps.states))
    assert steps.number < COUNT or torn[-1] > 3 * before
    assert kept < 1.5 * before
    assert 0 < run.attrs["halved_steps"] <= COUNT


def test_a_step_in_halves_is_told_as_one(chain, thrown):
    stepper = ImpulseStep(Motion(wt.compile(chain)), 1e-7)
    y = np.concatenate([np.asarray(chain.home.q, dtype=float), thrown])
    still, plan = np.zeros((stepper.blocks.count, 3)), StepPlan.of_one(0.0, STEP, np.zeros(chain.nv), np.zeros(0))
    tried = inertial_gain.watched_steps(stepper, y, still, plan)
    assert not tried.steps.number
    assert tried.refused.steps.number == 1
    assert tried.refused.gain > tried.refused.tolerated > 0
    assert stepper.stride == 1
    made = inertial_gain.careful_step(stepper, y, still, plan, [])
    whole = kernel_steps(stepper, y, still, plan)
    assert made.number == whole.number == 1
    assert stepper.halved == 1
    before, careful, careless = wt.compile(chain).kinetic_energy(
        *stepper.motion.split(np.stack([y, made.states[0], whole.states[0]]))
    )
    assert abs(careful - before) < (careless - before) / 2


def test_a_step_that_was_refused_is_not_tried_again(chain, thrown, monkeypatch):
    """And after halves that gain much the next step begins with halves."""
    stepper = ImpulseStep(Motion(wt.compile(chain)), 1e-7)
    y = np.concatenate([np.asarray(chain.home.q, dtype=float), thrown])
    still, plan = np.zeros((stepper.blocks.count, 3)), StepPlan.of_one(0.0, STEP, np.zeros(chain.nv), np.zeros(0))
    plain = inertial_gain.careful_step(stepper, y, still, plan, [])
    assert stepper.wary
    stepper.wary = False
    refused = inertial_gain.watched_steps(stepper, y, still, plan).refused
    lengths = []
    taken = inertial_gain.kernel_steps
    monkeypatch.setattr(inertial_gain, "kernel_steps", lambda *given: lengths.append(given[3].h[0]) or taken(*given))
    for wary, known in ((False, refused), (True, None)):
        stepper.wary = wary
        made = inertial_gain.careful_step(stepper, y, still, plan, [], known)
        np.testing.assert_array_equal(made.states, plain.states)
    assert max(lengths) == STEP / 2


def test_work_that_halves_do_not_change_is_no_reason_for_them(chain, thrown, monkeypatch):
    """Someone who does not say so pushes: the whole step is taken."""
    stepper = ImpulseStep(Motion(wt.compile(chain)), 1e-7)
    y = np.concatenate([np.asarray(chain.home.q, dtype=float), 1e-3 * thrown])
    still = np.zeros((stepper.blocks.count, 3))
    plan = StepPlan.of_one(0.0, STEP, np.full(chain.nv, 1e-3), np.zeros(0))
    plain = stepper.joint_work
    monkeypatch.setattr(stepper, "joint_work", lambda *given: 0 * plain(*given))
    made = inertial_gain.careful_step(stepper, y, still, plan, [])
    np.testing.assert_array_equal(made.states, kernel_steps(stepper, y, still, plan).states)
    assert stepper.halved == 0


def test_steps_beyond_the_last_row_are_not_counted_in_it(chain):
    """Of seven steps that a kernel has solved, three belong to the one row that is whole."""
    stepper = ImpulseStep(Motion(wt.compile(chain)), 1e-7)
    ones = np.ones(7)
    start = np.concatenate([np.asarray(chain.home.q, dtype=float), np.zeros(chain.nv)])
    blocks = stepper.blocks.count
    steps = Steps(np.tile(start, (7, 1)), np.zeros((7, blocks, 3)), np.arange(21.0).reshape(7, 3), *[ones] * 6)
    row = Advance.of_rows(stepper, start, steps, np.array([3]), np.array([STEP]))
    assert row.contact_work.tolist() == row.sweeps.tolist() == [3.0]
    assert row.residual_velocity.tolist() == [7.0]


def test_short_trees_are_not_watched():
    assert not ImpulseStep(Motion(wt.compile(wt.mechanisms.four_bar())), 1e-7).watched
