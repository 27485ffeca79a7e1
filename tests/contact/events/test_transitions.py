"""What an event decides: balances at every instant; rules of repeated, grazing and hyperstatic contacts, each alone."""

from types import SimpleNamespace

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.contact_modes import OPEN, SLIDE, STICK, Mode, open_mode
from whippletree.contact.problem import active_set
from whippletree.simulation.events import zeno
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.event_log import KINDS
from whippletree.simulation.events.event_method import Events
from whippletree.simulation.events.guards import LIFT_OFF, SLIP, Guard, Guards, may_graze, zero_between
from whippletree.simulation.events.phase import HYPERSTATIC, Phase
from whippletree.simulation.events.transitions import Transitions, _staying
from whippletree.simulation.events.zeno import EVENT_PATIENCE, EVENTS_AT_ONCE, LEAN, Patience, accumulation
from whippletree.simulation.motion import Motion

m = wt.mechanisms
UPRIGHT = ((1, 0, 0), (0, 0, -1), (0, 1, 0))
"""A planar joint moves in its x-y plane: here x and z of the world."""
EVENTS = {"method": "events", "saltation": False, "rtol": 1e-11, "atol": 1e-13}


def equations(model):
    return EventEquations(Motion(wt.compile(model), None))


def tipping_block():
    """A box that slides into a step and tips over it."""
    builder = wt.Builder("tripping", (0, 0, -9.81)).geometry("ground", "world", "half_space")
    builder.body("box", 2.0, inertia=(0.02, 0.02, 0.02))
    builder.joint("free", "free", "world", "box", start=(0, 0, 0.1, 1, 0, 0, 0))
    for k, (x, y) in enumerate([(0.1, 0.1), (0.1, -0.1), (-0.1, 0.1), (-0.1, -0.1)]):
        builder.geometry(f"corner {k}", "box", "sphere", position=(x, y, -0.09), radius=0.01)
        builder.contact(f"corner {k}", f"corner {k}", "ground", friction=0.4)
    return builder.build()


def plank(*places):
    """A plank with a foot at each of these places, all at the ground."""
    builder = wt.Builder("plank", (0, 0, -9.81)).geometry("ground", "world", "half_space")
    builder.body("plank", 1.0, inertia=(0.1, 0.1, 0.1)).joint("x", "planar", "world", "plank", rotation=UPRIGHT)
    for k, x in enumerate(places):
        builder.geometry(f"foot {k}", "plank", "point", position=(x, 0, 0))
        builder.contact(f"foot {k}", f"foot {k}", "ground", friction=0.0)
    return builder.build()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "v0", "kinds"),
    [
        (m.bouncing_ball(height=0.2, restitution=0.6), None, {"touchdown"}),
        (m.painleve_rod(friction=1.6, angle=1.1), None, {"impact without collision"}),
        (m.rocking_block(), None, {"touchdown", "lift-off"}),
        (tipping_block(), [0, 3.0, 0, 0.7, 0.3, 0], {"touchdown"}),
    ],
    ids=["ball", "Painlevé rod", "rocking block", "tumbling box"],
)
def test_momentum_is_balanced_at_every_event(model, v0, kinds):
    """M (v⁺ − v⁻) = Jᵀ p, impacts without collision included."""
    run = wt.simulate(model, v0=v0, duration=0.25, **EVENTS)
    assert kinds <= set(run.attrs["contact_event_kinds"])
    (_, before, after), (_, impulses) = wt.event_states(run), wt.event_impulses(run)
    scene = equations(model)
    jumps = 0
    for y, z, p in zip(before, after, impulses, strict=True):
        q, v = scene.motion.split(y)
        change = scene.motion.split(z)[1] - v
        at = scene.at(np.zeros(1), q[None], v[None])
        momentum = at.M[0] @ change
        slow = run.attrs["speed_tolerance"] * np.abs(at.M[0]).max()  # speeds below it are none
        np.testing.assert_allclose(momentum, at.J[0].T @ p.ravel(), atol=slow + 1e-9 * np.abs(p).max())
        jumps += bool(np.abs(p).max() > 1e-6)
    assert jumps


