# Generated from the table of functions by `make stubs`. Do not edit.
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from whippletree.arithmetic.arrays import Array

class InverseDynamicsWithMotors(NamedTuple):
    tau: Array
    """(nv,)."""
    f: Array
    """(rows,)."""
    residual: Array
    """(nv,)."""

class InverseDynamicsWithMetric(NamedTuple):
    tau: Array
    """(nv,)."""
    f: Array
    """(rows,)."""
    residual: Array
    """(nv,)."""

class HybridDynamics(NamedTuple):
    a: Array
    """(nv,)."""
    tau: Array
    """(nv,)."""

class InverseDynamicsDerivatives(NamedTuple):
    dq: Array
    """(nv, nv)."""
    dv: Array
    """(nv, nv)."""
    da: Array
    """(nv, nv)."""

class ForwardDynamicsDerivatives(NamedTuple):
    dq: Array
    """(nv, nv)."""
    dv: Array
    """(nv, nv)."""
    dtau: Array
    """(nv, nv)."""

class PivotRatios(NamedTuple):
    base_first: Any
    tips_first: Any

class ForceSensitivity(NamedTuple):
    a: Array
    """(nv,)."""
    amplification: Array
    """(nv,)."""

class ForwardDynamicsWithDiagonal(NamedTuple):
    a: Array
    """(nv,)."""
    diagonal: Array
    """(nv,)."""

class ForwardDynamicsWithDiagonalRatio(NamedTuple):
    a: Array
    """(nv,)."""
    ratio: Any

class ConstraintForcesDerivatives(NamedTuple):
    dq: Array
    """(rows, nv)."""
    dv: Array
    """(rows, nv)."""
    dtau: Array
    """(rows, nv)."""

class Dagger(NamedTuple):
    M_dagger: Array
    """(nv, nv)."""
    A_dagger: Array
    """(independent, nv)."""
    Lambda_dagger: Array
    """(independent, independent)."""

class Impact(NamedTuple):
    v: Array
    """(nv,)."""
    impulses: Array
    """(rows,)."""

class VelocityStep(NamedTuple):
    v: Array
    """(nv,)."""
    impulses: Array
    """(rows,)."""

class BlockConditionNumbers(NamedTuple):
    block: Any
    schur: Any

class JointReactions(NamedTuple):
    reactions: Array
    """(reactions, 6)."""
    determined: Array
    """(reactions, 6)."""

class JointReactionsWithWeights(NamedTuple):
    reactions: Array
    """(reactions, 6)."""
    determined: Array
    """(reactions, 6)."""

class JointReactionsOfMotion(NamedTuple):
    reactions: Array
    """(reactions, 6)."""
    determined: Array
    """(reactions, 6)."""

class InverseDynamicsInContact(NamedTuple):
    tau: Array
    """(nv,)."""
    f: Array
    """(rows,)."""
    contact_forces: Array
    """(contact_rows,)."""
    residual: Array
    """(nv,)."""

