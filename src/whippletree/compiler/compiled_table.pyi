# Generated from the table of functions by `make stubs`. Do not edit.
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from whippletree.arithmetic.arrays import Array
from whippletree.functions.reference_table import (
    BlockConditionNumbers,
    ConstraintForcesDerivatives,
    Dagger,
    ForceSensitivity,
    ForwardDynamicsDerivatives,
    ForwardDynamicsWithDiagonal,
    ForwardDynamicsWithDiagonalRatio,
    HybridDynamics,
    Impact,
    InverseDynamicsDerivatives,
    InverseDynamicsInContact,
    InverseDynamicsWithMetric,
    InverseDynamicsWithMotors,
    JointReactions,
    JointReactionsOfMotion,
    JointReactionsWithWeights,
    PivotRatios,
    VelocityStep,
)

class _Function:
    name: str
    status: Any
    """Status of each state of the last call: 0 where all is well; None if the function cannot fail."""
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def fails(self) -> bool: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def ufunc(self) -> np.ufunc:
        """The NumPy ufunc behind a function on the CPU."""

class _Pose(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """Pose (4, 4) of a frame or body in the world.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns pose (4, 4).
        """

class _Jacobian(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """J (6, nv): J v is the frame's twist (angular, linear), in the frame's axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns jacobian (6, nv).
        """

class _JacobianBias(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """J̇ v (6,): the frame's spatial acceleration at zero joint accelerations, in its axes, without gravity.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns bias (6,).
        """

class _Twist(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """Twist (6,) of a frame, in its axes: angular velocity, velocity of its origin.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns twist (6,).
        """

class _Integrate(_Function):
    def __call__(self, q: ArrayLike, d: ArrayLike, *, out: Any = None) -> Array:
        """q ⊕ d: where the constant velocity d leads in unit time; quaternions stay unit.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            d (nv,)
        Returns q (nq,).
        """

class _Difference(_Function):
    def __call__(self, q: ArrayLike, r: ArrayLike, *, out: Any = None) -> Array:
        """The d with q ⊕ d = r.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            r (nq,)
        Returns d (nv,).
        """

class _Rate(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """q̇ (nq,) of velocities v.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns rate (nq,).
        """

class _MassMatrix(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """M (nv, nv), symmetric, rotors included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns M (nv, nv).
        """

class _MassMatrixInverse(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """M⁻¹ (nv, nv).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns inverse (nv, nv).
        """

class _MassMatrixSolve(_Function):
    def __call__(self, q: ArrayLike, b: ArrayLike, *, out: Any = None) -> Array:
        """M⁻¹ b (nv,) in O(N), without forming M.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            b (nv,)
        Returns x (nv,).
        """

class _OperationalInertia(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """(J M⁻¹ Jᵀ)⁻¹ (r, r): the inertia felt at a frame, in its axes; with constraints (J M† Jᵀ)⁻¹.

        A task is a frame (six rows), or several: ``("left", "right.position", "tool.z")`` picks rows by name.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns inertia (task, task).
        """

class _OperationalInertiaInverse(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """J M⁻¹ Jᵀ (r, r) of a frame, or of rows of several, without forming M; with constraints J M† Jᵀ.

        A task is a frame (six rows), or several: ``("left", "right.position", "tool.z")`` picks rows by name.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns inverse (task, task).
        """

class _InverseDynamics(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, out: Any = None) -> Array:
        """tau = M a + c (nv,): the joint forces of a motion, gravity included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns tau (nv,).
        """

class _Bias(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """c (nv,): the joint forces that keep a = 0, of Coriolis, centrifugal and gravity terms.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns bias (nv,).
        """

class _Gravity(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """The joint forces (nv,) that hold the system still against gravity.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns gravity (nv,).
        """

class _ForwardDynamics(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
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

class _ForwardDynamicsWithWrench(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, wrench: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
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

class _InverseDynamicsWithWrench(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, wrench: ArrayLike, *, out: Any = None) -> Array:
        """tau (nv,) of a motion while an external wrench, in the frame's axes and about its origin, acts on a frame.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
            wrench (6,): N m and N, in the frame's axes
        Returns tau (nv,).
        """

class _InverseDynamicsWithMotors(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, costs: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> InverseDynamicsWithMotors:
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

class _InverseDynamicsWithMetric(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, metric: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> InverseDynamicsWithMetric:
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

class _HybridDynamics(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, given: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> HybridDynamics:
        """(a, tau), each (nv,), where ``given`` holds accelerations for the named joints and forces for all others.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            given (nv,)
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), tau (nv,).
        """

class _InterbodyForces(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, out: Any = None) -> Array:
        """Wrench (bodies, 6) from its parent on every moving body with all that is welded to it, in the body's frame.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns forces (bodies, 6).
        """

class _PassiveForces(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """−stiffness (q − rest) − damping v (nv,) of the joints, and ``element_forces`` of models that have elements.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns forces (nv,).
        """

class _ElementForces(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """Joint forces (nv,) of tendons' springs and dampers, the drag of fluids, and held-up weight.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns forces (nv,).
        """

class _GravityDerivatives(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """∂gravity/∂q (nv, nv): the stiffness that weights have at rest; q moves in the tangent space.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns dq (nv, nv).
        """

class _InverseDynamicsDerivatives(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, out: Any = None) -> InverseDynamicsDerivatives:
        """∂τ/∂q, ∂τ/∂v, ∂τ/∂a (nv, nv) of ``inverse_dynamics``; q moves in the tangent space, ∂τ/∂a is the mass matrix.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns dq (nv, nv), dv (nv, nv), da (nv, nv).
        """

class _ForwardDynamicsDerivatives(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> ForwardDynamicsDerivatives:
        """∂a/∂q, ∂a/∂v, ∂a/∂τ (nv, nv) of ``forward_dynamics``; q moves in the tangent space, ∂a/∂τ is M⁻¹ or M†.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns dq (nv, nv), dv (nv, nv), dtau (nv, nv).
        """

class _KineticEnergy(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Any:
        """½ vᵀ M v, J.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns energy.
        """

class _PotentialEnergy(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Any:
        """Gravitational energy (zero at the world's origin) plus that of springs of joints and tendons, J.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns energy.
        """

class _Momentum(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """Angular and linear momentum (6,) about the world's origin, in world axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns momentum (6,).
        """

class _CenterOfMass(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """Centre of mass (3,) of everything that can move, in the world, m.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns center (3,).
        """

class _CentroidalMomentumMatrix(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """A_G (6, nv): A_G v is the momentum about the centre of mass, in world axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns matrix (6, nv).
        """

class _Regressor(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, *, out: Any = None) -> Array:
        """Y (nv, 10 · bodies) with tau = Y π, linear in the bodies' inertial parameters (rotors excluded).

        π holds per body, about and in the body's frame: mass, mass · centre (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns regressor (nv, parameters).
        """

class _DiagonalOfMassMatrix(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """diag M (nv,), by composite inertias alone, O(N).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns diagonal (nv,).
        """

class _DiagonalRatio(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Any:
        """δ: the largest entry of diag M over the smallest (004 §4).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns ratio.
        """

class _PivotRatios(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> PivotRatios:
        """Largest over smallest pivot of M in both orders of elimination: base first as in 004, tips first as in D.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns base_first, tips_first.
        """

class _ConditionNumber(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Any:
        """κ₂ of M; its value depends on units where they mix. Infinite where some motion has no inertia.

        Eigenvalues below n ε λ_max are rounding: ``wt.conditioning`` has more digits for badly scaled matrices.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns kappa.
        """

class _EquilibratedConditionNumber(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Any:
        """κ₂ of M at unit diagonal, which is free of units and governs the rounding of factorisations.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns kappa.
        """

class _ForceSensitivity(_Function):
    def __call__(self, q: ArrayLike, b: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> ForceSensitivity:
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

class _ForwardDynamicsWithDiagonal(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> ForwardDynamicsWithDiagonal:
        """a (nv,) as by ``forward_dynamics``, and diag M (nv,), from which δ is the ratio of two entries.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), diagonal (nv,).
        """

class _ForwardDynamicsWithDiagonalRatio(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> ForwardDynamicsWithDiagonalRatio:
        """a (nv,) as by ``forward_dynamics``, and the diagonal ratio δ of M, for little more.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), ratio.
        """

class _ActuatorForces(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, ctrl: ArrayLike, act: ArrayLike, *, out: Any = None) -> Array:
        """Joint forces (nv,) of all actuators under their commands, cut to ranges of commands, forces and joints.

        Where actuators have activations, which take the place of their commands, these are an input too.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            ctrl (actuators,): commands, in the units of each actuator
            act (activations,): activations, in the units of the commands that they follow
        Returns tau (nv,).
        """

class _ActuatorWrenches(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, ctrl: ArrayLike, act: ArrayLike, *, out: Any = None) -> Array:
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

class _ActivationRates(_Function):
    def __call__(self, ctrl: ArrayLike, act: ArrayLike, *, out: Any = None) -> Array:
        """How fast the activations of actuators follow their commands; the ends of their ranges are not asked.

        Inputs, with any batch dimensions in front:
            ctrl (actuators,): commands, in the units of each actuator
            act (activations,): activations, in the units of the commands that they follow
        Returns rate (activations,).
        """

class _ConstraintResidual(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., *, out: Any = None) -> Array:
        """g (positions,): the residuals of all rows that have a position, m or rad. Rows that are switched off are
        included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
        Returns residual (positions,).
        """

class _ConstraintJacobian(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., *, out: Any = None) -> Array:
        """A (rows, nv): of all rows, redundant and switched ones too.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
        Returns jacobian (rows, nv).
        """

class _ConstraintVelocity(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, t: ArrayLike = ..., *, out: Any = None) -> Array:
        """A v + ∂g/∂t (rows,): zero for a velocity that the constraints allow.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
        Returns velocity (rows,).
        """

class _ConstraintBias(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, t: ArrayLike = ..., *, out: Any = None) -> Array:
        """γ = Ȧ v and time terms (rows,): what A a must balance.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
        Returns bias (rows,).
        """

class _ConstraintForces(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """f (rows,) with M a + c = tau + Aᵀ f; zero for redundant rows and for those that are switched off.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns f (rows,).
        """

class _ConstraintForcesDerivatives(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> ConstraintForcesDerivatives:
        """∂f/∂q, ∂f/∂v, ∂f/∂τ (rows, nv) of ``constraint_forces``; q moves in the tangent space, ∂f/∂τ is −A†.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns dq (rows, nv), dv (rows, nv), dtau (rows, nv).
        """

class _ConstraintForcesLeastNorm(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, weights: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
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

class _Dagger(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Dagger:
        """M† (nv, nv), A† (k, nv), Λ† (k, k): the blocks of [M Aᵀ; A −C]⁻¹ (000 eq. 5), for the k independent rows.

        They exist for massless links too. The multiplier of the document is λ = −f.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns M_dagger (nv, nv), A_dagger (independent, nv), Lambda_dagger (independent, independent).
        """

class _WeightedPseudoInverse(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """A# = A†ᵀ (nv, rows): A# w is the velocity of least kinetic energy at which the rows move with w (001 eq. 13).

        A A# A = A. Columns of redundant rows, and of those that are switched off, are zero.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns pseudo_inverse (nv, rows).
        """

class _NullProjector(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """1 − A# A = M† M (nv, nv): the part of a velocity that the constraints allow (001 eq. 14).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (nv, nv).
        """

class _SchurProjector(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """P_S = M M† = 1 − Aᵀ A† (nv, nv): P_S (M a + c − τ) = 0 holds without constraint forces (001 eq. 10).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (nv, nv).
        """

class _QrProjector(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """P_QR (d, nv), orthonormal rows with P_QR Aᵀ = 0: the balance of forces in as many equations as there are
        freedoms (001 eq. 19). It does not depend on the masses; a basis is not unique, and this one may jump in sign.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (freedoms, nv).
        """

class _ProjectVelocity(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """v − A†ᵀ (A v + ∂g/∂t) (nv,): the velocity that the constraints allow at the least kinetic energy of the
        change.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns v (nv,).
        """

class _RelaxedVelocity(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., *, out: Any = None) -> Array:
        """v + Z Γ⁻¹ Zᵀ tau (nv,): the velocity at which the dampers of relaxed massless motions balance tau.

        ``tau`` is the whole joint force at v, passive forces included; see :mod:`whippletree.constraints.massless_rows`.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
        Returns v (nv,).
        """

class _ClosingStep(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """−A†ᵀ g (nv,): the displacement of least kinetic energy that closes the position rows to first order.

        q ⊕ d (``integrate``), repeated, brings a configuration back onto the constraints; rows at velocity level do not
        move.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns d (nv,).
        """

class _Impact(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, restitution: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Impact:
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

class _VelocityStep(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, h: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> VelocityStep:
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

class _Delassus(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """A M⁻¹ Aᵀ (k, k) of the independent rows, without forming M⁻¹; needs every motion of the tree to have inertia.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns delassus (independent, independent).
        """

class _BlockConditionNumbers(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> BlockConditionNumbers:
        """κ₂ of the block matrix [M Aᵀ; A −C] of the independent rows, and of A M⁻¹ Aᵀ + C.

        The second is infinite where a motion of the tree has no inertia, whatever the constraints do about it.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns block, schur.
        """

class _ApparentInertia(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """−Λ† (k, k): the inertia that the independent rows feel; (A M⁻¹ Aᵀ)⁻¹ where M⁻¹ exists.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns inertia (independent, independent).
        """

class _ReducedMassMatrix(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """Bᵀ M B (d, d) in minimal coordinates, v = B v[free]; ``constraint_set(model).free`` are these velocities.

        The block of M† that belongs to them is its inverse, also for massless links.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns M (freedoms, freedoms).
        """

class _AllowedMotions(_Function):
    def __call__(self, q: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> Array:
        """B (nv, d) with A B = 0 and B = 1 at the minimal coordinates: all velocities that the constraints allow, v = B
        v[free].

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns B (nv, freedoms).
        """

class _JointReactions(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> JointReactions:
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

class _JointReactionsWithWeights(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike, reaction_weights: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> JointReactionsWithWeights:
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

class _JointReactionsOfMotion(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, f: ArrayLike, wrenches: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> JointReactionsOfMotion:
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

class _ContactGaps(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """Gap (contacts,) of every candidate, m: positive while apart.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns gaps (contacts,).
        """

class _ContactPoints(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """Point (contacts, 3) of every candidate on the surface of its first geometry, in the world, m.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns points (contacts, 3).
        """

class _ContactAxes(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """Axes (contacts, 3, 3) of every candidate, in the world: rows normal (from second to first), tangents 1 and 2.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns axes (contacts, 3, 3).
        """

class _ContactJacobian(_Function):
    def __call__(self, q: ArrayLike, *, out: Any = None) -> Array:
        """J (3 contacts, nv): J v is the velocity of the first body's point against the second's, along the axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns jacobian (contact_rows, nv).
        """

class _ContactVelocity(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """J v (3 contacts,), m/s; the normal entries are the rates of the gaps.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns velocity (contact_rows,).
        """

class _ContactBias(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, *, out: Any = None) -> Array:
        """J̇ v (3 contacts,): the rate of J v is J a + bias; for the normal entries, the second derivative of the gap.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns bias (contact_rows,).
        """

class _InverseDynamicsInContact(_Function):
    def __call__(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, costs: ArrayLike, contact_costs: ArrayLike, touching: ArrayLike, t: ArrayLike = ..., active: ArrayLike = ..., *, out: Any = None) -> InverseDynamicsInContact:
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

class CompiledTable:
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
    @property
    def integrate(self) -> _Integrate:
        """q ⊕ d: where the constant velocity d leads in unit time; quaternions stay unit.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            d (nv,)
        Returns q (nq,).
        """
    @property
    def difference(self) -> _Difference:
        """The d with q ⊕ d = r.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            r (nq,)
        Returns d (nv,).
        """
    @property
    def rate(self) -> _Rate:
        """q̇ (nq,) of velocities v.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns rate (nq,).
        """
    @property
    def mass_matrix(self) -> _MassMatrix:
        """M (nv, nv), symmetric, rotors included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns M (nv, nv).
        """
    @property
    def mass_matrix_inverse(self) -> _MassMatrixInverse:
        """M⁻¹ (nv, nv).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns inverse (nv, nv).
        """
    @property
    def mass_matrix_solve(self) -> _MassMatrixSolve:
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
    @property
    def inverse_dynamics(self) -> _InverseDynamics:
        """tau = M a + c (nv,): the joint forces of a motion, gravity included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns tau (nv,).
        """
    @property
    def bias(self) -> _Bias:
        """c (nv,): the joint forces that keep a = 0, of Coriolis, centrifugal and gravity terms.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns bias (nv,).
        """
    @property
    def gravity(self) -> _Gravity:
        """The joint forces (nv,) that hold the system still against gravity.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns gravity (nv,).
        """
    @property
    def forward_dynamics(self) -> _ForwardDynamics:
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
    @property
    def interbody_forces(self) -> _InterbodyForces:
        """Wrench (bodies, 6) from its parent on every moving body with all that is welded to it, in the body's frame.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns forces (bodies, 6).
        """
    @property
    def passive_forces(self) -> _PassiveForces:
        """−stiffness (q − rest) − damping v (nv,) of the joints, and ``element_forces`` of models that have elements.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns forces (nv,).
        """
    @property
    def element_forces(self) -> _ElementForces:
        """Joint forces (nv,) of tendons' springs and dampers, the drag of fluids, and held-up weight.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns forces (nv,).
        """
    @property
    def gravity_derivatives(self) -> _GravityDerivatives:
        """∂gravity/∂q (nv, nv): the stiffness that weights have at rest; q moves in the tangent space.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns dq (nv, nv).
        """
    @property
    def inverse_dynamics_derivatives(self) -> _InverseDynamicsDerivatives:
        """∂τ/∂q, ∂τ/∂v, ∂τ/∂a (nv, nv) of ``inverse_dynamics``; q moves in the tangent space, ∂τ/∂a is the mass matrix.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns dq (nv, nv), dv (nv, nv), da (nv, nv).
        """
    @property
    def forward_dynamics_derivatives(self) -> _ForwardDynamicsDerivatives:
        """∂a/∂q, ∂a/∂v, ∂a/∂τ (nv, nv) of ``forward_dynamics``; q moves in the tangent space, ∂a/∂τ is M⁻¹ or M†.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns dq (nv, nv), dv (nv, nv), dtau (nv, nv).
        """
    @property
    def kinetic_energy(self) -> _KineticEnergy:
        """½ vᵀ M v, J.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns energy.
        """
    @property
    def potential_energy(self) -> _PotentialEnergy:
        """Gravitational energy (zero at the world's origin) plus that of springs of joints and tendons, J.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns energy.
        """
    @property
    def momentum(self) -> _Momentum:
        """Angular and linear momentum (6,) about the world's origin, in world axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns momentum (6,).
        """
    @property
    def center_of_mass(self) -> _CenterOfMass:
        """Centre of mass (3,) of everything that can move, in the world, m.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns center (3,).
        """
    @property
    def centroidal_momentum_matrix(self) -> _CentroidalMomentumMatrix:
        """A_G (6, nv): A_G v is the momentum about the centre of mass, in world axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns matrix (6, nv).
        """
    @property
    def regressor(self) -> _Regressor:
        """Y (nv, 10 · bodies) with tau = Y π, linear in the bodies' inertial parameters (rotors excluded).

        π holds per body, about and in the body's frame: mass, mass · centre (3), Ixx, Ixy, Iyy, Ixz, Iyz, Izz.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            a (nv,): rad/s² or m/s²
        Returns regressor (nv, parameters).
        """
    @property
    def diagonal_of_mass_matrix(self) -> _DiagonalOfMassMatrix:
        """diag M (nv,), by composite inertias alone, O(N).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns diagonal (nv,).
        """
    @property
    def diagonal_ratio(self) -> _DiagonalRatio:
        """δ: the largest entry of diag M over the smallest (004 §4).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns ratio.
        """
    @property
    def pivot_ratios(self) -> _PivotRatios:
        """Largest over smallest pivot of M in both orders of elimination: base first as in 004, tips first as in D.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns base_first, tips_first.
        """
    @property
    def condition_number(self) -> _ConditionNumber:
        """κ₂ of M; its value depends on units where they mix. Infinite where some motion has no inertia.

        Eigenvalues below n ε λ_max are rounding: ``wt.conditioning`` has more digits for badly scaled matrices.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns kappa.
        """
    @property
    def equilibrated_condition_number(self) -> _EquilibratedConditionNumber:
        """κ₂ of M at unit diagonal, which is free of units and governs the rounding of factorisations.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns kappa.
        """
    @property
    def force_sensitivity(self) -> _ForceSensitivity:
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
    @property
    def forward_dynamics_with_diagonal(self) -> _ForwardDynamicsWithDiagonal:
        """a (nv,) as by ``forward_dynamics``, and diag M (nv,), from which δ is the ratio of two entries.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), diagonal (nv,).
        """
    @property
    def forward_dynamics_with_diagonal_ratio(self) -> _ForwardDynamicsWithDiagonalRatio:
        """a (nv,) as by ``forward_dynamics``, and the diagonal ratio δ of M, for little more.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns a (nv,), ratio.
        """
    @property
    def actuator_forces(self) -> _ActuatorForces:
        """Joint forces (nv,) of all actuators under their commands, cut to ranges of commands, forces and joints.

        Where actuators have activations, which take the place of their commands, these are an input too.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            ctrl (actuators,): commands, in the units of each actuator
            act (activations,): activations, in the units of the commands that they follow
        Returns tau (nv,).
        """
    @property
    def actuator_wrenches(self) -> _ActuatorWrenches:
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
    @property
    def activation_rates(self) -> _ActivationRates:
        """How fast the activations of actuators follow their commands; the ends of their ranges are not asked.

        Inputs, with any batch dimensions in front:
            ctrl (actuators,): commands, in the units of each actuator
            act (activations,): activations, in the units of the commands that they follow
        Returns rate (activations,).
        """
    @property
    def constraint_residual(self) -> _ConstraintResidual:
        """g (positions,): the residuals of all rows that have a position, m or rad. Rows that are switched off are
        included.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
        Returns residual (positions,).
        """
    @property
    def constraint_jacobian(self) -> _ConstraintJacobian:
        """A (rows, nv): of all rows, redundant and switched ones too.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
        Returns jacobian (rows, nv).
        """
    @property
    def constraint_velocity(self) -> _ConstraintVelocity:
        """A v + ∂g/∂t (rows,): zero for a velocity that the constraints allow.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
        Returns velocity (rows,).
        """
    @property
    def constraint_bias(self) -> _ConstraintBias:
        """γ = Ȧ v and time terms (rows,): what A a must balance.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
        Returns bias (rows,).
        """
    @property
    def constraint_forces(self) -> _ConstraintForces:
        """f (rows,) with M a + c = tau + Aᵀ f; zero for redundant rows and for those that are switched off.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns f (rows,).
        """
    @property
    def constraint_forces_derivatives(self) -> _ConstraintForcesDerivatives:
        """∂f/∂q, ∂f/∂v, ∂f/∂τ (rows, nv) of ``constraint_forces``; q moves in the tangent space, ∂f/∂τ is −A†.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns dq (rows, nv), dv (rows, nv), dtau (rows, nv).
        """
    @property
    def constraint_forces_least_norm(self) -> _ConstraintForcesLeastNorm:
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
    @property
    def dagger(self) -> _Dagger:
        """M† (nv, nv), A† (k, nv), Λ† (k, k): the blocks of [M Aᵀ; A −C]⁻¹ (000 eq. 5), for the k independent rows.

        They exist for massless links too. The multiplier of the document is λ = −f.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns M_dagger (nv, nv), A_dagger (independent, nv), Lambda_dagger (independent, independent).
        """
    @property
    def weighted_pseudo_inverse(self) -> _WeightedPseudoInverse:
        """A# = A†ᵀ (nv, rows): A# w is the velocity of least kinetic energy at which the rows move with w (001 eq. 13).

        A A# A = A. Columns of redundant rows, and of those that are switched off, are zero.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns pseudo_inverse (nv, rows).
        """
    @property
    def null_projector(self) -> _NullProjector:
        """1 − A# A = M† M (nv, nv): the part of a velocity that the constraints allow (001 eq. 14).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (nv, nv).
        """
    @property
    def schur_projector(self) -> _SchurProjector:
        """P_S = M M† = 1 − Aᵀ A† (nv, nv): P_S (M a + c − τ) = 0 holds without constraint forces (001 eq. 10).

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (nv, nv).
        """
    @property
    def qr_projector(self) -> _QrProjector:
        """P_QR (d, nv), orthonormal rows with P_QR Aᵀ = 0: the balance of forces in as many equations as there are
        freedoms (001 eq. 19). It does not depend on the masses; a basis is not unique, and this one may jump in sign.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns projector (freedoms, nv).
        """
    @property
    def project_velocity(self) -> _ProjectVelocity:
        """v − A†ᵀ (A v + ∂g/∂t) (nv,): the velocity that the constraints allow at the least kinetic energy of the
        change.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns v (nv,).
        """
    @property
    def relaxed_velocity(self) -> _RelaxedVelocity:
        """v + Z Γ⁻¹ Zᵀ tau (nv,): the velocity at which the dampers of relaxed massless motions balance tau.

        ``tau`` is the whole joint force at v, passive forces included; see :mod:`whippletree.constraints.massless_rows`.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
            tau (nv,): N m or N
            t: s
        Returns v (nv,).
        """
    @property
    def closing_step(self) -> _ClosingStep:
        """−A†ᵀ g (nv,): the displacement of least kinetic energy that closes the position rows to first order.

        q ⊕ d (``integrate``), repeated, brings a configuration back onto the constraints; rows at velocity level do not
        move.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns d (nv,).
        """
    @property
    def impact(self) -> _Impact:
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
    @property
    def velocity_step(self) -> _VelocityStep:
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
    @property
    def delassus(self) -> _Delassus:
        """A M⁻¹ Aᵀ (k, k) of the independent rows, without forming M⁻¹; needs every motion of the tree to have inertia.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns delassus (independent, independent).
        """
    @property
    def block_condition_numbers(self) -> _BlockConditionNumbers:
        """κ₂ of the block matrix [M Aᵀ; A −C] of the independent rows, and of A M⁻¹ Aᵀ + C.

        The second is infinite where a motion of the tree has no inertia, whatever the constraints do about it.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns block, schur.
        """
    @property
    def apparent_inertia(self) -> _ApparentInertia:
        """−Λ† (k, k): the inertia that the independent rows feel; (A M⁻¹ Aᵀ)⁻¹ where M⁻¹ exists.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns inertia (independent, independent).
        """
    @property
    def reduced_mass_matrix(self) -> _ReducedMassMatrix:
        """Bᵀ M B (d, d) in minimal coordinates, v = B v[free]; ``constraint_set(model).free`` are these velocities.

        The block of M† that belongs to them is its inverse, also for massless links.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns M (freedoms, freedoms).
        """
    @property
    def allowed_motions(self) -> _AllowedMotions:
        """B (nv, d) with A B = 0 and B = 1 at the minimal coordinates: all velocities that the constraints allow, v = B
        v[free].

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            t: s
            active (switches,): 1 for on, 0 for off, one per switchable constraint
        Returns B (nv, freedoms).
        """
    @property
    def joint_reactions(self) -> _JointReactions:
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
    @property
    def joint_reactions_with_weights(self) -> _JointReactionsWithWeights:
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
    @property
    def joint_reactions_of_motion(self) -> _JointReactionsOfMotion:
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
    @property
    def contact_gaps(self) -> _ContactGaps:
        """Gap (contacts,) of every candidate, m: positive while apart.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns gaps (contacts,).
        """
    @property
    def contact_points(self) -> _ContactPoints:
        """Point (contacts, 3) of every candidate on the surface of its first geometry, in the world, m.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns points (contacts, 3).
        """
    @property
    def contact_axes(self) -> _ContactAxes:
        """Axes (contacts, 3, 3) of every candidate, in the world: rows normal (from second to first), tangents 1 and 2.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns axes (contacts, 3, 3).
        """
    @property
    def contact_jacobian(self) -> _ContactJacobian:
        """J (3 contacts, nv): J v is the velocity of the first body's point against the second's, along the axes.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
        Returns jacobian (contact_rows, nv).
        """
    @property
    def contact_velocity(self) -> _ContactVelocity:
        """J v (3 contacts,), m/s; the normal entries are the rates of the gaps.

        Inputs, with any batch dimensions in front:
            q (nq,): rad or m; quaternions w, x, y, z
            v (nv,): rad/s or m/s
        Returns velocity (contact_rows,).
        """
    @property
    def contact_bias(self) -> _ContactBias:
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