@pytest.mark.slow
def test_corners_that_run_out_of_load_one_after_the_other_do_not_take_over_again():
    """A box that is pushed until it slides and tips: two corners lift at one instant, told one after the other."""

    def push(t, q, v):
        return 30 * t * np.array([0.05, 0.4, 0, 5, 0, 0])

    run = wt.simulate(tipping_block(), controller=push, duration=0.1, **EVENTS)
    assert run.attrs["failure"] == ""
    assert (run.attrs["speed_tolerance"], run.attrs["acceleration_share"]) == (1e-9, 0.0)
    assert list(run.attrs["contact_event_kinds"]).count("lift-off") >= 2


def test_patience_grows_with_events_at_one_instant_and_ends_with_it():
    rules = Transitions(equations(m.bouncing_ball()), None, gap_tolerance=1e-9, speed_tolerance=1e-9)
    patience = Patience(rules)
    patience.count(1.0)
    assert (patience.rules.speed_tolerance, patience.rules.lean) == (1e-9, 0.0)
    for _ in range(EVENT_PATIENCE):
        patience.count(1.0)
    assert patience.rules.speed_tolerance == pytest.approx(1e-8)
    assert patience.rules.lean == pytest.approx(100 * LEAN)
    for _ in range(EVENT_PATIENCE):
        patience.count(1.0 + zeno.AT_ONCE_WITHIN / 2)
    assert patience.rules.lean == pytest.approx(1e4 * LEAN)
    assert not patience.exhausted
    for _ in range(EVENTS_AT_ONCE):
        patience.count(1.0 + zeno.AT_ONCE_WITHIN / 2)
    assert patience.exhausted
    patience.count(1.1)
    assert not patience.exhausted
    assert (patience.rules.speed_tolerance, patience.rules.lean) == (1e-9, 0.0)
    assert patience.largest.speed_tolerance > 1e-8


@pytest.mark.parametrize("ratio", [0.9, 0.5, 0.1])
def test_intervals_that_shrink_at_a_steady_ratio_end_at_their_sum(ratio):
    times = np.cumsum([0.0, 1.0, ratio, ratio**2])
    assert accumulation(times, 1.0) == pytest.approx(1 / (1 - ratio), rel=1e-12)
    assert accumulation(times, ratio**2 / 2) is None  # too long yet
    assert accumulation(times[:3], 1.0) is None
    assert accumulation([0, 1, 2, 3.0], 2.0) is None  # as long as before
    assert accumulation(np.cumsum([0.0, 1.0, ratio, 0.5 * ratio**2]), 1.0) is None  # unsteady


def test_a_gap_within_rounding_of_zero_needs_no_change_of_sign():
    """An edge of one domino along an edge of the next: a candidate from time to time, without depth when it is."""
    assert zero_between(0.5, 1.0, lambda t: 1e6 if t < 1 else 5e-18) == 1.0
    assert zero_between(0.5, 1.0, lambda t: -1e-18) == 0.5
    assert zero_between(0.0, 1.0, lambda t: 0.25 - t) == 0.25
    assert zero_between(1.0, 1.0, lambda t: 1.0) == 1.0


def test_a_parabola_that_dips_below_zero_between_samples_is_looked_at():
    rng = np.random.default_rng(1)
    looked_at = 0
    for _ in range(300):
        times = np.cumsum(rng.uniform(0.1, 1, 4))
        lowest, depth, bend = rng.uniform(times[0], times[-1]), rng.uniform(0, 0.2), rng.uniform(1, 3)
        gaps = bend * (times - lowest) ** 2 - depth
        if np.all(gaps > 0):
            assert may_graze(times, gaps[:, None]).any()
            looked_at += 1
    assert looked_at > 50
    even = np.arange(3.0)
    assert not may_graze(even, np.array([[1.0], [2.0], [3.0]])).any()
    assert not may_graze(even, np.array([[3.0], [2.9], [3.0]])).any()  # far from zero for its bend
    assert not may_graze(even, np.array([[1.0], [0.4], [0.1]])).any()  # on its way


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1e-4, 1e-8])
def test_a_pendulum_that_skims_the_ground_is_seen_wherever_samples_are(depth):
    """Its lowest point lies between samples of the gap, at every share of their distance."""
    builder = wt.Builder("skimming").geometry("ground", "world", "half_space")
    builder.body("rod", 1.0, center=(0, 0, -1), inertia=(0.01, 0.01, 0.01))
    builder.joint("pivot", "revolute", "world", "rod", axis=(0, 1, 0), position=(0, 0, 1 - depth))
    builder.geometry("tip", "rod", "point", position=(0, 0, -1)).contact("tip", "tip", "ground", friction=0.0)
    model = builder.build()
    for start in np.linspace(0.6, 1.4, 12):
        run = wt.simulate(model, [start], [0.0], duration=0.9, **EVENTS)
        assert "touchdown" in run.attrs["contact_event_kinds"]


