"""Loads of a model and the forces that hold it, for many states at once: joint forces, rows, and their derivatives.

    M a + c = τ(q, v) + Fᵀ f          A a + γ = 0

τ holds the joints' springs and dampers, given joint forces and loads on frames. The rows A are those of the model's
rigid constraints that are on, and of contacts that are held; F = A except for sliding contacts, whose friction pushes
along −t̂ with μ times the normal force (so that F is A with −μ t̂ᵀ T added to the normal rows). Derivatives are exact:
those of the tree by its own recursions, all others by dual numbers through the catalogue's functions, compiled.

Arrays have any batch dimensions in front; open parameters are arrays with the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import Compiled
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.routes import RANK_TOLERANCE
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.kinematics.joint_contacts import Stop
from whippletree.errors import NameLookupError, ShapeError, UnsupportedError
from whippletree.model import Model, require_model
from whippletree.model.input_checks import floats, refuse_zero_quaternions, shape_message
from whippletree.model.parameters import find_parameter

STICKING, SLIDING, FRICTIONLESS = "sticking", "sliding", "frictionless"
CONTACT_MODES = (STICKING, SLIDING, FRICTIONLESS)

TOUCHING_GAP = 1e-7
"""Gap, m, below which two shapes touch; a configuration that ``assemble`` or a run left is closer than that."""

SLOW = 1e-9
"""Speed, m/s, below which a contact sticks: the direction of a slower slip is rounding."""


BALANCE_CORRECTIONS = 30
CLOSED_BALANCE = 1e-12
"""Residual of a position row, m or rad, at which a correction stops; rounding of metres leaves about 1e-16."""

LOOP_DAMPING = 1e-12
"""Damping of a correction of open loops, relative to the size of the rows."""

QUICK_ABOVE = 4000
"""Operations of a function beyond which its machine code is generated with little effort: an analysis evaluates it a
few times, and LLVM would take seconds for the derivatives of forty bodies. Batches of designs are of smaller models."""

LONGEST_CORRECTION = 0.5
"""rad or m: beyond, the linearisation of a loop means little."""


class BalanceRows(NamedTuple):
    """The rows that hold a model at some states, and what follows from them alone."""

    A: Array
    """(..., m, nv)."""
    motions: Array
    """Z (..., nv, d), orthonormal columns: the velocities with A v = 0."""
    inverse: Array
    """A⁺ (..., nv, m): least-norm velocities for given rates of the rows."""
    deficient: Array
    """(...,): whether the rows have a lower rank here than at other states of the batch (a dead point)."""


class Balance:
    """A model, its loads, its open parameters, its time and what is switched on."""

    def __init__(
        self,
        function: str,
        model: Model,
        *,
        tau: Any = None,
        forces: Mapping[str, Any] | None = None,
        wrenches: Mapping[str, Any] | None = None,
        parameters: Mapping[str, Any] | None = None,
        t: float = 0.0,
        active: Any = None,
        contacts: Mapping[str, str] | None = None,
    ) -> None:
        """See :func:`whippletree.linearize` for the arguments; ``function`` is the name that errors give."""
        require_model(model, function)
        self.function, self.model = function, model
        self.opened = {path: np.asarray(value, dtype=float) for path, value in (parameters or {}).items()}
        self._cores = {path: find_parameter(model, path).shape for path in self.opened}
        for path, value in self.opened.items():
            core = self._cores[path]
            if value.shape[value.ndim - len(core) :] != core:
                raise ShapeError(f"{function}: parameter {path!r} has shape {value.shape}, expected (..., *{core})")
            self._require_finite(f"parameter {path!r}", value)
        self.dyn = functions_of(model, tuple(self.opened))
        self.tau = self.velocity_vector("tau", tau)
        self.forces = {name: self._load(name, value, 3, "forces") for name, value in (forces or {}).items()}
        self.wrenches = {name: self._load(name, value, 6, "wrenches") for name, value in (wrenches or {}).items()}
        self.t = float(t)
        self._require_finite("t", np.asarray(self.t))
        system = constraint_set(model)
        self.active = np.ones(len(system.switches)) if active is None else np.asarray(active, dtype=float)
        if self.active.shape != (len(system.switches),):
            raise ShapeError(
                f"{function}: active has shape {self.active.shape}, expected ({len(system.switches)},): one entry per "
                f"switchable constraint ({', '.join(map(repr, system.switches)) or 'the model has none'})"
            )
        self.kept_rows = [
            i for i, k in enumerate(system.switch_of_row) if not system.compliance[i] and (k < 0 or self.active[k] != 0)
        ]
        self.contacts = self._contact_modes(contacts)
        self.stops: tuple[Stop, ...] = ()

    # --- inputs -------------------------------------------------------------------------------------------------------

    def coordinates(self, word: str, q: Any) -> Array:
        """q (..., nq) as floats, if they are configurations."""
        at = floats(self.function, word, q)
        if at.ndim < 1 or at.shape[-1] != self.model.nq:
            raise ShapeError(shape_message(self.function, word, at.shape, (self.model.nq,), self.model))
        self._require_finite(word, at)
        refuse_zero_quaternions(self.function, word, at, self.model)
        return at

    def velocity_vector(self, word: str, values: Any) -> Array:
        """v, or joint forces, (..., nv) as floats; zeros if there are none."""
        array = np.zeros(self.model.nv) if values is None else floats(self.function, word, values)
        if array.ndim < 1 or array.shape[-1] != self.model.nv:
            raise ShapeError(shape_message(self.function, word, array.shape, (self.model.nv,), self.model))
        self._require_finite(word, array)
        return array

    def _load(self, frame: str, value: Any, size: int, word: str) -> Array:
        self.model.frame(frame)
        array = floats(self.function, f"{word}[{frame!r}]", value)
        if array.ndim < 1 or array.shape[-1] != size:
            raise ShapeError(f"{self.function}: {word}[{frame!r}] has shape {array.shape}, expected (..., {size})")
        self._require_finite(f"{word}[{frame!r}]", array)
        return array

    def _require_finite(self, word: str, values: Array) -> None:
        if not np.all(np.isfinite(values)):
            found = values[~np.isfinite(values)].flat[0]
            raise ValueError(f"{self.function}: {word} holds {found}: every number must be finite")

    def _contact_modes(self, contacts: Mapping[str, str] | None) -> dict[int, str]:
        if not contacts:
            return {}
        names = contact_set(self.model).names
        modes = {}
        for name, mode in contacts.items():
            if name not in names:
                raise NameLookupError("contact", name, names, where=f"model {self.model.name!r}")
            if mode not in CONTACT_MODES:
                raise NameLookupError("mode of a contact", mode, CONTACT_MODES)
            modes[names.index(name)] = mode
        return modes

    @property
    def batch(self) -> tuple[int, ...]:
        """The batch shape that loads and open parameters share in front of their own dimensions."""
        shapes = [value.shape[: value.ndim - len(self._cores[path])] for path, value in self.opened.items()]
        loads = [self.tau, *self.forces.values(), *self.wrenches.values()]
        return np.broadcast_shapes(*shapes, *[load.shape[:-1] for load in loads])

    def flatten_batch(self, batch: tuple[int, ...]) -> Balance:
        """This balance with one dimension for the whole batch."""
        found = copy(self)
        count = int(np.prod(batch, dtype=int))
        found.opened = {
            path: np.broadcast_to(x, (*batch, *self._cores[path])).reshape(count, *self._cores[path])
            for path, x in self.opened.items()
        }
        found.tau, found.forces, found.wrenches = self._each_load(
            lambda x: np.broadcast_to(x, (*batch, x.shape[-1])).reshape(count, x.shape[-1])
        )
        return found

    def select(self, chosen: Array) -> Balance:
        """Some elements of a flat batch, by number or by mask; what all elements share stays."""
        found = copy(self)
        found.opened = {p: x[chosen] if x.ndim > len(self._cores[p]) else x for p, x in self.opened.items()}
        found.tau, found.forces, found.wrenches = self._each_load(lambda x: x[chosen] if x.ndim > 1 else x)
        return found

    def _each_load(self, change: Callable[[Array], Array]) -> tuple[Array, dict[str, Array], dict[str, Array]]:
        forces, wrenches = ({n: change(x) for n, x in loads.items()} for loads in (self.forces, self.wrenches))
        return change(self.tau), forces, wrenches

    def resting_on(self, contacts: Sequence[int], stops: Sequence[Stop]) -> Balance:
        """This balance with some contacts, without friction, and some limits held."""
        found = copy(self)
        found.contacts, found.stops = {**self.contacts, **dict.fromkeys(contacts, FRICTIONLESS)}, tuple(stops)
        found.__dict__.pop("at_position_level", None)
        return found

    def at_time(self, t: float) -> Balance:
        """This balance at another time."""
        found = copy(self)
        found.t = t
        return found

    # --- evaluation ---------------------------------------------------------------------------------------------------

    def evaluate(self, name: str, *names: str, **inputs: Array) -> Any:
        """A function of the catalogue at many states; time, switches and open parameters are filled in."""
        found = getattr(self.dyn, name)
        found = found(*names) if names else found
        fixed = {"t": self.t, "active": self.active, **self.opened}
        return found(**inputs, **{word: value for word, value in fixed.items() if word in found.inputs})

    def slopes(self, name: str, *names: str, along: str, **inputs: Array) -> Array:
        """The derivative of a function of the catalogue by ``along`` (q or v), directions last: (..., *out, nv).

        q moves in the tangent space.
        """
        found = self.dyn.jvp(name, *names)
        known = functions.sizes(self.model)
        cores = {word: functions.resolve(functions.SHAPES[word], known) for word in (*inputs, "t", "active")}
        cores |= self._cores
        fixed = {"t": np.asarray(self.t), "active": self.active, **self.opened}
        values = {word: value for word, value in {**inputs, **fixed}.items() if word in found.inputs}
        # one more dimension behind the batch: the directions
        given = {word: np.expand_dims(x, np.ndim(x) - len(cores[word])) for word, x in values.items()}
        for word in values:
            size = (self.model.nv,) if word == "q" else cores[word]
            given[f"d{word}"] = np.eye(self.model.nv) if word == along else np.zeros(size)
        result = np.asarray(found(**given))
        out = len(functions.CATALOGUE[name].outputs[next(iter(functions.CATALOGUE[name].outputs))])
        return np.moveaxis(result, result.ndim - out - 1, -1)

    # --- forces -------------------------------------------------------------------------------------------------------

    def joint_forces(self, q: Array, v: Array) -> Array:
        """τ (..., nv): springs, dampers, given joint forces, and loads on frames."""
        total = self.tau + self.evaluate("passive_forces", q=q, v=v)
        for frame, load in self._loads(q):
            total = total + _pull_back(self.evaluate("jacobian", frame, q=q), load)
        return np.asarray(total)

    def pull(self, q: Array) -> Array:
        """r = gravity − τ at rest (..., nv): what the rows carry in a balance, Aᵀ f = r."""
        return np.asarray(
            self.evaluate("gravity", q=q) - self.joint_forces(q, np.zeros((*q.shape[:-1], self.model.nv)))
        )

    def _loads(self, q: Array) -> list[tuple[str, Array]]:
        """The wrench of every load, in its frame's axes."""
        found = list(self.wrenches.items())
        for frame, force in self.forces.items():
            R = self.evaluate("pose", frame, q=q)[..., :3, :3]
            turned = _pull_back(R, force)
            found.append((frame, np.concatenate([np.zeros_like(turned), turned], axis=-1)))
        return found

    def joint_force_slopes(self, q: Array, v: Array) -> tuple[Array, Array]:
        """∂τ/∂q and ∂τ/∂v (..., nv, nv)."""
        dq = self.slopes("passive_forces", along="q", q=q, v=v)
        dv = self.slopes("passive_forces", along="v", q=q, v=v)
        for frame, load in self._loads(q):
            J = self.slopes("jacobian", frame, along="q", q=q)
            dq = dq + np.einsum("...ijk,...i->...jk", J, np.broadcast_to(load, (*J.shape[:-3], 6)))
        for frame, force in self.forces.items():
            # the force keeps its direction in the world, so its components in the frame turn back
            R = self.slopes("pose", frame, along="q", q=q)[..., :3, :3, :]
            turned = np.einsum("...ijk,...i->...jk", R, np.broadcast_to(force, (*R.shape[:-3], 3)))
            J = np.asarray(self.evaluate("jacobian", frame, q=q))
            dq = dq + np.swapaxes(J[..., 3:, :], -1, -2) @ turned
        return dq, dv

    @property
    def conservative(self) -> bool:
        """Whether the loads have a potential: no wrench that follows its frame, no torque on a ball or free joint."""
        turning = [p for p, kind in zip(self.model.v_slices, self.model.joint_types, strict=True) if kind.nq > kind.nv]
        return not self.wrenches and not any(np.any(self.tau[..., p]) for p in turning)

    def potential(self, q: Array) -> Array:
        """Potential energy of gravity, springs, forces of fixed direction and constant joint forces, J (...,)."""
        total = np.asarray(self.evaluate("potential_energy", q=q))
        for frame, force in self.forces.items():
            total = total - np.sum(force * self.evaluate("pose", frame, q=q)[..., :3, 3], axis=-1)
        if np.any(self.tau):
            flat = [
                (p, r)
                for p, r, kind in zip(self.model.q_slices, self.model.v_slices, self.model.joint_types, strict=True)
                if kind.nq == kind.nv
            ]
            total = total - sum(np.sum(self.tau[..., r] * q[..., p], axis=-1) for p, r in flat)
        return np.asarray(total)

    # --- rows ---------------------------------------------------------------------------------------------------------

    @cached_property
    def at_position_level(self) -> Array:
        """Whether each row holds a position (and not a velocity only)."""
        positions = set(constraint_set(self.model).position_rows)
        level = [row in positions for row in self.kept_rows]
        level += [row == 0 for mode in self.contacts.values() for row in range(_row_count(mode))]
        level += [True for _ in self.stops]
        return np.array(level, dtype=bool)

    @property
    def row_names(self) -> tuple[str, ...]:
        """Every row that holds: constraints, contacts, limits of joints."""
        names = list(constraint_set(self.model).named(self.kept_rows))
        listed = contact_set(self.model).names if self.contacts else ()
        for k, mode in self.contacts.items():
            names += [
                f"{listed[k]}.{row}" for row in ("normal", "tangent 1", "tangent 2")[: 3 if mode == STICKING else 1]
            ]
        return (*names, *[stop.name for stop in self.stops])

    @property
    def _contact_rows(self) -> list[int]:
        return [3 * k + row for k, mode in self.contacts.items() for row in range(_row_count(mode))]

    def _stack_rows(self, suffix: str, core: int, along: str | None, **inputs: Array) -> Array:
        """Rows of ``constraint_…`` and ``contact_…`` functions, one below the other; ``core``: further dimensions.

        Limits of joints come last: unit rows, with no bias.
        """
        batch = np.broadcast_shapes(*[x.shape[:-1] for x in inputs.values()])
        parts = []
        for kind, rows in (("constraint", self.kept_rows), ("contact", self._contact_rows)):
            if not rows:
                continue
            if along is None:
                whole = np.asarray(self.evaluate(f"{kind}_{suffix}", **inputs))
            else:
                whole = self.slopes(f"{kind}_{suffix}", along=along, **inputs)
            parts.append(np.take(whole, rows, axis=whole.ndim - 1 - core))
        limits = np.zeros((*batch, len(self.stops), *[self.model.nv] * core))
        for k, stop in enumerate(self.stops):
            if along is None and suffix == "jacobian":
                limits[..., k, stop.axis.v] = stop.sign
            elif along is None and suffix == "velocity":
                limits[..., k] = stop.sign * inputs["v"][..., stop.axis.v]
        return np.concatenate([*parts, limits], axis=limits.ndim - 1 - core)

    def jacobian(self, q: Array) -> Array:
        """A (..., m, nv)."""
        return self._stack_rows("jacobian", 1, None, q=q)

    def jacobian_slopes(self, q: Array) -> Array:
        """∂A/∂q (..., m, nv, nv), directions last."""
        return self._stack_rows("jacobian", 2, "q", q=q)

    def row_bias(self, q: Array, v: Array) -> Array:
        """γ (..., m)."""
        return self._stack_rows("bias", 0, None, q=q, v=v)

    def row_bias_slopes(self, along: str, q: Array, v: Array) -> Array:
        """∂γ/∂q or ∂γ/∂v (..., m, nv)."""
        return self._stack_rows("bias", 1, along, q=q, v=v)

    def row_velocity(self, q: Array, v: Array) -> Array:
        """A v + ∂g/∂t (..., m)."""
        return self._stack_rows("velocity", 0, None, q=q, v=v)

    def row_velocity_slopes(self, q: Array, v: Array) -> Array:
        """∂(A v + ∂g/∂t)/∂q (..., m, nv)."""
        return self._stack_rows("velocity", 1, "q", q=q, v=v)

    def residual(self, q: Array) -> Array:
        """g (..., p): residuals of the rows at position level, in their order."""
        batch = q.shape[:-1]
        parts = [np.zeros((*batch, 0))]
        if self.kept_rows:
            positions = {row: k for k, row in enumerate(constraint_set(self.model).position_rows)}
            kept = [positions[row] for row in self.kept_rows if row in positions]
            parts.append(np.asarray(self.evaluate("constraint_residual", q=q))[..., kept])
        if self.contacts:
            parts.append(np.asarray(self.evaluate("contact_gaps", q=q))[..., list(self.contacts)])
        parts += [stop.gap(q)[..., None] for stop in self.stops]
        return np.concatenate(parts, axis=-1)

    def close_loops(self, q: Array) -> Array:
        """Configurations (n, nq) of a flat batch with their loops closed, by Gauss and Newton's least-norm corrections.

        Those that cannot close are left where the corrections led: look at the residual.
        """
        level, q = self.at_position_level, q.copy()
        left = np.arange(len(q)) if np.any(level) else np.zeros(0, dtype=int)
        for _ in range(BALANCE_CORRECTIONS):
            part = self.select(left)
            g = part.residual(q[left])
            wide = np.abs(g).max(axis=-1, initial=0.0) > CLOSED_BALANCE
            left, g = left[wide], g[wide]
            if not len(left):
                break
            part = self.select(left)
            step = _least_norm(part.jacobian(q[left])[..., level, :], -g)
            longest = np.abs(step).max(axis=-1, keepdims=True, initial=0.0)
            d = step / np.maximum(1.0, longest / LONGEST_CORRECTION)
            q[left] = part.evaluate("integrate", q=q[left], d=d)
        return q

    # --- friction -----------------------------------------------------------------------------------------------------

    def pushing_rows(self, A: Array, q: Array, v: Array) -> Array:
        """F (..., m, nv): where sliding contacts push; A for all other rows."""
        F = A
        for row, k, mu in self._sliding():
            T, slip = self._slip(k, q, v)
            F = F.copy() if F is A else F
            F[..., row, :] -= mu * _pull_back(T, _unit(slip))
        return F

    def pushing_row_slopes(self, dA: Array, q: Array, v: Array) -> tuple[Array, Array]:
        """∂F/∂q and ∂F/∂v (..., m, nv, nv), directions last."""
        dq, dv = dA.copy(), np.zeros_like(dA)
        for row, k, mu in self._sliding():
            T, slip = self._slip(k, q, v)
            tangents = [3 * k + 1, 3 * k + 2]
            dT = self.slopes("contact_jacobian", along="q", q=q)[..., tangents, :, :]
            dslip = self.slopes("contact_velocity", along="q", q=q, v=v)[..., tangents, :]
            t, speed = _unit(slip), np.linalg.norm(slip, axis=-1)[..., None, None]
            across = (np.eye(2) - t[..., :, None] * t[..., None, :]) / speed
            dq[..., row, :, :] -= mu * np.einsum("...i,...ijk->...jk", t, dT)
            dq[..., row, :, :] -= mu * np.swapaxes(T, -1, -2) @ (across @ dslip)
            dv[..., row, :, :] -= mu * np.swapaxes(T, -1, -2) @ (across @ T)
        return dq, dv

    def _sliding(self) -> list[tuple[int, int, float]]:
        """(row of the normal among all rows, candidate, μ) of every sliding contact."""
        found, row = [], len(self.kept_rows)
        for k, mode in self.contacts.items():
            if mode == SLIDING:
                found.append((row, k, float(contact_set(self.model).friction[k])))
            row += _row_count(mode)
        return found

    def _slip(self, k: int, q: Array, v: Array) -> tuple[Array, Array]:
        """Tangent rows (..., 2, nv) and the slip (..., 2) of a contact that slides."""
        tangents = [3 * k + 1, 3 * k + 2]
        slip = np.asarray(self.evaluate("contact_velocity", q=q, v=v))[..., tangents]
        if np.any(np.linalg.norm(slip, axis=-1) <= SLOW):
            name = contact_set(self.model).names[k]
            raise UnsupportedError(
                f"{self.function}: contact {name!r} is said to slide, but its slip is below {SLOW:g} m/s, so friction "
                f"has no direction: give a velocity v that slides, or hold it as {STICKING!r}"
            )
        return np.asarray(self.evaluate("contact_jacobian", q=q))[..., tangents, :], slip


