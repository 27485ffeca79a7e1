"""Scenes of many free bodies, for us and for MuJoCo: the same shapes at the same places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import whippletree as wt

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Part:
    """A ball (one number) or a box (half sides) of some mass at a place, with a quaternion."""

    size: tuple[float, ...]
    mass: float
    place: Vector
    turn: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    velocity: Vector = (0.0, 0.0, 0.0)

    @property
    def inertia(self) -> tuple[float, ...]:
        if len(self.size) == 1:
            return (0.4 * self.mass * self.size[0] ** 2,) * 3
        x, y, z = (h * h for h in self.size)
        return tuple(self.mass * (a + b) / 3 for a, b in ((y, z), (x, z), (x, y)))


@dataclass(frozen=True)
class Scene:
    """Parts over a floor, perhaps between four walls that far apart; one coefficient of friction."""

    name: str
    parts: tuple[Part, ...]
    friction: float
    step: float
    width: float | None = None

    @property
    def walls(self) -> list[tuple[Vector, Vector]]:
        """Points and normals of floor and walls."""
        found: list[tuple[Vector, Vector]] = [((0, 0, 0), (0, 0, 1))]
        if self.width is not None:
            half = self.width / 2
            found += [((half * x, half * y, 0), (-x, -y, 0)) for x, y in ((1, 0), (0, 1), (-1, 0), (0, -1))]
        return found

    def ours(self) -> wt.Model:
        """As a model with one group of contacts."""
        builder = wt.Builder(self.name)
        names = []
        for k, (place, normal) in enumerate(self.walls):
            first = np.array([0, 1, 0]) if normal[1] == 0 else np.array([0, 0, 1])
            turn = np.column_stack([first, np.cross(normal, first), normal])
            builder.geometry(f"wall {k}", "world", "half_space", position=place, rotation=turn)
            names.append(f"wall {k}")
        for k, part in enumerate(self.parts):
            name = f"part {k}"
            builder.body(name, part.mass, inertia=part.inertia)
            builder.joint(name, "free", "world", name, start=(*part.place, *part.turn))
            numbers: dict[str, Any] = {"radius": part.size[0]}
            if len(part.size) == 3:
                numbers = {"size": tuple(2 * h for h in part.size)}
            builder.geometry(name, name, "sphere" if len(part.size) == 1 else "box", **numbers)
            names.append(name)
        return builder.contact_group("all", names, friction=self.friction).build()

    def mujoco(self, solver: str = "CG") -> Any:
        """MuJoCo's model, with elliptic cones and its own default softness."""
        import mujoco

        lines = [
            f'<geom type="plane" size="0 0 1" pos="{p[0]} {p[1]} {p[2]}" zaxis="{n[0]} {n[1]} {n[2]}"/>'
            for p, n in self.walls
        ]
        for part in self.parts:
            kind, size = ("sphere", part.size[0]) if len(part.size) == 1 else ("box", " ".join(map(str, part.size)))
            at, turn = " ".join(map(str, part.place)), " ".join(map(str, part.turn))
            geom = f'<geom type="{kind}" size="{size}" mass="{part.mass}"/>'
            lines.append(f'<body pos="{at}" quat="{turn}"><freejoint/>{geom}</body>')
        return mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{self.step}" solver="{solver}" cone="elliptic" integrator="Euler"/>'
            f'<size memory="1G"/><default><geom friction="{self.friction} 0 0"/></default>'
            f"<worldbody>{''.join(lines)}</worldbody></mujoco>"
        )


def balls(count: int, seed: int = 0) -> Scene:
    """Balls of 5 cm and 0.1 kg above a square box that holds them some ten layers high."""
    across = max(3, round((count / 10) ** 0.5))
    radius, pitch = 0.05, 0.12
    random = np.random.default_rng(seed)
    parts = []
    for k in range(count):
        layer, rest = divmod(k, across * across)
        grid = np.array([*(np.array(divmod(rest, across)) - (across - 1) / 2), layer + 0.6]) * pitch
        place = grid + random.uniform(-0.1, 0.1, 3) * radius
        parts.append(Part((radius,), 0.1, (float(place[0]), float(place[1]), float(place[2]))))
    return Scene(f"{count} balls", tuple(parts), 0.3, 5e-3, across * pitch)


def tower(count: int = 10) -> Scene:
    """Boxes one on top of the other."""
    parts = [Part((0.25, 0.25, 0.125), 1.0, (0, 0, 0.125 + 0.25 * k)) for k in range(count)]
    return Scene(f"tower of {count} boxes", tuple(parts), 0.5, 2e-3)


def wall(rows: int, columns: int) -> Scene:
    """Bricks in running bond, half a brick off from course to course; every other course ends with half bricks."""
    half, gap = (0.1, 0.05, 0.04), 1e-3
    pitch = 2 * half[0] + gap
    parts = []
    for row in range(rows):
        height = half[2] * (2 * row + 1)
        whole = columns - row % 2
        for k in range(whole):
            parts.append(Part(half, 2.0, (pitch * (k - (whole - 1) / 2), 0.0, height)))
        if row % 2:
            end = pitch * columns / 2 - half[0] / 2 - gap / 4
            small = (half[0] / 2 - gap / 4, half[1], half[2])
            parts += [Part(small, 2.0 * small[0] / half[0], (side * end, 0.0, height)) for side in (-1, 1)]
    return Scene(f"wall of {len(parts)} bricks", tuple(parts), 0.6, 2e-3)


def heap(count: int, seed: int = 0) -> Scene:
    """Boxes of different sides, turned at random, above a floor between walls."""
    random = np.random.default_rng(seed)
    across = max(3, round((count / 8) ** 0.5))
    parts = []
    for k in range(count):
        layer, rest = divmod(k, across * across)
        size = random.uniform(0.03, 0.06, 3)
        turn = random.normal(size=4)
        turn /= np.linalg.norm(turn)
        place = np.array([*(np.array(divmod(rest, across)) - (across - 1) / 2), layer + 0.8]) * 0.22
        parts.append(
            Part(tuple(size.tolist()), float(4000 * np.prod(size)), tuple(place.tolist()), tuple(turn.tolist()))
        )
    return Scene(f"heap of {count} boxes", tuple(parts), 0.5, 2e-3, across * 0.22)
