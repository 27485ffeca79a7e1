"""Random mechanisms: the one source of them for all tests.

Every number is drawn as a Fraction and converted last: ``number=Fraction`` gives exact systems, ``float`` the usual
ones, ``digits`` mpmath numbers. Rotations are Cayley transforms and unit quaternions are squares of rational ones, so
both are exact; inertias come from point masses, so they are physical.

* ``make_...(parents, ..., seed)``: plain functions, the same result for the same arguments;
* ``trees``, ``models``, ``motions``, ``rigid_systems``, ``block_systems``: hypothesis strategies on top of them.
  Hypothesis chooses, and shrinks, the shape (tree, joints, which links are massless); a seed chooses the numbers, which
  stay generic. What a strategy returns prints as the call that makes it again.

    @given(models(kinds=("revolute", "free")), st.integers(0, 99))
    def test_something(model, seed):
        q, v, a, tau = make_motion(model, seed)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

import mpmath
import numpy as np
from hypothesis import strategies as st

from whippletree.flexible.nodal_modes import Samples, integrate_samples
from whippletree.functions.reference import reference
from whippletree.model import Constraint, Frame, Model, State
from whippletree.model.builder import Builder
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame, default_names, frozen_integrals
from whippletree.model.frozen import frozen_array
from whippletree.spatial import Pose, RigidInertia, join, quaternion_product, quaternion_rotation
from whippletree.spatial.joints import KINDS
from whippletree.tree.links import Link
from whippletree.tree.sweeps import DenseWeight, Unrolled

MOVING_KINDS = tuple(kind for kind in KINDS if kind != "weld")
EXACT_KINDS = ("prismatic", "spherical", "free", "weld")
"""Joints whose poses are rational functions of q: models of these are exact on Fractions."""

Number = Callable[[Fraction], Any]
"""Converts a Fraction to the scalar type of a case: float, Fraction or digits."""


@mpmath.workdps(50)
def digits(x: Fraction) -> Any:
    """A Fraction as an mpmath number of 50 digits; compute with it inside ``mpmath.workdps(50)``."""
    return mpmath.mpf(x.numerator) / x.denominator


def convert(values: Any, number: Number) -> np.ndarray:
    """An array of Fractions as an array of another scalar: float64 for floats, objects for the rest."""
    array = np.asarray(values, dtype=object)
    flat = [number(Fraction(x)) for x in array.flat]
    result = np.empty(array.size, dtype=float if number is float else object)
    result[:] = flat
    return result.reshape(array.shape)


# --- numbers, vectors, rotations, inertias ----------------------------------------------------------------------------


def rational(rng: Random, size: int = 2) -> Fraction:
    """Between −size and size, in steps of 1/16."""
    return Fraction(rng.randint(-16 * size, 16 * size), 16)


def rationals(rng: Random, *shape: int) -> np.ndarray:
    """An array of :func:`rational` numbers."""
    array = np.empty(shape, dtype=object)
    for index in np.ndindex(*shape):
        array[index] = rational(rng)
    return array


def rotation(rng: Random) -> np.ndarray:
    """A rational rotation (3, 3), never the identity: the Cayley transform of a rational vector."""
    return quaternion_rotation(Fraction(1), Fraction(1, 3) + rational(rng), rational(rng), rational(rng))


def unit_quaternion(rng: Random) -> np.ndarray:
    """A rational quaternion (w, x, y, z) of length exactly 1: p ⊗ p / |p|²."""
    p = join(np.array([Fraction(1)]), rationals(rng, 3))
    return quaternion_product(p, p) / (p @ p)


def axis(rng: Random) -> np.ndarray:
    """A rational unit vector: a coordinate axis or its opposite (where code takes short cuts), or any other."""
    if rng.random() < 0.5:
        e = np.array([Fraction(0)] * 3)
        e[rng.randrange(3)] = Fraction(rng.choice([1, 1, -1]))
        return e
    return rotation(rng)[:, 2]


def pose(rng: Random) -> Pose:
    """A rational pose; sometimes without a shift, as in wrists."""
    shift = rationals(rng, 3) if rng.random() < 0.8 else np.array([Fraction(0)] * 3)
    return Pose(rotation(rng), shift)


def body_inertia(rng: Random, scale: Fraction = Fraction(1)) -> tuple[Fraction, np.ndarray, np.ndarray]:
    """Mass, centre and inertia about the centre of five point masses that span space: positive definite, physical."""
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) + rationals(rng, 3)
    points = [*corners, rationals(rng, 3)]
    masses = [scale * Fraction(rng.randint(1, 16), 8) for _ in points]
    mass = sum(masses)
    center = sum(m * p for m, p in zip(masses, points)) / mass
    arms = [p - center for p in points]
    eye = np.eye(3, dtype=int)
    inertia = sum(m * (eye * (r @ r) - np.multiply.outer(r, r)) for m, r in zip(masses, arms))
    return mass, center, inertia


def positive_definite(rng: Random, n: int) -> np.ndarray:
    """A rational symmetric positive definite matrix (n, n)."""
    A = rationals(rng, n, n)
    return A @ A.T + np.eye(n, dtype=int) * Fraction(1, 4)


def full_rank(rng: Random, m: int, n: int) -> np.ndarray:
    """A rational matrix (m, n) of full column rank: unit lower triangular on top, rows shuffled."""
    A = rationals(rng, m, n)
    for i in range(n):
        A[i, i:] = [Fraction(1), *[Fraction(0)] * (n - i - 1)]
    order = list(range(m))
    rng.shuffle(order)
    return A[order]


# --- trees, and systems of links on them ------------------------------------------------------------------------------


def make_parents(n: int, seed: int, *, chain: float = 0.5, forest: bool = True) -> tuple[int, ...]:
    """Parents of n bodies, parents first: with probability ``chain`` the body before, else any (−1: the world)."""
    rng = Random(seed)
    lowest = -1 if forest else 0
    return tuple(k - 1 if k == 0 or rng.random() < chain else rng.randint(lowest, k - 1) for k in range(n))


class System(NamedTuple):
    """A tree of links, what acts on it, and the acceleration of its world; joint vectors are fields, one per body."""

    parents: tuple[int, ...]
    links: list[Link]
    qdd: list[np.ndarray]
    tau: list[np.ndarray]
    base: np.ndarray
    origin: str

    @property
    def sweep(self) -> Unrolled:
        return Unrolled(self.parents)

    def __repr__(self) -> str:
        return self.origin


def make_rigid_system(
    parents: Sequence[int], freedoms: Sequence[int], seed: int, *, rotors: bool = True, number: Number = Fraction
) -> System:
    """Rigid bodies with rational poses and any subspaces H* (6, n) of full rank; ``freedoms`` gives n of each joint."""
    rng = Random(seed)
    links = []
    for n in freedoms:
        X, H = pose(rng), full_rank(rng, 6, n)
        M = RigidInertia.about_center(*body_inertia(rng))
        J = abs(rational(rng)) if rotors and rng.random() < 0.3 else 0
        links.append(Link(X, H, M, J, a=rationals(rng, 6), b=rationals(rng, 6)))
    origin = f"make_rigid_system({tuple(parents)}, {tuple(freedoms)}, {seed}, rotors={rotors})"
    return _system(rng, parents, links, 6, number, origin)


def make_block_system(parents: Sequence[int], seed: int, *, number: Number = Fraction) -> System:
    """A tree BWA system that is no mechanism: blocks of 1 to 4 numbers, rectangular weights, dense inertias."""
    rng = Random(seed)
    world = rng.randint(1, 4)
    sizes = [rng.randint(1, 4) for _ in parents]
    links = []
    for parent, m in zip(parents, sizes):
        w = rationals(rng, world if parent < 0 else sizes[parent], m)
        H = full_rank(rng, m, rng.randint(0, m))
        links.append(Link(DenseWeight(w), H, positive_definite(rng, m), a=rationals(rng, m), b=rationals(rng, m)))
    return _system(rng, parents, links, world, number, f"make_block_system({tuple(parents)}, {seed})")


def _system(rng: Random, parents: Sequence[int], links: list[Link], world: int, number: Number, origin: str) -> System:
    def joint_vectors() -> list[np.ndarray]:
        return [convert(rationals(rng, link.H.shape[1]), number) for link in links]

    exact = System(tuple(parents), links, [], [], rationals(rng, world), origin)
    links = [_converted(link, number) for link in links]
    return exact._replace(links=links, qdd=joint_vectors(), tau=joint_vectors(), base=convert(exact.base, number))


def _converted(value: Any, number: Number) -> Any:
    """A link with all its numbers as another scalar; arrays keep dtype object, as the library's own links have."""
    if isinstance(value, tuple):
        return type(value)(*[_converted(x, number) for x in value])
    return convert(value, number).astype(object) if isinstance(value, np.ndarray) else number(Fraction(value))


