"""Phases between events by machine code: one function for all modes, the events of Python."""

from fractions import Fraction

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.contact_modes import held_motion
from whippletree.mechanisms.linkages import moving
from whippletree.simulation.events import event_method, guards, smooth_motion
from whippletree.simulation.events.compiled_phase import HELD_MOTIONS, CompiledPhases
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.guards import Guards
from whippletree.simulation.events.smooth_motion import PhaseSteps
from whippletree.simulation.motion import Motion


def block_matrix(M, b, R, E, C, bias, on):
    """a and f of the rows that are on, from the block matrix itself."""
    on = on > 0
    R, E, C, bias, n = R[on], E[on], C[on], bias[on], len(b)
    K = np.block([[M, -E.T], [R, np.diag(C)]])
    x = np.linalg.solve(K, np.concatenate([b, -bias]))
    f = np.zeros(len(on))
    f[on] = x[n:]
    return x[:n], f


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_on_hold_and_others_do_nothing(seed):
    rng = np.random.default_rng(seed)
    n, r = 6, 5
    L = rng.normal(size=(n, n))
    M = L @ L.T
    if seed % 2:
        M[0], M[:, 0] = 0.0, 0.0  # a part without mass, which the first row carries
    R = rng.normal(size=(r, n))
    R[0] = np.eye(n)[0]
    E = R + 0.1 * rng.normal(size=(r, n)) * np.array([0, 0, 1, 0, 0])[:, None]  # one contact slides
    C = np.array([0.0, 0.3, 0.0, 0.0, 0.0])
    on = np.array([1.0, 1.0, 1.0, 0.0, 0.0 if seed < 2 else 1.0])
    b, bias = rng.normal(size=n), rng.normal(size=r)
    found = held_motion(*(x.astype(object) for x in (M, b, R, E, C, bias, on)))
    a, f = block_matrix(M, b, R, E, C, bias, on)
    scale = np.linalg.cond(M + R.T @ R)
    assert found.trust > 0
    assert found.a.astype(float) == pytest.approx(a, abs=1e-13 * scale)
    assert found.f.astype(float) == pytest.approx(f, abs=1e-13 * scale)


@pytest.mark.parametrize("seed", range(40))
def test_the_room_to_slide_is_not_overestimated_and_has_its_sign(seed):
    """Against the determinants of the block matrices with friction and without; also where loads have jammed."""
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(2, 7)), int(rng.integers(1, 3))
    L = rng.normal(size=(n, n)) * 10.0 ** rng.uniform(-2, 2, size=n)[:, None]
    M, R = L @ L.T, rng.normal(size=(r, n)) * 10.0 ** rng.uniform(-1, 1, size=r)[:, None]
    E = R + rng.normal(size=(r, n)) * np.linalg.norm(R, axis=1)[:, None] * rng.uniform(0, 2)
    on = np.append(np.ones(r), 0.0)
    R, E = (np.concatenate([rows, rng.normal(size=(1, n))]) for rows in (R, E))
    given = (M, rng.normal(size=n), R, E, np.zeros(r + 1), rng.normal(size=r + 1), on)
    found = held_motion(*(x.astype(object) for x in given))

    def determinant(rows):
        return np.linalg.det(np.block([[M, -rows[:r].T], [R[:r], np.zeros((r, r))]]))

    room = determinant(E) / determinant(R)
    assert np.sign(found.room) == np.sign(room)
    assert abs(found.room) <= abs(room) * (1 + 1e-9)


def test_held_motion_is_exact_on_fractions():
    M = np.array([[2, 1], [1, 3]], dtype=object) * Fraction(1)
    R = np.array([[1, Fraction(1, 2)]], dtype=object)
    none = np.array([0], dtype=object)
    found = held_motion(M, np.array([1, 0], dtype=object), R, R, none, none, np.array([Fraction(1)], dtype=object))
    assert (R @ found.a == 0).all()
    assert (M @ found.a - R.T @ found.f == [1, 0]).all()


