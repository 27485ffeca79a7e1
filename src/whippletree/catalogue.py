"""The one table of functions: everything that a user can evaluate, each with a single generic implementation.

``wt.reference``, ``wt.compile`` and ``wt.symbolic`` read this table; none of them knows a function by name. To add a
function, write it here: its parameters after the mechanism are its inputs, by the names in ``SHAPES``; parameters in
``NAMES`` are names that are given before the numbers (``dyn.jacobian("tool")(q)``); ``@function`` states the shapes of
its outputs. ``loops=True`` promises that it only maps, scatters and gathers, so that it also runs as a loop over bodies.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from whippletree.errors import NameLookupError
from whippletree.model import Model
from whippletree.spatial import Array, zeros
from whippletree.tree import forward, hybrid, inertia, inverse, kinematics
from whippletree.tree import momentum as sums
from whippletree.tree.links import pushed
from whippletree.tree.mechanism import Mechanism

Size: TypeAlias = int | str
Shape: TypeAlias = tuple[Size, ...]

SHAPES: dict[str, Shape] = {
    "q": ("nq",),
    "v": ("nv",),
    "a": ("nv",),
    "tau": ("nv",),
    "given": ("nv",),
    "b": ("nv",),
    "d": ("nv",),
    "r": ("nq",),
    "wrench": (6,),
}
"""Shape of every input, by its name; nq, nv and nodes are the model's."""

UNITS = {
    "q": "rad or m; quaternions w, x, y, z",
    "v": "rad/s or m/s",
    "a": "rad/s² or m/s²",
    "tau": "N m or N",
    "wrench": "N m and N, in the frame's axes",
}

NAMES = ("frame", "joints")


@dataclass(frozen=True)
class Function:
    """An entry of the catalogue."""

    name: str
    names: tuple[str, ...]
    """Kinds of names that it takes before its numbers."""
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    implementation: Callable[..., Any]
    loops: bool
    summary: str
    may_fail: bool = False


CATALOGUE: dict[str, Function] = {}


def sizes(model: Model) -> dict[str, int]:
    """What the named sizes are for a model."""
    return {"nq": model.nq, "nv": model.nv, "bodies": len(model.bodies), "parameters": 10 * len(model.bodies)}


def resolve(shape: Shape, known: dict[str, int]) -> tuple[int, ...]:
    """A shape with its named sizes filled in."""
    return tuple(known[d] if isinstance(d, str) else d for d in shape)


def find(name: str) -> Function:
    """An entry by name."""
    if name not in CATALOGUE:
        raise NameLookupError("function", name, CATALOGUE)
    return CATALOGUE[name]


def function(*, loops: bool = False, may_fail: bool = False, **outputs: Shape) -> Callable[..., Any]:
    """Enter a function into the catalogue."""

    def enter(implementation: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(implementation).parameters)[1:]
        CATALOGUE[implementation.__name__] = Function(
            implementation.__name__,
            tuple(p for p in parameters if p in NAMES),
            {p: SHAPES[p] for p in parameters if p not in NAMES},
            outputs,
            implementation,
            loops,
            inspect.getdoc(implementation) or "",
            may_fail,
        )
        return implementation

    return enter


# --- kinematics -------------------------------------------------------------------------------------------------------


@function(pose=(4, 4))
def pose(m: Mechanism, frame: str, q: Array) -> Array:
    """Pose (4, 4) of a frame or body in the world."""
    return kinematics.pose(m.tree, m.still(q), m.place(frame)).matrix()


@function(jacobian=(6, "nv"))
def jacobian(m: Mechanism, frame: str, q: Array) -> Array:
    """J (6, nv): J v is the frame's twist (angular, linear), in the frame's axes."""
    return kinematics.jacobian(m.tree, m.still(q), m.place(frame))


@function(bias=(6,))
def jacobian_bias(m: Mechanism, frame: str, q: Array, v: Array) -> Array:
    """J̇ v (6,): the frame's spatial acceleration at zero joint accelerations, in its axes, without gravity."""
    return kinematics.jacobian_bias(m.tree, m.moving(q, v), m.place(frame))


@function(twist=(6,))
def twist(m: Mechanism, frame: str, q: Array, v: Array) -> Array:
    """Twist (6,) of a frame, in its axes: angular velocity, velocity of its origin."""
    return kinematics.twist(m.tree, m.moving(q, v), m.place(frame))