# --- models -----------------------------------------------------------------------------------------------------------


@mpmath.workdps(50)  # the builder normalises axes
def make_model(
    parents: Sequence[int],
    kinds: Sequence[str],
    seed: int,
    *,
    massless: Sequence[bool] = (),
    spread: int = 0,
    number: Number = float,
) -> Model:
    """A model with bodies b0, b1, … and joints j0, j1, … about any axes, and a frame 'tool' on the last body.

    Args:
        parents: parent of each body, −1 for the world; the model orders the bodies by itself.
        kinds: joint kind of each body.
        seed: of all numbers.
        massless: which bodies to make massless; granted only where the motion keeps inertia (:func:`may_be_massless`).
        spread: masses and lengths vary over factors 10^±spread from body to body.
        number: scalar type.
    """
    rng = Random(seed)
    builder = Builder(f"random {seed}", gravity=convert(rationals(rng, 3), number))
    for k, (parent, kind) in enumerate(zip(parents, kinds, strict=True)):
        mass, center, inertia = body_inertia(rng, Fraction(10) ** rng.randint(-spread, spread))
        if k < len(massless) and massless[k] and may_be_massless(k, parents, kinds, massless):
            mass, inertia = 0 * mass, 0 * inertia
        builder.body(f"b{k}", number(mass), convert(center, number), convert(inertia, number))
        first = rotation(rng)
        at = pose(rng)
        builder.joint(
            f"j{k}",
            kind,
            "world" if parent < 0 else f"b{parent}",
            f"b{k}",
            position=convert(at.p * Fraction(10) ** rng.randint(-spread, spread), number),
            rotation=convert(at.R, number),
            axis=convert(axis(rng), number),
            second_axis=convert(first[:, 0], number),
            pitch=number(rational(rng)),
            rotor_inertia=number(abs(rational(rng)) if rng.random() < 0.3 else Fraction(0)),
            gear_ratio=number(rational(rng)),
        )
    at = pose(rng)
    builder.frame("tool", f"b{len(parents) - 1}", position=convert(at.p, number), rotation=convert(at.R, number))
    return builder.build()