def braked_crank_slider():
    builder = wt.Builder("stops", (0, -9.81, 0)).body("upper", 1.0, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    builder.body("lower", 1.0, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    builder.joint("shoulder", "revolute", "world", "upper", friction=0.2)
    return builder.joint("elbow", "revolute", "upper", "lower", position=(1, 0, 0), lower=-1.0, upper=1.0).build()


def sleeve_on_a_pole():
    """A bush that falls along a pole, tilts, and rubs on both sides: slips that might jam."""
    builder = wt.Builder("sleeve", (0, -9.81, 0))
    for side, x, turned in (("right", 0.02, 1.0), ("left", -0.02, -1.0)):
        rotation = [[0, 0, turned], [0, 1.0, 0], [-turned, 0, 0]]
        builder.geometry(f"pole {side}", "world", "half_space", position=(x, 0, 0), rotation=rotation)
    builder.body("bush", 1.0, center=(0.02, 0, 0), inertia=(0.002, 0.002, 0.002)).joint(
        "base", "planar", "world", "bush"
    )
    for side, x in (("right", 0.022), ("left", -0.022)):
        for end, y in (("up", 0.1), ("down", -0.1)):
            builder.geometry(f"{side} {end}", "bush", "point", position=(x, y, 0))
            builder.contact(f"{side} {end}", f"{side} {end}", f"pole {side}", friction=0.15)
    return moving(builder.build(), {"base": np.array([0.1, 0.0, 1.0])})


def test_rows_along_which_nothing_moves_are_no_part_of_the_code():
    model = sleeve_on_a_pole()
    phases = EventEquations(Motion(wt.compile(model))).compiled
    assert phases.possible
    assert phases.moving == [row for i in range(4) for row in (3 * i, 3 * i + phases.moving[1])]
    assert phases.rows == 8  # and none for massless motions, of which there are none
    assert phases.places([3, 1]) is None or phases.places([3, 2]) is None
    hopper = EventEquations(Motion(wt.compile(wt.mechanisms.hopper(), massless="hold"))).compiled
    assert hopper.held == HELD_MOTIONS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "duration"),
    [
        (wt.mechanisms.hopper(), 1.2),
        (wt.mechanisms.rocking_block(), 1.0),
        (braked_crank_slider(), 1.8),
        (sleeve_on_a_pole(), 0.5),
        (wt.mechanisms.rimless_wheel(), 1.0),
    ],
    ids=["massless foot", "block", "stops and dry friction", "slips that might jam", "eight spokes"],
)
def test_machine_code_meets_the_events_of_python(model, duration, monkeypatch):
    monkeypatch.setattr(smooth_motion, "BEFORE_COMPILING", 0)
    monkeypatch.setattr(event_method, "BEFORE_COMPILING", 0)
    dyn = wt.compile(model)
    asked, by_code = [], PhaseSteps.of

    def watched(self, phase):
        asked.append(by_code(self, phase))
        return asked[-1]

    monkeypatch.setattr(PhaseSteps, "of", watched)
    fast = wt.simulate(model, duration=duration, method="events", compiled=dyn)
    assert any(found is not None for found in asked)
    monkeypatch.setattr(PhaseSteps, "of", lambda self, phase: None)
    monkeypatch.setattr(CompiledPhases, "loads", lambda self, *state: None)
    monkeypatch.setattr(CompiledPhases, "project", lambda self, *state: None)
    slow = wt.simulate(model, duration=duration, method="events", compiled=dyn)
    assert fast.attrs["event_names"] == slow.attrs["event_names"]
    assert len(fast.attrs["event_names"]) > 0
    assert fast.attrs["event_times"] == pytest.approx(slow.attrs["event_times"], abs=1e-8)
    assert np.abs(fast.q.values - slow.q.values).max() < 1e-7
    assert np.abs(fast.contact_force.values - slow.contact_force.values).max(initial=0.0) < 1e-4


def test_a_batch_of_one_state_prepares_its_code_once():
    dyn = wt.compile(wt.mechanisms.double_pendulum())
    q = np.zeros((1, 2))
    dyn.mass_matrix(q)
    first = dyn.mass_matrix._single
    dyn.mass_matrix(q)
    assert dyn.mass_matrix._single is first


def compiled_from_the_start(monkeypatch):
    monkeypatch.setattr(smooth_motion, "BEFORE_COMPILING", 0)
    monkeypatch.setattr(event_method, "BEFORE_COMPILING", 0)


def test_guards_are_watched_inside_the_kernel(monkeypatch):
    # Python looks at those steps alone in which a guard may vanish, and finds what it finds by looking at all of them
    compiled_from_the_start(monkeypatch)
    model = wt.mechanisms.hopper()
    dyn, runs, looks = wt.compile(model), {}, {}
    sampled = Guards._sample

    def counted(self, spans):
        looks[inside] += 1
        return sampled(self, spans)

    monkeypatch.setattr(Guards, "_sample", counted)
    for inside in (True, False):
        looks[inside] = 0
        monkeypatch.setattr(guards, "MOST_WATCHED", 32 if inside else 0)
        runs[inside] = wt.simulate(model, duration=1.2, method="events", compiled=dyn, rtol=1e-10)
    kernel, plain = runs[True], runs[False]
    assert kernel.attrs["event_names"] == plain.attrs["event_names"]
    assert np.abs(np.subtract(kernel.attrs["event_times"], plain.attrs["event_times"])).max() < 1e-12
    assert np.abs(kernel.q - plain.q).max() < 1e-12
    assert looks[True] <= len(kernel.attrs["event_times"]) < looks[False] < kernel.attrs["steps"]


def test_gaps_that_graze_zero_between_samples_end_a_call_of_the_kernel(monkeypatch):
    # a weight on a spring swings by 1; a stop just inside is reached for less than a sample's distance
    compiled_from_the_start(monkeypatch)
    omega, rng = 2.0, np.random.default_rng(3)
    for inside in 10.0 ** rng.uniform(-9, -3, 6):
        builder = wt.Builder("swing", (0, 0, 0)).body("weight", 1.0, inertia=(1, 1, 1))
        builder.joint("x", "prismatic", "world", "weight", stiffness=omega**2, upper=1 - inside)
        phase = rng.uniform(0.3, 5.0)
        q, v = [np.cos(phase)], [omega * np.sin(phase)]
        run = wt.simulate(builder.build(), q, v, duration=4.0, method="events", saltation=False)
        reached = (phase - np.arccos(1 - inside)) % (2 * np.pi) / omega
        assert run.attrs["event_times"][0] == pytest.approx(reached, abs=1e-7 + 1e-10 / np.sqrt(inside))


def test_accelerations_that_a_massless_foot_lacks_are_not_asked_for_in_python(monkeypatch):
    """A foot without mass has no acceleration before it touches: a run finds that out once, at its start, and does not
    let the reference look for it after every phase."""
    from whippletree.simulation.motion import Motion

    model = wt.mechanisms.hopper()
    asked = []
    by_reference = Motion._by_reference
    monkeypatch.setattr(Motion, "_by_reference", lambda self, *rest: asked.append(rest[0]) or by_reference(self, *rest))
    run = wt.simulate(model, duration=3.0, method="events")
    assert run.attrs["events"] == 12
    assert np.isnan(run.attrs["predicted_error"])
    assert run.attrs["largest_rtol"] == run.attrs["rtol_asked"]
    assert len(asked) <= 1
    wt.simulate(model, duration=3.0, method="events")
    assert len(asked) <= 1  # from the same start, the next run knows