def functions_of(model: Model, parameters: Sequence[str] = ()) -> Compiled:
    """The compiled functions of a model, made once per model and choice of open parameters."""
    # kept beside the model's own cached properties: they live as long as the model and no longer
    kept: dict[tuple[str, ...], Compiled] = model.__dict__.setdefault("_analysis_functions", {})
    key = tuple(parameters)
    if key not in kept:
        kept[key] = Compiled(model, np.float64, None, key, quick_above=QUICK_ABOVE)
    return kept[key]


def touching_contacts(balance: Balance, q: Array, v: Array) -> dict[str, str]:
    """Every contact that touches at one state, with its mode: sliding where it slips, else sticking or frictionless."""
    system = contact_set(balance.model)
    gaps = np.asarray(balance.evaluate("contact_gaps", q=q))
    slip = np.asarray(balance.evaluate("contact_velocity", q=q, v=v)).reshape(-1, 3)[:, 1:]
    modes = {}
    for name, gap, mu, slide in zip(system.names, gaps, system.friction, slip, strict=True):
        if abs(gap) <= TOUCHING_GAP:
            modes[name] = FRICTIONLESS if mu == 0 else SLIDING if np.linalg.norm(slide) > SLOW else STICKING
    return modes


def _least_norm(A: Array, b: Array) -> Array:
    """The least-norm x (n, k) with A x = b for every element of a batch.

    By the normal equations with a trace of damping, which lets dependent rows pass; repeated corrections remove its
    effect.
    """
    gram = A @ np.swapaxes(A, -1, -2)
    m = gram.shape[-1]
    damping = LOOP_DAMPING * np.trace(gram, axis1=-2, axis2=-1)[..., None, None] / m
    y = np.linalg.solve(gram + (damping + np.finfo(float).tiny) * np.eye(m), b[..., None])
    return np.asarray((np.swapaxes(A, -1, -2) @ y)[..., 0])


