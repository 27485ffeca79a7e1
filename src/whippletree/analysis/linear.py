"""``wt.linearize``: the linear system about a state, in minimal coordinates on the constraint manifold.

Deviations of a motion from the one through (q, v) obey, with δq in the tangent space of the tree's coordinates,

    A_p δq = 0                                  rows at position level
    A δv + ∂(A v + g_t)/∂q δq = 0               all rows
    δq̇ = δv − ad_v δq                           (the last term for ball and free joints only)
    δa = (∂a/∂q) δq + (∂a/∂v) δv + (∂a/∂τ) δτ

where a(q, v, τ) is the acceleration under the constraints. With the forces f of the rows held fixed while the state
moves, and A ∂a = −∂(A a + γ),

    M ∂a − Fᵀ ∂f = ∂τ − ∂(M a + c) + ∂(Fᵀ f)

so that stiffness has the part −∂(Fᵀ f)/∂q of the constraints' own forces: a pendulum made of a point mass and a
distance constraint has no other. Some of the tree's velocities are *minimal coordinates*: δq = Z_p ξ and
δv = Z_v η + W ξ with ones at them, and the state is x = (ξ, η). Non-holonomic rows leave more ξ than η.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg

from whippletree.analysis.balance import Balance, BalanceRows, held_rows, touching_contacts
from whippletree.arithmetic.arrays import Array
from whippletree.constraints.assembly import POSITION_TOLERANCE, VELOCITY_TOLERANCE
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.dynamics import MASSLESS
from whippletree.constraints.failures import failure
from whippletree.constraints.routes import MASSLESS_TOLERANCE
from whippletree.errors import AssemblyError, NameLookupError, ShapeError, SingularSystemError, UnsupportedError
from whippletree.model import Model
from whippletree.model.input_checks import as_names
from whippletree.simulation.output.labels import velocities as velocity_names
from whippletree.tree.skeleton import skeleton

BODY, PARENT = "body", "parent"
AXES = (BODY, PARENT)

CLEAR_BASIS = 1e-3
"""Smallest singular value of the chosen part of an orthonormal basis of motions that makes good coordinates."""

DISTINCT = 1e-9
"""Share below which coordinates do not describe the motions at all."""

NEARBY = 1e-3
"""Distance, rad or m, at which rows of contacts are compared with those at q: further than rounding of a rank sees."""

LATER = (0.7, -1.1)
"""Times, over that in which the state moves by a radian or a metre, at which ``steady`` looks whether A is the same."""

STEADY = 1e-8
"""Largest change of A and of velocities, relative to A, that counts as none."""


@dataclass(frozen=True)
class LinearSystem:
    """ẋ = A x + B u + constant, y = C x: deviations from a state in minimal coordinates. Arrays may have a batch."""

    A: Array
    """(..., n, n)."""
    B: Array
    """(..., n, inputs): by joint forces."""
    C: Array
    """(..., outputs, n)."""
    constant: Array
    """(..., n): ẋ of the state itself; zero at an equilibrium."""
    states: tuple[str, ...]
    """Name of every entry of x: minimal coordinates, then (``rate of …``) velocities."""
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    q: Array
    v: Array
    a: Array
    """Accelerations of the state itself (..., nv)."""
    forces: Array
    """f of the rows that hold it (..., m); least-norm where rows are redundant."""
    rows: tuple[str, ...]
    """Names of these rows."""
    positions: Array
    """Z_p (..., nv, number of ξ): δq = Z_p ξ."""
    motions: Array
    """Z_v (..., nv, number of η): δv = Z_v η + W ξ."""
    mass: Array
    """Reduced mass matrix, in the coordinates of η."""
    damping: Array
    """−∂(forces)/∂η: dampers, friction and, of a moving state, gyroscopic terms."""
    stiffness: Array
    """−∂(forces)/∂ξ: springs, gravity, loads and −∂(Fᵀ f)/∂q of the constraints' forces."""
    axes: str
    """In which axes deviations of ball and free joints are written: ``body`` (the child's) or ``parent``."""
    steady: bool
    """Whether A stays what it is along the motion through the state, so that its eigenvalues mean growth and decay."""
    model: Model = field(repr=False)
    balance: Balance = field(repr=False)
    """The model with its loads, open parameters, switches and held contacts."""

    def __repr__(self) -> str:
        batch = f" × {self.A.shape[:-2]}" if self.A.ndim > 2 else ""
        kind = "steady" if self.steady else "not steady: A changes along the motion, or the state is no equilibrium"
        return (
            f"<LinearSystem of model {self.model.name!r}{batch}: {len(self.states)} states "
            f"({', '.join(self.states[:6])}{', …' if len(self.states) > 6 else ''}), {len(self.inputs)} inputs, "
            f"{len(self.outputs)} outputs; {kind}>"
        )


