"""Ready-made closed mechanisms in space, and rolling ones: Stewart platform, delta robot, disc, sleigh.

Gravity is (0, 0, −9.81). Every one starts assembled, in closed form.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError
from whippletree.mechanisms.linkages import moving
from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder


def stewart_platform(
    base_radius: float = 1.0,
    platform_radius: float = 0.6,
    height: float = 1.2,
    platform_mass: Any = 10.0,
    leg_mass: Any = 0.5,
    spread: float = 0.25,
) -> Model:
    """A hexapod: six legs, each a universal joint, a slide (``leg_k``, its length) and a ball at the platform;
    mobility 6.

    Args:
        base_radius, platform_radius, height: of the start configuration, platform level.
        platform_mass: a uniform disc.
        leg_mass: of each half of a leg, a rod of half the leg's length; may be 0.
        spread: half the angle between the legs of a pair, rad.
    """
    builder = Builder("Stewart platform")
    flat = platform_mass * platform_radius**2 / 4
    builder.body("platform", platform_mass, inertia=(flat, flat, 2 * flat))
    builder.joint("platform", "free", WORLD, "platform", start=(0, 0, height, 1, 0, 0, 0))
    for k in range(6):
        pair = math.pi / 3 * (k // 2 * 2)
        side = 1 if k % 2 else -1
        foot = _ring(base_radius, pair + side * spread, 0.0)
        # the legs of a pair lean apart: their upper ends belong to neighbouring corners
        head = _ring(platform_radius, pair + side * (math.pi / 3 - spread), height)
        way = head - foot
        length = float(np.linalg.norm(way))
        x, y, z = way / length
        across = leg_mass * (length / 2) ** 2 / 12
        for part, at in (("lower", length / 4), ("upper", -length / 4)):
            builder.body(f"{part} leg {k}", leg_mass, (0, 0, at), (across, across, 0))
        builder.joint(
            f"foot_{k}", "universal", WORLD, f"lower leg {k}", position=foot, axis=(1, 0, 0), second_axis=(0, 1, 0),
            start=(math.atan2(-y, z), math.asin(x)),
        )  # fmt: skip
        builder.joint(f"leg_{k}", "prismatic", f"lower leg {k}", f"upper leg {k}", axis=(0, 0, 1), start=length)
        builder.frame(f"corner {k}", "platform", position=head - np.array([0, 0, height]))
        builder.constraint(f"ball_{k}", "point", f"corner {k}", f"upper leg {k}")
    return builder.build()


def delta_robot(
    base_radius: float = 0.2,
    platform_radius: float = 0.05,
    arm: float = 0.3,
    forearm: float = 0.7,
    angle: float = 0.4,
    platform_mass: Any = 0.5,
    arm_mass: Any = 0.4,
) -> Model:
    """A delta robot: three arms (joints ``arm_0`` …, down from level) and three pairs of massless forearms; mobility 3.

    A forearm is a ``distance``: nothing is left of it but its length, and its force can be read. The platform (frame
    and joint ``platform``) keeps level.
    """
    wide = base_radius + arm * math.cos(angle) - platform_radius
    if not abs(wide) < forearm:
        raise ModelError("delta_robot", [f"forearms of {forearm} m do not reach the platform from {wide:.6g} m"])
    depth = arm * math.sin(angle) + math.sqrt(forearm**2 - wide**2)
    builder = Builder("delta robot")
    flat = platform_mass * platform_radius**2 / 4
    across = arm_mass * arm**2 / 12
    builder.body("platform", platform_mass, inertia=(flat, flat, 2 * flat))
    builder.joint("platform", "free", WORLD, "platform", start=(0, 0, -depth, 1, 0, 0, 0))
    for k in range(3):
        turn = 2 * math.pi / 3 * k
        R = np.array([[math.cos(turn), -math.sin(turn), 0], [math.sin(turn), math.cos(turn), 0], [0, 0, 1]])
        builder.body(f"arm {k}", arm_mass, (arm / 2, 0, 0), (0, across, across))
        builder.joint(
            f"arm_{k}", "revolute", WORLD, f"arm {k}", position=_ring(base_radius, turn, 0.0), rotation=R,
            axis=(0, 1, 0), start=angle,
        )  # fmt: skip
        for name, side in (("left", 1), ("right", -1)):
            aside = side * platform_radius
            builder.frame(f"elbow {k} {name}", f"arm {k}", position=(arm, aside, 0))
            builder.frame(f"wrist {k} {name}", "platform", position=R @ np.array([platform_radius, aside, 0]))
            builder.constraint(
                f"forearm_{k}_{name}", "distance", f"elbow {k} {name}", f"wrist {k} {name}", length=forearm
            )
    return builder.build()


def rolling_disc(radius: float = 0.3, mass: Any = 1.0, speed: float = 1.0, tilt: float = 0.0) -> Model:
    """A thin uniform disc that rolls without slip on the x–y plane, upright along x at the start; axis y of the body.

    Non-holonomic: two slip rows at velocity level, and a height row.

    Args:
        speed: of the centre at the start, m/s along x.
        tilt: lean of the disc's axis at the start, rad about x.
    """
    flat = mass * radius**2 / 4
    c, s = math.cos(tilt / 2), math.sin(tilt / 2)
    model = (
        Builder("rolling disc")
        .body("disc", mass, inertia=(flat, 2 * flat, flat))
        .joint("disc", "free", WORLD, "disc", start=(0, 0, radius * math.cos(tilt), c, s, 0, 0))
        .constraint("ground", "rolling", WORLD, "disc", radius=radius, normal=(0, 0, 1), axis=(0, 1, 0))
        .build()
    )
    return moving(model, {"disc": (0, speed / radius, 0, speed, 0, 0)})


def knife_edge_sleigh(
    mass: Any = 1.0, inertia: Any = 0.1, offset: float = 0.3, start: tuple[float, float] = (1.0, 0.5)
) -> Model:
    """Chaplygin's sleigh on the x–y plane: a blade at the body's origin that does not skid, the mass ``offset``
    ahead of it.

    Args:
        mass, inertia: kg, and kg m² about the centre of mass.
        offset: from the blade to the centre of mass along the body's x, m.
        start: speed along the blade, m/s, and rate of turn, rad/s, at the start.
    """
    model = (
        Builder("sleigh")
        .body("sleigh", mass, (offset, 0, 0), (inertia / 2, inertia / 2, inertia))
        .joint("plane", "planar", WORLD, "sleigh")
        .constraint("blade", "knife_edge", WORLD, "sleigh", direction=(0, 1, 0))
        .build()
    )
    return moving(model, {"plane": (start[0], 0.0, start[1])})


def _ring(radius: float, angle: float, z: float) -> Array:
    return np.array([radius * math.cos(angle), radius * math.sin(angle), z])
