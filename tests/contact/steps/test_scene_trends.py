"""Impulses of balls that are all but at rest go on as they have changed, and so do the pushes that move them apart."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program import Address, Buffer, Index, Loop
from whippletree.compiler.program.traced_blocks import Piece, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.scenes.scene_trees import CONTACT
from whippletree.compiler.rollout.scenes.scene_trends import (
    FORESIGHT,
    LEARNED,
    LITTLE,
    MUCH,
    STEPS_WITHOUT,
    TREND_PAYS,
    UNKNOWN_TRENDS,
    WEIGHT,
    SceneTrends,
    judge_trends,
)
from whippletree.contact.kinematics.scene_layout import scene_layout
from whippletree.simulation.time_stepping.scene_run import ROWS, SteppedScene, Warm
from whippletree.simulation.time_stepping.scene_skins import THICKEST_OF_ROLLING, THINNEST

H = 5e-3


def pile(count, seed=3):
    """Balls between four walls, nine to a layer."""
    return wt.mechanisms.spheres_in_box(count, width=0.36, seed=seed)


def advanced(scene, q, v, warm, *counts):
    """The end of so many steps, in calls of so many each, and the accounts."""
    accounts = []
    for count in counts:
        told = scene.advance(q, v, warm, np.zeros(len(v)), np.full(count, H))
        q, v, warm = told.q, told.v, told.warm
        accounts.append(told.account)
    return q, v, warm, np.concatenate(accounts)


def test_calls_of_the_kernel_do_not_change_the_motion():
    """What the last step has left is handed on: trends, how far they are trusted, and pushes."""
    model = pile(16)
    scene = SteppedScene(scene_layout(model), 1e-4, 1e-9, 1000)
    begin = np.array(model.home.q, float), np.zeros(model.nv), Warm.cold()
    q, v, warm, account = advanced(scene, *begin, 400)
    assert (account[:, ROWS["correction_work"]] != 0).sum() > 20
    assert warm.trends.any()
    for counts in ((1,) * 400, (7,) * 57 + (1,)):
        again = advanced(scene, *begin, *counts)
        np.testing.assert_array_equal(again[0], q)
        np.testing.assert_array_equal(again[1], v)
        np.testing.assert_array_equal(again[2].trends, warm.trends)


def test_trends_do_not_decide_the_motion(monkeypatch):
    """Steps of piles at rest in which some ball rolls on end where those without trends do, to what both may leave."""
    ahead = SteppedScene(scene_layout(pile(60)), 1e-4, 1e-9, 1000)
    monkeypatch.setattr("whippletree.compiler.rollout.scenes.scene_trends.LEARNED", 0.0)
    without = SteppedScene(scene_layout(pile(60)), 1e-4, 1e-9, 1000)
    followed, sweeps = 0, np.zeros(2)
    for seed in range(12):
        model = pile(60, seed)
        rest = advanced(ahead, np.array(model.home.q, float), np.zeros(model.nv), Warm.cold(), 800)
        if rest[2].foresight[0] < 0:
            continue
        followed += 1
        q, v, warm, _ = rest
        plain = warm._replace(foresight=UNKNOWN_TRENDS)
        ends = [advanced(scene, q, v, known, 40) for scene, known in ((ahead, warm), (without, plain))]
        assert ends[1][2].foresight[0] == -1
        for *_, account in ends:
            assert account[:, ROWS["residual_velocity"]].max() <= 1e-4
            assert account[:, ROWS["overlap"]].max() <= 1e-9
            # impulses of up to 0.1 N s are rounded
            assert account[:, ROWS["cone_violation"]].max() < 1e-17
        # what steps leave as velocities adds up, and turns a ball by its way over its radius
        worst = sum(account[:, ROWS["residual_velocity"]].max() for *_, account in ends)
        np.testing.assert_allclose(ends[0][0], ends[1][0], rtol=0, atol=40**2 / 2 * H * worst / 0.05)
        sweeps += [end[3][:, ROWS["sweeps"]].sum() for end in ends]
    assert followed > 0
    assert sweeps[0] < 0.9 * sweeps[1]


@pytest.fixture(scope="module")
def learn():
    """Impulses to go on from, trends, numbers of trust and the next start, after steps that end with such impulses."""
    space = WorkSpace()
    shapes = {"ends": ("T", "C", 3), "firsts": ("T",), "impulses0": ("C", 3), "friction": ("C",)}
    space.add(*[Buffer(name, "input", shape) for name, shape in shapes.items()])
    space.add(Buffer("tolerance", "input", ()), Buffer("calm", "input", (1,)))
    inputs, outputs = SceneTrends.arguments()
    space.add(*inputs, *[Buffer(name, "output", ("C", 3)) for name in ("impulses", "start")], *outputs)
    space.work(impulse=("C", 3), first_residual=(1,))
    trends, at = SceneTrends(space), space.at
    end = Piece((3,), tuple(Address("ends", (Index("step"), Index(CONTACT), Index(None, k))) for k in range(3)))
    take = Loop(CONTACT, "C", (traced_block(lambda p: [p], [end], [at("impulse", CONTACT)]),))
    first = traced_block(lambda x: [[x]], [at("firsts", "step")], [at("first residual")])
    show = traced_block(lambda p: [p], [at("impulse", CONTACT)], [at("start", CONTACT)])
    steps = Loop("step", "T", (take, first, *trends.learn()))
    body = (*trends.begin_call(), steps, *trends.results(), trends.foresee(), Loop(CONTACT, "C", (show,)))
    kernel = compile_function(space.program("trends", body), threads=1).ufunc

    def run(ends, firsts, known=None, calm=1e-8):
        count = ends.shape[1]
        trend, trust = known or (np.zeros((count, 4)), UNKNOWN_TRENDS)
        found = kernel(ends, firsts, np.zeros((count, 3)), np.full(count, 0.3), 1e-4, np.array([calm]), trend, trust)
        return dict(zip(("impulses", "start", "trends", "foresight"), found, strict=True))

    return run


def going_on(count, steps):
    """Impulses of so many contacts that change by as much in each step, and that change."""
    random = np.random.default_rng(5)
    begin, change = random.uniform(0.01, 0.02, (count, 3)) * [10, 1, 1], 1e-5 * random.normal(size=(count, 3))
    return begin + change * np.arange(1, steps + 1)[:, None, None], change


def pays_from_the_tenth_step(count):
    """First residuals of so many steps, which fall when trends are known well enough to be followed."""
    return np.where(np.arange(count) < 1 / LEARNED, 1e-6, 0.1 * TREND_PAYS * 1e-6)


def test_a_trend_is_the_mean_of_changes_and_the_next_start_is_ahead_by_it(learn):
    ends, change = going_on(3, 200)
    found = learn(ends, pays_from_the_tenth_step(200))
    # the first change, from no impulses at all, fades
    np.testing.assert_allclose(found["trends"][:, :3], change, atol=0.2 * (1 - WEIGHT) ** 180)
    assert found["foresight"][0] == 1
    np.testing.assert_allclose(found["start"], ends[-1] + found["trends"][:, :3], rtol=1e-14)
    # noise of one step counts by the weight of the last change, not whole
    ends[-1] += 1e-6
    again = learn(ends, pays_from_the_tenth_step(200))
    np.testing.assert_allclose(again["trends"][:, :3] - found["trends"][:, :3], WEIGHT * 1e-6, rtol=1e-6)


def test_what_trends_foresee_is_inside_the_cones_and_what_does_not_press_has_none(learn):
    ends = np.tile([[0.1, 0.0, 0.0], [0.1, 0.0299, 0.0], [0.0, 0.0, 0.0]], (60, 1, 1))
    ends[:, 0, 0] -= 0.0016 * np.arange(60)  # comes off in four steps
    ends[:, 1, 1] -= 1e-3 * np.arange(60)[::-1]  # will slide
    found = learn(ends, pays_from_the_tenth_step(60))
    assert found["foresight"][0] == 1
    assert (found["start"][:, 0] >= 0).all()
    assert (np.hypot(*found["start"][:, 1:].T) <= 0.3 * found["start"][:, 0] + 1e-16).all()
    assert not found["trends"][2].any()
    assert found["trends"][:2, :3].any(axis=1).all()


def test_what_does_not_rest_begins_a_trend_anew(learn):
    ends = going_on(2, 60)[0]
    ends[:40] *= np.random.default_rng(0).uniform(0.5, 1.5, (40, 2, 1))
    firsts = np.where(np.arange(60) <= 40, 1.0, 1e-6)
    found = learn(ends, firsts)
    # the step after the last one that did not rest has a change of its own from there, counted as much as each other
    mean = (ends[-1] - ends[39]) / 20
    assert np.abs(found["trends"][:, :3] - mean).max() < 0.3 * np.abs(mean).max()
    settling = learn(ends[:41], firsts[:41])
    np.testing.assert_allclose(settling["trends"][:, :3], ends[40] - ends[39], rtol=1e-12)
    assert settling["foresight"][0] == -1


def judged(first, *, weight=WEIGHT, foresees=-1.0, without=np.inf, steps=0.0, calm=1e-8):
    (followed,), (known,), (left,) = judge_trends([first], [calm], [weight], [foresees], [without], [steps])
    return followed, known, left


def test_trends_are_followed_where_they_pay_and_tried_again_after_a_while():
    first = 1e-6
    assert judged(first) == (1, first, -1)
    assert judged(0.9 * LITTLE * 1e-8)[0] == -1, "what is calm needs no trend"
    assert judged(first, weight=LEARNED)[0] == -1, "not known well enough"
    assert judged(first, steps=1.0) == (-1, first, 0)
    assert judged(0.9 * TREND_PAYS * first, foresees=1.0, without=first) == (1, first, 0)
    assert judged(1.1 * TREND_PAYS * first, foresees=1.0, without=first) == (-1, first, STEPS_WITHOUT)


def test_steps_that_follow_trends_invest_by_what_they_begin_with():
    ahead, without = np.array([1.0]), np.array([-1.0])
    for times, sweeps in ((0.9 * LITTLE, 0), (1.1 * LITTLE, 4), (0.9 * MUCH, 4), (1.1 * MUCH, 8)):
        assert SceneTrends.invested(8, times, ahead) == sweeps
        assert SceneTrends.invested(8, times, without) == 8


def test_numbers_of_trust_have_names():
    assert len(FORESIGHT) == len(UNKNOWN_TRENDS)


def test_a_ball_that_rolls_among_others_at_rest_needs_few_lists():
    """Its skin serves for a second; those of the others stay thin, and none counts as made for bodies that move."""
    model = pile(24)
    rule = SteppedScene(scene_layout(model), 1e-4, 1e-9, 100).rule
    velocities = np.zeros((24, 3))
    velocities[[3, 7]] = [[2e-3, 0, 0], [0, 0.03, 0]]
    skins = rule.skins(velocities, np.zeros((24, 3)), H, falls=False, stopped=False)
    assert skins.budget[3] == pytest.approx(200 * H * 2e-3)
    assert skins.budget[7] == pytest.approx(THICKEST_OF_ROLLING * rule.size)
    assert np.delete(skins.budget[:-1], [3, 7]).max() < 1.5 * THINNEST * rule.size
    assert not rule.is_thick(skins)