@function(q=("nq",))
def integrate(m: Mechanism, q: Array, d: Array) -> Array:
    """q ⊕ d: where the constant velocity d leads in unit time; quaternions stay unit."""
    return m.manifold().integrate(q, d)


@function(d=("nv",))
def difference(m: Mechanism, q: Array, r: Array) -> Array:
    """The d with q ⊕ d = r."""
    return m.manifold().difference(q, r)


@function(rate=("nq",))
def rate(m: Mechanism, q: Array, v: Array) -> Array:
    """q̇ (nq,) of velocities v."""
    return m.manifold().rate(q, v)


# --- inertia ----------------------------------------------------------------------------------------------------------


@function(M=("nv", "nv"))
def mass_matrix(m: Mechanism, q: Array) -> Array:
    """M (nv, nv), symmetric, rotors included."""
    return inertia.mass_matrix(m.tree, m.sweep, m.still(q))


@function(inverse=("nv", "nv"), may_fail=True)
def mass_matrix_inverse(m: Mechanism, q: Array) -> Array:
    """M⁻¹ (nv, nv)."""
    links = m.still(q)
    m.require_invertible(links)
    return inertia.mass_matrix_inverse(m.tree, m.sweep, links)


@function(x=("nv",), loops=True, may_fail=True)
def mass_matrix_solve(m: Mechanism, q: Array, b: Array) -> Array:
    """M⁻¹ b (nv,) in O(N), without forming M."""
    links = m.still(q)
    freedoms = forward.articulate(m.sweep, links, m.velocities(b))
    m.require_inertia(freedoms)
    return m.join(forward.release(m.sweep, links, freedoms, zeros(6)))


@function(inertia=(6, 6), may_fail=True)
def operational_inertia(m: Mechanism, frame: str, q: Array) -> Array:
    """(J M⁻¹ Jᵀ)⁻¹ (6, 6): the inertia felt at a frame, in its axes."""
    links = m.still(q)
    m.require_invertible(links)
    return inertia.operational_inertia(m.tree, m.sweep, links, m.place(frame))


@function(inverse=(6, 6), may_fail=True)
def operational_inertia_inverse(m: Mechanism, frame: str, q: Array) -> Array:
    """J M⁻¹ Jᵀ (6, 6) of a frame, without forming M."""
    links = m.still(q)
    m.require_invertible(links)
    return inertia.operational_inverse(m.tree, m.sweep, links, [m.place(frame)])


# --- dynamics ---------------------------------------------------------------------------------------------------------


@function(tau=("nv",), loops=True)
def inverse_dynamics(m: Mechanism, q: Array, v: Array, a: Array) -> Array:
    """tau = M a + c (nv,): the joint forces of a motion, gravity included."""
    return m.join(inverse.inverse_dynamics(m.sweep, m.moving(q, v), m.velocities(a), m.base))


@function(bias=("nv",), loops=True)
def bias(m: Mechanism, q: Array, v: Array) -> Array:
    """c (nv,): the joint forces that keep a = 0, of Coriolis, centrifugal and gravity terms."""
    links = m.moving(q, v)
    still = m.sweep.map(lambda link: zeros(link.H.shape[1]), links)
    return m.join(inverse.inverse_dynamics(m.sweep, links, still, m.base))


@function(gravity=("nv",), loops=True)
def gravity(m: Mechanism, q: Array) -> Array:
    """The joint forces (nv,) that hold the system still against gravity."""
    links = m.still(q)
    still = m.sweep.map(lambda link: zeros(link.H.shape[1]), links)
    return m.join(inverse.inverse_dynamics(m.sweep, links, still, m.base))


@function(a=("nv",), loops=True, may_fail=True)
def forward_dynamics(m: Mechanism, q: Array, v: Array, tau: Array) -> Array:
    """a (nv,) with M a + c = tau, by the O(N) articulated recursion.

    ``tau`` is the whole joint force: add ``passive_forces`` for springs and dampers.
    """
    links = m.moving(q, v)
    freedoms = forward.articulate(m.sweep, links, m.velocities(tau))
    m.require_inertia(freedoms)
    return m.join(forward.release(m.sweep, links, freedoms, m.base))