def make_limbed_model(seed: int, limbs: int, *, families: int = 2) -> Model:
    """A trunk with families of limbs that are alike: each a small random tree, as often as ``limbs`` says.

    Limbs stand around the trunk; every second one may be a mirror image, and the numbers of some differ a little. Some
    families are parallel to the axes, so that mirror images differ in the signs of ones, as those of most robots do.
    Links of all limbs come in any order.
    """
    rng = Random(seed)
    builder = Builder(f"limbed {seed}", gravity=(0.3, -0.2, -9.81))
    mass, center, inertia = body_inertia(rng, Fraction(4))
    builder.body("trunk", float(mass), convert(center, float), convert(inertia, float))
    builder.joint("base", rng.choice(("free", "spherical", "revolute")), "world", "trunk", axis=(0, 0, 1))
    links = []
    for family in range(families):
        parents = make_parents(rng.randint(1, 3), rng.randrange(1000), forest=False)
        kinds = [rng.choice(("revolute", "revolute", "prismatic", "spherical")) for _ in parents]
        numbers = [(body_inertia(rng), pose(rng), axis(rng)) for _ in parents]
        parallel = rng.random() < 0.6
        if parallel:
            unit = np.eye(3, dtype=int)
            numbers = [(inertia, Pose(unit, at.p), unit[rng.randrange(3)]) for inertia, at, _ in numbers]
        for limb in range(limbs):
            mirror = np.diag([1.0, -1.0 if limb % 2 and rng.random() < 0.7 else 1.0, 1.0])
            other = 1.001 if rng.random() < 0.3 else 1.0
            turn = 0.0 if parallel else 2 * np.pi * limb / limbs
            around = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
            for k, ((mass, center, inertia), at, along) in enumerate(numbers):
                R, p, a = (mirror @ convert(x, float) for x in (at.R, at.p, along))
                first = around if parents[k] < 0 else np.eye(3)
                moments = mirror @ convert(inertia, float) @ mirror
                body = (float(mass) * other, mirror @ convert(center, float), moments * other)
                joint = {"position": first @ p, "rotation": first @ R @ mirror, "axis": a}
                parent = f"{family}.{limb}.{parents[k]}" if parents[k] >= 0 else "trunk"
                links.append((f"{family}.{limb}.{k}", parent, kinds[k], body, joint))
    placed = {"trunk"}
    while links:
        ready = [link for link in links if link[1] in placed]
        links.remove(chosen := rng.choice(ready))
        name, parent, kind, body, joint = chosen
        builder.body(name, *body)
        builder.joint(name, kind, parent, name, **joint)
        placed.add(name)
    return builder.build()