def test_contacts_that_open_do_not_approach():
    """What is left of an approach below the tolerance is taken away; contacts that stay closed keep theirs."""
    model = m.bouncing_ball(restitution=0.5)
    scene = equations(model)
    rules = Transitions(scene, None, gap_tolerance=1e-9, speed_tolerance=1e-9)
    q, v = np.zeros(1), np.array([-3e-10])
    closed = Mode((SLIDE,), np.zeros((1, 2)))
    assert rules._part_contacts(0.0, q, v, open_mode(1), [0]) == pytest.approx([0.0], abs=1e-25)
    assert rules._part_contacts(0.0, q, v, closed, [0]) == v
    assert rules._part_contacts(0.0, q, -v, open_mode(1), [0]) == -v


@pytest.mark.parametrize(("apart", "hyperstatic"), [(100 * HYPERSTATIC, False), (HYPERSTATIC / 100, True)])
def test_feet_that_are_all_but_one_share_no_force(apart, hyperstatic):
    """Two feet of a plank, so far apart that the moment about one still tells which carries how much, or not."""
    model = plank(0.0, apart)
    mode = Mode((SLIDE, SLIDE), np.zeros((2, 2)))
    phase = Phase(equations(model), mode, 0.0, np.concatenate([model.home.q, model.home.v]))
    assert phase.hyperstatic is hyperstatic


@pytest.mark.parametrize("turn", [1.0, -1.0])
def test_of_feet_that_touch_only_those_that_come_down_are_told(turn):
    scene = equations(plank(-0.2, 0.2))
    rules = Transitions(scene, None, gap_tolerance=1e-9, speed_tolerance=1e-9)
    q = np.asarray(scene.motion.model.home.q, dtype=float)
    normals = np.array([scene.contact_velocity(q, e)[:, 0] for e in np.eye(3)])
    v = np.linalg.lstsq(normals.T, [turn, -turn], rcond=None)[0]
    change = rules.change(0.0, np.concatenate([q, v]), open_mode(2), (), [0, 1])
    assert [entry for entry in change.entries if entry[0] == "touchdown"] == [("touchdown", int(turn > 0))]


def test_a_guard_knows_the_speed_at_which_a_contact_parts():
    scene = equations(m.bouncing_ball(restitution=0.5))
    for speed, parting in ((2.0, 2.0), (0.0, 0.0)):
        guards = Guards(Phase(scene, open_mode(1), 0.0, np.array([0.0, speed])))
        assert guards.parting.tolist() == [parting]


def test_a_hop_is_looked_for_after_the_start_of_a_phase_only():
    """The earliest of three times at which the guard is positive, or none."""
    started = SimpleNamespace(phase=SimpleNamespace(time=2.0))
    assert Guards._just_after(started, 3.0, lambda s: 1.0 if 2 < s < 2.001 else -1.0) == (2.0001, 1.0)
    assert Guards._just_after(started, 3.0, lambda s: -1.0) is None
    assert Guards._just_after(started, 2.0, lambda s: 1.0) is None  # no time has passed


