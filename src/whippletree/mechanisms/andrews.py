"""Andrews' squeezer: seven bodies in three planar loops, with a spring and a motor; stiff (IVP test set, problem 1).

The test set's angles are the joints ``beta``, ``theta``, ``gamma``, ``delta``, ``phi``, ``epsilon``, ``omega`` (here
in the order of the tree: a link before what it carries). The spring is a leg without mass: a rod ``spring`` that
turns about C and slides to D, with the test set's stiffness and rest length in its joint; ``passive_forces`` has its
pull. The motor's torque is an input: ``tau[model.slice("beta")] = MOTOR_TORQUE``.

Rows of the pins ``P3``, ``P4``, ``P6`` are in world axes and are the test set's equations 1 to 6, so its multipliers
are the forces of these rows with the opposite sign.
"""

from __future__ import annotations

import math
from typing import Any

from whippletree.model import WORLD, Model
from whippletree.model.builder import Builder

MOTOR_TORQUE = 0.033
"""N m on joint ``beta``."""

MASSES = (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498)
INERTIAS = (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5)
A, B, C = (-0.06934, -0.00227, 0), (-0.03635, 0.03273, 0), (0.014, 0.072, 0)
D_LENGTH, DA, E, EA, RR, RA = 0.028, 0.0115, 0.02, 0.01421, 0.007, 0.00092
SS, SA, SB, SC, SD, TA, TB = 0.035, 0.01874, 0.01043, 0.018, 0.02, 0.02308, 0.00916
U, UA, UB, ZF, ZT, FA = 0.04, 0.01228, 0.00449, 0.02, 0.04, 0.01421
STIFFNESS, REST = 4530.0, 0.07785
START = {
    "beta": -0.0617138900142764496,
    "theta": 0.0,
    "gamma": 0.455279819163070380,
    "phi": 0.222668390165885885,
    "delta": 0.487364979543842550,
    "omega": -0.222668390165885885,
    "epsilon": 1.23054744454982119,
}


def andrews() -> Model:
    """Andrews' squeezer at its start, at rest; see :mod:`whippletree.mechanisms.andrews` for names and signs."""
    builder = Builder("Andrews' squeezer", (0, 0, 0))
    # body, joint, parent, where on it, centre of mass, tip
    links: tuple[tuple[int, str, str, Any, Any, Any], ...] = (
        (1, "beta", WORLD, (0, 0, 0), (RA, 0, 0), (RR, 0, 0)),
        (2, "theta", "K1", (RR, 0, 0), (-DA, 0, 0), (-D_LENGTH, 0, 0)),
        (3, "gamma", WORLD, B, (SB, -SA, 0), (0, -SS, 0)),
        (5, "delta", WORLD, A, (TA, -TB, 0), (ZT, 0, 0)),
        (4, "phi", "K5", (ZT, 0, 0), (0, EA - E, 0), (0, -E, 0)),
        (7, "epsilon", WORLD, A, (UB, -UA, 0), (0, -U, 0)),
        (6, "omega", "K7", (0, -U, 0), (ZF - FA, 0, 0), (ZF, 0, 0)),
    )
    for k, joint, parent, position, center, tip in links:
        turning = INERTIAS[k - 1]
        builder.body(f"K{k}", MASSES[k - 1], center, (turning / 2, turning / 2, turning))
        builder.joint(joint, "revolute", parent, f"K{k}", position=position, start=START[joint])
        builder.frame(f"tip {k}", f"K{k}", position=tip)
    for k in (3, 4, 6):
        builder.constraint(f"P{k}", "pin", f"tip {k}", "tip 2")
    _spring(builder)
    return builder.build()


def _spring(builder: Builder) -> None:
    """The spring from C to the point D of K3, as a massless rod that turns and slides."""
    s, c = math.sin(START["gamma"]), math.cos(START["gamma"])
    x, y = B[0] + SD * c + SC * s - C[0], B[1] + SD * s - SC * c - C[1]
    builder.body("spring rod").body("spring end")
    builder.joint("spring_angle", "revolute", WORLD, "spring rod", position=C, start=math.atan2(y, x))
    builder.joint(
        "spring",
        "prismatic",
        "spring rod",
        "spring end",
        axis=(1, 0, 0),
        start=math.hypot(x, y),
        stiffness=STIFFNESS,
        rest=REST,
    )
    builder.frame("D", "K3", position=(SD, -SC, 0))
    builder.constraint("spring hook", "pin", "D", "spring end")