class MinimalChoice(NamedTuple):
    """Which of the tree's velocities are minimal coordinates."""

    positions: list[int]
    velocities: list[int]


def linearize(
    model: Model,
    q: Any,
    v: Any = None,
    *,
    tau: Any = None,
    forces: Mapping[str, Any] | None = None,
    wrenches: Mapping[str, Any] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    coordinates: Sequence[str] | None = None,
    contacts: Mapping[str, str] | str = "touching",
    parameters: Mapping[str, Any] | None = None,
    t: float = 0.0,
    active: Any = None,
    axes: str | None = None,
) -> LinearSystem:
    """The linear system about a state that meets the constraints.

    Args:
        model: any model whose allowed motions have inertia; massless links, loops, redundant rows, rolling wheels.
        q: (..., nq).
        v: (..., nv); default: at rest.
        tau: joint forces that act at the state and stay as they are, (..., nv), N m or N. Springs and dampers of the
            joints act beside them.
        forces: N in world axes at the origin of a frame, ``{"tip": (0, 200, 0)}``: they keep their direction.
        wrenches: moment and force (N m, N) in the axes of a frame, (6,): they turn with it (follower forces).
        inputs: joints whose forces are inputs u; default: all.
        outputs: joints (their δq) and frames (their displacement, rotation and translation in the frame's axes) that
            make y; default: all of δq and δv.
        coordinates: joints whose coordinates are the state; default: found.
        contacts: which contacts are held: ``{"foot": "sticking"}`` (or ``"sliding"``, ``"frictionless"``), or
            ``"touching"``: those that touch at q (one state only), sliding where they slip.
        parameters: numbers of the model to be replaced, by path, each with the batch in front.
        t: time, for constraints that depend on it.
        active: 1 or 0 for every switchable constraint; default: all on.
        axes: of deviations of ball and free joints: ``body`` or ``parent``; default: those in which the motion is
            steady, else ``body``.

    Raises:
        AssemblyError: if (q, v) violates the constraints.
        SingularSystemError: if an allowed motion has no inertia, or q is a dead point.
    """
    words: dict[str, Any] = {"tau": tau, "forces": forces, "wrenches": wrenches, "parameters": parameters}
    balance = Balance("linearize", model, **words, t=t, active=active)
    _refuse_compliance(model)
    q, v = _states(balance, q, v)
    held = _held_contacts(balance, contacts, q, v)
    if held:
        balance = Balance("linearize", model, **words, t=t, active=active, contacts=held)
    require_on_manifold(balance, q, v)
    if axes is not None and axes not in AXES:
        raise NameLookupError("axes", axes, AXES)
    state = _LinearState(balance, q, v)
    system = _chosen_axes(state, coordinates, axes)
    if not np.all(np.isfinite(system.A)):
        raise ValueError(
            f"linearize: numbers overflow at this state of model {model.name!r} (the largest velocity is "
            f"{np.abs(v).max(initial=0.0):.3g}): there is no finite linear system"
        )
    return system.finish(inputs, outputs)


def _refuse_compliance(model: Model) -> None:
    """A row that yields adds to the inertia, at every state another: that is not in the equations above."""
    yielding = [c.name for c in model.constraints if c.parameters.get("compliance")]
    if yielding:
        raise UnsupportedError(
            f"linearize: constraint {yielding[0]!r} of model {model.name!r} is compliant, which is not supported here: "
            f"make it rigid (compliance=0), or put springs into joints"
        )


