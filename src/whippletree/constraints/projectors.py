"""Projectors of document 001 for given matrices, and inverse dynamics under constraints.

    A#    = M⁻¹ Aᵀ (A M⁻¹ Aᵀ)⁻¹      weighted pseudo-inverse; it is A†ᵀ of 000, which exists for massless links too
    1 − A# A = M† M                  null-space projector: the part of a velocity that the constraints allow
    P_S   = M M† = 1 − Aᵀ A†         Schur projector: P_S (M a + h) = 0 is the dynamics without reaction forces
    P_QR  = S₂ Qᵀ, Aᵀ = Q [R; 0]     QR projector: the same in n − r equations, with Q₂ᵀ = P_QR orthonormal

(001 prints the Schur complement as Jᵀ H⁻¹ J; it is J H⁻¹ Jᵀ.)

With a basis Z (k, n) of the motions that the rows allow, M† = Zᵀ (Z M Zᵀ)⁻¹ Z: nothing is inverted but the inertia of
these motions, so massless links are exact and redundant rows do no harm. The rows are those of an independent set: the
first that no earlier ones explain. M must give every allowed motion inertia, which is condition (32) of 000.

Floats give float arrays, complex numbers complex ones (transposed, not conjugated: a complex step differentiates),
Fractions and mpmath numbers arrays of their kind. Symbols, traces and dual numbers are refused, since a rank needs
values: for them there are the functions of the same names in the catalogue (``dyn.null_projector(q)``), for a model's
own M and A, whose independent rows are known beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import linalg, scalars
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.routes import RANK_TOLERANCE
from whippletree.errors import ScalarError, ShapeError, SingularSystemError, UnsupportedError
from whippletree.model import Model
from whippletree.model.input_checks import as_names, floats
from whippletree.tree import inertia, inverse
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

SYMMETRY = 1e-9
"""Share of its largest entry by which a mass matrix may differ from its transpose: far above rounding, far below any
entry that was meant."""


def weighted_pseudo_inverse(M: Array, A: Array, *, rank_tolerance: Any = None) -> Array:
    """A# (n, m): of all right inverses of an independent set of rows, the one that moves the least kinetic energy.

    A A# A = A and A# A A# = A#; A A# = 1 where all rows are independent. Columns of rows that depend on earlier ones
    are zero.

    Args:
        M: mass matrix (n, n), symmetric; it may be singular where the rows stop the motions without mass.
        A: constraint rows (m, n), redundant ones too.
        rank_tolerance: sine of a row's angle to the rows before it up to which it counts as dependent. Default: 1e-6
            for floats, 0 for Fractions, the same share of their digits for mpmath numbers.

    Raises:
        SingularSystemError: if some motion that the rows allow has no inertia.
        ShapeError: if M is not (n, n), or A not (m, n).
        ScalarError: if the entries are symbols, traces or of an unknown type.
        UnsupportedError: if an entry is not finite, or M is not symmetric.
    """
    given = _Given.of("weighted_pseudo_inverse", M, A, rank_tolerance)
    found = np.zeros((given.A.shape[1], len(given.A)), dtype=int).astype(given.A.dtype)
    smallest = given.rows.right_inverse()
    found[:, list(given.rows.kept)] = smallest - given.dagger() @ (given.M @ smallest)
    return given.finish(found)


def null_projector(M: Array, A: Array, *, rank_tolerance: Any = None) -> Array:
    """1 − A# A = M† M (n, n): removes from a velocity what the constraints forbid, at the least kinetic energy.

    Arguments and errors are those of :func:`weighted_pseudo_inverse`.
    """
    given = _Given.of("null_projector", M, A, rank_tolerance)
    return given.finish(given.dagger() @ given.M)


def schur_projector(M: Array, A: Array, *, rank_tolerance: Any = None) -> Array:
    """P_S = M M† = 1 − Aᵀ A† (n, n): removes constraint forces from a balance of forces; P_S Aᵀ = 0.

    Arguments and errors are those of :func:`weighted_pseudo_inverse`.
    """
    given = _Given.of("schur_projector", M, A, rank_tolerance)
    return given.finish(given.M @ given.dagger())


def qr_projector(A: Array, *, rank_tolerance: Any = None) -> Array:
    """P_QR (n − r, n) for rows A (m, n) of rank r: P_QR Aᵀ = 0 with orthonormal rows, whatever the masses.

    A basis of allowed motions is not unique: this one keeps near single velocities.

    Raises:
        ScalarError: also if the entries are Fractions and a length is not one.
        ShapeError, UnsupportedError: see :func:`weighted_pseudo_inverse`.
    """
    (rows,) = _numbers("qr_projector", A=A)
    Z = linalg.orthogonal_rows(rows, _tolerance("qr_projector", rows, rank_tolerance)).complement()
    lengths = np.array([scalars.sqrt(row @ row) for row in Z], dtype=Z.dtype)
    return _of_one_kind("qr_projector", (Z.T / lengths).T, rows)


class _Given(NamedTuple):
    """A mass matrix and constraint rows, checked, with the rows that count."""

    function: str
    M: Array
    """Over its largest entry, of which no projector depends."""
    A: Array
    rows: linalg.OrthogonalRows
    tolerance: Any

    @staticmethod
    def of(function: str, M: Any, A: Any, rank_tolerance: Any) -> _Given:
        mass, rows = _numbers(function, M=M, A=A)
        n = rows.shape[1]
        if mass.shape != (n, n):
            raise ShapeError(
                f"{function}: M has shape {mass.shape} and A {rows.shape}, expected (n, n) and (m, n): "
                f"one column of A for each velocity"
            )
        largest = max((abs(x) for x in mass.flat), default=0)
        apart = max((abs(x) for x in (mass - mass.T).flat), default=0)
        if apart > SYMMETRY * largest:
            raise UnsupportedError(
                f"{function}: M differs from its transpose by {float(apart):.3g}: a mass matrix is symmetric"
            )
        tolerance = _tolerance(function, np.concatenate([mass, rows]), rank_tolerance)
        scaled = mass / largest if largest else mass
        return _Given(function, scaled, rows, linalg.orthogonal_rows(rows, tolerance), tolerance)

    def dagger(self) -> Array:
        """M† (n, n), times the largest entry of M."""
        Z = self.rows.complement()
        reduced = Z @ self.M @ Z.T
        with np.errstate(divide="ignore", invalid="ignore"):  # a pivot of zero is refused below
            factor = linalg.ldlt(reduced, lenient=True)
        self._require_inertia(Z, factor)
        return np.asarray(Z.T @ factor.solve(Z).astype(Z.dtype))

    def _require_inertia(self, Z: Array, factor: linalg.LDLT) -> None:
        """Refuse a motion whose inertia is what rounding leaves of zero: condition (32) of 000."""
        terms = np.abs(Z) @ np.abs(self.M) @ np.abs(Z).T
        for k, pivot in enumerate(factor.pivots):
            least = self.tolerance * self.tolerance * terms[k, k]
            if scalars.less(least, pivot):
                continue
            unit = np.array([int(i == k) for i in range(k + 1)], dtype=object)
            motion = Z[: k + 1].T @ linalg.LDLT(factor.L[: k + 1, : k + 1], *([factor.pivots] * 2)).backward(unit)
            raise SingularSystemError(_no_inertia(self.function, motion, negative=bool(scalars.less(pivot, -least))))

    def finish(self, result: Array) -> Array:
        return _of_one_kind(self.function, result, np.concatenate([self.M, self.A]))


def _no_inertia(function: str, motion: Array, *, negative: bool) -> str:
    shares = np.array([complex(x).real for x in motion])
    shares = shares / shares[np.argmax(np.abs(shares))]
    shown = ", ".join(f"v[{i}] = {x:.3g}" for i, x in enumerate(shares) if abs(x) > math.sqrt(SYMMETRY))
    found = "negative inertia, so M is no mass matrix" if negative else "no inertia"
    return (
        f"{function}: the motion {shown} is allowed by every row of A and has {found} (condition (32) of 000). Give it "
        f"mass, or add the row that stops it; of a model, wt.diagnose(model, q) names the joints."
    )


def _numbers(function: str, **matrices: Any) -> list[Array]:
    """Matrices of finite numbers of one kind: float64 (or longer), complex, or objects that are exact or mpmath's."""
    found = {name: np.asarray(given) for name, given in matrices.items()}
    for name, array in found.items():
        if array.ndim != 2:
            raise ShapeError(f"{function}: {name} has shape {array.shape}, expected a matrix (one state at a time)")
        if array.dtype.kind not in "biufcO":
            raise ScalarError(f"{function}: {name} holds {array.dtype}, expected numbers")
        for x in array.flat if array.dtype == object else ():
            if scalars.functions_of(x).rank >= scalars.SYMBOLIC:
                raise ScalarError(
                    f"{function}: {name} holds scalars of type {type(x).__name__}, which have no value yet, and a rank "
                    f"needs values: use the function {function!r} of wt.compile, wt.reference or wt.symbolic"
                )
        strange = [x for x in array.flat if not abs(x) < math.inf]
        if strange:
            raise UnsupportedError(f"{function}: {name} holds {strange[0]}: its entries must be finite")
    kinds = [_kind(array) for array in found.values()]
    if object not in kinds:
        try:
            return [array.astype(np.result_type(*kinds)) for array in found.values()]
        except OverflowError as error:
            raise UnsupportedError(f"{function}: {error}: use Fractions for numbers of that size") from None
    zero = _zero(found.values())
    return [np.array(array.astype(object) + zero, dtype=object).reshape(array.shape) for array in found.values()]


