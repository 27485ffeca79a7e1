"""Scenes of textbooks that touch their world, with public names only: rolling, leaning, falling, thrown and struck."""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad

import whippletree as wt

G = 9.81
PLANAR = (0, -G, 0)
UP = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
"""Turns z, the normal of a half-space, to y."""
RIGHT = np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]])
"""The same to x: a wall on the left."""

TENT = [(x, y, z) for x in (-0.3, 0.3) for y in (-0.2, 0.2) for z in (-0.1, 0.1)] + [(0, 0, 0.2)]
SHAPES = {
    "box": {"size": (0.5, 0.7, 0.3)},
    "cylinder": {"radius": 0.25, "length": 0.6},
    "capsule": {"radius": 0.15, "length": 0.7},
    "ellipsoid": {"radii": (0.2, 0.35, 0.5)},
    "sphere": {"radius": 0.2},
    "mesh": {"vertices": TENT},
}
"""Parameters of a shape of every kind."""


def turned(angle: float) -> np.ndarray:
    """Rotation about z."""
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def ground(name: str, slope: float = 0.0) -> wt.Builder:
    """A planar model on the half-space ``ground``, which falls towards +x."""
    return wt.Builder(name, PLANAR).geometry("ground", "world", "half_space", rotation=turned(-slope) @ UP)


def wheel(friction: float, radius: float = 0.3, mass: float = 2.0, share: float = 0.4, slope: float = 0.0, **contact):
    """A round body with the moment of inertia share · m r², at the gap ``height`` over the ground."""
    across = share * mass * radius**2
    place = (radius + contact.pop("height", 0.0)) * np.array([np.sin(slope), np.cos(slope)])
    builder = ground("wheel", slope).body("wheel", mass, inertia=(across / 2, across / 2, across))
    builder.joint("wheel", "planar", "world", "wheel", start=(*place, 0)).geometry(
        "rim", "wheel", "sphere", radius=radius
    )
    return builder.contact("rim", "rim", "ground", friction=friction, **contact).build()


def ball_on(builder: wt.Builder, friction: float, place, radius: float = 0.1, mass: float = 1.0) -> wt.Model:
    """A solid ball that moves in space or, if ``place`` has two numbers, in the plane, on the geometry ``table``."""
    inertia = 0.4 * mass * radius**2
    kind, start = ("planar", (*place, 0)) if len(place) == 2 else ("free", (*place, 1, 0, 0, 0))
    builder.body("ball", mass, inertia=(inertia,) * 3).joint("ball", kind, "world", "ball", start=start)
    builder.geometry("sphere", "ball", "sphere", radius=radius)
    return builder.contact("ball", "sphere", "table", friction=friction).build()


def rod(angle: float, friction: float = 0.0, length: float = 1.4, mass: float = 0.7) -> wt.Model:
    """A uniform rod that stands on its lower end at an angle from the ground."""
    across = mass * length**2 / 12
    builder = ground("rod").body("rod", mass, inertia=(0, across, across))
    place = (length / 2 * np.cos(angle), length / 2 * np.sin(angle), angle)
    builder.joint("rod", "planar", "world", "rod", start=place)
    for name, x in (("foot", -length / 2), ("head", length / 2)):
        builder.geometry(name, "rod", "point", position=(x, 0, 0)).contact(name, name, "ground", friction=friction)
    return builder.build()


def ladder(angle: float, on_floor: float = 0.0, on_wall: float = 0.0, length: float = 2.0, mass: float = 3.0):
    """A uniform ladder on the floor and against a wall on the left, with friction at both ends."""
    across = mass * length**2 / 12
    builder = ground("ladder").geometry("wall", "world", "half_space", rotation=RIGHT)
    builder.body("ladder", mass, inertia=(0, across, across))
    place = (length / 2 * np.cos(angle), length / 2 * np.sin(angle), np.pi - angle)
    builder.joint("ladder", "planar", "world", "ladder", start=place)
    for name, x, partner, friction in (
        ("foot", -length / 2, "ground", on_floor),
        ("head", length / 2, "wall", on_wall),
    ):
        builder.geometry(name, "ladder", "point", position=(x, 0, 0)).contact(name, name, partner, friction=friction)
    return builder.build()


def slider(friction: float, mass: float = 2.0, **spring) -> wt.Model:
    """A block that does not turn on flat ground, joints ``x`` and ``y``, with a spring along x."""
    builder = ground("slider").body("carriage").body("block", mass)
    builder.joint("x", "prismatic", "world", "carriage", axis=(1, 0, 0), **spring)
    builder.joint("y", "prismatic", "carriage", "block", axis=(0, 1, 0))
    return builder.geometry("base", "block", "point").contact("base", "base", "ground", friction=friction).build()


