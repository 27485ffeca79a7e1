"""Functions of the tree: kinematics, inertia and its conditioning, dynamics, derivatives, energies, actuators.

A function's parameters after the mechanism are its inputs, and ``@function`` states the shapes of its outputs
(:mod:`whippletree.functions.registry`). ``loops=True`` promises that it only maps, scatters and gathers, so that it
also runs as a loop over bodies; ``constraints`` says what it does about constraints: a function of the tree alone
(``"tree"``), one that honours them all (``"honours"``), or, unless stated, one that refuses a model that has any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from whippletree.arithmetic import condition
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.constraints import constrained_derivatives, dynamics, forces_of_motion, prescribed_joints
from whippletree.functions.registry import function
from whippletree.tree import actuation, derivatives, forward, inertia, inverse, kinematics
from whippletree.tree import element_forces as elements
from whippletree.tree import momentum as sums
from whippletree.tree.derivatives import joint_forces, state_derivatives
from whippletree.tree.links import add_wrenches
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import Place
from whippletree.tree.sweeps import Field

# --- kinematics -------------------------------------------------------------------------------------------------------


@function(pose=(4, 4), loops=True, constraints="tree", linear=True)
def pose(m: Mechanism, frame: str, q: Array) -> Array:
    """Pose (4, 4) of a frame or body in the world."""
    return m.frame_pose(m.still(q), m.place(frame)).matrix()


@function(jacobian=(6, "nv"), constraints="tree", linear=True)
def jacobian(m: Mechanism, frame: str, q: Array) -> Array:
    """J (6, nv): J v is the frame's twist (angular, linear), in the frame's axes."""
    return kinematics.jacobian(m.tree, m.still(q), m.place(frame))


@function(bias=(6,), loops=True, constraints="tree", linear=True)
def jacobian_bias(m: Mechanism, frame: str, q: Array, v: Array) -> Array:
    """J̇ v (6,): the frame's spatial acceleration at zero joint accelerations, in its axes, without gravity."""
    return m.frame_bias(m.moving(q, v), m.place(frame))


@function(twist=(6,), loops=True, constraints="tree", linear=True)
def twist(m: Mechanism, frame: str, q: Array, v: Array) -> Array:
    """Twist (6,) of a frame, in its axes: angular velocity, velocity of its origin."""
    return m.frame_twist(m.moving(q, v), m.place(frame))


@function(q=("nq",), loops=True, constraints="tree")
def integrate(m: Mechanism, q: Array, d: Array) -> Array:
    """q ⊕ d: where the constant velocity d leads in unit time; quaternions stay unit."""
    moved = m.sweep.map(lambda n, q, d: n.joint.integrate(q, d), m.nodes, m.coordinates(q), m.velocities(d))
    return m.join(moved)


@function(d=("nv",), loops=True, constraints="tree")
def difference(m: Mechanism, q: Array, r: Array) -> Array:
    """The d with q ⊕ d = r."""
    apart = m.sweep.map(lambda n, q, r: n.joint.difference(q, r), m.nodes, m.coordinates(q), m.coordinates(r))
    return m.join(apart)


@function(rate=("nq",), loops=True, constraints="tree")
def rate(m: Mechanism, q: Array, v: Array) -> Array:
    """q̇ (nq,) of velocities v."""
    rates = m.sweep.map(lambda n, q, v: n.joint.rate(q, v), m.nodes, m.coordinates(q), m.velocities(v))
    return m.join(rates)


# --- inertia ----------------------------------------------------------------------------------------------------------


@function(M=("nv", "nv"), constraints="tree")
def mass_matrix(m: Mechanism, q: Array) -> Array:
    """M (nv, nv), symmetric, rotors included."""
    return inertia.mass_matrix(m.tree, m.sweep, m.still(q))


@function(inverse=("nv", "nv"), may_fail=True, constraints="tree")
def mass_matrix_inverse(m: Mechanism, q: Array) -> Array:
    """M⁻¹ (nv, nv)."""
    links = m.still(q)
    m.require_invertible(links)
    return inertia.mass_matrix_inverse(m.tree, m.sweep, links)


@function(x=("nv",), loops=True, may_fail=True, constraints="tree")
def mass_matrix_solve(m: Mechanism, q: Array, b: Array) -> Array:
    """M⁻¹ b (nv,) in O(N), without forming M."""
    links = m.still(q)
    freedoms = forward.articulate(m.sweep, links, m.velocities(b))
    m.require_inertia(freedoms)
    return m.join(forward.release(m.sweep, links, freedoms, zeros(6)))