def may_be_massless(k: int, parents: Sequence[int], kinds: Sequence[str], massless: Sequence[bool]) -> bool:
    """Whether body k can lack mass without a motion that has no inertia, for generic numbers.

    Its joint must have one freedom, and a body that keeps its mass must hang on it by a joint of at most three: then
    six directions are enough for both. A mass beyond a free joint is not felt at all, and one beyond a ball joint that
    sits on the axis does not resist a turn about it.
    """
    if kinds[k] not in ("revolute", "prismatic", "helical"):
        return False
    return any(
        parent == k and kinds[child] not in ("free", "spherical") and not (child < len(massless) and massless[child])
        for child, parent in enumerate(parents)
    )


def make_samples(rng: Random, modes: int, number: Number = float, *, shortening: bool = False) -> Samples:
    """Point masses that span space, some with rotary inertia, and random modes of them: rational, and small."""
    points = 4 + modes
    corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]) + rationals(rng, 3)
    positions = np.concatenate([corners, rationals(rng, modes, 3)])
    inertias = np.array([np.eye(3, dtype=int) * Fraction(rng.randint(0, 4), 8) for _ in range(points)], dtype=object)
    bend = None
    if shortening:
        bend = rationals(rng, modes, modes, points, 3) / 64
        bend = bend + np.swapaxes(bend, 0, 1)
    return Samples(
        convert(positions, number),
        convert([Fraction(rng.randint(1, 16), 8) for _ in range(points)], number),
        convert(rationals(rng, modes, points, 3) / 8, number),
        convert(rationals(rng, modes, points, 3) / 8, number),
        convert(inertias, number),
        None if bend is None else convert(bend, number),
    )


def make_flexible_body(samples: Samples, rng: Random, number: Number = float) -> FlexibleBody:
    """The body of these samples; its frames are its first points, turned, with the modes of these points."""
    n = len(samples.shapes)
    frames = []
    for k in range(3):
        at = np.eye(4, dtype=int).astype(object)
        at[:3, :3], at[:3, 3] = convert(rotation(rng), number), samples.positions[k]
        bend = None if samples.shortening is None else frozen_array(samples.shortening[:, :, k], (n, n, 3))
        shapes, slopes = samples.shapes[:, k], samples.slopes[:, k]
        frames.append(
            FlexibleFrame(
                f"f{k}", frozen_array(at, (4, 4)), frozen_array(shapes, (n, 3)), frozen_array(slopes, (n, 3)), bend
            )
        )
    stiffness, damping = (convert(positive_definite(rng, n), number) for _ in range(2))
    return FlexibleBody(
        frozen_integrals(integrate_samples(samples)),
        frozen_array(stiffness, (n, n)),
        frozen_array(damping, (n, n)),
        tuple(frames),
        default_names(n),
    )