def eigenvalues_at_rest(balance: Balance, q: Array) -> Array:
    """Eigenvalues of the matrix A about configurations at rest, 1/s, (..., n)."""
    state = _LinearState(balance, q, np.zeros((*q.shape[:-1], balance.model.nv)))
    return np.asarray(np.linalg.eigvals(_chosen_axes(state, None, None).A))


def _states(balance: Balance, q: Any, v: Any) -> tuple[Array, Array]:
    """q and v over the whole batch."""
    at = balance.coordinates("q", q)
    rates = balance.velocity_vector("v", v)
    batch = np.broadcast_shapes(at.shape[:-1], rates.shape[:-1], balance.batch)
    if 0 in batch:
        raise ShapeError(
            f"{balance.function}: the batch {batch} is empty: there is no state about which to linearise, and none "
            f"that could choose coordinates"
        )
    return np.broadcast_to(at, (*batch, at.shape[-1])), np.broadcast_to(rates, (*batch, rates.shape[-1]))


def _held_contacts(balance: Balance, contacts: Mapping[str, str] | str, q: Array, v: Array) -> dict[str, str]:
    if not isinstance(contacts, str):
        return dict(contacts)
    if contacts != "touching":
        raise NameLookupError("choice of contacts", contacts, ["touching", "a mapping from names to modes"])
    if not balance.model.touches:
        return {}
    if q.ndim > 1:
        raise ShapeError(
            f"{balance.function}: which contacts touch may differ between the states of a batch: name them, "
            f'contacts={{"foot": "sticking"}}, or contacts={{}} for none'
        )
    return touching_contacts(balance, q, v)


def require_on_manifold(balance: Balance, q: Array, v: Array, *, velocities: bool = True) -> None:
    """Refuse states that violate the rows that hold them; with ``velocities``, those at velocity level too.

    Raises:
        AssemblyError: naming the row that is violated most.
    """
    positions = [name for name, level in zip(balance.row_names, balance.at_position_level, strict=True) if level]
    for found, names, tolerance, word, cure in (
        (balance.residual(q), positions, POSITION_TOLERANCE, "q", "wt.assemble(model, q) closes the loops"),
        (balance.row_velocity(q, v), balance.row_names, VELOCITY_TOLERANCE, "v", "project_velocity(q, v) corrects it"),
    ):
        if word == "v" and not velocities:
            continue
        worst = np.abs(found).reshape(-1, len(names)).max(axis=0, initial=0.0) if names else np.zeros(0)
        gaps = {name: float(x) for name, x in zip(names, worst, strict=True) if not x <= tolerance}
        if gaps:
            listed = ", ".join(f"{name} = {x:.6g}" for name, x in list(gaps.items())[:8])
            raise AssemblyError(
                f"{balance.function}: model {balance.model.name!r}: {word} does not meet its constraints: {listed} "
                f"(more than {tolerance:g}). {cure}.",
                q,
                gaps,
            )