@function(inertia=("task", "task"), may_fail=True, constraints="honours")
def operational_inertia(m: Mechanism, task: tuple[str, ...], q: Array, t: Any = 0, active: Any = None) -> Array:
    """(J M⁻¹ Jᵀ)⁻¹ (r, r): the inertia felt at a frame, in its axes; with constraints (J M† Jᵀ)⁻¹.

    A task is a frame (six rows), or several: ``("left", "right.position", "tool.z")`` picks rows by name.
    """
    return prescribed_joints.operational_inertia(m, task, q, t, active)


@function(inverse=("task", "task"), may_fail=True, constraints="honours")
def operational_inertia_inverse(m: Mechanism, task: tuple[str, ...], q: Array, t: Any = 0, active: Any = None) -> Array:
    """J M⁻¹ Jᵀ (r, r) of a frame, or of rows of several, without forming M; with constraints J M† Jᵀ.

    A task is a frame (six rows), or several: ``("left", "right.position", "tool.z")`` picks rows by name.
    """
    return prescribed_joints.operational_inverse(m, task, q, t, active)


# --- dynamics ---------------------------------------------------------------------------------------------------------


@function(tau=("nv",), loops=True, constraints="tree")
def inverse_dynamics(m: Mechanism, q: Array, v: Array, a: Array) -> Array:
    """tau = M a + c (nv,): the joint forces of a motion, gravity included."""
    return m.join(inverse.inverse_dynamics(m.sweep, m.moving(q, v), m.velocities(a), m.base))


@function(bias=("nv",), loops=True, constraints="tree")
def bias(m: Mechanism, q: Array, v: Array) -> Array:
    """c (nv,): the joint forces that keep a = 0, of Coriolis, centrifugal and gravity terms."""
    links = m.moving(q, v)
    return m.join(inverse.bias_forces(m.sweep, links, m.base))


@function(gravity=("nv",), loops=True, constraints="tree")
def gravity(m: Mechanism, q: Array) -> Array:
    """The joint forces (nv,) that hold the system still against gravity."""
    links = m.still(q)
    return m.join(inverse.bias_forces(m.sweep, links, m.base))


@function(a=("nv",), loops=True, may_fail=True, constraints="honours")
def forward_dynamics(m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None) -> Array:
    """a (nv,) with M a + c = tau, by the O(N) articulated recursion; with constraints, M a + c = tau + Aᵀ f, A a + γ
    = 0.

    ``tau`` is the whole joint force: add ``passive_forces`` for springs and dampers.
    """
    if m.tree.model.constraints:
        return dynamics.solve(m, q, v, tau, t, active)[0]
    links = m.moving(q, v)
    freedoms = forward.articulate(m.sweep, links, m.velocities(tau))
    m.require_inertia(freedoms)
    return m.join(forward.release(m.sweep, links, freedoms, m.base))


@function(a=("nv",), loops=True, may_fail=True, constraints="honours")
def forward_dynamics_with_wrench(
    m: Mechanism, frame: str, q: Array, v: Array, tau: Array, wrench: Array, t: Any = 0, active: Any = None
) -> Array:
    """a (nv,) while an external wrench (moment, force), in the frame's axes and about its origin, acts on a frame."""
    place = m.place(frame)
    if m.tree.model.constraints:
        return dynamics.pushed_accelerations(m, q, v, tau, place, wrench, t, active)
    links = _pushed_at(m, m.moving(q, v), place, wrench)
    freedoms = forward.articulate(m.sweep, links, m.velocities(tau))
    m.require_inertia(freedoms)
    return m.join(forward.release(m.sweep, links, freedoms, m.base))


@function(tau=("nv",), loops=True, constraints="tree")
def inverse_dynamics_with_wrench(m: Mechanism, frame: str, q: Array, v: Array, a: Array, wrench: Array) -> Array:
    """tau (nv,) of a motion while an external wrench, in the frame's axes and about its origin, acts on a frame."""
    links = _pushed_at(m, m.moving(q, v), m.place(frame), wrench)
    return m.join(inverse.inverse_dynamics(m.sweep, links, m.velocities(a), m.base))