@mpmath.workdps(50)
def make_flexible_model(
    parents: Sequence[int],
    kinds: Sequence[str],
    modes: Sequence[int],
    seed: int,
    *,
    massless: Sequence[bool] = (),
    number: Number = float,
    shortening: bool = False,
    gravity: bool = True,
) -> tuple[Model, dict[str, Samples]]:
    """A model like :func:`make_model`, in which body k has ``modes[k]`` modes (0: rigid); and the points of the bodies.

    Children of a flexible body hang on one of its frames.
    """
    rng = Random(seed)
    fall = rationals(rng, 3) if gravity else [0, 0, 0]
    builder = Builder(f"flexible {seed}", gravity=convert(fall, number))
    clouds = {}
    for k, (parent, kind) in enumerate(zip(parents, kinds, strict=True)):
        name, carrier = f"b{k}", "world" if parent < 0 else f"b{parent}"
        if modes[k]:
            clouds[name] = make_samples(rng, modes[k], number, shortening=shortening)
            builder.flexible_body(name, make_flexible_body(clouds[name], rng, number))
        else:
            mass, center, inertia = body_inertia(rng)
            light = k < len(massless) and massless[k] and may_be_massless(k, parents, kinds, massless)
            mass, inertia = (0 * mass, 0 * inertia) if light else (mass, inertia)
            builder.body(name, number(mass), convert(center, number), convert(inertia, number))
        if parent >= 0 and modes[parent]:
            carrier = f"{carrier}/f{rng.randrange(3)}"
        at = pose(rng)
        place = {"position": convert(at.p, number), "rotation": convert(at.R, number)}
        turned = convert(rotation(rng)[:, 0], number)
        builder.joint(f"j{k}", kind, carrier, name, axis=convert(axis(rng), number), second_axis=turned, **place)
    last = f"b{len(parents) - 1}"
    builder.frame("tool", f"{last}/f1" if modes[-1] else last, position=convert(rationals(rng, 3), number))
    return builder.build(), clouds


class Motion(NamedTuple):
    """A state, accelerations and joint forces of a model."""

    q: np.ndarray
    v: np.ndarray
    a: np.ndarray
    tau: np.ndarray


def make_motion(model: Model, seed: int, *, number: Number = float) -> Motion:
    """A random motion: quaternions of unit length, other numbers between −2 and 2."""
    rng = Random(seed)
    parts = []
    for joint in model.joint_types:
        quaternion = 4 if joint.nq > joint.nv else 0
        parts += [*rationals(rng, joint.nq - quaternion), *(unit_quaternion(rng) if quaternion else ())]
    return Motion(convert(parts, number), *[convert(rationals(rng, model.nv), number) for _ in range(3)])


def exact_numbers(model: Model) -> Model:
    """The model with all its doubles as numbers of fifty digits, so that none of their sums is rounded."""

    def exact(values: Any) -> np.ndarray:
        return np.array([digits(Fraction(float(x))) for x in np.ravel(values)], dtype=object).reshape(np.shape(values))

    bodies = [
        replace(b, mass=exact([b.mass])[0], center=exact(b.center), inertia=exact(b.inertia)) for b in model.bodies
    ]
    joints = [replace(j, pose=exact(j.pose)) for j in model.joints]
    frames = [replace(f, pose=exact(f.pose)) for f in model.frames]
    return replace(model, bodies=tuple(bodies), joints=tuple(joints), frames=tuple(frames))


def with_loops(model: Model, q: np.ndarray, ties: Sequence[tuple[str, str, str, str, dict[str, Any]]]) -> Model:
    """The model with constraints that are met at q: (name, kind, body, other body, parameters)."""
    ref = reference(model.tree)
    rng = np.random.default_rng(len(ties))
    frames, constraints = list(model.frames), list(model.constraints)
    for name, kind, one, other, parameters in ties:
        local = np.eye(4)
        local[:3, 3] = rng.normal(scale=0.4, size=3)
        second = np.linalg.inv(ref.pose(other)(q)) @ ref.pose(one)(q) @ local
        frames += [Frame(f"{name}/1", one, local), Frame(f"{name}/2", other, second)]
        constraints.append(Constraint(name, kind, (f"{name}/1", f"{name}/2"), parameters))
    return replace(model, frames=tuple(frames), constraints=tuple(constraints), start=State(q, np.zeros(model.nv)))