class _LinearState:
    """Accelerations, forces and their derivatives at the states of a batch, in the tree's coordinates."""

    def __init__(self, balance: Balance, q: Array, v: Array) -> None:
        self.balance, self.q, self.v = balance, q, v
        self.all = held_rows(balance.jacobian(q))
        self.at_position = held_rows(self.all.A[..., balance.at_position_level, :])
        self._require_regular()
        F = balance.pushing_rows(self.all.A, q, v)
        self.pushing = self.all if F is self.all.A else held_rows(F)
        self.M = np.asarray(balance.evaluate("mass_matrix", q=q))
        self.inertia = _T(self.pushing.motions) @ self.M @ self.all.motions
        self._require_inertia()
        self._solve()
        self._differentiate()

    def _require_regular(self) -> None:
        model, system = self.balance.model, constraint_set(self.balance.model)
        d = self.all.motions.shape[-1]
        whole = not self.balance.contacts and bool(np.all(self.balance.active != 0)) and not any(system.compliance)
        more = whole and bool(model.constraints) and d > system.structure.mobility
        more = more or (bool(self.balance.contacts) and d > self._freedoms_nearby())
        if more or np.any(self.all.deficient) or np.any(self.at_position.deficient):
            raise SingularSystemError(
                f"{self.balance.function}: model {model.name!r}: constraint rows depend on each other at this q (a "
                f"dead point), so that the motion near it is not that of one linear system. wt.diagnose(model, q) "
                f"names the rows; move q off the dead point."
            )

    def _freedoms_nearby(self) -> int:
        """How many motions the rows allow a little aside, along motions that they allow here."""
        Z = self.at_position.motions
        aside = NEARBY * np.cos(np.arange(1, Z.shape[-1] + 1))
        q = np.asarray(self.balance.evaluate("integrate", q=self.q, d=Z @ aside))
        flat = self.balance.flatten_batch(q.shape[:-1])
        return int(held_rows(flat.jacobian(flat.close_loops(q.reshape(-1, q.shape[-1])))).motions.shape[-1])

    def _require_inertia(self) -> None:
        if not self.inertia.shape[-1]:
            return
        own = np.abs(np.diagonal(self.inertia, axis1=-2, axis2=-1))
        # beside what meets in each motion, not beside the heaviest one: a watch's balance on a crane has inertia
        reach = np.abs(self.all.motions)
        meeting = np.einsum("...ik,...ij,...jk->...k", np.abs(self.pushing.motions), np.abs(self.M), reach)
        bare = np.any(own <= MASSLESS_TOLERANCE * meeting, axis=-1)
        sizes = np.sqrt(own)
        shown = np.where(sizes > 0, sizes, 1.0)
        scaled = self.inertia / (shown[..., :, None] * shown[..., None, :])
        bare |= np.linalg.svd(scaled, compute_uv=False)[..., -1] <= MASSLESS_TOLERANCE
        if np.any(bare):
            tree = skeleton(self.balance.model)
            worst = self.q[np.unravel_index(int(np.argmax(bare)), bare.shape)] if bare.ndim else self.q
            raise failure(tree, len(tree.nodes) + MASSLESS, {"q": worst, "t": self.balance.t})

    def _solve(self) -> None:
        """a and f of the states themselves."""
        balance, q, v = self.balance, self.q, self.v
        tau, c = balance.joint_forces(q, v), np.asarray(balance.evaluate("bias", q=q, v=v))
        gamma = balance.row_bias(q, v)
        self.a = self.response((tau - c)[..., None], gamma[..., None])[..., 0]
        self.f = _apply(_T(self.pushing.inverse), _apply(self.M, self.a) + c - tau)

    def response(self, b: Array, gamma: Array) -> Array:
        """The accelerations (..., nv, k) of right-hand sides M a − Fᵀ f = b, A a = −γ."""
        Z, Y, forced = self.all.motions, self.pushing.motions, self.all.inverse @ gamma
        if not Z.shape[-1]:
            return np.asarray(-forced)
        return np.asarray(Z @ np.linalg.solve(self.inertia, _T(Y) @ (b + self.M @ forced)) - forced)

    def _differentiate(self) -> None:
        """∂(forces)/∂q and /∂v at fixed a and f, and those of the rows A a + γ."""
        balance, q, v = self.balance, self.q, self.v
        tau_q, tau_v = balance.joint_force_slopes(q, v)
        tree_q, tree_v, _ = balance.evaluate("inverse_dynamics_derivatives", q=q, v=v, a=self.a)
        dA = balance.jacobian_slopes(q)
        F_q, F_v = balance.pushing_row_slopes(dA, q, v)
        self.pull_q = tau_q - tree_q + np.einsum("...mjk,...m->...jk", F_q, self.f)
        self.pull_v = tau_v - tree_v + np.einsum("...mjk,...m->...jk", F_v, self.f)
        self.rows_q = np.einsum("...mjk,...j->...mk", dA, self.a) + balance.row_bias_slopes("q", q, v)
        self.rows_v = balance.row_bias_slopes("v", q, v)
        self.slip_q = balance.row_velocity_slopes(q, v)

    def coast(self, h: float, axes: str) -> _LinearState | None:
        """The state after the time h if its velocity stays what it is in these axes; None if the rows forbid that."""
        model, q, v = self.balance.model, self.q, self.v.copy()
        moved = np.array(self.balance.evaluate("integrate", q=q, d=h * v))
        if axes == PARENT:
            for place, own, kind in zip(model.q_slices, model.v_slices, model.joint_types, strict=True):
                if kind.nv == 6:  # a straight line instead of a screw; the velocity turns back in the child's axes
                    turn, slide = slice(place.stop - 4, place.stop), slice(own.start + 3, own.stop)
                    velocity = _apply(_rotation(q[..., turn]), v[..., slide])
                    moved[..., place.start : place.start + 3] = q[..., place.start : place.start + 3] + h * velocity
                    v[..., slide] = _apply(_T(_rotation(moved[..., turn])), velocity)
        balance = self.balance.at_time(self.balance.t + h)
        try:
            require_on_manifold(balance, moved, v)
            return _LinearState(balance, moved, v)
        except (AssemblyError, SingularSystemError):
            return None