def test_a_contact_that_carries_nothing_stays_closed_unless_it_parts():
    """Two feet at one place: forces are not unique, and the solver may leave one of them without any."""
    G = np.kron(np.ones((2, 2)), np.eye(3))
    problem = active_set.problem(G, np.array([-1.0, 0, 0, -1.0, 0, 0]), np.full(2, 0.5), np.zeros((2, 2)))
    answer = active_set.SlidingAnswer(np.zeros((2, 3)), (OPEN, OPEN), np.zeros((2, 2)))
    rates = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert _staying(answer, problem, rates, [0, 1], 1e-9).status == (STICK, OPEN)
    assert _staying(answer, problem, rates, [1], 1e-9).status == (OPEN, OPEN)
    rates[0, 1] = 0.5
    slides = _staying(answer, problem, rates, [0], 1e-9)
    assert slides.status == (SLIDE, OPEN)
    np.testing.assert_allclose(slides.directions[0], [1.0, 0.0])


@pytest.mark.parametrize(("height", "hop"), [(0.3, np.inf), (-0.3, 4 / 3)])
def test_a_hop_of_a_turning_body_knows_that_its_tip_goes_round(height, hop):
    """A tip that leaves the ground at 0.8 m/s is drawn to its pivot by r ω²: upwards for good, or down again."""
    builder = wt.Builder("windmill", (0, 0, 0)).geometry("ground", "world", "half_space")
    builder.body("rod", 1.0, inertia=(0.1, 0.1, 0.1))
    builder.joint("pivot", "revolute", "world", "rod", axis=(0, 1, 0), position=(0, 0, height))
    builder.geometry("tip", "rod", "point", position=(0.5, 0, 0)).contact("tip", "tip", "ground", friction=0.0)
    angle = np.pi - np.arcsin(height / 0.5)
    phase = Phase(equations(builder.build()), open_mode(1), 0.0, np.array([angle, 2.0]))
    assert zeno.hops(phase, [0]) == pytest.approx([hop])


def test_contacts_that_ran_out_of_load_at_this_instant_stay_lifted():
    """Those that lifted off just before, and are open; not where something else than a lift-off ends the phase."""
    told = {"times": [0.5, 1.0, 1.0], "kinds": [KINDS.index(LIFT_OFF)] * 3, "contacts": [0, 1, 2]}
    log = SimpleNamespace(**{name: SimpleNamespace(rows=np.array(rows)) for name, rows in told.items()})
    phase = SimpleNamespace(mode=Mode((OPEN, OPEN, STICK, STICK), np.zeros((4, 2))))
    last = Guard(LIFT_OFF, 3)
    assert Events._with_lifted(SimpleNamespace(log=log), phase, 1.0, [last]) == [last, Guard(LIFT_OFF, 1)]
    slip = [Guard(SLIP, 3)]
    assert Events._with_lifted(SimpleNamespace(log=log), phase, 1.0, slip) == slip


@pytest.mark.slow
def test_a_box_that_is_tipped_rises_from_nine_feet_as_from_four():
    """Feet between the corners leave the ground at the same instants, one after the other: none of them comes back.

    A torque τ = 8 t about y tips it once τ = m g w, when the feet behind the front edge lift off.
    """
    ends = []
    for across in (2, 3):
        builder = wt.Builder("tipped", (0, 0, -9.81)).geometry("ground", "world", "half_space")
        builder.body("box", 2.0, inertia=(0.05, 0.06, 0.04))
        builder.joint("free", "free", "world", "box", start=(0, 0, 0.3, 1, 0, 0, 0))
        for i, (x, y) in enumerate(np.stack(np.meshgrid(*[np.linspace(-0.1, 0.1, across)] * 2), -1).reshape(-1, 2)):
            builder.geometry(f"foot {i}", "box", "point", position=(x, y, -0.3))
            builder.contact(f"foot {i}", f"foot {i}", "ground", friction=0.8)
        tipping = lambda t, q, v: np.array([0, 8 * t, 0, 0, 0, 0])  # noqa: E731
        run = wt.simulate(builder.build(), duration=0.8, controller=tipping, **EVENTS)
        assert not run.attrs["failure"]
        assert run.attrs["contact_event_kinds"][0] == "lift-off"
        assert run.attrs["contact_event_times"][0] == pytest.approx(2.0 * 9.81 * 0.1 / 8, abs=1e-9)
        ends.append(run.q.values[-1])
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-6)