@function(tau=("nv",), f=("rows",), residual=("nv",), may_fail=True, constraints="honours")
def inverse_dynamics_with_motors(
    m: Mechanism,
    joints: tuple[str, ...],
    q: Array,
    v: Array,
    a: Array,
    costs: Array,
    t: Any = 0,
    active: Any = None,
) -> tuple[Array, Array, Array]:
    """tau (nv,) of the motors of the named joints and f (rows,) of the constraints for a motion: M a + c = tau + Aᵀ f +
    residual.

    More motors than freedoms share the load with the least Σ costᵢ tauᵢ²; ``costs`` (nv,) settle how newtons and newton
    metres compare, and count at motors only. Fewer leave a residual (nv,) on joints without a motor: what is missing
    for the motion, zero where it can be had. Accelerations that the constraints forbid are corrected where motors
    notice it least, and the residual holds what the correction changes. ``tau`` is the whole joint force: subtract
    ``passive_forces`` for what motors add to springs and dampers.
    """
    found = forces_of_motion.actuate(m, joints, q, v, a, np.diag(costs), t, active)
    return found.tau, found.f, found.residual


@function(tau=("nv",), f=("rows",), residual=("nv",), may_fail=True, constraints="honours")
def inverse_dynamics_with_metric(
    m: Mechanism,
    joints: tuple[str, ...],
    q: Array,
    v: Array,
    a: Array,
    metric: Array,
    t: Any = 0,
    active: Any = None,
) -> tuple[Array, Array, Array]:
    """tau (nv,), f (rows,) and residual (nv,) of ``inverse_dynamics_with_motors``, shared with the least tauᵀ W tau.

    ``metric`` is W (nv, nv), symmetric and positive definite on the motors; only their rows and columns count. It may
    be a mass matrix, or MᵀM for what really is to be small; a diagonal W is that of ``inverse_dynamics_with_motors``.
    """
    found = forces_of_motion.actuate(m, joints, q, v, a, metric, t, active)
    return found.tau, found.f, found.residual


def _pushed_at(m: Mechanism, links: Field, place: Place, wrench: Array) -> Field:
    """The links with a wrench on the node of one frame."""

    def push(pushed: bool, wrench: Array) -> Array:
        return place.pose.force(wrench) if pushed else zeros(6)

    pushed = m.among([place.node] if place.node >= 0 else [])
    return add_wrenches(m.sweep, links, m.sweep.map(push, pushed, m.everywhere(wrench)))