class _System:
    """The matrices of a state in some axes and some minimal coordinates."""

    def __init__(self, state: _LinearState, axes: str, choice: MinimalChoice) -> None:
        self.state, self.axes, self.choice = state, axes, choice
        model, q, v = state.balance.model, state.q, state.v
        T, spin = _turned_axes(model, q, v, axes)
        connection = _connection(model, v)
        to_positions, to_velocities = T[..., choice.positions, :], T[..., choice.velocities, :]
        self.Z_p = _normalise_basis(state.at_position, to_positions)
        self.Z_v = _normalise_basis(state.all, to_velocities)
        drift = -state.all.inverse @ state.slip_q @ self.Z_p
        W = drift - self.Z_v @ (to_velocities @ drift)
        self.W = W
        response = state.response
        by_position = response(state.pull_q @ self.Z_p + state.pull_v @ W, state.rows_q @ self.Z_p + state.rows_v @ W)
        by_velocity = response(state.pull_v @ self.Z_v, state.rows_v @ self.Z_v)
        upper = np.concatenate([to_positions @ ((spin + connection) @ self.Z_p + W), to_positions @ self.Z_v], axis=-1)
        lower = np.concatenate(
            [to_velocities @ (spin @ W + by_position), to_velocities @ (spin @ self.Z_v + by_velocity)], axis=-1
        )
        self.A = np.concatenate([upper, lower], axis=-2)
        self.to_positions, self.to_velocities, self.spin = to_positions, to_velocities, spin
        moving = to_velocities @ (_apply(spin, v) + state.a)[..., None]
        self.constant = np.concatenate([(to_positions @ v[..., None])[..., 0], moving[..., 0]], axis=-1)

    @cached_property
    def steady(self) -> bool:
        """Whether the motion goes on at the same velocity, and A stays what it is along it."""
        scale = max(1.0, float(np.abs(self.A).max(initial=0.0)))
        if self._acceleration() > STEADY * scale:
            return False
        pace = float(np.abs(self.state.v).max(initial=0.0))
        for time in LATER if pace else ():
            there = self.state.coast(time / pace, self.axes)
            if there is None:
                return False
            later = _System(there, self.axes, self.choice)
            if later._acceleration() > STEADY * scale or np.abs(later.A - self.A).max() > STEADY * scale:
                return False
        return True

    def _acceleration(self) -> float:
        """The largest rate of a velocity in the axes of the system."""
        return float(np.abs(self.constant[..., len(self.choice.positions) :]).max(initial=0.0))

    def finish(self, inputs: Sequence[str] | None, outputs: Sequence[str] | None) -> LinearSystem:
        state = self.state
        balance, model = state.balance, state.balance.model
        names = velocity_names(model)
        columns = _named_velocities(model, inputs)
        selected = np.broadcast_to(np.eye(model.nv)[:, columns], (*self.A.shape[:-2], model.nv, len(columns)))
        rows = np.zeros((*self.A.shape[:-2], state.all.A.shape[-2], len(columns)))
        B = self.to_velocities @ state.response(selected, rows)
        B = np.concatenate([np.zeros((*B.shape[:-2], len(self.choice.positions), len(columns))), B], axis=-2)
        C, output_names = self._outputs(outputs)
        left = self.Z_v
        if state.pushing is not state.all:
            left = _normalise_basis(state.pushing, self.to_velocities)
        forced_q = state.all.inverse @ (state.rows_q @ self.Z_p + state.rows_v @ self.W)
        forced_v = state.all.inverse @ (state.rows_v @ self.Z_v)
        positions, velocities = ([names[i] for i in part] for part in self.choice)
        return LinearSystem(
            self.A,
            B,
            C,
            self.constant,
            (*positions, *[f"rate of {name}" for name in velocities]),
            tuple(names[i] for i in columns),
            output_names,
            state.q,
            state.v,
            state.a,
            state.f,
            balance.row_names,
            self.Z_p,
            self.Z_v,
            _T(left) @ state.M @ self.Z_v,
            -_T(left) @ (state.pull_v @ self.Z_v + state.M @ forced_v),
            -_T(left) @ (state.pull_q @ self.Z_p + state.pull_v @ self.W + state.M @ forced_q),
            self.axes,
            self.steady,
            model,
            balance,
        )

    def _outputs(self, outputs: Sequence[str] | None) -> tuple[Array, tuple[str, ...]]:
        model, names = self.state.balance.model, velocity_names(self.state.balance.model)
        none = np.zeros((*self.A.shape[:-2], model.nv, len(self.choice.velocities)))
        places = np.concatenate([self.Z_p, none], axis=-1)
        if outputs is None:
            rates = np.concatenate([self.W, self.Z_v], axis=-1)
            return np.concatenate([places, rates], axis=-2), (*names, *[f"rate of {name}" for name in names])
        parts, listed = [np.zeros((*self.A.shape[:-2], 0, self.A.shape[-1]))], []
        joints = [joint.name for joint in model.joints]
        for name in as_names(outputs):
            if name in joints:
                own = range(model.nv)[model.slice(name)]
                parts.append(places[..., own, :])
                listed += [names[i] for i in own]
            else:
                J = np.asarray(self.state.balance.evaluate("jacobian", model.frame(name).name, q=self.state.q))
                parts.append(J @ places)
                listed += [f"{name}.{part}" for part in ("rx", "ry", "rz", "x", "y", "z")]
        return np.concatenate(parts, axis=-2), tuple(listed)