@function(a=("nv",), may_fail=True)
def forward_dynamics_with_wrench(m: Mechanism, frame: str, q: Array, v: Array, tau: Array, wrench: Array) -> Array:
    """a (nv,) while an external wrench (moment, force), in the frame's axes and about its origin, acts on a frame."""
    place = m.place(frame)
    wrenches = [place.pose.force(wrench) if k == place.node else zeros(6) for k in range(len(m.tree.nodes))]
    links = pushed(m.sweep, m.moving(q, v), wrenches)
    freedoms = forward.articulate(m.sweep, links, m.velocities(tau))
    m.require_inertia(freedoms)
    return m.join(forward.release(m.sweep, links, freedoms, m.base))


@function(a=("nv",), tau=("nv",), may_fail=True)
def hybrid_dynamics(m: Mechanism, joints: tuple[str, ...], q: Array, v: Array, given: Array) -> tuple[Array, Array]:
    """(a, tau), each (nv,), where ``given`` holds accelerations for the named joints and forces for all others."""
    for name in joints:
        m.tree.model.joint_index(name)
    prescribed = [joint.name in joints for joint in m.tree.joints]
    outcomes = hybrid.hybrid_dynamics(m.sweep, m.moving(q, v), prescribed, m.velocities(given), m.base)
    m.require_inertia(outcomes)
    return m.join([o.qdd for o in outcomes]), m.join([o.effort for o in outcomes])


@function(forces=("bodies", 6))
def interbody_forces(m: Mechanism, q: Array, v: Array, a: Array) -> Array:
    """Wrench (bodies, 6) from its parent on every moving body with all that is welded to it, in the body's frame."""
    loads = inverse.loads(m.sweep, m.moving(q, v), m.velocities(a), m.base)
    rows = []
    for body in m.tree.model.bodies:
        node, at = m.tree.bodies[body.name]
        rows.append(at.inverse().force(loads[node].force) if node >= 0 else zeros(6))
    return np.stack(rows) if rows else zeros(0, 6)


@function(forces=("nv",), loops=True)
def passive_forces(m: Mechanism, q: Array, v: Array) -> Array:
    """−stiffness (q − rest) − damping v (nv,): what the joints' springs and dampers apply."""
    return m.join(sums.passive_forces(m.sweep, m.joints, m.coordinates(q), m.velocities(v)))


# --- sums over bodies -------------------------------------------------------------------------------------------------


@function(energy=(), loops=True)
def kinetic_energy(m: Mechanism, q: Array, v: Array) -> Any:
    """½ vᵀ M v, J."""
    return sums.kinetic_energy(m.sweep, m.moving(q, v), m.velocities(v))


@function(energy=(), loops=True)
def potential_energy(m: Mechanism, q: Array) -> Any:
    """Gravitational energy (zero at the world's origin) plus that of the joints' springs, J."""
    springs = sums.spring_energy(m.sweep, m.joints, m.coordinates(q))
    return sums.gravitational_energy(m.sweep, m.still(q), m.gravity) + springs


@function(momentum=(6,), loops=True)
def momentum(m: Mechanism, q: Array, v: Array) -> Array:
    """Angular and linear momentum (6,) about the world's origin, in world axes."""
    return sums.momentum(m.sweep, m.moving(q, v))


@function(center=(3,))
def center_of_mass(m: Mechanism, q: Array) -> Array:
    """Centre of mass (3,) in the world, m."""
    whole = sums.world_inertia(m.sweep, m.still(q))
    return np.asarray(whole.moment / whole.mass)


@function(matrix=(6, "nv"))
def centroidal_momentum_matrix(m: Mechanism, q: Array) -> Array:
    """A_G (6, nv): A_G v is the momentum about the centre of mass, in world axes."""
    return sums.centroidal(m.tree, m.sweep, m.still(q)).matrix


@function(regressor=("nv", "parameters"))
def regressor(m: Mechanism, q: Array, v: Array, a: Array) -> Array:
    """Y (nv, 10 · bodies) with tau = Y π, linear in the bodies' inertial parameters (rotors excluded).

    π holds per body, about and in the body's frame: mass, mass · centre (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
    """
    links = m.moving(q, v)
    return sums.regressor(m.tree, links, inverse.accelerations(m.sweep, links, m.velocities(a), m.base))
