"""A hand whose two fingers press a box and lift it from the floor: held by Coulomb's law if 2 μ F ≥ m (g + a).

The normal forces of a finger's points are not unique, and with all of them at one end the box would turn between the
fingers, which is a solution as well. What can stick does.
"""

import numpy as np
import pytest
import xarray

import whippletree as wt

G, MU, LIFTED = 9.81, 0.5, 0.2


def hand(kind: str, *, floor: bool = True, **moments: float) -> wt.Model:
    """A palm that rises by a t²/2, two fingers on slides that touch a box of 1 kg: planes, or two balls in a row.

    ``floor``: whether the box stands on one; ``moments``: torsional and rolling friction of the balls.
    """
    b = wt.Builder("hand").geometry("floor", "world", "half_space", position=(0, 0, -0.025))
    b.body("palm", 1.0).joint("lift", "prismatic", "world", "palm", axis=(0, 0, 1))
    b.constraint("rises", "prescribed", "lift", motion=lambda t: LIFTED / 2 * t * t)
    b.body("box", 1.0, inertia=(4e-4, 1e-3, 1e-3)).joint("free", "free", "world", "box")
    b.geometry("box", "box", "box", size=(0.1, 0.05, 0.05))
    if floor:
        b.contact("floor", "box", "floor", friction=MU)
    for side, name in ((-1, "left"), (1, "right")):
        b.body(name, 0.1).joint(name, "prismatic", "palm", name, axis=(-side, 0, 0), position=(0.05 * side, 0, 0))
        if kind == "planes":
            towards = [[0, 0, -side], [0, 1, 0], [side, 0, 0]]
            b.geometry(name, name, "half_space", rotation=towards).contact(name, "box", name, friction=MU)
            continue
        for tip in (-1, 1):
            ball = f"{name} {tip}"
            b.geometry(ball, name, "sphere", radius=0.005, position=(0.005 * side, 0.01 * tip, 0))
            b.contact(ball, "box", ball, friction=MU, **moments)
    return b.build()


def lifted(kind: str, force: float, duration: float, moments: dict[str, float] | None = None, **options) -> np.ndarray:
    """How far the box is from where a hand that holds it has lifted it, and its turn: (7,)."""
    model = hand(kind, **(moments or {}))
    run = pressed(model, force, duration, **options)
    height = run.q.values[-1, model.q_slice("lift")][0]
    return run.q.values[-1, model.q_slice("free")] - [0, 0, height, 1, 0, 0, 0]


def pressed(model: wt.Model, force: float, duration: float, **options) -> xarray.Dataset:
    """A run with this force on each finger."""
    tau = np.zeros(model.nv)
    tau[[model.slice("left").start, model.slice("right").start]] = force
    run = wt.simulate(model, duration=duration, output_dt=duration, controller=lambda t, q, v: tau + 0 * v, **options)
    assert not run.attrs["failure"]
    return run


@pytest.mark.parametrize("kind", ["balls", "planes"])
@pytest.mark.parametrize("share", [1.001, 4.0])
def test_a_hand_lifts_what_its_friction_can_hold(kind, share):
    force = share * (G + LIFTED) / (2 * MU)
    assert np.abs(lifted(kind, force, 0.2, method="events")).max() < 1e-12


@pytest.mark.parametrize("kind", ["balls", "planes"])
@pytest.mark.parametrize("share", [2.0, 4.0])
def test_steps_lift_what_friction_can_hold(kind, share):
    """Sweeps that give all of a finger's force to the point that they visit first would turn the box between them."""
    force = share * (G + LIFTED) / (2 * MU)
    moved = lifted(kind, force, 0.3, method="time_stepping", step=1e-3)
    assert np.abs(moved[[0, 1, 3, 4, 5, 6]]).max() < 1e-6
    assert moved[2] == pytest.approx(0.0, abs=LIFTED * 0.3 * 1e-3)  # a step late at most


@pytest.mark.parametrize("moments", [{"rolling": 1e-4}, {"torsional": 1e-3}], ids=["rolling", "torsional"])
@pytest.mark.parametrize("step", [1e-3, 1e-4])
def test_steps_lift_with_moments_of_friction_too(moments, step):
    """More friction holds no worse: moments do not change which points carry."""
    moved = lifted("balls", 2.0 * (G + LIFTED) / (2 * MU), 0.2, moments, method="time_stepping", step=step)
    assert np.abs(moved[[0, 1, 3, 4, 5, 6]]).max() < 1e-6
    assert moved[2] == pytest.approx(0.0, abs=LIFTED * 0.2 * step)


@pytest.mark.parametrize("kind", ["balls", "planes"])
@pytest.mark.parametrize("share", [0.5, 0.9, 0.999])
def test_a_box_slides_straight_down_between_fingers_that_press_too_little(kind, share):
    """Friction gives each point its share of the load: the box falls by m g − 2 μ F and does not turn."""
    model, force, duration = hand(kind, floor=False), share * (G + LIFTED) / (2 * MU), 0.05
    run = pressed(model, force, duration, method="events")
    way = (2 * MU * force - G) * duration**2 / 2
    assert np.abs(run.q.values[-1, model.q_slice("free")] - [0, 0, way, 1, 0, 0, 0]).max() < 1e-12


@pytest.mark.parametrize("kind", ["balls", "planes"])
@pytest.mark.parametrize("share", [0.5, 0.9])
def test_a_box_stays_on_the_floor_while_fingers_rub_along_it(kind, share):
    model = hand(kind)
    run = pressed(model, share * G / (2 * MU), 0.05, method="events")
    assert np.abs(run.q.values[-1, model.q_slice("free")] - [0, 0, 0, 1, 0, 0, 0]).max() < 1e-12
