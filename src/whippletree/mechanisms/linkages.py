"""Ready-made mechanisms with closed loops; :mod:`whippletree.mechanisms` offers them all.

The planar ones live in the x–y plane with y up, their links along x at angle zero, gravity (0, −9.81, 0). Every one
starts assembled: its start state is written down in closed form. Lengths are in m, masses in kg; masses may be 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError
from whippletree.mechanisms.trees import PLANAR_GRAVITY, require_count
from whippletree.model import WORLD, Model, State
from whippletree.model.builder import Builder


def rod(mass: Any, length: Any) -> dict[str, Any]:
    """Mass, centre and inertia of a uniform slender rod along x from its joint."""
    across = mass * length * length / 12
    return {"mass": mass, "center": (length / 2, 0, 0), "inertia": (0, across, across)}


def four_bar(
    lengths: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    *,
    masses: Sequence[Any] = (1.0, 1.0, 1.0),
    angle: float = math.pi / 2,
) -> Model:
    """A four-bar linkage of uniform rods: ground, crank, coupler, rocker; the coupler's end is pinned to the rocker's.

    Joints ``crank`` and ``rocker`` turn from the ground line, ``coupler`` from the crank. Starts at crank ``angle``,
    with the coupler's end above the line from the crank's end to the rocker's foot.

    Args:
        lengths: ground, crank, coupler, rocker.
        masses: crank, coupler, rocker; any of them may be 0.
        angle: of the crank at the start, rad.
    """
    (ground, a, b, c), (m1, m2, m3) = _numbers("lengths", lengths, 4), _numbers("masses", masses, 3)
    coupler, rocker = _dyad((a * math.cos(angle), a * math.sin(angle)), (ground, 0.0), b, c)
    return (
        Builder("four-bar", PLANAR_GRAVITY)
        .body("crank rod", **rod(m1, a))
        .body("coupler rod", **rod(m2, b))
        .body("rocker rod", **rod(m3, c))
        .joint("crank", "revolute", WORLD, "crank rod", start=angle)
        .joint("coupler", "revolute", "crank rod", "coupler rod", position=(a, 0, 0), start=coupler - angle)
        .joint("rocker", "revolute", WORLD, "rocker rod", position=(ground, 0, 0), start=rocker)
        .frame("coupler end", "coupler rod", position=(b, 0, 0))
        .frame("rocker end", "rocker rod", position=(c, 0, 0))
        .constraint("pin", "pin", "rocker end", "coupler end")
        .build()
    )


def four_bar_chain(
    cells: int = 10,
    *,
    lengths: Sequence[float] = (1.0, 0.6, 0.9, 0.7),
    masses: Sequence[Any] = (1.0, 1.0, 1.0),
    angle: float = math.pi / 2,
) -> Model:
    """Four-bar linkages in series: the coupler of each is the ground of the next. One degree of freedom per cell.

    Joints ``crank_1``, ``coupler_1``, ``rocker_1``, ``crank_2``, …: ``crank_k`` and ``rocker_k`` turn from the coupler
    rod of cell k − 1 (the world for k = 1), ``coupler_k`` from the crank; ``pin_k`` ties the ends of coupler and
    rocker. The frame ``tip`` is at the end of the last coupler rod. Every cell starts at crank ``angle``.

    Args:
        cells: how many.
        lengths: ground, crank, coupler, rocker of every cell.
        masses: crank, coupler, rocker of every cell; any of them may be 0.
        angle: of each crank against its ground at the start, rad.
    """
    require_count("four_bar_chain", cells, word="cells")
    (ground, a, b, c), (m1, m2, m3) = _numbers("lengths", lengths, 4), _numbers("masses", masses, 3)
    coupler, rocker = _dyad((a * math.cos(angle), a * math.sin(angle)), (ground, 0.0), b, c)
    builder = Builder("four-bar chain", PLANAR_GRAVITY)
    base = WORLD
    for k in range(1, cells + 1):
        crank_rod, coupler_rod, rocker_rod = (f"{part} rod {k}" for part in ("crank", "coupler", "rocker"))
        builder.body(crank_rod, **rod(m1, a)).body(coupler_rod, **rod(m2, b)).body(rocker_rod, **rod(m3, c))
        builder.joint(f"crank_{k}", "revolute", base, crank_rod, start=angle)
        builder.joint(f"coupler_{k}", "revolute", crank_rod, coupler_rod, position=(a, 0, 0), start=coupler - angle)
        builder.joint(f"rocker_{k}", "revolute", base, rocker_rod, position=(ground, 0, 0), start=rocker)
        builder.frame(f"coupler end {k}", coupler_rod, position=(b, 0, 0))
        builder.frame(f"rocker end {k}", rocker_rod, position=(c, 0, 0))
        builder.constraint(f"pin_{k}", "pin", f"rocker end {k}", f"coupler end {k}")
        base = coupler_rod
    return builder.frame("tip", base, position=(b, 0, 0)).build()


def crank_slider(
    crank_length: float = 1.0,
    *,
    rod_length: float = 2.0,
    crank_mass: Any = 1.0,
    rod_mass: Any = 0.0,
    slider_mass: Any = 1.0,
    angle: float = math.pi / 3,
) -> Model:
    """A crank that drives a slider along x through a connecting rod, massless unless told otherwise.

    Joints ``crank`` and ``rod`` (from the crank) turn, ``slider`` slides; the rod's end is pinned to the slider. Frames
    ``rod end`` and ``slider`` (the body).
    """
    if not rod_length > crank_length > 0:
        raise ModelError("crank_slider", [f"rod_length {rod_length} must exceed crank_length {crank_length} > 0"])
    down = -math.asin(crank_length * math.sin(angle) / rod_length)
    reach = crank_length * math.cos(angle) + rod_length * math.cos(down)
    return (
        Builder("crank-slider", PLANAR_GRAVITY)
        .body("crank rod", **rod(crank_mass, crank_length))
        .body("connecting rod", **rod(rod_mass, rod_length))
        .body("piston", mass=slider_mass)
        .joint("crank", "revolute", WORLD, "crank rod", start=angle)
        .joint("rod", "revolute", "crank rod", "connecting rod", position=(crank_length, 0, 0), start=down - angle)
        .joint("slider", "prismatic", WORLD, "piston", axis=(1, 0, 0), start=reach)
        .frame("rod end", "connecting rod", position=(rod_length, 0, 0))
        .constraint("pin", "pin", "piston", "rod end")
        .build()
    )


def flexible_slider_crank(speed: float = 150.0) -> Model:
    """The slider-crank of the IVP test set, whose rod bends and stretches; its physical axial mass, no gravity.

    A crank of 0.15 m turns at ``speed``, rad/s; a steel rod of 0.3 m and 8 mm × 8 mm, straight at first, drives a
    slider along x. Joints ``crank``, ``knee`` and ``wrist`` turn; the modal coordinates of ``rod`` belong to the shapes
    sin πx, sin 2πx across, and 4x(1 − x), x(2x − 1) along it, linear in the strains.
    """
    from whippletree.flexible import beam

    length, side, E, rho = 0.3, 0.008, 2e11, 7870.0
    elastic = beam(
        length=length,
        mass_per_length=rho * side**2,
        bending_stiffness=E * side**4 / 12,
        axial_stiffness=E * side**2,
        rotary_inertia=rho * side**4 / 12,
        shapes={
            "y": [lambda x: np.sin(math.pi * x / length), lambda x: np.sin(2 * math.pi * x / length)],
            "x": [lambda x: 4 * x / length * (1 - x / length), lambda x: x / length * (2 * x / length - 1)],
        },
    )
    return (
        Builder("flexible slider-crank", (0, 0, 0))
        .body("crank rod", 1.0, inertia=(0.1, 0.1, 0.1))
        .flexible_body("rod", elastic)
        .body("slider", 0.075552, inertia=(1e-5, 1e-5, 1e-5))
        .joint("crank", "revolute", WORLD, "crank rod")
        .joint("knee", "revolute", "crank rod", "rod", position=(0.15, 0, 0))
        .joint("wrist", "revolute", "rod/tip", "slider")
        .constraint("guide", "slider", WORLD, "slider", axis=(1, 0, 0))
        .constraint("drive", "prescribed", "crank", motion=lambda t: speed * t)
        .build()
    )


def n_four_bar(n: int = 2) -> Model:
    """n four-bar loops in a row (IFToMM A02): n + 1 upright side rods and n couplers of 1 m and 1 kg, all pinned.

    Joints ``side_0`` … ``side_n`` from the ground, ``coupler_k`` from side rod k - 1. Frame ``B0`` is the first
    upper joint. Starts upright with B0 moving at +1 m/s in x; passes through its singular configuration, all rods in
    line.
    """
    require_count("n_four_bar", n)
    builder = Builder(f"{n}-four-bar", PLANAR_GRAVITY)
    for k in range(n + 1):
        builder.body(f"side rod {k}", **rod(1.0, 1.0))
        builder.joint(f"side_{k}", "revolute", WORLD, f"side rod {k}", position=(k, 0, 0), start=math.pi / 2)
        builder.frame(f"B{k}", f"side rod {k}", position=(1, 0, 0))
    for k in range(1, n + 1):
        builder.body(f"coupler rod {k}", **rod(1.0, 1.0))
        builder.joint(
            f"coupler_{k}", "revolute", f"side rod {k - 1}", f"coupler rod {k}", position=(1, 0, 0), start=-math.pi / 2
        )
        builder.frame(f"end {k}", f"coupler rod {k}", position=(1, 0, 0))
        builder.constraint(f"pin_{k}", "pin", f"B{k}", f"end {k}")
    rates = {f"side_{k}": -1.0 for k in range(n + 1)} | {f"coupler_{k}": 1.0 for k in range(1, n + 1)}
    return moving(builder.build(), rates)


def peaucellier(
    arm: float = 1.0, *, side: float = 0.5, crank: float = 0.35, angle: float = 0.5, mass: Any = 1.0
) -> Model:
    """Peaucellier and Lipkin's linkage: its frame ``tracer`` moves along x = (arm² - side²) / (2 crank), exactly
    straight.

    Two arms from the origin hold a rhombus; the crank, pivoted at (crank, 0), drives its near corner on a circle
    through the origin, and the far corner is the image of that circle under inversion: a line. Every rod has the
    same mass.
    """
    near = (crank + crank * math.cos(angle), crank * math.sin(angle))
    reach = math.hypot(*near)
    if not 0 < arm - side < reach < arm + side:
        raise ModelError("peaucellier", [f"arm {arm}, side {side} and crank {crank} do not close at angle {angle}"])
    builder = Builder("Peaucellier-Lipkin linkage", PLANAR_GRAVITY)
    builder.body("crank rod", **rod(mass, crank))
    builder.joint("crank", "revolute", WORLD, "crank rod", position=(crank, 0, 0), start=angle)
    far_x = (arm * arm - side * side) / reach
    far = (far_x * near[0] / reach, far_x * near[1] / reach)
    for name, hand in (("left", 1), ("right", -1)):
        to_corner, from_origin = _dyad(near, (0.0, 0.0), side, arm, -hand)
        corner = (arm * math.cos(from_origin), arm * math.sin(from_origin))
        onwards = math.atan2(far[1] - corner[1], far[0] - corner[0])
        for part, length in (("arm", arm), ("near", side), ("far", side)):
            builder.body(f"{name} {part} rod", **rod(mass, length))
            builder.frame(f"{name} {part} end", f"{name} {part} rod", position=(length, 0, 0))
        builder.joint(f"{name}_arm", "revolute", WORLD, f"{name} arm rod", start=from_origin)
        builder.joint(
            f"{name}_near", "revolute", "crank rod", f"{name} near rod", position=(crank, 0, 0), start=to_corner - angle
        )
        builder.joint(
            f"{name}_far",
            "revolute",
            f"{name} near rod",
            f"{name} far rod",
            position=(side, 0, 0),
            start=onwards - to_corner,
        )
        builder.constraint(f"{name} corner", "pin", f"{name} arm end", f"{name} near end")
    builder.constraint("far corner", "pin", "left far end", "right far end")
    return builder.frame("tracer", "left far rod", position=(side, 0, 0)).build()


def gear_train(radii: Sequence[float] = (0.1, 0.2, 0.05), *, masses: Sequence[Any] | None = None) -> Model:
    """Gears in mesh one after the other along x, discs about z: joints ``gear_1`` …, rₖ θₖ + rₖ₊₁ θₖ₊₁ = 0."""
    weights = [1.0] * len(radii) if masses is None else masses
    builder = Builder("gear train", PLANAR_GRAVITY)
    x = 0.0
    for k, (radius, mass) in enumerate(zip(radii, weights, strict=True), start=1):
        x += radius + radii[k - 2] if k > 1 else 0.0
        across = mass * radius * radius / 4
        builder.body(f"disc {k}", mass, inertia=(across, across, 2 * across))
        builder.joint(f"gear_{k}", "revolute", WORLD, f"disc {k}", position=(x, 0, 0))
        if k > 1:
            builder.constraint(f"mesh_{k - 1}", "gear", f"gear_{k - 1}", f"gear_{k}", ratios=(radii[k - 2], radius))
    return builder.build()


def _dyad(p: tuple[float, float], q: tuple[float, float], a: float, b: float, side: int = 1) -> tuple[float, float]:
    """Angles of two links of lengths a from p and b from q whose ends meet, on the left of the way from p to q."""
    dx, dy = q[0] - p[0], q[1] - p[1]
    d = math.hypot(dx, dy)
    if not abs(a - b) <= d <= a + b or d == 0:
        raise ModelError("linkage", [f"links of {a} m and {b} m cannot meet across {d:.6g} m: change lengths or angle"])
    along = (a * a - b * b + d * d) / (2 * d)
    height = side * math.sqrt(max(a * a - along * along, 0.0))
    x, y = p[0] + (along * dx - height * dy) / d, p[1] + (along * dy + height * dx) / d
    return math.atan2(y - p[1], x - p[0]), math.atan2(y - q[1], x - q[0])


def _numbers(what: str, values: Sequence[Any], count: int) -> tuple[Any, ...]:
    if len(values) != count:
        raise ModelError("linkage", [f"{what} has {len(values)} entries, expected {count}"])
    return tuple(values)


def moving(model: Model, rates: Mapping[str, Any]) -> Model:
    """The model with a start velocity."""
    v = np.zeros(model.nv)
    for joint, rate in rates.items():
        v[model.slice(joint)] = rate
    v.setflags(write=False)
    return replace(model, start=State((model.start or model.neutral).q, v))


# --- in space, and rolling ones; gravity is (0, 0, −9.81) -------------------------------------------------------------


def stewart_platform(
    base_radius: float = 1.0,
    *,
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
    *,
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


def rolling_disc(radius: float = 0.3, *, mass: Any = 1.0, speed: float = 1.0, tilt: float = 0.0) -> Model:
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
    mass: Any = 1.0, *, inertia: Any = 0.1, offset: float = 0.3, start: tuple[float, float] = (1.0, 0.5)
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
