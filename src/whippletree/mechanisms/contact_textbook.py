"""Ready-made mechanisms that touch their world, with known answers; :mod:`whippletree.mechanisms` offers them all.

The planar ones live in the x–y plane with y up, gravity (0, −9.81, 0), on a half-space ``ground`` whose surface passes
through the origin. A slope falls towards +x: positive speeds run downhill. Lengths are in m, masses in kg.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.errors import ModelError
from whippletree.mechanisms.linkages import moving
from whippletree.mechanisms.trees import PLANAR_GRAVITY, require_count
from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder
from whippletree.model.contact_pairs import UPWARDS
from whippletree.model.input_checks import is_text
from whippletree.spatial import rotation_about


def bouncing_ball(
    height: Any = 1.0, *, restitution: Any = 0.5, mass: Any = 1.0, radius: Any = 0.1, speed: Any = 0.0
) -> Model:
    """A ball that falls onto flat ground and bounces, without turning: joint ``fall`` is the gap below it.

    Starts at the gap ``height`` with the upward ``speed``. Dropped from rest, the n-th bounce ends at
    √(2h/g) (1 + 2e + … + 2eⁿ), and all bouncing at the Zeno time √(2h/g) (1 + e)/(1 − e).
    """
    _positive("bouncing_ball", radius=radius)
    inertia = 2 * mass * radius * radius / 5
    builder = flat_ground(Builder("bouncing ball", PLANAR_GRAVITY))
    builder.body("ball", mass, inertia=(inertia, inertia, inertia))
    builder.joint("fall", "prismatic", WORLD, "ball", position=(0, radius, 0), axis=(0, 1, 0), start=height)
    builder.geometry("sphere", "ball", "sphere", radius=radius)
    builder.contact("bounce", "sphere", "ground", restitution=restitution)
    return moving(builder.build(), {"fall": speed})


def sliding_block(angle: float = 0.5, *, friction: Any = 0.3, mass: Any = 1.0, speed: Any = 0.0) -> Model:
    """A block on an incline that does not turn: joint ``slide`` runs downhill, ``lift`` off the incline, from 0.

    From rest it stays where it is for friction ≥ tan(angle); else it slides with g (sin angle − friction cos angle).
    """
    builder = flat_ground(Builder("block on an incline", PLANAR_GRAVITY), slope=angle)
    builder.body("carriage").body("block", mass)
    builder.joint("slide", "prismatic", WORLD, "carriage", rotation=about_z(-angle), axis=(1, 0, 0), start=0.0)
    builder.joint("lift", "prismatic", "carriage", "block", axis=(0, 1, 0))
    builder.geometry("base", "block", "point")
    builder.contact("base on ground", "base", "ground", friction=friction)
    return moving(builder.build(), {"slide": speed})


def rocking_block(
    width: float = 0.2, *, height: float = 1.0, mass: float = 1.0, friction: Any = 1.0, tilt: float = 0.05
) -> Model:
    """Housner's block: a uniform rectangle that rocks from corner to corner of its base on flat ground.

    Joint ``base`` (planar) holds the middle of the base and the tilt; corners ``left`` and ``right``. Starts at rest,
    turned by ``tilt`` about the left corner (about the right one if negative). With α = atan(width / height) and a
    plastic impact that releases the old corner: ω⁺ = (1 − 3/2 sin² α) ω⁻. While it turns about a corner,
    4/3 m R² θ̈ = −m g R sin(α − abs θ) sign θ with R half the diagonal. The friction holds the corners in place.
    """
    _positive("rocking_block", width=width, height=height)
    inertia = mass * (width * width + height * height) / 12
    pivot = -math.copysign(width / 2, tilt)
    start = (pivot - pivot * math.cos(tilt), -pivot * math.sin(tilt), tilt)
    builder = flat_ground(Builder("rocking block", PLANAR_GRAVITY))
    builder.body("block", mass, (0, height / 2, 0), (mass * height * height / 12, mass * width * width / 12, inertia))
    builder.joint("base", "planar", WORLD, "block", start=start)
    for name, x in (("left", -width / 2), ("right", width / 2)):
        builder.geometry(name, "block", "point", position=(x, 0, 0))
        builder.contact(f"{name} corner", name, "ground", friction=friction)
    return builder.build()


def painleve_rod(
    friction: Any = 2.0, *, length: float = 1.0, mass: float = 1.0, angle: float = math.atan(2), speed: float = 1.0
) -> Model:
    """Painlevé's sliding rod: uniform, its lower end on the ground, sliding towards +x with the rod trailing behind.

    Joint ``rod`` (planar) holds the centre and the turn. Starts with the lower ``tip`` at the origin, the rod rising
    backwards at ``angle`` from the ground, moving at ``speed`` without turning. While the tip slides forwards, a normal
    force N accelerates it upwards by N/m (1 + 3 cos θ (cos θ − μ sin θ)): negative, so that no force is consistent, for
    μ > (1 + 3 cos² θ) / (3 sin θ cos θ), which is least, 4/3, at tan θ = 2.
    """
    _positive("painleve_rod", length=length)
    across = mass * length * length / 12
    lean = math.pi - angle
    center = (length / 2 * math.cos(lean), length / 2 * math.sin(lean))
    builder = flat_ground(Builder("Painlevé rod", PLANAR_GRAVITY))
    builder.body("rod", mass, inertia=(0, across, across))
    builder.joint("rod", "planar", WORLD, "rod", start=(*center, lean))
    for name, x in (("tip", -length / 2), ("top", length / 2)):
        builder.geometry(name, "rod", "point", position=(x, 0, 0))
        builder.contact(f"{name} on ground", name, "ground", friction=friction)
    return moving(builder.build(), {"rod": (speed, 0.0, 0.0)})


def flat_ground(builder: Builder, slope: float = 0.0) -> Builder:
    """Add the half-space ``ground`` through the origin, falling towards +x by the angle ``slope``."""
    turn = UPWARDS if slope == 0 else about_z(-slope) @ UPWARDS
    return builder.geometry("ground", WORLD, "half_space", rotation=turn)


def about_z(angle: float) -> Array:
    """The rotation (3, 3) about z."""
    return rotation_about(vector(0, 0, 1), math.sin(angle), math.cos(angle)).astype(float)


def _positive(where: str, **lengths: Any) -> None:
    wrong = {word: value for word, value in lengths.items() if is_text(value) or not value > 0}
    faults = [f"{word} is {value!r}, expected a number above 0" for word, value in wrong.items()]
    if faults:
        raise ModelError(where, faults)


# --- many bodies that touch each other --------------------------------------------------------------------------------


def newtons_cradle(
    n: int = 3,
    *,
    restitution: Any = 1.0,
    speed: float = 1.0,
    mass: Any = 1.0,
    radius: float = 0.125,
    gap: float = 0.125,
) -> Model:
    """n equal balls in line along x, all touching but the first, which comes from the left at ``speed``.

    Joints ``ball_1`` … ``ball_n`` slide along x, as pendulums do at their lowest point. Newton's law at all contacts at
    once, with restitution 1, sends three balls off at (−1/3, 2/3, 2/3) of the speed; a sequential law at (0, 0, 1).
    """
    require_count("newtons_cradle", n, 2)
    inertia = 2 * mass * radius * radius / 5
    builder = Builder(f"cradle of {n} balls", PLANAR_GRAVITY)
    for k in range(1, n + 1):
        builder.body(f"ball {k}", mass, inertia=(inertia, inertia, inertia))
        at = (2 * radius * (k - 1), 0, 0)
        builder.joint(
            f"ball_{k}", "prismatic", WORLD, f"ball {k}", position=at, axis=(1, 0, 0), start=-gap if k == 1 else 0.0
        )
        builder.geometry(f"ball {k}", f"ball {k}", "sphere", radius=radius)
        if k > 1:
            builder.contact(f"{k - 1} on {k}", f"ball {k - 1}", f"ball {k}", restitution=restitution)
    return moving(builder.build(), {"ball_1": speed})


def box_stack(
    n: int = 10, *, size: tuple[float, float, float] = (0.5, 0.5, 0.25), mass: Any = 1.0, friction: Any = 0.5
) -> Model:
    """n equal boxes one on top of the other, z up, each on a free joint ``box_1`` … from the ground upwards.

    The four lower corners of a box rest on the ground or on the top of the box below; a top counts as an unbounded
    plane, which is exact as long as the corners above stay over it. At rest, the corners of box k carry
    (n − k + 1) m g together; how they share it is not determined (hyperstatic).
    """
    require_count("box_stack", n, 1)
    x, y, z = size
    inertia = [mass * (a * a + b * b) / 12 for a, b in ((y, z), (x, z), (x, y))]
    builder = Builder(f"stack of {n} boxes").geometry("ground", WORLD, "half_space")
    for k in range(1, n + 1):
        box = f"box {k}"
        builder.body(box, mass, inertia=inertia)
        builder.joint(f"box_{k}", "free", WORLD, box, start=(0.0, 0.0, (k - 0.5) * z, 1.0, 0.0, 0.0, 0.0))
        builder.geometry(f"{box} shape", box, "box", size=size, collides=False)
        builder.geometry(f"{box} top", box, "half_space", position=(0, 0, z / 2), visible=False)
        below = "ground" if k == 1 else f"box {k - 1} top"
        for i, (sx, sy) in enumerate(((1, 1), (-1, 1), (-1, -1), (1, -1)), start=1):
            corner = f"{box} corner {i}"
            builder.geometry(corner, box, "point", position=(sx * x / 2, sy * y / 2, -z / 2), visible=False)
            builder.contact(f"{corner} on {below}", corner, below, friction=friction)
    return builder.build()


def spheres_in_box(
    n: int = 100,
    *,
    radius: float = 0.05,
    width: float = 0.6,
    friction: Any = 0.3,
    restitution: Any = 0.0,
    seed: int = 0,
) -> Model:
    """n equal balls of 0.1 kg above the floor of a square box of that width with open top, z up, ready to fall.

    Each has a free joint ``ball_1`` …; they start apart from each other, in layers, moved a little at random (the same
    for the same ``seed``). All are one group of contacts: every pair of balls may touch, and every ball the floor and
    the four walls.
    """
    require_count("spheres_in_box", n, 1)
    places = _layers(n, radius, width, np.random.default_rng(seed))
    mass = 0.1
    inertia = 2 * mass * radius * radius / 5
    builder = Builder(f"{n} balls in a box").geometry("floor", WORLD, "half_space")
    for k, (x, y) in enumerate(((1, 0), (0, 1), (-1, 0), (0, -1)), start=1):
        # the wall's normal points inwards: z of its frame
        inwards = np.array([[0, y, -x], [0, -x, -y], [-1, 0, 0]])
        at = (x * width / 2, y * width / 2, 0)
        builder.geometry(f"wall {k}", WORLD, "half_space", position=at, rotation=inwards)
    for k, place in enumerate(places, start=1):
        builder.body(f"ball {k}", mass, inertia=(inertia, inertia, inertia))
        builder.joint(f"ball_{k}", "free", WORLD, f"ball {k}", start=(*place, 1.0, 0.0, 0.0, 0.0))
        builder.geometry(f"ball {k}", f"ball {k}", "sphere", radius=radius)
    balls = [f"ball {k}" for k in range(1, n + 1)]
    walls = ["floor", *[f"wall {k}" for k in range(1, 5)]]
    builder.contact_group("all", [*balls, *walls], friction=friction, restitution=restitution)
    return builder.build()


def _layers(n: int, radius: float, width: float, random: np.random.Generator) -> list[tuple[float, ...]]:
    """Centres of balls in square layers, a tenth of a radius or more apart."""
    pitch = 2.4 * radius
    if not 0 < pitch <= width:
        raise ModelError("spheres_in_box", [f"balls of radius {radius} do not fit a box of width {width}"])
    count = int(width / pitch)
    edge = (count - 1) * pitch / 2
    places = []
    for k in range(n):
        layer, rest = divmod(k, count * count)
        row, column = divmod(rest, count)
        grid = np.array([column * pitch - edge, row * pitch - edge, 1.2 * radius + layer * pitch])
        places.append(tuple(float(x) for x in grid + random.uniform(-0.1, 0.1, 3) * radius))
    return places
