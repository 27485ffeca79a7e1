"""Structures that stand, slide or fall as statics says: stacks, arches, ladders, cards; rest that stays rest."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

import whippletree as wt

G = 9.81


def run(model: wt.Model, duration: float, step: float, **more):
    more.setdefault("output_dt", duration / 5)
    return wt.simulate(model, duration=duration, method="time_stepping", step=step, **more)


def sound(result, residual: float = 1e-7, overlap: float = 1e-8, cone: float = 1e-12) -> None:
    """Nothing failed, and every tolerance that is stated was met."""
    assert result.attrs["failure"] == ""
    assert result.attrs["unconverged_steps"] == 0
    assert float(result.residual_velocity.max()) <= residual
    assert float(result.penetration.max()) <= overlap
    forces = result.contact_force.values
    assert float(result.cone_violation.max()) <= cone * max(1.0, np.abs(forces).max())


# --- stacks -----------------------------------------------------------------------------------------------------------


def stack(masses: list[float], friction: float = 0.5) -> wt.Model:
    model = wt.mechanisms.box_stack(len(masses), friction=friction)
    bodies = [replace(b, mass=m, inertia=np.asarray(b.inertia) * m) for b, m in zip(model.bodies, masses, strict=True)]
    return replace(model, bodies=tuple(bodies))


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("masses", [[1.0] * 4 + [1000.0], [1.0, 1000.0] * 3, [1e-3, 1.0, 1e3]])
def test_heavy_boxes_stand_on_light_ones(masses):
    model = stack(masses)
    result = run(model, 0.1, 5e-3, tolerance=1e-9)
    sound(result, residual=1e-9)
    assert np.abs(result.v.values).max() < 1e-7
    ground = [k for k, name in enumerate(result.contact_force.attrs["names"]) if "ground" in name]
    assert result.contact_force.values[-1, ground, 0].sum() == pytest.approx(G * sum(masses), rel=1e-6)
    assert abs(float(result.energy_balance[-1])) < 1e-9 * float(result.potential_energy[0])


@pytest.mark.slow
def test_a_stack_does_not_creep_in_a_minute():
    model = stack([1.0, 2.0, 4.0])
    residual = 1e-12
    result = run(model, 60.0, 0.02, output_dt=10.0, tolerance=residual)
    sound(result, residual=residual, overlap=1e-12)
    assert np.abs(result.q.values - result.q.values[0]).max() < 60 * residual
    assert np.abs(result.v.values).max() < residual
    assert np.abs(result.energy_balance.values).max() < 1e-9


def test_what_slides_stops_exactly_and_stays():
    """A stack that is pushed slides by v² / (2 μ g), each box on the one below at rest, and then not at all."""
    model = stack([1.0, 1.0], friction=0.4)
    v = np.zeros(model.nv)
    v[[3, 9]] = 0.5  # both boxes: along x of their own axes
    result = run(model, 1.0, 1e-3, v0=v, output_dt=0.1, tolerance=1e-10)
    sound(result)
    x = result.q.values[:, [0, 7]]
    assert x[-1] == pytest.approx(np.full(2, 0.5**2 / (2 * 0.4 * G)), abs=1e-3)
    assert np.abs(result.v.values[4:]).max() < 1e-9
    assert np.abs(x[4:] - x[4]).max() < 1e-9
    lost = float(result.kinetic_energy[0])
    assert float(result.contact_work[-1]) == pytest.approx(-lost, rel=1e-6)
    assert float(result.friction_work[-1]) == pytest.approx(-lost, rel=1e-6)


# --- an arch of wedges ------------------------------------------------------------------------------------------------


def arch(count: int, thickness: float, friction: float, radius: float = 1.0, depth: float = 0.3) -> wt.Model:
    """Half a circle of equal wedges between two blocks of the world, joints along radii."""
    builder = wt.Builder(f"arch of {count}")
    for name, x in (("right", radius), ("left", -radius)):
        at, size = (x, 0, -0.1), (2 * thickness, 1.5 * depth, 0.2)
        builder.geometry(name, "world", "box", position=at, size=size)
    edges, below = np.linspace(0, math.pi, count + 1), "right"
    mass = 2000 * radius * edges[1] * thickness * depth
    for k, (start, end) in enumerate(pairwise(edges)):
        corners = np.array(
            [
                (r * math.cos(a), y, r * math.sin(a))
                for r in (radius - thickness / 2, radius + thickness / 2)
                for a in (start, end)
                for y in (-depth / 2, depth / 2)
            ]
        )
        middle = corners.mean(axis=0)
        builder.body(f"wedge {k}", mass, inertia=[mass * (depth**2 + (radius * edges[1]) ** 2) / 12] * 3)
        builder.joint(f"free {k}", "free", "world", f"wedge {k}", start=(*middle, 1, 0, 0, 0))
        builder.geometry(f"wedge {k}", f"wedge {k}", "mesh", vertices=corners - middle)
        builder.contact(f"joint {k}", f"wedge {k}", below, friction=friction)
        below = f"wedge {k}"
    return builder.contact("last joint", below, "left", friction=friction).build()


@pytest.mark.slow
def test_an_arch_of_wedges_stands():
    result = run(arch(5, 0.25, 0.7), 0.1, 5e-3)
    sound(result)
    assert np.abs(result.v.values).max() < 1e-6
    names = result.contact_force.attrs["names"]
    feet = [k for k, name in enumerate(names) if name.startswith(("joint 0", "last"))]
    weight = G * sum(float(body.mass) for body in arch(5, 0.25, 0.7).bodies)
    # the springings are level: their normal forces carry all the weight
    assert result.contact_force.values[-1, feet, 0].sum() == pytest.approx(weight, rel=1e-6)


@pytest.mark.slow(every=True)
@pytest.mark.parametrize(("thickness", "friction"), [(0.25, 0.15), (0.06, 0.7)])
def test_an_arch_that_is_slippery_or_thin_falls(thickness, friction):
    """Joints slide where μ is far below 0.3; a half circle thinner than 0.107 of its radius holds no thrust line."""
    result = run(arch(5, thickness, friction), 0.15, 5e-3)
    sound(result, overlap=1e-4)
    assert np.abs(result.v.values[-1]).max() > 0.1


# --- ladders and cards ------------------------------------------------------------------------------------------------


def ladder(angle: float, friction: float) -> wt.Model:
    """A uniform ladder of 2 m, planar, y up: its foot on rough ground, its top on a smooth wall at the right."""
    builder = wt.Builder("ladder", gravity=(0, -G, 0)).body("ladder", 10.0, inertia=(0.1, 10 * 4 / 12, 10 * 4 / 12))
    c, s = math.cos(angle), math.sin(angle)
    builder.joint("plane", "planar", "world", "ladder", start=(c, s, angle))
    up, left = [[1, 0, 0], [0, 0, 1], [0, -1, 0]], [[0, 0, -1], [1, 0, 0], [0, -1, 0]]
    builder.geometry("ground", "world", "half_space", rotation=up)
    builder.geometry("wall", "world", "half_space", position=(2 * c, 0, 0), rotation=left)
    builder.geometry("foot", "ladder", "point", position=(-1, 0, 0)).geometry(
        "top", "ladder", "point", position=(1, 0, 0)
    )
    return builder.contact("foot", "foot", "ground", friction=friction).contact("top", "top", "wall").build()


@pytest.mark.parametrize("share", [0.999, 1.001])
def test_a_ladder_stands_exactly_beyond_the_friction_that_statics_asks_for(share):
    """μ ≥ 1 / (2 tan θ)."""
    angle = 1.0
    result = run(ladder(angle, share / (2 * math.tan(angle))), 0.5, 1e-3, tolerance=1e-11)
    sound(result)
    speed = np.abs(result.v.values[-1]).max()
    assert speed < 1e-10 if share > 1 else speed > 1e-4
    if share > 1:
        (normal, tangent, _), (thrust, *_) = result.contact_force.values[-1]
        assert normal == pytest.approx(10 * G, rel=1e-8)
        assert thrust == pytest.approx(10 * G / (2 * math.tan(angle)), rel=1e-8)
        assert abs(tangent) == pytest.approx(thrust, rel=1e-8)


def cards(angle: float, friction: float, r: float, half: float) -> wt.Model:
    """Two cards that lean against each other, planar, y up; bars with round edges."""
    builder = wt.Builder("cards", gravity=(0, -G, 0))
    builder.geometry("ground", "world", "half_space", rotation=[[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    for name, side in (("left", -1), ("right", 1)):
        lean = angle if side < 0 else math.pi - angle
        x = side * (r + half * math.cos(angle))
        builder.body(name, 0.01, inertia=(1e-6, 0.01 * 0.1**2 / 12, 0.01 * 0.1**2 / 12))
        builder.joint(name, "planar", "world", name, start=(x, r + half * math.sin(angle), lean))
        builder.geometry(f"{name} foot", name, "sphere", position=(-half, 0, 0), radius=r)
        builder.geometry(f"{name} top", name, "sphere", position=(half, 0, 0), radius=r)
        builder.contact(f"{name} foot", f"{name} foot", "ground", friction=friction)
    return builder.contact("top", "left top", "right top", friction=friction).build()


@pytest.mark.parametrize("share", [0.99, 1.01])
def test_cards_lean_against_each_other_as_long_as_their_feet_hold(share):
    """The tops press each other level, at the height r + 2 l sin θ; each card's weight acts l cos θ from its foot."""
    angle, r, half = 1.1, 0.002, 0.05
    needed = half * math.cos(angle) / (r + 2 * half * math.sin(angle))
    result = run(cards(angle, share * needed, r, half), 0.2, 1e-3, tolerance=1e-10)
    sound(result)
    moved = np.abs(result.q.values[-1] - result.q.values[0]).max()
    assert moved < 1e-6 if share > 1 else moved > 1e-4