@function(a=("nv",), tau=("nv",), loops=True, may_fail=True, constraints="honours")
def hybrid_dynamics(
    m: Mechanism, joints: tuple[str, ...], q: Array, v: Array, given: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """(a, tau), each (nv,), where ``given`` holds accelerations for the named joints and forces for all others."""
    for name in joints:
        m.tree.model.joint_index(name)
    if m.tree.model.constraints:
        return prescribed_joints.hybrid_dynamics(m, joints, q, v, given, t, active)
    led = m.among(m.tree.nodes_of(joints))
    outcomes = forward.hybrid_dynamics(m.sweep, m.moving(q, v), led, m.velocities(given), m.base)
    m.require_inertia(outcomes)
    return m.join([o.qdd for o in outcomes]), m.join([o.effort for o in outcomes])


@function(forces=("bodies", 6), linear=True)
def interbody_forces(m: Mechanism, q: Array, v: Array, a: Array) -> Array:
    """Wrench (bodies, 6) from its parent on every moving body with all that is welded to it, in the body's frame."""
    loads = inverse.loads(m.sweep, m.moving(q, v), m.velocities(a), m.base)
    rows = []
    for body in m.tree.model.bodies:
        node, at = m.tree.bodies[body.name]
        rows.append(at.inverse().force(loads[node].force[:6]) if node >= 0 else zeros(6))
    return np.stack(rows) if rows else zeros(0, 6)


@function(forces=("nv",), loops=True, constraints="tree")
def passive_forces(m: Mechanism, q: Array, v: Array) -> Array:
    """−stiffness (q − rest) − damping v (nv,) of the joints, and ``element_forces`` of models that have elements."""
    joints = m.join(sums.passive_forces(m.sweep, m.joints, m.coordinates(q), m.velocities(v)))
    return joints + elements.element_forces(m, q, v) if m.tree.model.elements else joints


@function(forces=("nv",), constraints="tree", linear=True)
def element_forces(m: Mechanism, q: Array, v: Array) -> Array:
    """Joint forces (nv,) of tendons' springs and dampers, the drag of fluids, and held-up weight."""
    return elements.element_forces(m, q, v)


# --- derivatives ------------------------------------------------------------------------------------------------------


@function(dq=("nv", "nv"), constraints="tree")
def gravity_derivatives(m: Mechanism, q: Array) -> Array:
    """∂gravity/∂q (nv, nv): the stiffness that weights have at rest; q moves in the tangent space."""
    still = zeros(m.tree.model.nv)
    if m.tree.model.is_flexible:
        return state_derivatives(m, lambda q, v: joint_forces(m, q, v, still), q, still)[0]
    return derivatives.inverse_dynamics_derivatives(m.tree, q, still, still).dq


@function(dq=("nv", "nv"), dv=("nv", "nv"), da=("nv", "nv"), constraints="tree")
def inverse_dynamics_derivatives(m: Mechanism, q: Array, v: Array, a: Array) -> tuple[Array, Array, Array]:
    """∂τ/∂q, ∂τ/∂v, ∂τ/∂a (nv, nv) of ``inverse_dynamics``; q moves in the tangent space, ∂τ/∂a is the mass matrix."""
    if m.tree.model.is_flexible:
        dq, dv = state_derivatives(m, lambda q, v: joint_forces(m, q, v, a), q, v)
        return dq, dv, inertia.mass_matrix(m.tree, m.sweep, m.still(q))
    found = derivatives.inverse_dynamics_derivatives(m.tree, q, v, a)
    return found.dq, found.dv, found.da


@function(dq=("nv", "nv"), dv=("nv", "nv"), dtau=("nv", "nv"), may_fail=True, constraints="honours")
def forward_dynamics_derivatives(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array, Array]:
    """∂a/∂q, ∂a/∂v, ∂a/∂τ (nv, nv) of ``forward_dynamics``; q moves in the tangent space, ∂a/∂τ is M⁻¹ or M†."""
    if m.tree.model.constraints:
        under = constrained_derivatives.derivatives(m, q, v, tau, t, active)
        return under.dq.a, under.dv.a, under.dtau.a
    if m.tree.model.is_flexible:
        a = forward_dynamics(m, q, v, tau)
        dq, dv = state_derivatives(m, lambda q, v: joint_forces(m, q, v, a), q, v)
        inverse = inertia.mass_matrix_inverse(m.tree, m.sweep, m.still(q))
        return -(inverse @ dq), -(inverse @ dv), inverse
    found = derivatives.forward_dynamics_derivatives(m.tree, q, v, tau)
    m.require_invertible(m.still(q))
    return found.dq, found.dv, found.dtau


# --- sums over bodies -------------------------------------------------------------------------------------------------


@function(energy=(), loops=True, constraints="tree")
def kinetic_energy(m: Mechanism, q: Array, v: Array) -> Any:
    """½ vᵀ M v, J."""
    return sums.kinetic_energy(m.sweep, m.moving(q, v), m.velocities(v))


@function(energy=(), loops=True, constraints="tree")
def potential_energy(m: Mechanism, q: Array) -> Any:
    """Gravitational energy (zero at the world's origin) plus that of springs of joints and tendons, J."""
    return sums.gravitational_energy(m.sweep, m.still(q), m.gravity) + elements.elastic_energy(m, q)


@function(momentum=(6,), loops=True, constraints="tree")
def momentum(m: Mechanism, q: Array, v: Array) -> Array:
    """Angular and linear momentum (6,) about the world's origin, in world axes."""
    return sums.momentum(m.sweep, m.moving(q, v))


@function(center=(3,), loops=True, constraints="tree", linear=True)
def center_of_mass(m: Mechanism, q: Array) -> Array:
    """Centre of mass (3,) of everything that can move, in the world, m."""
    return sums.center_of_mass(m.tree, sums.world_inertia(m.sweep, m.still(q)))


@function(matrix=(6, "nv"), constraints="tree", linear=True)
def centroidal_momentum_matrix(m: Mechanism, q: Array) -> Array:
    """A_G (6, nv): A_G v is the momentum about the centre of mass, in world axes."""
    return sums.centroidal(m.tree, m.sweep, m.still(q)).matrix


@function(regressor=("nv", "parameters"), constraints="tree")
def regressor(m: Mechanism, q: Array, v: Array, a: Array) -> Array:
    """Y (nv, 10 · bodies) with tau = Y π, linear in the bodies' inertial parameters (rotors excluded).

    π holds per body, about and in the body's frame: mass, mass · centre (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
    """
    links = m.moving(q, v)
    return sums.regressor(m.tree, links, inverse.accelerations(m.sweep, links, m.velocities(a), m.base))


# --- conditioning (document 004); reports with words are in :mod:`whippletree.accuracy` -------------------------------


@function(diagonal=("nv",), loops=True, constraints="tree")
def diagonal_of_mass_matrix(m: Mechanism, q: Array) -> Array:
    """diag M (nv,), by composite inertias alone, O(N)."""
    return m.join(inertia.mass_diagonal(m.sweep, m.still(q)))


@function(ratio=(), constraints="tree", linear=True)
def diagonal_ratio(m: Mechanism, q: Array) -> Any:
    """δ: the largest entry of diag M over the smallest (004 §4)."""
    return inertia.ratio(m.join(inertia.mass_diagonal(m.sweep, m.still(q))))


@function(base_first=(), tips_first=(), constraints="tree")
def pivot_ratios(m: Mechanism, q: Array) -> tuple[Any, Any]:
    """Largest over smallest pivot of M in both orders of elimination: base first as in 004, tips first as in D."""
    M = inertia.mass_matrix(m.tree, m.sweep, m.still(q))
    return inertia.pivot_ratios(M, m.tree.velocity_parents)


@function(kappa=(), constraints="tree")
def condition_number(m: Mechanism, q: Array) -> Any:
    """κ₂ of M; its value depends on units where they mix. Infinite where some motion has no inertia.

    Eigenvalues below n ε λ_max are rounding: ``wt.conditioning`` has more digits for badly scaled matrices.
    """
    return condition.condition_number(inertia.mass_matrix(m.tree, m.sweep, m.still(q)), definite=True)


@function(kappa=(), constraints="tree")
def equilibrated_condition_number(m: Mechanism, q: Array) -> Any:
    """κ₂ of M at unit diagonal, which is free of units and governs the rounding of factorisations."""
    M = inertia.mass_matrix(m.tree, m.sweep, m.still(q))
    return condition.condition_number(condition.equilibrate(M), definite=True)


@function(a=("nv",), amplification=("nv",), may_fail=True, constraints="honours")
def force_sensitivity(m: Mechanism, q: Array, b: Array, t: Any = 0, active: Any = None) -> tuple[Array, Array]:
    """a = M⁻¹ b (nv,) of forces b, and (|M⁻¹| |b|)ᵢ / |aᵢ| (nv,): how much relative errors of the forces grow (004
    eq. 3–4).

    Entry i is the largest relative change of acceleration i per relative change of every force; infinite where aᵢ is
    zero. With constraints M† takes the place of M⁻¹.
    """
    if m.tree.model.constraints:
        inverted = dynamics.dagger(m, q, t, active).M
    else:
        links = m.still(q)
        m.require_invertible(links)
        inverted = inertia.mass_matrix_inverse(m.tree, m.sweep, links)
    return inertia.amplification(inverted, b)


@function(a=("nv",), diagonal=("nv",), loops=True, may_fail=True, constraints="honours")
def forward_dynamics_with_diagonal(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Array]:
    """a (nv,) as by ``forward_dynamics``, and diag M (nv,), from which δ is the ratio of two entries."""
    return forward_dynamics(m, q, v, tau, t, active), dynamics.mass_diagonal(m, q)


@function(a=("nv",), ratio=(), may_fail=True, constraints="honours")
def forward_dynamics_with_diagonal_ratio(
    m: Mechanism, q: Array, v: Array, tau: Array, t: Any = 0, active: Any = None
) -> tuple[Array, Any]:
    """a (nv,) as by ``forward_dynamics``, and the diagonal ratio δ of M, for little more."""
    own = m.join(inertia.mass_diagonal(m.sweep, m.still(q)))
    return forward_dynamics(m, q, v, tau, t, active), inertia.ratio(own)


# --- actuators --------------------------------------------------------------------------------------------------------


@function(tau=("nv",), constraints="tree", actuators=True, linear=True)
def actuator_forces(m: Mechanism, q: Array, v: Array, ctrl: Array, act: Array | None = None) -> Array:
    """Joint forces (nv,) of all actuators under their commands, cut to ranges of commands, forces and joints.

    Where actuators have activations, which take the place of their commands, these are an input too.
    """
    drives = ctrl if act is None else actuation.drives(m.tree.model, ctrl, act)
    return actuation.actuator_forces(m, q, v, drives)


@function(wrenches=("bodies", 6), constraints="tree", actuators=True)
def actuator_wrenches(m: Mechanism, q: Array, v: Array, ctrl: Array, act: Array | None = None) -> Array:
    """Wrenches (bodies, 6) of the actuators of tendons and frames, about the origin and in the axes of each body.

    Those of joints act between the two bodies of their joint, as its force. The whole is in ``actuator_forces``, as
    joint forces; ``joint_reactions_of_motion`` takes these wrenches.
    """
    drives = ctrl if act is None else actuation.drives(m.tree.model, ctrl, act)
    return actuation.actuator_wrenches(m, q, v, drives)


@function(rate=("activations",), constraints="tree", actuators=True, linear=True)
def activation_rates(m: Mechanism, ctrl: Array, act: Array) -> Array:
    """How fast the activations of actuators follow their commands; the ends of their ranges are not asked."""
    return actuation.activation_rates(m.tree.model, ctrl, act)