class ReferenceTable:
    def pose(self, frame: str) -> _Pose:
        """Pose (4, 4) of a frame or body in the world.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns pose (4, 4).
        """
    def jacobian(self, frame: str) -> _Jacobian:
        """J (6, nv): J v is the frame's twist (angular, linear), in the frame's axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns jacobian (6, nv).
        """
    def jacobian_bias(self, frame: str) -> _JacobianBias:
        """J̇ v (6,): the frame's spatial acceleration at zero joint accelerations, in its axes, without gravity.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns bias (6,).
        """
    def twist(self, frame: str) -> _Twist:
        """Twist (6,) of a frame, in its axes: angular velocity, velocity of its origin.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns twist (6,).
        """
    def integrate(self, q: Any, d: Any) -> Array:
        """q ⊕ d: where the constant velocity d leads in unit time; quaternions stay unit.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            d (nv,)
        Returns q (nq,).
        """
    def difference(self, q: Any, r: Any) -> Array:
        """The d with q ⊕ d = r.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            r (nq,)
        Returns d (nv,).
        """
    def rate(self, q: Any, v: Any) -> Array:
        """q̇ (nq,) of velocities v.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns rate (nq,).
        """
    def mass_matrix(self, q: Any) -> Array:
        """M (nv, nv), symmetric, rotors included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns M (nv, nv).
        """
    def mass_matrix_inverse(self, q: Any) -> Array:
        """M⁻¹ (nv, nv).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns inverse (nv, nv).
        """
    def mass_matrix_solve(self, q: Any, b: Any) -> Array:
        """M⁻¹ b (nv,) in O(N), without forming M.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            b (nv,)
        Returns x (nv,).
        """
    def operational_inertia(self, task: str | tuple[str, ...] | list[str]) -> _OperationalInertia:
        """(J M⁻¹ Jᵀ)⁻¹ (r, r): the inertia felt at a frame, in its axes; with constraints (J M† Jᵀ)⁻¹.

        A task is a frame (six rows), or several: ``("left", "right.position", "tool.z")`` picks rows by name.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns inertia (task, task).
        """
    def operational_inertia_inverse(self, task: str | tuple[str, ...] | list[str]) -> _OperationalInertiaInverse:
        """J M⁻¹ Jᵀ (r, r) of a frame, or of rows of several, without forming M; with constraints J M† Jᵀ.

        A task is a frame (six rows), or several: ``("left", "right.position", "tool.z")`` picks rows by name.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns inverse (task, task).
        """
    def inverse_dynamics(self, q: Any, v: Any, a: Any) -> Array:
        """tau = M a + c (nv,): the joint forces of a motion, gravity included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns tau (nv,).
        """
    def bias(self, q: Any, v: Any) -> Array:
        """c (nv,): the joint forces that keep a = 0, of Coriolis, centrifugal and gravity terms.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns bias (nv,).
        """
    def gravity(self, q: Any) -> Array:
        """The joint forces (nv,) that hold the system still against gravity.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns gravity (nv,).
        """
    def forward_dynamics(self, q: Any, v: Any, tau: Any, t: Any = ..., active: Any = ...) -> Array:
        """a (nv,) with M a + c = tau, by the O(N) articulated recursion; with constraints, M a + c = tau + Aᵀ f, A a + γ
        = 0.

        ``tau`` is the whole joint force: add ``passive_forces`` for springs and dampers.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,).
        """
    def forward_dynamics_with_wrench(self, frame: str) -> _ForwardDynamicsWithWrench:
        """a (nv,) while an external wrench (moment, force), in the frame's axes and about its origin, acts on a frame.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            wrench (6,): N m and N, in the frame's axes
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,).
        """
    def inverse_dynamics_with_wrench(self, frame: str) -> _InverseDynamicsWithWrench:
        """tau (nv,) of a motion while an external wrench, in the frame's axes and about its origin, acts on a frame.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
            wrench (6,): N m and N, in the frame's axes
        Returns tau (nv,).
        """
    def inverse_dynamics_with_motors(self, joints: str | tuple[str, ...] | list[str]) -> _InverseDynamicsWithMotors:
        """tau (nv,) of the motors of the named joints and f (rows,) of the constraints for a motion: M a + c = tau + Aᵀ f +
        residual.

        More motors than freedoms share the load with the least Σ costᵢ tauᵢ²; ``costs`` (nv,) settle how newtons and newton
        metres compare, and count at motors only. Fewer leave a residual (nv,) on joints without a motor: what is missing
        for the motion, zero where it can be had. Accelerations that the constraints forbid are corrected where motors
        notice it least, and the residual holds what the correction changes. ``tau`` is the whole joint force: subtract
        ``passive_forces`` for what motors add to springs and dampers.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
            costs (nv,): of the squares of motors' forces: 1/(N m)² or 1/N², all positive
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns tau (nv,), f (rows,), residual (nv,).
        """
    def inverse_dynamics_with_metric(self, joints: str | tuple[str, ...] | list[str]) -> _InverseDynamicsWithMetric:
        """tau (nv,), f (rows,) and residual (nv,) of ``inverse_dynamics_with_motors``, shared with the least tauᵀ W tau.

        ``metric`` is W (nv, nv), symmetric and positive definite on the motors; only their rows and columns count. It may
        be a mass matrix, or MᵀM for what really is to be small; a diagonal W is that of ``inverse_dynamics_with_motors``.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
            metric (nv, nv): of products of motors' forces: 1/(N m)², 1/N² or 1/(N² m), positive definite
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns tau (nv,), f (rows,), residual (nv,).
        """
    def hybrid_dynamics(self, joints: str | tuple[str, ...] | list[str]) -> _HybridDynamics:
        """(a, tau), each (nv,), where ``given`` holds accelerations for the named joints and forces for all others.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            given (nv,)
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), tau (nv,).
        """
    def interbody_forces(self, q: Any, v: Any, a: Any) -> Array:
        """Wrench (bodies, 6) from its parent on every moving body with all that is welded to it, in the body's frame.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns forces (bodies, 6).
        """
    def passive_forces(self, q: Any, v: Any) -> Array:
        """−stiffness (q − rest) − damping v (nv,) of the joints, and ``element_forces`` of models that have elements.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns forces (nv,).
        """
    def element_forces(self, q: Any, v: Any) -> Array:
        """Joint forces (nv,) of tendons' springs and dampers, the drag of fluids, and held-up weight.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns forces (nv,).
        """
    def gravity_derivatives(self, q: Any) -> Array:
        """∂gravity/∂q (nv, nv): the stiffness that weights have at rest; q moves in the tangent space.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns dq (nv, nv).
        """
    def inverse_dynamics_derivatives(self, q: Any, v: Any, a: Any) -> InverseDynamicsDerivatives:
        """∂τ/∂q, ∂τ/∂v, ∂τ/∂a (nv, nv) of ``inverse_dynamics``; q moves in the tangent space, ∂τ/∂a is the mass matrix.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns dq (nv, nv), dv (nv, nv), da (nv, nv).
        """
    def forward_dynamics_derivatives(self, q: Any, v: Any, tau: Any, t: Any = ..., active: Any = ...) -> ForwardDynamicsDerivatives:
        """∂a/∂q, ∂a/∂v, ∂a/∂τ (nv, nv) of ``forward_dynamics``; q moves in the tangent space, ∂a/∂τ is M⁻¹ or M†.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns dq (nv, nv), dv (nv, nv), dtau (nv, nv).
        """
    def kinetic_energy(self, q: Any, v: Any) -> Any:
        """½ vᵀ M v, J.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns energy.
        """
    def potential_energy(self, q: Any) -> Any:
        """Gravitational energy (zero at the world's origin) plus that of springs of joints and tendons, J.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns energy.
        """
    def momentum(self, q: Any, v: Any) -> Array:
        """Angular and linear momentum (6,) about the world's origin, in world axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns momentum (6,).
        """
    def center_of_mass(self, q: Any) -> Array:
        """Centre of mass (3,) of everything that can move, in the world, m.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns center (3,).
        """
    def centroidal_momentum_matrix(self, q: Any) -> Array:
        """A_G (6, nv): A_G v is the momentum about the centre of mass, in world axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns matrix (6, nv).
        """
    def regressor(self, q: Any, v: Any, a: Any) -> Array:
        """Y (nv, 10 · bodies) with tau = Y π, linear in the bodies' inertial parameters (rotors excluded).

        π holds per body, about and in the body's frame: mass, mass · centre (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns regressor (nv, parameters).
        """
    def diagonal_of_mass_matrix(self, q: Any) -> Array:
        """diag M (nv,), by composite inertias alone, O(N).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns diagonal (nv,).
        """
    def diagonal_ratio(self, q: Any) -> Any:
        """δ: the largest entry of diag M over the smallest (004 §4).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns ratio.
        """
    def pivot_ratios(self, q: Any) -> PivotRatios:
        """Largest over smallest pivot of M in both orders of elimination: base first as in 004, tips first as in D.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns base_first, tips_first.
        """
    def condition_number(self, q: Any) -> Any:
        """κ₂ of M; its value depends on units where they mix. Infinite where some motion has no inertia.

        Eigenvalues below n ε λ_max are rounding: ``wt.conditioning`` has more digits for badly scaled matrices.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns kappa.
        """
    def equilibrated_condition_number(self, q: Any) -> Any:
        """κ₂ of M at unit diagonal, which is free of units and governs the rounding of factorisations.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns kappa.
        """
    def force_sensitivity(self, q: Any, b: Any, t: Any = ..., active: Any = ...) -> ForceSensitivity:
        """a = M⁻¹ b (nv,) of forces b, and (|M⁻¹| |b|)ᵢ / |aᵢ| (nv,): how much relative errors of the forces grow (004
        eq. 3–4).

        Entry i is the largest relative change of acceleration i per relative change of every force; infinite where aᵢ is
        zero. With constraints M† takes the place of M⁻¹.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            b (nv,)
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), amplification (nv,).
        """
    def forward_dynamics_with_diagonal(self, q: Any, v: Any, tau: Any, t: Any = ..., active: Any = ...) -> ForwardDynamicsWithDiagonal:
        """a (nv,) as by ``forward_dynamics``, and diag M (nv,), from which δ is the ratio of two entries.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), diagonal (nv,).
        """
    def forward_dynamics_with_diagonal_ratio(self, q: Any, v: Any, tau: Any, t: Any = ..., active: Any = ...) -> ForwardDynamicsWithDiagonalRatio:
        """a (nv,) as by ``forward_dynamics``, and the diagonal ratio δ of M, for little more.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), ratio.
        """
    def actuator_forces(self, q: Any, v: Any, ctrl: Any, act: Any) -> Array:
        """Joint forces (nv,) of all actuators under their commands, cut to ranges of commands, forces and joints.

        Where actuators have activations, which take the place of their commands, these are an input too.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            ctrl (actuators,): commands, in the units of each actuator
            act (activations,): activations, in the units of the commands that they follow
        Returns tau (nv,).
        """
    def actuator_wrenches(self, q: Any, v: Any, ctrl: Any, act: Any) -> Array:
        """Wrenches (bodies, 6) of the actuators of tendons and frames, about the origin and in the axes of each body.

        Those of joints act between the two bodies of their joint, as its force. The whole is in ``actuator_forces``, as
        joint forces; ``joint_reactions_of_motion`` takes these wrenches.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            ctrl (actuators,): commands, in the units of each actuator
            act (activations,): activations, in the units of the commands that they follow
        Returns wrenches (bodies, 6).
        """
    def activation_rates(self, ctrl: Any, act: Any) -> Array:
        """How fast the activations of actuators follow their commands; the ends of their ranges are not asked.

        Inputs, with any batch dimensions in front:
            ctrl (actuators,): commands, in the units of each actuator
            act (activations,): activations, in the units of the commands that they follow
        Returns rate (activations,).
        """
    def constraint_residual(self, q: Any, t: Any = ...) -> Array:
        """g (positions,): the residuals of all rows that have a position, m or rad. Rows that are switched off are
        included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
        Returns residual (positions,).
        """
    def constraint_jacobian(self, q: Any, t: Any = ...) -> Array:
        """A (rows, nv): of all rows, redundant and switched ones too.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
        Returns jacobian (rows, nv).
        """
    def constraint_velocity(self, q: Any, v: Any, t: Any = ...) -> Array:
        """A v + ∂g/∂t (rows,): zero for a velocity that the constraints allow.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
        Returns velocity (rows,).
        """
    def constraint_bias(self, q: Any, v: Any, t: Any = ...) -> Array:
        """γ = Ȧ v and time terms (rows,): what A a must balance.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
        Returns bias (rows,).
        """
    def constraint_forces(self, q: Any, v: Any, tau: Any, t: Any = ..., active: Any = ...) -> Array:
        """f (rows,) with M a + c = tau + Aᵀ f; zero for redundant rows and for those that are switched off.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns f (rows,).
        """
    def constraint_forces_derivatives(self, q: Any, v: Any, tau: Any, t: Any = ..., active: Any = ...) -> ConstraintForcesDerivatives:
        """∂f/∂q, ∂f/∂v, ∂f/∂τ (rows, nv) of ``constraint_forces``; q moves in the tangent space, ∂f/∂τ is −A†.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns dq (rows, nv), dv (rows, nv), dtau (rows, nv).
        """
    def constraint_forces_least_norm(self, q: Any, v: Any, tau: Any, weights: Any, t: Any = ..., active: Any = ...) -> Array:
        """f (rows,) over all rows, redundant ones too, with the same Aᵀ f and the least Σ wᵢ fᵢ².

        The weights (rows,) are positive and settle how newtons and newton metres compare: a weight of 1/L² on rows in N m
        makes a moment count as a force on an arm L.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            weights (rows,)
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns f (rows,).
        """
    def dagger(self, q: Any, t: Any = ..., active: Any = ...) -> Dagger:
        """M† (nv, nv), A† (k, nv), Λ† (k, k): the blocks of [M Aᵀ; A −C]⁻¹ (000 eq. 5), for the k independent rows.

        They exist for massless links too. The multiplier of the document is λ = −f.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns M_dagger (nv, nv), A_dagger (independent, nv), Lambda_dagger (independent, independent).
        """
    def weighted_pseudo_inverse(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """A# = A†ᵀ (nv, rows): A# w is the velocity of least kinetic energy at which the rows move with w (001 eq. 13).

        A A# A = A. Columns of redundant rows, and of those that are switched off, are zero.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns pseudo_inverse (nv, rows).
        """
    def null_projector(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """1 − A# A = M† M (nv, nv): the part of a velocity that the constraints allow (001 eq. 14).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (nv, nv).
        """
    def schur_projector(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """P_S = M M† = 1 − Aᵀ A† (nv, nv): P_S (M a + c − τ) = 0 holds without constraint forces (001 eq. 10).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (nv, nv).
        """
    def qr_projector(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """P_QR (d, nv), orthonormal rows with P_QR Aᵀ = 0: the balance of forces in as many equations as there are
        freedoms (001 eq. 19). It does not depend on the masses; a basis is not unique, and this one may jump in sign.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (freedoms, nv).
        """
    def project_velocity(self, q: Any, v: Any, t: Any = ..., active: Any = ...) -> Array:
        """v − A†ᵀ (A v + ∂g/∂t) (nv,): the velocity that the constraints allow at the least kinetic energy of the
        change.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns v (nv,).
        """
    def relaxed_velocity(self, q: Any, v: Any, tau: Any, t: Any = ...) -> Array:
        """v + Z Γ⁻¹ Zᵀ tau (nv,): the velocity at which the dampers of relaxed massless motions balance tau.

        ``tau`` is the whole joint force at v, passive forces included; see :mod:`whippletree.constraints.massless_rows`.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
        Returns v (nv,).
        """
    def closing_step(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """−A†ᵀ g (nv,): the displacement of least kinetic energy that closes the position rows to first order.

        q ⊕ d (``integrate``), repeated, brings a configuration back onto the constraints; rows at velocity level do not
        move.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns d (nv,).
        """
    def impact(self, q: Any, v: Any, restitution: Any, t: Any = ..., active: Any = ...) -> Impact:
        """v⁺ = v − (1 + e) A†ᵀ A v (nv,) and the impulses p (rows,), M (v⁺ − v) = Aᵀ p, when constraints meet a velocity.

        Newton's law at all active rigid rows at once; e = 0 is plastic.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            restitution
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns v (nv,), impulses (rows,).
        """
    def velocity_step(self, q: Any, v: Any, tau: Any, h: Any, t: Any = ..., active: Any = ...) -> VelocityStep:
        """v⁺ (nv,) and impulses p (rows,) of one step at velocity level: M (v⁺ − v) = h (tau − c) + Aᵀ p, A v⁺ = 0 (003).

        Step 4 of document 003: A M⁻¹ Aᵀ p = −A M⁻¹ (M v + h (tau − c)), by solves; its step 5 has the wrong sign.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            h: s
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns v (nv,), impulses (rows,).
        """
    def delassus(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """A M⁻¹ Aᵀ (k, k) of the independent rows, without forming M⁻¹; needs every motion of the tree to have inertia.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns delassus (independent, independent).
        """
    def block_condition_numbers(self, q: Any, t: Any = ..., active: Any = ...) -> BlockConditionNumbers:
        """κ₂ of the block matrix [M Aᵀ; A −C] of the independent rows, and of A M⁻¹ Aᵀ + C.

        The second is infinite where a motion of the tree has no inertia, whatever the constraints do about it.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns block, schur.
        """
    def apparent_inertia(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """−Λ† (k, k): the inertia that the independent rows feel; (A M⁻¹ Aᵀ)⁻¹ where M⁻¹ exists.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns inertia (independent, independent).
        """
    def reduced_mass_matrix(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """Bᵀ M B (d, d) in minimal coordinates, v = B v[free]; ``constraint_set(model).free`` are these velocities.

        The block of M† that belongs to them is its inverse, also for massless links.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns M (freedoms, freedoms).
        """
    def allowed_motions(self, q: Any, t: Any = ..., active: Any = ...) -> Array:
        """B (nv, d) with A B = 0 and B = 1 at the minimal coordinates: all velocities that the constraints allow, v = B
        v[free].

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns B (nv, freedoms).
        """
    def joint_reactions(self, q: Any, v: Any, tau: Any, t: Any = ..., active: Any = ...) -> JointReactions:
        """Moment and force (reactions, 6) in every joint and closure, also inside loops, and which of them statics
        determines (reactions, 6): 1 or 0.

        On the child, about the origin and in the axes of its body frame; of a closure, on its second frame, in that frame.
        ``wt.reaction_names(model)`` names the entries. Redundant constraints leave some components open (of a planar
        four-bar with hinges 12 of 20): of these the least Σ r² is returned, 1 N m counted as 1 N;
        ``joint_reactions_with_weights`` takes other weights. ``tau`` is the whole joint force: add ``passive_forces`` for
        springs and dampers. Tendons, fluids and held-up weight of the model load the bodies that they act on; for contacts,
        and actuators of tendons and frames, ``joint_reactions_of_motion`` takes wrenches.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns reactions (reactions, 6), determined (reactions, 6).
        """
    def joint_reactions_with_weights(self, q: Any, v: Any, tau: Any, reaction_weights: Any, t: Any = ..., active: Any = ...) -> JointReactionsWithWeights:
        """``joint_reactions`` where those with the least Σ wᵢ rᵢ² are taken of what statics leaves open.

        The weights (reactions, 6) are positive: a small one where a joint is stiff and takes more than its share, 1/L² for
        moments that count as forces on an arm L.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            reaction_weights (reactions, 6)
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns reactions (reactions, 6), determined (reactions, 6).
        """
    def joint_reactions_of_motion(self, q: Any, v: Any, a: Any, f: Any, wrenches: Any, t: Any = ..., active: Any = ...) -> JointReactionsOfMotion:
        """``joint_reactions`` of a motion whose accelerations a, constraint forces f (rows,) and external loads are known.

        The wrenches (bodies, 6) act on the bodies from outside: contacts, a payload, ``actuator_wrenches``; gravity,
        tendons and fluids are the model's. They are moments and forces about the origin and in the axes of each body's
        frame.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
            f (rows,): N or N m, of the constraint rows
            wrenches (bodies, 6): N m and N, on each body, in its axes and about its origin
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns reactions (reactions, 6), determined (reactions, 6).
        """
    def contact_gaps(self, q: Any) -> Array:
        """Gap (contacts,) of every candidate, m: positive while apart.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns gaps (contacts,).
        """
    def contact_points(self, q: Any) -> Array:
        """Point (contacts, 3) of every candidate on the surface of its first geometry, in the world, m.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns points (contacts, 3).
        """
    def contact_axes(self, q: Any) -> Array:
        """Axes (contacts, 3, 3) of every candidate, in the world: rows normal (from second to first), tangents 1 and 2.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns axes (contacts, 3, 3).
        """
    def contact_jacobian(self, q: Any) -> Array:
        """J (3 contacts, nv): J v is the velocity of the first body's point against the second's, along the axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns jacobian (contact_rows, nv).
        """
    def contact_velocity(self, q: Any, v: Any) -> Array:
        """J v (3 contacts,), m/s; the normal entries are the rates of the gaps.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns velocity (contact_rows,).
        """
    def contact_bias(self, q: Any, v: Any) -> Array:
        """J̇ v (3 contacts,): the rate of J v is J a + bias; for the normal entries, the second derivative of the gap.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns bias (contact_rows,).
        """
    def inverse_dynamics_in_contact(self, joints: str | tuple[str, ...] | list[str]) -> _InverseDynamicsInContact:
        """tau, f and contact forces p (3 contacts,) for a motion while contacts carry: M a + c = tau + Aᵀ f + Jᵀ p +
        residual.

        As ``inverse_dynamics_with_motors``, with the least Σ costᵢ tauᵢ² + Σ contact_costᵢ pᵢ². Contacts may pull and leave
        their friction cone here: look at p, whose rows are normal, tangent 1 and tangent 2 of each candidate.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
            costs (nv,): of the squares of motors' forces: 1/(N m)² or 1/N², all positive
            contact_costs (contact_rows,): of the squares of contact forces, 1/N², normal and two tangents of each, all positive
            touching (contacts,): 1 for contacts that carry, 0 for others
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns tau (nv,), f (rows,), contact_forces (contact_rows,), residual (nv,).
        """

class _Pose:
    def __call__(self, q: Any) -> Array: ...

class _Jacobian:
    def __call__(self, q: Any) -> Array: ...

class _JacobianBias:
    def __call__(self, q: Any, v: Any) -> Array: ...

class _Twist:
    def __call__(self, q: Any, v: Any) -> Array: ...

class _OperationalInertia:
    def __call__(self, q: Any, t: Any = ..., active: Any = ...) -> Array: ...

class _OperationalInertiaInverse:
    def __call__(self, q: Any, t: Any = ..., active: Any = ...) -> Array: ...

class _ForwardDynamicsWithWrench:
    def __call__(self, q: Any, v: Any, tau: Any, wrench: Any, t: Any = ..., active: Any = ...) -> Array: ...

class _InverseDynamicsWithWrench:
    def __call__(self, q: Any, v: Any, a: Any, wrench: Any) -> Array: ...

class _InverseDynamicsWithMotors:
    def __call__(self, q: Any, v: Any, a: Any, costs: Any, t: Any = ..., active: Any = ...) -> InverseDynamicsWithMotors: ...

class _InverseDynamicsWithMetric:
    def __call__(self, q: Any, v: Any, a: Any, metric: Any, t: Any = ..., active: Any = ...) -> InverseDynamicsWithMetric: ...

class _HybridDynamics:
    def __call__(self, q: Any, v: Any, given: Any, t: Any = ..., active: Any = ...) -> HybridDynamics: ...

class _InverseDynamicsInContact:
    def __call__(self, q: Any, v: Any, a: Any, costs: Any, contact_costs: Any, touching: Any, t: Any = ..., active: Any = ...) -> InverseDynamicsInContact: ...
