"""Ready-made mechanisms that touch their world, with known answers; :mod:`whippletree.mechanisms` offers them all.

The planar ones live in the x–y plane with y up, gravity (0, −9.81, 0), on a half-space ``ground`` whose surface passes
through the origin. A slope falls towards +x: positive speeds run downhill. Lengths are in m, masses in kg.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.arithmetic.arrays import Array, vector
from whippletree.errors import ModelError
from whippletree.mechanisms.linkages import PLANAR_GRAVITY, moving
from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder
from whippletree.model.contact_pairs import UPWARDS
from whippletree.spatial import rotation_about


def bouncing_ball(
    height: Any = 1.0, restitution: Any = 0.5, mass: Any = 1.0, radius: Any = 0.1, speed: Any = 0.0
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


def sliding_block(angle: float = 0.5, friction: Any = 0.3, mass: Any = 1.0, speed: Any = 0.0) -> Model:
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
    width: float = 0.2, height: float = 1.0, mass: float = 1.0, friction: Any = 1.0, tilt: float = 0.05
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
    friction: Any = 2.0, length: float = 1.0, mass: float = 1.0, angle: float = math.atan(2), speed: float = 1.0
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
    faults = [f"{word} is {value!r}, expected a number above 0" for word, value in lengths.items() if not value > 0]
    if faults:
        raise ModelError(where, faults)
