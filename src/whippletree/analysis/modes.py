"""``wt.eigenmodes`` and ``wt.frequency_response``: small vibrations about a state, in minimal coordinates.

At rest, M η̇ + D η + K ξ = 0 with ξ̇ = η. Undamped modes solve K y = ω² M y; damped ones are eigenvalues s of A, each
with the frequency abs(Im s) / 2π and the damping ratio −Re s / abs(s). A mode with ω² < 0 does not vibrate: it has the
frequency 0 and the growth √−ω².
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.analysis.balance import TOUCHING_GAP, held_rows
from whippletree.analysis.linear import LinearSystem, linearize
from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.joint_contacts import joint_stops
from whippletree.errors import NameLookupError, ShapeError, SingularSystemError, UnsupportedError
from whippletree.model import Model
from whippletree.model.input_checks import floats
from whippletree.simulation.output import labels

if TYPE_CHECKING:
    import xarray

SYMMETRIC = 1e-9
"""Largest unsymmetric part of K, relative to K, that counts as rounding."""


ZERO_FREQUENCY = 1e-13
"""Square of a frequency, relative to the largest, below which it is what rounding left of zero."""


@dataclass(frozen=True)
class Modes:
    """Small vibrations about a state, in order of frequency. With a batch, every field has its dimensions in front."""

    frequencies: Array
    """Undamped, Hz, (..., d); 0 for modes that do not vibrate."""
    growth: Array
    """Growth of undamped modes, 1/s, (..., d): positive where the state is unstable."""
    shapes: Array
    """Undamped, (..., nv, d): velocities of the tree; at unit modal mass. Complex where loads have no potential."""
    eigenvalues: Array
    """s of the damped system, 1/s, (..., n), in order of abs(Im s); rigid motions and coordinates that nothing restores
    have 0."""
    damped_frequencies: Array
    """abs(Im s) / 2π, Hz, (..., n)."""
    ratios: Array
    """−Re s / abs(s), (..., n): 0 without damping, 1 for decay without vibration, negative for growth; 0 where s is."""
    damped_shapes: Array
    """(..., nv, n), complex: velocities of the tree, largest entry 1."""
    system: LinearSystem = field(repr=False)

    def __str__(self) -> str:
        name = self.system.model.name
        if self.frequencies.ndim > 1:
            return (
                f"modes of {self.frequencies.shape[:-1]} systems of model {name!r}, {self.frequencies.shape[-1]} each"
            )
        lines = [f"modes of model {name!r}: {len(self.frequencies)}"]
        for f, g in zip(self.frequencies, self.growth, strict=True):
            lines.append(f"  {f:.9g} Hz" + (f", grows by {g:.6g} 1/s" if g > 0 else ""))
        lines += [f"  s = {s:.9g} 1/s" for s in self.eigenvalues]
        return "\n".join(lines)

    __repr__ = __str__

    def motion(self, mode: int, *, amplitude: float = 0.1, moments: int = 48) -> xarray.Dataset:
        """One period of an undamped mode of one state, to be drawn or played: ``wt.show(model, modes.motion(0))``.

        Args:
            mode: its number; one that does not vibrate is shown as if it had the period 1 s.
            amplitude: largest displacement of a joint, rad or m; loops and held contacts stay closed.
            moments: of the period.

        Returns:
            q and v over time, as a run has them.
        """
        import xarray

        if self.shapes.ndim > 2:
            raise ShapeError("motion: the modes are those of a batch: ask for the modes of one state")
        if not np.isfinite(amplitude) or moments < 1:
            raise ValueError(f"motion: amplitude ({amplitude}) must be finite, and moments ({moments}) at least 1")
        if not 0 <= mode < self.shapes.shape[-1]:
            raise NameLookupError("mode", mode, [str(k) for k in range(self.shapes.shape[-1])])
        model, shape = self.system.model, np.asarray(self.shapes[:, mode])
        phases = np.linspace(0.0, 1.0, moments)
        waves = np.exp(2j * np.pi * phases)[:, None] * shape * (amplitude / np.abs(shape).max())
        rate = self.frequencies[mode] if self.frequencies[mode] else 1.0
        balance = self.system.balance
        q = balance.close_loops(np.asarray(balance.evaluate("integrate", q=self.system.q, d=waves.real)))
        v = (2j * np.pi * rate * waves).real
        rows = held_rows(balance.jacobian(q))
        v = v - (rows.inverse @ (rows.A @ v[..., None]))[..., 0]
        data = {"q": (("time", "coordinate"), q), "v": (("time", "velocity"), v)}
        places = {
            "time": phases / rate,
            "coordinate": labels.coordinates(model),
            "velocity": labels.velocities(model),
        }
        return xarray.Dataset(data, places, {"model": model.name})


def eigenmodes(model: Model | LinearSystem, q: Any = None, v: Any = None, **options: Any) -> Modes:
    """Frequencies, damping ratios and shapes of small vibrations about a state.

    Args:
        model: a model, or what ``wt.linearize`` returned.
        q: (..., nq), an equilibrium (``wt.equilibrium(model).q``); of a model only.
        v: (..., nv), of a steady motion; default: at rest.
        options: those of :func:`whippletree.linearize`: loads, contacts, parameters, …

    Raises:
        SingularSystemError: if an allowed motion has no inertia, or q is a dead point.
        UnsupportedError: if the state is not steady: then the eigenvalues of A mean neither growth nor decay.
    """
    if isinstance(model, LinearSystem):
        system = model
    else:
        system = linearize(model, model.home.q if q is None else q, v, **options)
    if not system.steady:
        raise UnsupportedError(_not_steady(system))
    values, vectors = np.linalg.eig(system.A)
    order = np.lexsort((values.imag, values.real, np.abs(values.imag)), axis=-1)
    values = np.take_along_axis(values, order, axis=-1)
    vectors = np.take_along_axis(vectors, order[..., None, :], axis=-1)
    size = np.abs(values)
    ratios = np.where(size > 0, -values.real / np.where(size > 0, size, 1.0), 0.0)
    frequencies, growth, shapes = _undamped_modes(system)
    return Modes(
        frequencies,
        growth,
        shapes,
        values,
        np.abs(values.imag) / (2 * np.pi),
        ratios,
        _largest_one(system.positions @ vectors[..., : system.positions.shape[-1], :]),
        system,
    )


def _not_steady(system: LinearSystem) -> str:
    model, rate = system.model, system.constant[..., system.positions.shape[-1] :]
    if not np.any(system.v):
        worst = np.abs(rate).reshape(-1, rate.shape[-1]).max(axis=0)
        name = system.states[system.positions.shape[-1] + int(np.argmax(worst))]
        at_stop = [stop.name for stop in joint_stops(model) if np.any(np.abs(stop.gap(system.q)) <= TOUCHING_GAP)]
        cure = "wt.equilibrium(model, q).q is one nearby"
        if at_stop:
            cure = f"Limits carry nothing here: hold what leans on {', '.join(at_stop[:3])} by a constraint"
        return (
            f"eigenmodes: q is no equilibrium of model {model.name!r}: {name!r} accelerates by {worst.max():.6g}. "
            f"{cure}; wt.linearize has the matrices of any state."
        )
    return (
        f"eigenmodes: the motion of model {model.name!r} is not steady: the matrix A changes along it, so that its "
        f"eigenvalues mean neither growth nor decay. wt.linearize has the matrices of any state."
    )


def _undamped_modes(system: LinearSystem) -> tuple[Array, Array, Array]:
    """Frequencies (Hz), growth and shapes without dampers, by frequency."""
    M, K = system.mass, system.stiffness
    d = M.shape[-1]
    if not d:
        return np.zeros(M.shape[:-1]), np.zeros(M.shape[:-1]), system.motions
    if K.shape[-1] == d and not np.any(system.v) and _is_symmetric(K) and _is_symmetric(M):
        L = np.linalg.cholesky((M + _T(M)) / 2)
        half = np.linalg.solve(L, (K + _T(K)) / 2)
        squares, y = np.linalg.eigh(_mirror_triangle(np.linalg.solve(L, _T(half))))
        shapes = system.motions @ np.linalg.solve(_T(L), y)
        squares = np.where(np.abs(squares) > ZERO_FREQUENCY * np.abs(squares).max(axis=-1, keepdims=True), squares, 0.0)
        root = np.sqrt(np.abs(squares))
        return np.where(squares > 0, root, 0.0) / (2 * np.pi), np.where(squares < 0, root, 0.0), shapes
    return _undamped_eigenmodes(system, d)


def _undamped_eigenmodes(system: LinearSystem, d: int) -> tuple[Array, Array, Array]:
    """By the eigenvalues of A without dampers, one of each pair ±s: loads without a potential, non-holonomic rows."""
    n = system.positions.shape[-1]
    A = np.array(system.A)
    if not np.any(system.v):
        A[..., n:, n:] = 0.0  # at rest, nothing but dampers is there
    values, vectors = np.linalg.eig(A)
    # s and its negative are one mode: the d of largest |s| in the upper half plane, then by frequency
    upper = np.where((values.imag > 0) | ((values.imag == 0) & (values.real >= 0)), np.abs(values), -1.0)
    chosen = np.argsort(-upper, axis=-1, kind="stable")[..., :d]
    own = np.take_along_axis(values, chosen, axis=-1)
    order = np.take_along_axis(chosen, np.argsort(np.abs(own.imag), axis=-1, kind="stable"), axis=-1)
    own = np.take_along_axis(values, order, axis=-1)
    shapes = system.positions @ np.take_along_axis(vectors, order[..., None, :], axis=-1)[..., :n, :]
    noise = np.sqrt(ZERO_FREQUENCY) * np.abs(own).max(axis=-1, keepdims=True, initial=0.0)  # eigenvalues may meet
    growth = np.where(own.real > noise, own.real, 0.0)
    return np.abs(own.imag) / (2 * np.pi), growth, _largest_one(shapes)


def frequency_response(system: LinearSystem, frequencies: Any) -> Array:
    """C (2πi f − A)⁻¹ B, complex (..., frequencies, outputs, inputs): amplitude and phase of the outputs per input.

    Args:
        system: from ``wt.linearize``, at an equilibrium or a steady motion; ``inputs=`` and ``outputs=`` there choose.
        frequencies: Hz, (k,).

    Raises:
        SingularSystemError: at a frequency at which the undamped system resonates: the response has no bound.
        UnsupportedError: if the state is not steady.
    """
    if not isinstance(system, LinearSystem):
        raise TypeError(f"frequency_response: expected what wt.linearize returns, got {type(system).__name__}")
    if not system.steady:
        raise UnsupportedError(_not_steady(system).replace("eigenmodes", "frequency_response", 1))
    f = floats("frequency_response", "frequencies", frequencies)
    if f.ndim != 1 or not np.all(np.isfinite(f)):
        raise ShapeError(f"frequency_response: frequencies has shape {f.shape}, expected (k,) finite numbers in Hz")
    s = 2j * np.pi * f[:, None, None]
    A, B, C = (x[..., None, :, :] for x in (system.A, system.B, system.C))
    n = A.shape[-1]
    pencil = s * np.eye(n) - A
    if n:
        smallest = np.linalg.svd(pencil, compute_uv=False)
        lost = smallest[..., -1] <= n * np.finfo(float).eps * smallest[..., 0]
        if np.any(lost):
            k = int(np.argwhere(lost)[0][-1])
            raise SingularSystemError(
                f"frequency_response: model {system.model.name!r} resonates without damping at {f[k]:.9g} Hz: its "
                f"response has no bound there. Give it dampers, or leave the frequency out."
            )
    return np.asarray(C @ np.linalg.solve(pencil, np.broadcast_to(B, (*pencil.shape[:-1], B.shape[-1]))))


def _is_symmetric(K: Array) -> bool:
    return bool(np.abs(K - _T(K)).max(initial=0.0) <= SYMMETRIC * np.abs(K).max(initial=0.0))


def _mirror_triangle(K: Array) -> Array:
    return np.asarray((K + _T(K)) / 2)


def _largest_one(vectors: Array) -> Array:
    """Columns scaled so that their largest entry is 1."""
    if not vectors.shape[-2]:
        return vectors
    where = np.argmax(np.abs(vectors), axis=-2, keepdims=True)
    largest = np.take_along_axis(vectors, where, axis=-2)
    return np.asarray(vectors / np.where(largest == 0, 1.0, largest))


def _T(matrix: Array) -> Array:
    return np.swapaxes(matrix, -1, -2)