def _chosen_axes(state: _LinearState, coordinates: Sequence[str] | None, axes: str | None) -> _System:
    """The system in the axes that were asked for, or in those in which it is steady."""
    turning = any(kind.nq > kind.nv for kind in state.balance.model.joint_types)
    candidates = [axes] if axes else list(AXES) if turning and np.any(state.v) else [BODY]
    first, *others = [_System(state, word, choose_coordinates(state, word, coordinates)) for word in candidates]
    if first.steady:
        return first
    return next((other for other in others if other.steady), first)


def choose_coordinates(state: _LinearState, axes: str, names: Sequence[str] | None) -> MinimalChoice:
    """Minimal coordinates: those named, else the library's usual ones, else those that describe the motions best.

    The first state of a batch decides; all others must have motions that they describe.
    """
    model = state.balance.model
    T, _ = _turned_axes(model, state.q, state.v, axes)
    first = (0,) * (state.q.ndim - 1)
    positions, velocities = ((T @ rows.motions)[first] for rows in (state.at_position, state.all))
    named = None if names is None else _named_velocities(model, names)
    usual = (
        list(constraint_set(model).free) if names is None and model.constraints and not state.balance.contacts else None
    )
    chosen = _independent(velocities, named if named is not None else usual, strict=names is not None)
    if names is not None and len(chosen) != velocities.shape[1]:
        raise ShapeError(
            f"{state.balance.function}: coordinates names {len(named or [])} velocities, but model {model.name!r} has "
            f"{velocities.shape[1]} freedoms here that they must describe"
        )
    further = _extend_choice(positions, chosen)
    for rows, own in ((state.at_position, sorted(further)), (state.all, sorted(chosen))):
        part = (T @ rows.motions)[..., own, :]
        if own and np.any(np.linalg.svd(part, compute_uv=False)[..., -1] < DISTINCT):
            listed = ", ".join(velocity_names(model)[i] for i in own)
            raise SingularSystemError(
                f"{state.balance.function}: {listed} do not describe every motion that model {model.name!r} can make "
                f"at q: name other joints in coordinates="
            )
    return MinimalChoice(sorted(further), sorted(chosen))