def shaken(motion, restitution: float = 0.0) -> wt.Model:
    """A point mass over a table that moves up and down, joints ``table`` and ``mass``."""
    builder = wt.Builder("shaken", PLANAR).body("table", 1.0).body("mass", 1.0)
    builder.joint("table", "prismatic", "world", "table", axis=(0, 1, 0)).geometry(
        "top", "table", "half_space", rotation=UP
    )
    builder.joint("mass", "prismatic", "world", "mass", axis=(0, 1, 0)).geometry("point", "mass", "point")
    builder.contact("on table", "point", "top", restitution=restitution)
    return builder.constraint("drive", "prescribed", "table", motion=motion).build()


def dumbbell(angle: float, height: float = 2.0, restitution: float = 0.9) -> wt.Model:
    """Two balls of 1 kg and 0.1 m radius, 1 m apart, whose middle falls from a height; k² = 0.25 m²."""
    builder = ground("dumbbell").body("bar", 2.0, inertia=(0.25, 0.25, 0.5))
    builder.joint("bar", "planar", "world", "bar", start=(0, height, angle))
    for name, x in (("left", -0.5), ("right", 0.5)):
        builder.geometry(name, "bar", "sphere", position=(x, 0, 0), radius=0.1)
        builder.contact(name, name, "ground", restitution=restitution)
    return builder.build()


def row_of_balls(masses, radius: float = 0.05, gap: float = 0.0) -> wt.Model:
    """Elastic balls on a line, each touching the next, or a gap from it."""
    builder = wt.Builder("row of balls", (0, 0, 0))
    for k, mass in enumerate(masses):
        builder.body(f"ball {k}", mass).joint(
            f"x{k}", "prismatic", "world", f"ball {k}", axis=(1, 0, 0), start=k * (2 * radius + gap)
        )
        builder.geometry(f"ball {k}", f"ball {k}", "sphere", radius=radius)
        if k:
            builder.contact(f"{k - 1} on {k}", f"ball {k - 1}", f"ball {k}", restitution=1.0)
    return builder.build()


def sling(length: float = 1.0) -> wt.Model:
    """A bob on a string, in polar coordinates: ``turn`` of a massless arm, and ``string`` up to its length."""
    builder = wt.Builder("sling", PLANAR).body("arm").body("bob", 1.0)
    builder.joint("turn", "revolute", "world", "arm", axis=(0, 0, 1), start=-np.pi / 2)
    return builder.joint(
        "string", "prismatic", "arm", "bob", axis=(1, 0, 0), start=length, lower=0.01, upper=length
    ).build()


def kneed_leg() -> wt.Model:
    """A thigh and a shank whose knee does not bend forwards."""
    builder = wt.Builder("kneed leg", PLANAR).body("thigh", 2.0, (0.2, 0, 0), (0, 0.03, 0.03))
    builder.body("shank", 1.0, (0.25, 0, 0), (0, 0.02, 0.02))
    builder.joint("hip", "revolute", "world", "thigh", axis=(0, 0, 1), start=-2.0)
    builder.joint("knee", "revolute", "thigh", "shank", position=(0.4, 0, 0), axis=(0, 0, 1), start=-1.0, upper=0.0)
    return builder.build()


def run_of(model, v0=None, q0=None, duration=1.0, **options):
    """A run from event to event at the tightest tolerances."""
    run = wt.simulate(
        model, q0, v0, duration=duration, method="events", rtol=1e-12, atol=1e-13, saltation=False, **options
    )
    assert run.attrs["failure"] == ""
    return run


def times(run, *kinds):
    """When events happened, of some kinds or of all."""
    told = zip(run.attrs["event_names"], run.attrs["event_times"], strict=True)
    return [time for name, time in told if not kinds or name.startswith(kinds)]


def after_rest(rate_squared, start, end):
    """∫ dx / √(rate²) from a state of rest, where the integrand has a root in its denominator."""
    sign = np.sign(end - start)
    found = quad(
        lambda s: 2 * s / np.sqrt(rate_squared(start + sign * s * s)), 0, np.sqrt(abs(end - start)), epsabs=1e-13
    )
    return found[0]


def agree(problem):
    """Compare what a problem, a generator of (what, found, expected), has found with what it expects."""
    for what, found, expected in problem():
        assert np.shape(found) == np.shape(expected), what
        assert np.allclose(found, expected, rtol=0, atol=1e-9), what