def make_looped_model(seed: int, *, limbs: int = 4, massless: bool = False) -> tuple[Model, Motion]:
    """A random tree of loops: each limb is a closed chain, or a plain one, on a body of an earlier limb; and a motion.

    A closed limb has two branches whose ends are tied at the motion's q by a constraint of some kind, which leaves the
    loop free to move; some ends are tied twice (redundant rows), some ties give way. With ``massless`` the middle link
    of every branch of three in a closed limb has no mass.
    """
    rng = Random(seed)
    parents: list[int] = []
    ties: list[tuple[str, int, int, dict[str, Any]]] = []
    light: list[int] = []
    for _ in range(limbs):
        root = rng.choice([-1, *range(len(parents))]) if parents else -1
        lengths = [rng.randint(2, 3), rng.randint(1, 2)] if rng.random() < 0.75 else [rng.randint(1, 2)]
        ends = []
        for length in lengths:
            parents.append(root)
            for _ in range(length - 1):
                parents.append(len(parents) - 1)
            ends.append(len(parents) - 1)
        if len(ends) == 2:
            wide = ["universal"] if sum(lengths) > 4 else []
            kind = rng.choice(["distance", "point_on_plane", "point_on_line", *wide])
            ties.append((kind, *ends, {}))
            if rng.random() < 0.3:
                ties.append((kind, *ends, {}))  # once more: redundant
            elif rng.random() < 0.3:
                ties.append(("point_on_plane", *ends, {"compliance": 0.05}))
            if lengths[0] == 3:
                light.append(ends[0] - 1)
    kinds = [rng.choice(["revolute", "revolute", "prismatic", "helical"]) for _ in parents]
    if rng.random() < 0.5:
        kinds[0] = "free"
    model = make_model(parents, kinds, seed)
    if massless:
        bodies = list(model.bodies)
        for k in light:
            i = model.body_index(f"b{k}")
            bodies[i] = replace(bodies[i], mass=0.0, inertia=np.zeros((3, 3)))
        model = replace(model, bodies=tuple(bodies))
    motion = make_motion(model, seed)
    return tie(model, motion.q, ties), motion


CLOSING_KINDS = {
    "hinge": {}, "slider": {}, "cylindrical": {}, "plane": {}, "point": {}, "universal": {"second_axis": (1, 0, 0)},
    "point_on_line": {}, "point_on_plane": {}, "weld": {},
}  # fmt: skip
"""Constraints with the freedom of a closing joint, about and along z."""

FREEDOMS = {"weld": 0, "hinge": 1, "slider": 1, "cylindrical": 2, "universal": 2, "plane": 3, "point": 3,
            "point_on_line": 4, "point_on_plane": 5}  # fmt: skip


