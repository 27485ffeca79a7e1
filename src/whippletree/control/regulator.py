"""A linear-quadratic regulator on the constraint manifold.

``wt.linearize`` has the linear system ẋ = A x + B u of deviations in minimal coordinates x = (ξ, η): loops, held
contacts and rolling wheels are inside it, massless links too. The feedback u = −K x that makes ∫ xᵀ Q x + uᵀ R u dt the
least comes from the algebraic Riccati equation, K = R⁻¹ Bᵀ S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg

from whippletree.analysis.linear import LinearSystem, linearize
from whippletree.arithmetic.arrays import Array
from whippletree.control.whole_body_layout import chosen_motors
from whippletree.errors import EquilibriumError, ShapeError, UnsupportedError
from whippletree.model import Model, require_model
from whippletree.model.input_checks import floats
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

NO_EQUILIBRIUM = 1e-6
"""Largest acceleration, rad/s² or m/s², of the state that is to be held."""


@dataclass(frozen=True)
class Regulator:
    """A controller (t, q, v) → tau that holds a state. Made by :func:`lqr`."""

    K: Array
    """(inputs, states): u = −K x."""
    S: Array
    """Cost of a deviation: xᵀ S x, (states, states)."""
    poles: Array
    """Eigenvalues of A − B K, 1/s."""
    system: LinearSystem
    tau: Array
    """At the state itself, (nv,)."""
    coordinates: list[int] = field(repr=False)
    velocities: list[int] = field(repr=False)
    inputs: list[int] = field(repr=False)

    def __call__(self, t: Any, q: Any, v: Any) -> Any:
        m = Mechanism(skeleton(self.system.model))
        away = m.manifold().difference(np.asarray(self.system.q).astype(object), np.asarray(q))
        x = np.concatenate([away[self.coordinates], np.asarray(v)[self.velocities]])
        feedback = self.K @ x
        tau = np.array(self.tau, dtype=object)
        for k, i in enumerate(self.inputs):
            tau[i] = tau[i] - feedback[k]
        return tau if any(np.asarray(x).dtype == object for x in (q, v)) else tau.astype(float)


def lqr(
    model: Model,
    q: Any,
    *,
    motors: Sequence[str] | None = None,
    state_cost: Any = 1.0,
    input_cost: Any = 1.0,
    tau: Any = None,
    **options: Any,
) -> Regulator:
    """The regulator that holds a configuration at the least cost.

    Args:
        model: any that ``wt.linearize`` takes.
        q: the configuration, (nq,), an equilibrium under ``tau``.
        motors: joints whose forces are inputs; default as for :func:`~whippletree.control.whole_body`.
        state_cost: of x = (ξ, η): a number, one for each state, or a matrix.
        input_cost: of u: a number, one for each input, or a matrix.
        tau: joint forces at the configuration itself, (nv,); default: those of motors that hold it.
        options: of ``wt.linearize``, such as ``contacts={"foot": "sticking"}`` or ``coordinates=``.

    Raises:
        EquilibriumError: no forces of these motors hold the configuration.
        UnsupportedError: inputs that cannot stabilise it.
    """
    from whippletree.control.projected_dynamics import projected

    require_model(model, "lqr")
    names = chosen_motors(model, motors)
    held = floats("lqr", "q", q)
    still = np.zeros(model.nv)
    if tau is None:
        tau = projected(model, motors=names).inverse_dynamics(held, still, still).tau
    system = linearize(model, held, tau=tau, inputs=names, **options)
    if np.abs(system.a).max(initial=0.0) > NO_EQUILIBRIUM:
        raise EquilibriumError(
            f"lqr: model {model.name!r} does not rest at q: it would accelerate by {np.abs(system.a).max():.3g} with "
            f"the best forces of motors {list(names)}. wt.equilibrium finds where it does."
        )
    n, m = system.B.shape
    if not m:
        raise UnsupportedError(f"lqr: no joint of model {model.name!r} has a motor, which cannot stabilise anything")
    Q, R = _cost("state_cost", state_cost, n), _cost("input_cost", input_cost, m)
    try:
        S = scipy.linalg.solve_continuous_are(system.A, system.B, Q, R)
    except (np.linalg.LinAlgError, ValueError) as error:
        raise UnsupportedError(
            f"lqr: motors {list(names)} of model {model.name!r} cannot stabilise this configuration, or the costs do "
            f"not see some motion: the Riccati equation has no solution ({error})"
        ) from None
    K = np.linalg.solve(R, system.B.T @ S)
    inputs = [i for name in names for i in range(model.nv)[model.slice(name)]]
    chosen = _unit_rows(system.positions), _unit_rows(system.motions)
    poles = np.linalg.eigvals(system.A - system.B @ K)
    return Regulator(K, S, poles, system, np.asarray(tau, dtype=float), *chosen, inputs)


def _cost(word: str, given: Any, size: int) -> Array:
    cost = floats("lqr", word, given)
    found = np.diag(np.broadcast_to(cost, size)) if cost.ndim < 2 and cost.shape in ((), (size,)) else cost
    if found.shape != (size, size):
        raise ShapeError(f"lqr: {word} has shape {cost.shape}, expected (), ({size},) or ({size}, {size})")
    return np.array(found)


def _unit_rows(basis: Array) -> list[int]:
    """For each column, the row in which it alone is 1: the velocity that is its coordinate."""
    found = []
    for k in range(basis.shape[1]):
        alone = [i for i in range(len(basis)) if basis[i, k] == 1 and np.count_nonzero(basis[i]) == 1]
        found.append(alone[0])
    return found