def _zero(arrays: Iterable[Array]) -> Any:
    """0 of the most general kind among the entries: added to an integer, it makes it one of them."""
    return sum((0 * x for x in {type(x): x for array in arrays for x in array.flat}.values()), start=0)


def _kind(array: Array) -> Any:
    """The dtype to compute in: that of the numbers, float64 at least; object for numbers that are no machine's."""
    if array.dtype == object:
        plain = all(isinstance(x, (int, float, complex, np.number)) for x in array.flat)
        return np.result_type(float, *{type(x) for x in array.flat} - {int, bool}) if plain else object
    return np.result_type(array.dtype, float)


def _tolerance(function: str, numbers: Array, given: Any) -> Any:
    """The rank tolerance asked for, or the one that suits the numbers' digits."""
    if given is not None:
        if not 0 <= given < 1:
            raise UnsupportedError(f"{function}: rank_tolerance is {given}, expected the sine of an angle: 0 ≤ … < 1")
        return given
    if numbers.dtype != object:
        return RANK_TOLERANCE
    contexts = [x.context for x in numbers.flat if hasattr(x, "context")]
    if contexts:
        # 1e-6 is three eighths of the digits of a float
        return contexts[0].ldexp(1, -(3 * contexts[0].prec // 8))
    return 0 if all(isinstance(x, (int, Fraction)) for x in numbers.flat) else RANK_TOLERANCE


def _of_one_kind(function: str, result: Array, numbers: Array) -> Array:
    """The result, every entry of the kind of the numbers that it came from: also a zero of a Fraction matrix."""
    if numbers.dtype != object:
        result = result.astype(numbers.dtype)
    else:
        result = np.array(result + _zero([numbers]), dtype=object).reshape(result.shape)
    if not all(abs(x) < math.inf for x in result.flat):
        raise SingularSystemError(f"{function}: the numbers of M and A are so far apart that the result overflows")
    return result


@dataclass(frozen=True)
class ConstrainedInverse:
    """Joint forces for a desired motion under constraints."""

    tau: Array
    """(nv,), zero for joints that are not actuated."""
    forces: Array
    """f of all rows (m,), M a + c = tau + Aᵀ f; zero for redundant rows."""
    a: Array
    """The motion that results (nv,), which is the desired one where it can be had."""
    free: Array
    """Allowed motions d (nv, k) along which no actuator pushes, so that dᵀ M a cannot be chosen."""
    spare: int
    """How many directions of actuator forces have no effect on the motion; weights settle them."""
    shortfall: float
    """Size of desired − a in the metric of the mass matrix, √(kg) m/s²; 0 where the motion can be had."""


def inverse_dynamics_under_constraints(
    model: Model,
    q: Any,
    v: Any,
    a: Any,
    *,
    actuated: Sequence[str] | None = None,
    weights: Any = None,
    t: float = 0.0,
    rank_tolerance: float = RANK_TOLERANCE,
) -> ConstrainedInverse:
    """Actuator forces and constraint forces for a desired motion, by the QR projector.

    P_QR (M a + c) = P_QR B u has as many equations as there are freedoms, and none of the reaction forces. Fully
    actuated systems have one u; over-actuated ones are given the least uᵀ W u; under-actuated ones the u whose
    motion is closest to the desired one in the metric of M (Gauss), and the accelerations that no actuator can
    change are returned.

    Args:
        model: with or without constraints, a floating base included; switchable constraints count as on.
        q, v: (nq,), (nv,).
        a: the desired accelerations (nv,); the part that the constraints forbid is projected away.
        actuated: names of joints that have actuators; default: all but free joints.
        weights: W of uᵀ W u, one per actuated velocity (k,) or a symmetric, positive definite matrix (k, k); default
            1. Where newtons meet newton metres, say how they compare.
        t: time, for constraints that depend on it.
        rank_tolerance: relative size below which a direction counts as dependent.
    """
    state = _ProjectorState(model, q, v, t)
    desired = _vector("a", a, model.nv)
    columns = _actuators(model, actuated)
    B = np.eye(model.nv)[:, columns]
    root = _root_of_metric(weights, len(columns))
    Q2 = qr_projector(state.A, rank_tolerance=rank_tolerance)
    reach = Q2 @ B
    # accelerations that the constraints allow: a particular one, and what Q₂ᵀ y adds
    particular = _least_norm(state.A, -state.gamma, rank_tolerance)
    reduced = Q2 @ state.M @ Q2.T
    y_wanted = Q2 @ (desired - particular)
    # reduced ÿ + rest = reach u: the part of the wanted ÿ that some u can cause, closest in the metric of the mass
    # matrix
    rest = Q2 @ (state.M @ particular + state.c)
    L = _cholesky(reduced, model)
    caused = np.linalg.solve(L, reach)
    wanted = L.T @ y_wanted + np.linalg.solve(L, rest)
    # with W = L_w L_wᵀ and u = L_w⁻ᵀ x, the least uᵀ W u is the least |x|
    scaled = np.linalg.solve(root, caused.T).T
    U, s, Vt = np.linalg.svd(scaled, full_matrices=True)
    rank = int(np.sum(s > rank_tolerance * s[0])) if s.size and s[0] > 0 else 0
    u = np.linalg.solve(root.T, Vt[:rank].T @ ((U[:, :rank].T @ wanted) / s[:rank]))
    y = np.linalg.solve(L.T, caused @ u - np.linalg.solve(L, rest))
    reached = particular + Q2.T @ y
    tau = B @ u
    forces = _least_norm(state.A.T, state.M @ reached + state.c - tau, rank_tolerance)
    every = np.zeros(state.rows)
    every[state.kept] = forces
    idle = Q2.T @ np.linalg.solve(L.T, U[:, rank:])
    shortfall = float(np.linalg.norm(L.T @ (y_wanted - y)))
    return ConstrainedInverse(tau, every, reached, idle, len(columns) - rank, shortfall)


class _ProjectorState:
    """The matrices of a model at a state, in floats."""

    def __init__(self, model: Model, q: Any, v: Any, t: float) -> None:
        at = floats("inverse_dynamics_under_constraints", "q", q).astype(object)
        rates = _vector("v", v, model.nv).astype(object)
        m = Mechanism(skeleton(model))
        links = m.moving(at, rates)
        self.M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
        self.c = m.join(inverse.bias_forces(m.sweep, links, m.base)).astype(float)
        system = constraint_set(model)
        rows = system.rows(m, links, at, rates, t)
        self.rows = len(system.row_names)
        self.kept = list(system.structure.independent) if self.rows else []
        if any(system.compliance[i] for i in self.kept):
            raise UnsupportedError("inverse_dynamics_under_constraints: compliant constraints are not supported")
        self.A = rows.jacobian().astype(float)[self.kept]
        self.gamma = rows.bias().astype(float)[self.kept]


def _root_of_metric(weights: Any, count: int) -> Array:
    """L with L Lᵀ = W, for weights (k,) or a metric (k, k)."""
    W = np.eye(count) if weights is None else np.array(weights, dtype=float)
    W = np.diag(W) if W.shape == (count,) else W
    if W.shape != (count, count):
        raise ShapeError(
            f"inverse_dynamics_under_constraints: weights has shape {np.shape(weights)}, expected ({count},) or "
            f"({count}, {count})"
        )
    if not np.all(np.isfinite(W)) or np.abs(W - W.T).max(initial=0.0) > SYMMETRY * np.abs(W).max(initial=0.0):
        raise UnsupportedError("inverse_dynamics_under_constraints: the metric of weights must be symmetric and finite")
    try:
        return np.asarray(np.linalg.cholesky(W))
    except np.linalg.LinAlgError:
        raise UnsupportedError(
            "inverse_dynamics_under_constraints: every weight must be positive, and a metric positive definite"
        ) from None


def _cholesky(reduced: Array, model: Model) -> Array:
    try:
        return np.asarray(np.linalg.cholesky(reduced))
    except np.linalg.LinAlgError:
        raise SingularSystemError(
            f"model {model.name!r}: some motion that the constraints allow has no inertia (condition (32)): "
            f"wt.diagnose(model, q) names it"
        ) from None


def _actuators(model: Model, actuated: Sequence[str] | None) -> list[int]:
    names = [j.name for j in model.joints if j.kind != "free"] if actuated is None else as_names(actuated)
    return [i for name in names for i in range(model.slice(name).start, model.slice(name).stop)]


def _least_norm(A: Array, b: Array, rank_tolerance: float) -> Array:
    """The least-norm x with A x = b in the least-squares sense."""
    return np.asarray(np.linalg.lstsq(A, b, rcond=rank_tolerance)[0]) if A.size else np.zeros(A.shape[1])


def _vector(name: str, values: Any, size: int) -> Array:
    array = floats("inverse_dynamics_under_constraints", name, values)
    if array.shape != (size,):
        raise ShapeError(f"inverse_dynamics_under_constraints: {name} has shape {array.shape}, expected ({size},)")
    return array
