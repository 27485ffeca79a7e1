"""Random planar scenes by events: whatever they do, energy does not grow, nothing overlaps, and the run ends."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import whippletree as wt
from contact_scenes import PLANAR, RIGHT, ground, ladder, run_of, times

LEFT = RIGHT * [[-1, 1, -1], [1, 1, 1], [-1, 1, -1]]
"""Turns z to −x: a wall on the right."""


def discs(builder: wt.Builder, rng: np.random.Generator) -> list[tuple[str, str]]:
    """One to three discs, and the pairs of them."""
    names = [f"disc {k}" for k in range(rng.integers(1, 4))]
    for k, name in enumerate(names):
        mass, radius = 10 ** rng.uniform(-1, 1), rng.uniform(0.1, 0.25)
        builder.body(name, mass, inertia=(mass * radius**2 / 2,) * 3).geometry(name, name, "sphere", radius=radius)
        builder.joint(name, "planar", "world", name, start=(0.9 * k - 1, 1.2, 0))
    return [(a, b) for k, a in enumerate(names) for b in names[:k]]


def boxes(builder: wt.Builder, rng: np.random.Generator) -> list[tuple[str, str]]:
    """One to three rectangles, by their corners."""
    for k in range(rng.integers(1, 4)):
        name, mass, (w, h) = f"box {k}", 10 ** rng.uniform(-1, 1), rng.uniform(0.1, 0.5, 2)
        builder.body(name, mass, inertia=(mass * (w * w + h * h) / 12,) * 3)
        builder.joint(name, "planar", "world", name, start=(0.9 * k - 1, 1.2, rng.uniform(-1, 1)))
        for x in (-w / 2, w / 2):
            for y in (-h / 2, h / 2):
                builder.geometry(f"{name} at {x:.2f} {y:.2f}", name, "point", position=(x, y, 0))
    return []


def chain(builder: wt.Builder, rng: np.random.Generator) -> list[tuple[str, str]]:
    """Two or three rods of 0.4 m whose joints have stops; both rods touch where they are joined."""
    for k in range(rng.integers(2, 4)):
        name, mass = f"rod {k}", 10 ** rng.uniform(-1, 1)
        builder.body(name, mass, (0, 0.2, 0), (mass * 0.16 / 12,) * 3)
        if k == 0:
            builder.joint(name, "planar", "world", name, start=(0, 0.8, rng.uniform(-1, 1)))
        else:
            at, angle = (0, 0.4, 0), rng.uniform(-0.4, 0.4)
            builder.joint(name, "revolute", f"rod {k - 1}", name, position=at, start=angle, lower=-0.5, upper=0.5)
        for end, y in (("foot", 0), ("head", 0.4)):
            builder.geometry(f"{name} {end}", name, "point", position=(0, y, 0))
    return []


def scene(kind, seed: int) -> tuple[wt.Model, np.ndarray]:
    """Bodies between two walls, on level or sloping ground, and random velocities."""
    rng = np.random.default_rng(seed)
    builder = ground(f"random {kind.__name__}", slope=float(rng.choice([0, 0, 0.1, 0.3])))
    builder.geometry("left", "world", "half_space", position=(-2, 0, 0), rotation=RIGHT)
    builder.geometry("right", "world", "half_space", position=(2, 0, 0), rotation=LEFT)
    pairs = kind(builder, rng)
    shapes = [g.name for g in builder.build().geometries if g.body != "world"]
    pairs += [(shape, place) for shape in shapes for place in ("ground", "left", "right")]
    friction, restitution = float(rng.choice([0, 0.2, 0.5, 1.0])), float(rng.choice([0, 0.3, 0.7]))
    for one, other in pairs:
        builder.contact(f"{one} on {other}", one, other, friction=friction, restitution=restitution)
    model = builder.build()
    return model, 1.5 * rng.normal(size=model.nv)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", [discs, boxes, chain])
def test_energy_does_not_grow_and_nothing_overlaps(kind, seed):
    model, v0 = scene(kind, seed)
    run = wt.simulate(model, v0=v0, duration=0.8, method="events", saltation=False)
    assert run.attrs["failure"] == ""
    energy = (run.kinetic_energy + run.potential_energy).values
    assert np.diff(energy).max() < 1e-7
    assert run.contact_gap.values.min() > -1e-9
    for joint in model.joints:
        assert np.all(run.q[:, model.q_slice(joint.name)] >= joint.lower - 1e-12)
        assert np.all(run.q[:, model.q_slice(joint.name)] <= joint.upper + 1e-12)


def test_a_ladder_that_was_pushed_up_its_wall_comes_back():
    """Two slips stop at one instant, and both reverse.

    On the way up friction pulls the foot outwards and the head down. With the loads N of the floor and W of the wall,
    c = cos θ / 2 and s = sin θ / 2 (m = L = 1): W + μ N = −s θ̈ − c θ̇², N − g − ν W = c θ̈ − s θ̇², and about the centre
    −θ̈ / 12 = (c + μ s) N − (s − ν c) W.
    """
    mu, nu, g = 0.2, 0.1, -PLANAR[1]

    def up(t, y):
        c, s = np.cos(y[0]) / 2, np.sin(y[0]) / 2
        unknowns = [[s, mu, 1], [-c, 1, -nu], [1 / 12, c + mu * s, nu * c - s]]
        return [y[1], np.linalg.solve(unknowns, [-c * y[1] ** 2, g - s * y[1] ** 2, 0])[0]]

    def stops(t, y):
        return y[1]

    found = solve_ivp(up, (0, 0.5), [1.0, 1.5], method="DOP853", rtol=1e-13, atol=1e-14, events=stops)
    run = run_of(
        ladder(1.0, mu, nu, length=1.0, mass=1.0),
        v0=1.5 * np.array([-np.sin(1.0) / 2, np.cos(1.0) / 2, -1]),
        duration=0.4,
    )
    assert run.attrs["event_names"] == ["reversal foot", "reversal head"]
    assert times(run) == pytest.approx([found.t_events[0][0]] * 2, abs=1e-9)
    assert np.diff((run.kinetic_energy + run.potential_energy).values).max() < 1e-12
