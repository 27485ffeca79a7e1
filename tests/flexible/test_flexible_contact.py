"""Flexible bodies that land, bounce and stop: by events and by time steps, which must agree in the limit."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.motion import Motion
from whippletree.simulation.time_stepping.impulse_step import ImpulseStep

UPWARDS = np.array([[1.0, 0, 0], [0, 0, 1], [0, -1, 0]])
"""Turns the normal of a half-space to y."""


def landing(*, restitution=0.0, friction=0.0, damping=0.05, base="revolute", floor=True, **hinge):
    """A beam on a hinge, or afloat, with a ball welded to its tip that falls on a floor 0.25 m below."""
    beam = wt.flexible.beam(
        length=1.0, bending_stiffness=40.0, mass_per_length=0.5, modes=2, ends="clamped-interface",
        damping_ratio=damping,
    )  # fmt: skip
    builder = wt.Builder("landing", (0, -9.81, 0)).flexible_body("beam", beam)
    builder.body("foot", 0.1, inertia=(1e-4, 1e-4, 1e-4)).joint("ankle", "weld", "beam/tip", "foot")
    builder.joint("hinge", base, "world", "beam", position=(0, 0.3, 0), **hinge)
    builder.geometry("ball", "foot", "sphere", radius=0.05)
    if floor:
        builder.geometry("floor", "world", "half_space", rotation=UPWARDS)
        builder.contact("land", "ball", "floor", friction=friction, restitution=restitution)
    return builder.build()


def end(model, duration, **options):
    run = wt.simulate(model, duration=duration, **options)
    return run.q.values[-1], run


CASES = {
    "plastic": (landing(damping=0.0), 0.21, {}),
    "bouncing with friction": (landing(restitution=0.5, friction=0.3), 0.205, {"impact_law": "newton"}),
    "stop": (landing(floor=False, lower=-0.1), 0.13, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_steps_converge_to_events(case):
    model, duration, options = CASES[case]
    expected, run = end(model, duration, method="events", **options)
    assert run.attrs["event_names"]
    assert np.abs(expected[1:]).max() > 1e-3  # it is bent by then
    errors = [np.abs(end(model, duration, method="time_stepping", step=h)[0] - expected).max() for h in (1e-3, 2.5e-4)]
    assert errors[1] < 1.5e-3
    assert errors[1] < errors[0] / 2.5  # first order: a quarter, as far as the impact falls into steps alike


def test_elastic_impacts_keep_the_energy():
    model = landing(restitution=1.0, damping=0.0)
    _, run = end(model, 0.35, method="events")
    energy = (run.kinetic_energy + run.potential_energy).values
    assert run.attrs["event_names"].count("touchdown land") >= 2
    assert np.ptp(energy) < 1e-7 * np.ptp(run.kinetic_energy.values)
    assert np.ptp(run.q.values[:, 1]) > 1e-2


def test_a_plastic_landing_loses_what_the_closing_velocity_carries():
    """½ u² / (J M⁻¹ Jᵀ), the modes being part of M; and steps account for every joule."""
    model = landing(damping=0.0)
    dyn = wt.compile(model)
    _, run = end(model, 0.199, method="events")
    energy = (run.kinetic_energy + run.potential_energy).values
    at = float(run.attrs["event_times"][0])
    fall = wt.simulate(landing(damping=0.0, floor=False), duration=at)
    q, v = fall.q.values[-1], fall.v.values[-1]
    J = dyn.contact_jacobian(q)[0]
    loss = (J @ v) ** 2 / (J @ np.linalg.solve(dyn.mass_matrix(q), J)) / 2
    assert abs(energy[0] - energy[-1] - loss) < 1e-6 * loss
    defects = []
    for h in (2e-4, 1e-4):
        _, stepped = end(model, 0.25, method="time_stepping", step=h)
        total = (stepped.kinetic_energy + stepped.potential_energy).values
        accounted = stepped.contact_work + stepped.joint_work + stepped.correction_work
        defects.append(abs(total[-1] - total[0] - accounted.values[-1]))
    assert defects[1] < 0.6 * defects[0] < 0.02 * loss


def test_impulses_are_the_change_of_momentum():
    """Afloat, nothing but gravity and the floor changes the momentum: h m g and the impulse, up to the step's error."""
    model = landing(friction=0.3, base="free")
    dyn = wt.compile(model)
    q, v = model.home.q, np.zeros(model.nv)
    v[2] = -3.0  # it turns, and hits the floor with its tip
    errors = []
    for h in (1e-3, 2.5e-4):
        x, u, given = q, v, np.zeros(3)
        for _ in range(round(0.12 / h)):
            x, u, _, impulses, *_ = dyn.step(x, u, dt=h)
            given = given + UPWARDS @ [*impulses[0, 1:], impulses[0, 0]]
        change = (dyn.momentum(x, u) - dyn.momentum(q, v))[3:]
        assert np.linalg.norm(given) > 0.1
        errors.append(np.abs(change - given - 0.12 * 0.6 * np.array([0, -9.81, 0])).max())
    assert errors[1] < 0.4 * errors[0] < 0.002