def held_rows(A: Array, rank: int | None = None, rank_tolerance: float = RANK_TOLERANCE) -> BalanceRows:
    """Motions that rows A (..., m, n) allow; they are compared at unit length, and dependent ones do no harm.

    The rank is the largest in the batch unless it is given, so that all states have as many motions; ``deficient``
    tells of others.
    """
    m, n = A.shape[-2:]
    if m == 0 or n == 0:
        batch = A.shape[:-2]
        every = np.broadcast_to(np.eye(n), (*batch, n, n))
        return BalanceRows(A, every, np.zeros((*batch, n, m)), np.zeros(batch, dtype=bool))
    sizes = np.linalg.norm(A, axis=-1)
    scales = np.where(sizes > 0, 1 / np.where(sizes > 0, sizes, 1.0), 0.0)
    unit = A * scales[..., None]
    many = A.size > MANY * m * n and m < n and m * n <= SMALL_ROWS
    if many and rank in (None, m):
        batch = A.shape[:-2]
        Z, inverse, sound = _by_reflections(unit.reshape(-1, m, n), rank_tolerance)
        if np.any(sound):
            deficient = np.zeros(len(Z), dtype=bool)
            lost = np.flatnonzero(~sound)
            if len(lost):
                Z[lost], inverse[lost], deficient[lost] = _by_singular_values(
                    unit.reshape(-1, m, n)[lost], m, rank_tolerance
                )
            motions, right, less = (x.reshape(*batch, *x.shape[1:]) for x in (Z, inverse, deficient))
            return BalanceRows(A, motions, right * scales[..., None, :], less)
    motions, right, less = _by_singular_values(unit, rank, rank_tolerance)
    return BalanceRows(A, motions, right * scales[..., None, :], less)