def _independent(motions: Array, wanted: list[int] | None, *, strict: bool) -> list[int]:
    """Rows of an orthonormal basis (n, d) that determine the rest: those wanted if they do, else by pivoted QR."""
    d = motions.shape[1]
    if not d:
        return []
    if wanted is not None and (strict or len(wanted) == d):
        if len(wanted) != d:
            return wanted
        smallest = np.linalg.svd(motions[wanted], compute_uv=False)[-1]
        if strict or smallest > CLEAR_BASIS:
            return wanted
    return [int(i) for i in scipy.linalg.qr(motions.T, pivoting=True, mode="r")[1][:d]]


def _extend_choice(motions: Array, chosen: list[int]) -> list[int]:
    """The chosen rows of a basis (n, d) and as many more as make d that determine the rest."""
    d = motions.shape[1]
    more = d - len(chosen)
    if more <= 0:
        return chosen
    rest = scipy.linalg.null_space(motions[chosen]) if chosen else np.eye(d)
    pivots = scipy.linalg.qr((motions @ rest).T, pivoting=True, mode="r")[1]
    return [*chosen, *[int(i) for i in pivots[:more]]]


def _named_velocities(model: Model, joints: Sequence[str] | None) -> list[int]:
    if joints is None:
        return list(range(model.nv))
    return [i for name in as_names(joints) for i in range(model.nv)[model.slice(name)]]


def _normalise_basis(rows: BalanceRows, chosen: Array) -> Array:
    """The basis of motions with ones at the chosen coordinates, (..., nv, d)."""
    Z = rows.motions
    return np.asarray(Z @ np.linalg.inv(chosen @ Z)) if Z.shape[-1] else Z


def _turned_axes(model: Model, q: Array, v: Array, axes: str) -> tuple[Array, Array]:
    """T (..., nv, nv), which takes deviations to the axes asked for, and Ω with Ṫ = T Ω."""
    T = np.broadcast_to(np.eye(model.nv), (*q.shape[:-1], model.nv, model.nv)).copy()
    spin = np.zeros_like(T)
    if axes == PARENT:
        for place, own, kind in zip(model.q_slices, model.v_slices, model.joint_types, strict=True):
            if kind.nq > kind.nv:
                R, turn = _rotation(q[..., place.stop - 4 : place.stop]), _skew(v[..., own.start : own.start + 3])
                for start in range(own.start, own.stop, 3):
                    block = (..., slice(start, start + 3), slice(start, start + 3))
                    T[block], spin[block] = R, turn
    return T, spin


def _connection(model: Model, v: Array) -> Array:
    """−ad_v (..., nv, nv): what δq̇ − δv of ball and free joints is, in the child's axes."""
    result = np.zeros((*v.shape[:-1], model.nv, model.nv))
    for own, kind in zip(model.v_slices, model.joint_types, strict=True):
        if kind.nq > kind.nv:
            turn = slice(own.start, own.start + 3)
            result[..., turn, turn] = -_skew(v[..., turn])
            if kind.nv == 6:
                slide = slice(own.start + 3, own.stop)
                result[..., slide, slide] = -_skew(v[..., turn])
                result[..., slide, turn] = -_skew(v[..., slide])
    return result


def _rotation(quaternion: Array) -> Array:
    """R (..., 3, 3) of unit quaternions w, x, y, z."""
    w, xyz = quaternion[..., 0, None, None], quaternion[..., 1:]
    hat = _skew(xyz)
    return np.asarray(np.eye(3) + 2 * (w * hat + hat @ hat))


def _skew(a: Array) -> Array:
    x, y, z = np.moveaxis(a, -1, 0)
    nothing = np.zeros_like(x)
    return np.stack(
        [np.stack([nothing, -z, y], -1), np.stack([z, nothing, -x], -1), np.stack([-y, x, nothing], -1)], axis=-2
    )


def _T(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)


def _apply(matrix: Array, x: Array) -> Array:
    return np.asarray((matrix @ x[..., None])[..., 0])
