"""Pairs that steps leave out as too far apart: what is remembered of them never changes a step."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.kinematics import broad_phase
from whippletree.contact.kinematics.broad_phase import Neighbourhood
from whippletree.contact.kinematics.contact_set import contact_set_of_steps
from whippletree.simulation.motion import Motion
from whippletree.simulation.output.contact_loads import candidates_of_loads
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

H, TOLERANCE = 2e-3, 1e-7
ROUND = np.random.default_rng(3).normal(size=(80, 3))
ROUND *= 0.05 / np.linalg.norm(ROUND, axis=1, keepdims=True)
# a hull far from its own origin, as files of robots have them
STONES = {"round": ROUND, "off": ROUND * [1, 0.4, 2] + [0.2, 0, 0.1], "die": 0.06 * np.vstack([np.eye(3), -np.eye(3)])}


@pytest.fixture(scope="module")
def thrown():
    """Stones in turns above a floor, every two of which may touch."""
    builder = wt.Builder("stones").geometry("floor", "world", "half_space")
    names = []
    for k, kind in enumerate((*STONES, *STONES)):
        name = f"{kind} {k}"
        builder.body(name, 1.0, inertia=(1e-3, 1e-3, 1e-3)).joint(name, "free", "world", name)
        builder.geometry(name, name, "mesh", vertices=STONES[kind])
        builder.contact(f"{name} on floor", name, "floor", friction=0.5)
        for other in names:
            builder.contact(f"{name} on {other}", name, other, friction=0.5)
        names.append(name)
    return wt.compile(builder.build(), threads=1)


def start(dyn, seed, speed):
    """A place for every stone beside all others, turned a little, and velocities towards their common middle."""
    rng = np.random.default_rng(seed)
    count = dyn.model.nv // 6
    places = 0.25 * np.stack(np.meshgrid(*[[-1, 1]] * 2, [1, 3]), axis=-1).reshape(-1, 3)[:count] + [0, 0, 0.2]
    turns = [1, 0, 0, 0] + 0.2 * rng.normal(size=(count, 4))
    q = np.column_stack([places, turns / np.linalg.norm(turns, axis=1, keepdims=True)])
    v = np.column_stack([rng.normal(size=(count, 3)), np.zeros((count, 3))]) * speed
    gaps = dyn.contact_list_touches(q.ravel())[:, 0]
    assert gaps.min() > 0
    v[:, 3:] = speed * (places.mean(axis=0) - places + 0.1 * rng.normal(size=(count, 3)))
    return q.ravel(), v.ravel(), np.zeros((len(gaps), 3))


def steps(dyn, state, count):
    """So many steps in one call."""
    tau, h = np.zeros((count, dyn.model.nv)), np.full(count, H)
    with np.errstate(all="ignore"):
        return dyn.contact_steps(*state, tau, h, TOLERANCE, np.inf)


def one_by_one(dyn, state, count):
    """The same in calls of one step, each of which begins without a memory."""
    found = []
    for _ in range(count):
        found.append(steps(dyn, state, 1))
        state = tuple(part[-1] for part in found[-1][:3])
    return [np.concatenate(parts) for parts in zip(*found, strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("speed", [10.0, 3.0, 0.0])
def test_what_is_remembered_of_pairs_does_not_change_a_step(thrown, speed):
    pairs = contact_set_of_steps(thrown.model).pairs
    between = np.repeat([pair.contact.second != "floor" for pair in pairs], [pair.slots for pair in pairs])
    touched = 0
    for seed in range(3):
        state = start(thrown, seed, speed)
        whole, single = steps(thrown, state, 150), one_by_one(thrown, state, 150)
        for a, b in zip(whole[:3], single[:3], strict=True):
            np.testing.assert_array_equal(a, b)
        overlaps = -thrown.contact_list_touches(whole[0])[..., 0].min()
        assert overlaps < 1e-8
        touched += int(np.any(whole[2][:, between] > 0))
    assert touched or not speed  # stones met stones


@pytest.mark.slow
def test_a_state_that_has_nothing_to_do_with_the_last_one_begins_anew(thrown):
    states = [start(thrown, seed, speed) for seed, speed in ((1, 10.0), (2, 0.1), (3, 3.0))]
    alone = [steps(thrown, state, 40) for state in states]
    for order in ((2, 0, 1), (1, 1, 0), (0, 2, 2)):
        for k in order:
            for a, b in zip(steps(thrown, states[k], 40), alone[k], strict=True):
                np.testing.assert_array_equal(a, b)


def test_a_solid_that_was_to_pass_another_is_pushed_against_it():
    cube = 0.05 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    builder = wt.Builder("passing", gravity=(0, 0, 0))
    for name in ("one", "other"):
        builder.body(name, 1.0, inertia=(1e-3, 1e-3, 1e-3)).joint(name, "free", "world", name)
        builder.geometry(name, name, "mesh", vertices=cube)
    dyn = wt.compile(builder.contact("meeting", "one", "other", friction=0.0).build(), threads=1)
    q = np.concatenate([[0, 0, 0, 1, 0, 0, 0], [-3.0 * H, 0, 0.1025, 1, 0, 0, 0]])
    v = np.zeros(12)
    v[9] = 3.0  # sideways: 6 mm in a step, so that the two are in reach
    count, tau = len(dyn.contact_list_touches(q)), np.zeros((2, 12))
    free = dyn.contact_steps(q, v, np.zeros((count, 3)), tau, np.full(2, H), TOLERANCE, np.inf)
    assert not free[2].any()
    # the first step has told their normal; in the second one they are hardly faster, but 4 mm nearer by its end
    tau[1, 11] = -2.0 / H
    pushed = dyn.contact_steps(q, v, np.zeros((count, 3)), tau, np.full(2, H), TOLERANCE, np.inf)
    assert not pushed[2][0].any()
    assert pushed[2][1].any()
    assert dyn.contact_list_touches(pushed[0][1])[:, 0].min() > -1e-8


def test_candidates_of_what_rests_are_kept_and_are_those_of_a_call_without_memory():
    stone = STONES["round"]
    builder = wt.Builder("resting")
    builder.geometry("block", "world", "mesh", vertices=3 * STONES["die"])
    for k, x in enumerate((0.0, 0.4)):
        builder.body(f"stone {k}", 1.0, inertia=(1e-3, 1e-3, 1e-3)).joint(f"stone {k}", "free", "world", f"stone {k}")
        builder.geometry(f"stone {k}", f"stone {k}", "mesh", vertices=stone * [1, 1, 0.3])
        builder.contact(f"on block {k}", f"stone {k}", "block", friction=0.8)
        builder.geometry(f"table {k}", "world", "box", size=(0.2, 0.2, 0.1), position=(x, 0.5, 0))
        builder.contact(f"on table {k}", f"stone {k}", f"table {k}", friction=0.8)
    dyn = wt.compile(builder.build(), threads=1)
    q = np.concatenate([[x, 0.5, 0.07, 1, 0, 0, 0] for x in (0.0, 0.4)])
    q[[2, 9]] -= dyn.contact_list_touches(q)[:, 0].min()
    state = q, np.zeros(12), np.zeros((len(dyn.contact_list_touches(q)), 3))
    settled = steps(dyn, state, 1500)
    state = tuple(part[-1] for part in settled[:3])
    whole, single = steps(dyn, state, 40), one_by_one(dyn, state, 40)
    assert np.ptp(whole[0][20:], axis=0).max() < 1e-12
    for a, b in zip(whole[:3], single[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    # one of them is pushed, and slides
    state = state[0], np.r_[np.zeros(9), 0.5, 0, 0], state[2]
    whole, single = steps(dyn, state, 40), one_by_one(dyn, state, 40)
    assert whole[0][-1, 7] > state[0][7] + 1e-3
    for a, b in zip(whole[:3], single[:3], strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def rod():
    """A long capsule above a floor and beside a wall of another body, whose balls always meet."""
    builder = wt.Builder("rod").geometry("floor", "world", "half_space")
    builder.body("rod", 1.0, inertia=(1e-2, 1e-2, 1e-3)).joint("rod", "free", "world", "rod")
    builder.geometry("rod", "rod", "capsule", radius=0.02, length=1.0)
    builder.contact("rod on floor", "rod", "floor", friction=0.5)
    return wt.compile(builder.build(), threads=1)


def lying(dyn, height, tilt):
    """The rod along y at a height, tilted by an angle, at rest; and the direction upwards among its velocities."""
    angle = np.pi / 2 + tilt
    q = np.array([0, 0, height, np.cos(angle / 2), np.sin(angle / 2), 0, 0])
    up = np.array([0, 0, 0, 0, np.sin(angle), np.cos(angle)])
    return (q, np.zeros(6), np.zeros((len(dyn.contact_list_touches(q)), 3))), up


@pytest.mark.parametrize("tilt", [0.0, 0.05, -0.05])
def test_a_candidate_that_has_left_its_close_pair_is_taken_back_where_it_would_overlap(rod, tilt):
    # 8 mm above the floor at its lower end: the ball about the rod reaches far below it, its own gaps do not
    state, up = lying(rod, 0.02 + 0.008 + 0.5 * np.sin(abs(tilt)), tilt)
    gaps = rod.contact_list_touches(state[0])[:, 0]
    np.testing.assert_allclose(gaps.min(), 0.008, atol=1e-12)
    tau = np.zeros((2, 6))
    tau[1] = -10.0 / H * up  # m/s times kg: 20 mm within the second step
    with np.errstate(all="ignore"):
        whole = rod.contact_steps(*state, tau, np.full(2, H), TOLERANCE, np.inf)
    assert not whole[2][0].any()
    assert whole[2][1, gaps.argmin(), 0] > 0.1
    assert rod.contact_list_touches(whole[0][1])[:, 0].min() > -1e-8
    first = steps(rod, state, 1)
    with np.errstate(all="ignore"):
        second = rod.contact_steps(*[part[0] for part in first[:3]], tau[1:], np.full(1, H), TOLERANCE, np.inf)
    for a, b in zip(whole[:3], second[:3], strict=True):
        np.testing.assert_array_equal(a[1], b[0])


def test_a_step_that_is_longer_than_the_one_before_overlooks_nothing(rod):
    # at 3 m/s, 20 mm above the floor: out of reach of a step of 1 ms, not of one of 10 ms
    (q, _, impulses), up = lying(rod, 0.02 + 0.02, 0.0)
    lengths = np.array([1e-3, 1e-2])
    with np.errstate(all="ignore"):
        whole = rod.contact_steps(q, -3 * up, impulses, np.zeros((2, 6)), lengths, TOLERANCE, np.inf)
    assert not whole[2][0].any()
    # it ends on the floor, so that its velocity is what is left of its height over the step
    left = rod.contact_list_touches(whole[0][0])[:, 0].min()
    np.testing.assert_allclose(whole[1][1] @ up, -left / lengths[1], rtol=1e-5)
    assert rod.contact_list_touches(whole[0][1])[:, 0].min() > -1e-8


@pytest.fixture(scope="module")
def crates():
    """Boxes that may touch each other."""
    builder = wt.Builder("crates", gravity=(0, 0, 0))
    for k, size in enumerate([(0.1, 0.1, 0.1), (0.2, 0.06, 0.1), (0.06, 0.06, 0.3)]):
        builder.body(f"crate {k}", 1.0, inertia=(2e-3, 2e-3, 2e-3)).joint(f"crate {k}", "free", "world", f"crate {k}")
        builder.geometry(f"crate {k}", f"crate {k}", "box", size=size)
        for other in range(k):
            builder.contact(f"{k} on {other}", f"crate {k}", f"crate {other}", friction=0.3)
    return wt.compile(builder.build(), threads=1)


def test_boxes_that_come_from_beside_each_other_meet(crates):
    """Seen along the normal that separates them most, their faces lie beside each other, and have no candidates."""
    directions = np.array([[1, 1, 1], [-1, 1, 0.7], [1, -1, -0.8]])
    q = np.column_stack([0.3 * directions, np.tile([1, 0, 0, 0], (3, 1))])
    gaps = crates.contact_list_touches(q.ravel())[:, 0]
    assert gaps.reshape(3, -1).min(axis=1).max() > 1e8  # none at all
    touched = 0
    for seed in range(4):
        v = np.column_stack([np.zeros((3, 3)), -3.0 * directions]) + 0.3 * np.random.default_rng(seed).normal(
            size=(3, 6)
        )
        state = (q.ravel(), v.ravel(), np.zeros((len(gaps), 3)))
        whole, single = steps(crates, state, 80), one_by_one(crates, state, 80)
        np.testing.assert_array_equal(whole[0], single[0])
        assert crates.contact_list_touches(whole[0])[..., 0].min() > -1e-8
        touched += bool(whole[2].any())
    assert touched == 4


@pytest.mark.slow
def test_within_a_reach_candidates_are_those_that_all_comparisons_find(thrown):
    q = np.stack([start(thrown, seed, 3.0)[0] for seed in range(6)])
    states = np.concatenate([steps(thrown, (one, *start(thrown, 0, 3.0)[1:]), 40)[0][::13] for one in q])
    every = np.asarray(thrown.contact_list_touches(states))
    for reach in (0.0, 0.01, 0.1):
        some = np.asarray(thrown.contact_list_touches(states, reach=reach))
        told = np.isfinite(some[..., 0])
        np.testing.assert_array_equal(some[told], every[told])
        assert np.all(every[~told][:, 0] > reach)
        assert 0 < told.mean() < 1


@pytest.mark.slow
def test_rows_of_output_tell_what_is_near_and_what_carries_a_force(thrown, monkeypatch):
    contacts = contact_set_of_steps(thrown.model)
    q = np.stack([start(thrown, seed, 0.0)[0] for seed in range(3)])
    every = np.asarray(thrown.contact_list_touches(q))
    stepper = ImpulseStep(Motion(thrown), TOLERANCE)
    np.testing.assert_array_equal(stepper.gaps(q)[0], every[..., 0])  # few pairs are all worked out
    monkeypatch.setattr(broad_phase, "TOLD_ALL_UP_TO", 5)
    stepper = ImpulseStep(Motion(thrown), TOLERANCE)
    gaps = stepper.gaps(q)[0]
    told = np.isfinite(gaps)
    np.testing.assert_array_equal(gaps[told], every[told][:, 0])
    assert np.all(every[~told][:, 0] > broad_phase.TOLD_WITHIN)
    assert 0 < told.mean() < 1
    # what bounced away within a step is far at its end, and its force acts somewhere
    forces = np.zeros((*gaps.shape, 3))
    row, number = np.argwhere(~told)[0]
    forces[row, number] = 1.0
    found = candidates_of_loads(stepper.motion, q, Neighbourhood(contacts), forces)
    np.testing.assert_array_equal(found[row, number], every[row, number])
    near = np.isfinite(found[..., 0])
    np.testing.assert_array_equal(found[near], every[near])


@pytest.mark.slow
def test_steps_in_python_find_the_same_candidates_by_the_compiled_narrow_phase(thrown):
    contacts = contact_set_of_steps(thrown.model)
    stepper = ImpulseStep(Motion(thrown), TOLERANCE)
    for reach in (0.0, 0.02, 0.3):
        for seed in range(3):
            q = start(thrown, seed, 0.0)[0]
            compiled, plain = stepper.near.neighbourhood.within(q, reach), Neighbourhood(contacts).within(q, reach)
            np.testing.assert_array_equal(compiled.numbers, plain.numbers)
            np.testing.assert_allclose(compiled.gaps, plain.gaps, atol=1e-12)
            np.testing.assert_allclose(compiled.jacobian.toarray(), plain.jacobian.toarray(), atol=1e-9)