MANY, SMALL_ROWS = 64, 100
"""From how many states on, and up to how many entries of A, reflections over the whole batch are faster."""


def _by_singular_values(unit: Array, rank: int | None, rank_tolerance: float) -> tuple[Array, Array, Array]:
    """Motions, right inverse and whether the rank is below that of the batch, for rows of unit length."""
    U, s, Vt = np.linalg.svd(unit, full_matrices=True)
    ranks = np.sum(s > rank_tolerance, axis=-1)
    rank = int(np.max(ranks, initial=0)) if rank is None else rank
    kept = s[..., :rank]
    reciprocals = np.where(kept > rank_tolerance, 1 / np.where(kept > rank_tolerance, kept, 1.0), 0.0)
    V = np.swapaxes(Vt, -1, -2)
    inverse = (V[..., :, :rank] * reciprocals[..., None, :]) @ np.swapaxes(U[..., :, :rank], -1, -2)
    return V[..., :, rank:], inverse, ranks < rank


def _by_reflections(unit: Array, rank_tolerance: float) -> tuple[Array, Array, Array]:
    """Motions and right inverse of unit rows (k, m, n) by Householder's reflections, and where they are sound.

    All states at once: a small matrix costs LAPACK's overhead ten times over. With Rᵀ = A Q, the smallest singular
    value is at least the product of R's diagonal over |A|^(m − 1), and |A|² ≤ m: that makes the full rank certain.
    """
    k, m, n = unit.shape
    left, Q = unit.copy(), np.broadcast_to(np.eye(n), (k, n, n)).copy()
    for j in range(m):
        x = left[:, j, j:]
        size = np.sqrt(np.einsum("ki,ki->k", x, x))
        u = x.copy()
        u[:, 0] += np.where(x[:, 0] < 0, -size, size)
        square = np.einsum("ki,ki->k", u, u)
        u /= np.sqrt(np.where(square > 0, square, 1.0))[:, None]
        for part in (left[:, :, j:], Q[:, :, j:]):
            part -= 2 * np.einsum("kri,ki->kr", part, u)[:, :, None] * u[:, None, :]
    diagonal = np.abs(np.einsum("kjj->kj", left[:, :, :m]))
    sound = np.prod(diagonal, axis=-1) > 10 * rank_tolerance * m ** ((m - 1) / 2)
    lower = np.where(sound[:, None, None], left[:, :, :m], np.eye(m))
    inverse = Q[:, :, :m] @ np.linalg.inv(lower)
    return Q[:, :, m:].copy(), inverse, sound


def _row_count(mode: str) -> int:
    """How many rows a contact holds."""
    return 3 if mode == STICKING else 1


def _pull_back(J: Array, load: Array) -> Array:
    """Jᵀ w (..., n)."""
    return np.asarray((np.swapaxes(np.asarray(J), -1, -2) @ np.asarray(load)[..., None])[..., 0])


def _unit(x: Array) -> Array:
    return np.asarray(x / np.linalg.norm(x, axis=-1, keepdims=True))