def make_closed_model(seed: int) -> tuple[Model, Motion]:
    """A random tree of loops, each closed by a constraint with the freedom of some joint, and a motion.

    A loop has so many single joints that two freedoms are left to it, and stands on a body of an earlier one or on the
    world, where some of its ends are tied too. Gears tie several joints of different loops (hyperedges), one joint may
    follow a motion of time.
    """
    rng = Random(f"closed {seed}")
    parents: list[int] = []
    ties: list[tuple[str, str, str, str, dict[str, Any]]] = []
    first: list[int] = []
    for number in range(2):
        kind = rng.choice(list(CLOSING_KINDS))
        root, needed = rng.choice([-1, *range(len(parents))]), 6 - FREEDOMS[kind] + 2
        grounded = rng.random() < 0.3
        lengths = [needed] if grounded else [needed - needed // 2, needed // 2]
        ends = []
        for length in lengths:
            first.append(len(parents))
            parents += [root, *range(len(parents), len(parents) + length - 1)]
            ends.append(f"b{len(parents) - 1}")
        ties.append((f"tie {number}", kind, ends[0], "world" if grounded else ends[1], dict(CLOSING_KINDS[kind])))
    kinds = [rng.choice(["revolute", "revolute", "prismatic", "helical"]) for _ in parents]
    model = make_model(parents, kinds, seed)
    motion = make_motion(model, seed)
    model = with_loops(model, motion.q, ties)
    constraints, q = list(model.constraints), motion.q
    names = {k: next(j.name for j in model.joints if j.child == f"b{k}") for k in first}
    if rng.random() < 0.4:
        own = [names[k] for k in rng.sample(first, 2)]
        ratios = (1.0, rng.choice([-2.0, 0.5]))
        offset = sum(r * float(q[model.q_slice(name)][0]) for r, name in zip(ratios, own, strict=True))
        constraints.append(Constraint("gears", "gear", tuple(own), {"ratios": ratios, "offset": offset}))
    elif rng.random() < 0.4:
        name = names[rng.choice(first)]
        here = float(q[model.q_slice(name)][0])
        lead = {"motion": lambda t: here + 0.2 * (t - 0.3) + 0.5 * (t - 0.3) ** 2}
        constraints.append(Constraint("lead", "prescribed", (name,), lead))
    return replace(model, constraints=tuple(constraints)), motion


def tie(model: Model, q: np.ndarray, ties: Sequence[tuple[str, int, int, dict[str, Any]]]) -> Model:
    """The model with constraints (kind, body, body, parameters) that hold at q, which becomes its start."""
    from whippletree.functions.reference import reference

    ref = reference(model)
    frames, constraints = [], []
    for i, (kind, a, b, parameters) in enumerate(ties):
        here, there = ref.pose(f"b{a}")(q), ref.pose(f"b{b}")(q)
        own = dict(parameters)
        if kind == "distance":
            own["length"] = float(np.linalg.norm(here[:3, 3] - there[:3, 3]))
            ends = (f"b{b}", f"b{a}")
        else:
            frames.append(Frame(f"socket {i}", f"b{b}", np.linalg.inv(there) @ here))
            ends = (f"socket {i}", f"b{a}")
            if kind == "universal":
                own |= {"axis": (0, 0, 1), "second_axis": (1, 0, 0)}
        constraints.append(Constraint(f"tie {i}", kind, ends, own))
    tied = replace(model, frames=(*model.frames, *frames), constraints=tuple(constraints))
    return replace(tied, start=State(q, np.zeros(model.nv)))


def make_hostile_model(seed: int, *, closed: bool | None = None) -> tuple[Model, Motion]:
    """A mechanism that loses digits, and a motion: masses and lengths over up to eighteen orders of magnitude, joints
    at up to 1e6 rad/s, loops with links that are all but massless; ``closed`` to ask for loops, or for none."""
    rng = Random(f"hostile {seed}")
    loops = rng.random() < 0.5 if closed is None else closed
    spread = rng.choice([0, 1, 3, 6, 9])
    if loops:
        model, motion = make_looped_model(seed, limbs=rng.randint(1, 3), massless=rng.random() < 0.2)
        scales = [10.0 ** rng.choice([0, 0, -spread, -rng.randint(0, 9)]) for _ in model.bodies]
        bodies = [
            replace(body, mass=body.mass * scale, inertia=body.inertia * scale)
            for body, scale in zip(model.bodies, scales, strict=True)
        ]
        model = replace(model, bodies=tuple(bodies))
    else:
        parents = make_parents(rng.randint(1, 6), seed)
        kinds = [rng.choice(MOVING_KINDS) for _ in parents]
        model = make_model(parents, kinds, seed, spread=spread)
        motion = make_motion(model, seed)
    speeds = np.array([10.0 ** rng.choice([0, 0, 0, rng.randint(-3, 6)]) for _ in range(model.nv)])
    return model, motion._replace(v=motion.v * speeds, tau=motion.tau * speeds)


# --- hypothesis -------------------------------------------------------------------------------------------------------

seeds = st.integers(0, 2**16)


@st.composite
def trees(draw: st.DrawFn, min_size: int = 1, max_size: int = 7) -> tuple[int, ...]:
    """Parents of a random forest, parents first; −1 is the world."""
    n = draw(st.integers(min_size, max_size))
    return tuple(draw(st.integers(-1, k - 1)) for k in range(n))


@st.composite
def models(
    draw: st.DrawFn,
    *,
    kinds: Sequence[str] = KINDS,
    massless: bool = True,
    spread: int = 0,
    max_size: int = 7,
    number: Number = float,
) -> Model:
    """A random model with joints of these kinds; interior links may be massless, welds may be anywhere."""
    parents = draw(trees(max_size=max_size))
    chosen = draw(st.tuples(*[st.sampled_from(kinds)] * len(parents)))
    light = draw(st.tuples(*[st.booleans()] * len(parents))) if massless else ()
    return make_model(parents, chosen, draw(seeds), massless=light, spread=spread, number=number)


@st.composite
def motions(draw: st.DrawFn, number: Number = float, **options: Any) -> tuple[Model, Motion]:
    """A random model and a motion of it."""
    model = draw(models(number=number, **options))
    return model, make_motion(model, draw(seeds), number=number)


@st.composite
def rigid_systems(draw: st.DrawFn, max_size: int = 5, **options: Any) -> System:
    """Rigid bodies on any subspaces of 0 to 6 freedoms, all rational."""
    parents = draw(trees(max_size=max_size))
    freedoms = draw(st.tuples(*[st.integers(0, 6)] * len(parents)))
    return make_rigid_system(parents, freedoms, draw(seeds), **options)


@st.composite
def block_systems(draw: st.DrawFn, max_size: int = 6, **options: Any) -> System:
    """Tree BWA systems with rectangular weights, all rational."""
    return make_block_system(draw(trees(max_size=max_size)), draw(seeds), **options)