def test_steps_that_do_not_resolve_the_modes_settle():
    """At 20 ms every mode is beyond the step, and the beam hangs as it does in the limit of slow loads."""
    beam = wt.flexible.beam(length=1.0, bending_stiffness=400.0, mass_per_length=0.5, modes=2)
    model = wt.Builder("hanging", (0, -9.81, 0)).flexible_body("beam", beam).joint("w", "weld", "world", "beam").build()
    dyn, q, v = wt.compile(model), model.home.q, np.zeros(2)
    for _ in range(200):
        q, v, *_ = dyn.step(q, v, dt=0.02)
    sag = np.linalg.solve(beam.stiffness, -9.81 * beam.integrals.shapes[:, 1])
    np.testing.assert_allclose(q, sag, rtol=1e-6)


def test_all_kernels_take_one_step():
    """Rows by screws of each frame (the kernel over lists), by Jacobians (roll-outs), and in Python."""
    model = landing(friction=0.3)
    dyn, start = (
        wt.compile(model),
        wt.simulate(landing(friction=0.3), duration=0.198, method="time_stepping", step=2e-3),
    )
    q, v, h = start.q.values[-1], start.v.values[-1], 2e-3
    for _ in range(3):
        one = dyn.step(q, v, dt=h)
        rolled = dyn.contact_rollout(
            np.stack([q, model.home.q]), np.stack([v, 0 * v]), np.zeros((2, 1, 3)), h, sweeps=60
        )
        np.testing.assert_allclose(one.v, rolled.v[0, 0], atol=1e-12)
        np.testing.assert_allclose(one.impulses, rolled.impulses[0, 0], atol=1e-13)
        alone = dyn.contact_rollout(q, v, np.zeros((1, 3)), h, sweeps=60)
        assert np.array_equal(alone.q[0], rolled.q[0, 0])
        python = ImpulseStep(Motion(dyn), 1e-10).step(0.0, np.concatenate([q, v]), np.zeros((1, 3)), np.zeros(3), h)
        np.testing.assert_allclose(python.state[3:], one.v, atol=1e-11)
        q, v = one.q, one.v
    assert one.impulses[0, 0] > 0


def test_contacts_between_frames_of_one_body_are_stepped_in_python():
    beam = wt.flexible.beam(length=1.0, bending_stiffness=4.0, mass_per_length=0.5, modes=1, ends="free-free")
    builder = wt.Builder("own touch", (0, 0, 0)).flexible_body("beam", beam, start=[-0.02])
    builder.joint("free", "free", "world", "beam").body("arm", 0.01, inertia=(1e-5,) * 3)
    builder.joint("arm", "weld", "beam/root", "arm")
    builder.geometry("near", "arm", "sphere", position=(0.85, 0.19, 0), radius=0.1)
    builder.geometry("far", "beam/tip", "sphere", radius=0.1).contact("touch", "near", "far")
    model = builder.build()
    gaps = wt.compile(model).contact_gaps
    run = wt.simulate(model, duration=0.3, method="time_stepping", step=1e-3)
    assert "between two frames of one flexible body" in run.attrs["path"]
    found = gaps(run.q.values)
    assert found[0] > 1e-3
    assert -1e-4 < found.min() < 1e-6
