"""Beams: their modes for any end conditions, by Euler and Bernoulli or by Timoshenko, with every integral exact.

The fields of a beam along x are sums of Legendre polynomials, on which the Rayleigh quotient is minimised:

    ½ ω² ∫ ρA w² + ρI θ²  =  ½ ∫ EI θ'² + kGA (w' − θ)²        Euler–Bernoulli: θ = w', and no shear

For modes of a uniform beam this converges faster than any power of the degree: with :data:`EXTRA_DEGREES` more than
modes all frequencies have twelve digits. The modes are then polynomials, so that Gauss's quadrature gives the integrals
over the mass without error, shortening included. The same beam as a chain of rigid links with springs between them is
there to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.polynomial import Legendre

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ModelError, NameLookupError, WhippletreeError
from whippletree.flexible.nodal_modes import Samples, integrate_samples, modal_damping
from whippletree.model.builder import Builder
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame, frozen_integrals
from whippletree.model.frozen import frozen_array, pose_matrix

EXTRA_DEGREES = 14
"""Polynomial degrees beyond twice the number of modes: the last mode asked for has its frequency to 1e-10."""

RIGID_SHARE = 1e-9
"""Share of the first elastic ω² below which a mode of a free beam counts as rigid: rounding leaves 1e-13 or less."""

OUTLINE_POINTS = 25
"""Along a beam, for pictures."""

ENDS = ("clamped", "pinned", "sliding", "free", "interface")
"""Supports of an end of a beam: in place and slope, in place, in slope, or not. An interface carries loads of other
bodies: the shapes that forces and moments there cause are among the modes (Craig and Bampton), so that what hangs on it
is met by few of them, where modes of a free end converge slowly."""


class BeamError(WhippletreeError, ValueError):
    """Numbers or words of a beam that make no sense."""


SHAPE_DEGREE = 40
"""Degree of the polynomial that stands for a given shape: sines of ten half waves are met to 1e-15."""


@dataclass(frozen=True, eq=False)
class BeamMode:
    """One mode of a uniform beam, or a shape that was given: its field as polynomials on [0, L], and ω of a mode."""

    omega: float | None
    field: Legendre
    """w, u, or the twist."""
    slope: Legendre
    """θ of bending; w' without shear."""


def bending_modes(
    count: int,
    *,
    length: float,
    bending_stiffness: float,
    mass_per_length: float,
    ends: str = "clamped-free",
    shear_stiffness: float | None = None,
    rotary_inertia: float = 0.0,
) -> list[BeamMode]:
    """The first elastic modes of a uniform beam, ∫ ρA w² + ρI θ² = 1 kg, lowest first; rigid ones are left out.

    Args:
        count: how many.
        length: m.
        bending_stiffness: EI, N m².
        mass_per_length: ρA, kg/m.
        ends: of x = 0 and x = L, two of clamped, pinned, sliding, free and interface (:data:`ENDS`).
        shear_stiffness: kGA, N; None for a beam without shear (Euler and Bernoulli).
        rotary_inertia: ρI, kg m.
    """
    degree = 2 * count + EXTRA_DEGREES
    basis = [Legendre.basis(k, [0, length]) for k in range(degree + 1)]
    x, weights = _gauss(degree + 2, length)
    w, dw, ddw = (np.array([p.deriv(d)(x) if d else p(x) for p in basis]) for d in range(3))
    if shear_stiffness is None:
        M = mass_per_length * (w * weights) @ w.T + rotary_inertia * (dw * weights) @ dw.T
        K = bending_stiffness * (ddw * weights) @ ddw.T
    else:
        none = np.zeros_like(w)
        fields, turns = np.concatenate([w, none]), np.concatenate([none, w])
        shears, bends = np.concatenate([dw, -w]), np.concatenate([none, dw])
        M = mass_per_length * (fields * weights) @ fields.T + rotary_inertia * (turns * weights) @ turns.T
        K = bending_stiffness * (bends * weights) @ bends.T + shear_stiffness * (shears * weights) @ shears.T
    held = _held_rows(basis, length, ends, shear_stiffness is not None)
    carried = 2 * _ends(ends).count("interface")
    found = _with_interfaces(K, M, held, carried, count) if carried else _lowest(K, M, held, count)
    modes = []
    for omega, c in found:
        field = _combination(basis, c[: len(basis)])
        slope = field.deriv() if shear_stiffness is None else _combination(basis, c[len(basis) :])
        modes.append(BeamMode(omega, field, slope))
    return modes


def rod_modes(count: int, *, length: float, stiffness: Any, density: Any, ends: str = "clamped-free") -> list[BeamMode]:
    """The first elastic modes of −stiffness u'' = ω² density u: a rod that stretches (EA, ρA) or twists (GJ, ρIₚ)."""
    degree = 2 * count + EXTRA_DEGREES
    basis = [Legendre.basis(k, [0, length]) for k in range(degree + 1)]
    x, weights = _gauss(degree + 2, length)
    u, du = (np.array([p.deriv(d)(x) if d else p(x) for p in basis]) for d in range(2))
    rows = [np.array([p(at) for p in basis]) for at, end in _places(ends, length) if end != "free"]
    K, M = stiffness * (du * weights) @ du.T, density * (u * weights) @ u.T
    carried = _ends(ends).count("interface")
    found = _with_interfaces(K, M, rows, carried, count) if carried else _lowest(K, M, rows, count)
    return [BeamMode(omega, (field := _combination(basis, c)), field.deriv()) for omega, c in found]


def beam(
    *,
    length: float,
    mass_per_length: float,
    bending_stiffness: Any,
    modes: Any = 3,
    ends: str = "clamped-free",
    shear_stiffness: Any = None,
    rotary_inertia: Any = 0.0,
    axial_stiffness: float | None = None,
    axial_ends: str = "clamped-free",
    torsional_stiffness: float | None = None,
    polar_inertia: float | None = None,
    torsional_ends: str = "clamped-free",
    damping_ratio: float = 0.0,
    stiffening: bool = False,
    shapes: Mapping[str, Sequence[Callable[[Array], Array]]] | None = None,
    frames: Mapping[str, float] | None = None,
) -> FlexibleBody:
    """A uniform beam along x from its reference frame, with its first modes; bending along y, about z.

    ``wt.flexible.beam(length=1.5, bending_stiffness=2100, mass_per_length=0.8, modes=3)`` is a cantilever: clamped
    modes, whose reference frame is the root. With ``ends="pinned-pinned"`` the reference frame's x axis is the chord,
    with ``ends="free-free"`` the mean axis of the beam; the same space of motions gives the same motion.

    Args:
        length: m.
        mass_per_length: ρA, kg/m.
        bending_stiffness: EI, N m²; two numbers for displacements along y and along z.
        modes: how many along y; or by direction, ``{"y": 3, "z": 2, "x": 1, "twist": 1}``.
        ends: of the bending modes, at x = 0 and x = L: two of clamped, pinned, sliding, free, interface (:data:`ENDS`).
        shear_stiffness: kGA, N, one or two numbers (Timoshenko); None for Euler and Bernoulli.
        rotary_inertia: ρI of the cross-section, kg m, one or two numbers.
        axial_stiffness: EA, N, needed for modes along x.
        axial_ends: clamped or free at both ends.
        torsional_stiffness, polar_inertia: GJ, N m², and ρIₚ, kg m, needed for modes of twist.
        torsional_ends: clamped or free at both ends.
        damping_ratio: of every mode, 1 is critical.
        stiffening: whether bending shortens the beam (geometric stiffening).
        shapes: functions of x instead of modes, by direction, ``{"y": [lambda x: np.sin(np.pi * x / L)]}``: smooth, of
            any length (they need not be orthogonal, nor normalised); ``modes`` then counts only if it is given by
            direction.
        frames: name -> x of the frames that others hold on to; default ``{"root": 0, "tip": length}``.

    Raises:
        BeamError: with what is wrong.
    """
    counts = dict(modes) if isinstance(modes, Mapping) else {} if shapes else {"y": modes}
    for word in [*counts, *(shapes or ())]:
        if word not in ("y", "z", "x", "twist"):
            raise NameLookupError("direction of modes", str(word), ("y", "z", "x", "twist"))
    require_positive(length=length, mass_per_length=mass_per_length)
    _require_counts(counts)
    require_positive(zero_too=True, damping_ratio=damping_ratio, **_each("rotary_inertia", rotary_inertia))
    places = {"root": 0.0, "tip": length} if frames is None else dict(frames)
    off = [f"{name!r} at {x}" for name, x in places.items() if not 0 <= x <= length]
    if off:
        raise BeamError(f"beam: frames off the beam, which reaches from 0 to {length} m: {', '.join(off)}")
    section = _Section(
        length, mass_per_length, bending_stiffness, shear_stiffness, rotary_inertia, axial_stiffness,
        torsional_stiffness, polar_inertia,
    )  # fmt: skip
    supports = {"y": ends, "z": ends, "x": axial_ends, "twist": torsional_ends}
    found = [
        (word, mode)
        for word, where in supports.items()
        if counts.get(word)
        for mode in section.modes(word, counts[word], where)
    ]
    for word, own in (shapes or {}).items():
        found += [(word, _given_shape(f"shape {k} along {word!r}", f, length)) for k, f in enumerate(own, start=1)]
    return _body(section, found, damping_ratio, stiffening, places)


def lumped_chain(
    builder: Builder,
    name: str,
    parent: str,
    *,
    length: float,
    bending_stiffness: float,
    mass_per_length: float,
    links: int = 10,
    damping: float = 0.0,
    clamped: bool = True,
    polar_inertia: float = 0.0,
) -> Builder:
    """Hang a beam along x on a body, bending about z, as ``links`` rigid rods with hinges and springs between them.

    Rods are l = L / links long with half a rod at both ends, so that hinges sit in the middle of the pieces that they
    bend: k = EI / l. The rods are ``NAME 0`` … ``NAME links``, the hinges ``NAME hinge 1`` …, and the frame ``NAME
    tip`` is at the end. Frequencies converge with the square of l.

    Args:
        builder: which the parts are added to.
        name, parent: of the beam, and of the body that its root is fixed to.
        length, bending_stiffness, mass_per_length: L, EI, ρA; m, N m², kg/m.
        links: how many hinges.
        damping: of every hinge, N m s/rad.
        clamped: whether the first half rod is welded to the parent; else it hangs on a hinge ``NAME root``.
        polar_inertia: ρIₚ, kg m, for motions about x.
    """
    if not isinstance(links, (int, np.integer)) or links < 1:
        raise ModelError("lumped_chain", [f"links is {links!r}, expected a whole number, 1 or more"])
    require_positive(
        "lumped_chain", length=length, bending_stiffness=bending_stiffness, mass_per_length=mass_per_length
    )
    require_positive("lumped_chain", zero_too=True, damping=damping, polar_inertia=polar_inertia)
    piece = length / links
    before = parent
    for k in range(links + 1):
        size = piece / 2 if k in (0, links) else piece
        mass, own = mass_per_length * size, f"{name} {k}"
        about = mass * size**2 / 12
        builder.body(own, mass, center=(size / 2, 0, 0), inertia=(polar_inertia * size, about, about))
        if k == 0:
            kind = "weld" if clamped else "revolute"
            builder.joint(f"{name} root", kind, parent, own, axis=(0, 0, 1))
        else:
            at = piece / 2 if k == 1 else piece
            builder.joint(
                f"{name} hinge {k}", "revolute", before, own, position=(at, 0, 0), axis=(0, 0, 1),
                stiffness=bending_stiffness / piece, damping=damping,
            )  # fmt: skip
        before = own
    return builder.frame(f"{name} tip", before, position=(piece / 2, 0, 0))


class _Section(NamedTuple):
    """Numbers of a uniform beam; those of bending are one or two, for y and z."""

    length: float
    mass_per_length: float
    bending_stiffness: Any
    shear_stiffness: Any
    rotary_inertia: Any
    axial_stiffness: float | None
    torsional_stiffness: float | None
    polar_inertia: float | None

    @property
    def inertias(self) -> Array:
        """ρI about x, y and z, kg m, (3,): bending along y turns the cross-section about z."""
        along_y, along_z = (_one(self.rotary_inertia, number) or 0.0 for number in (0, 1))
        return np.array([self.polar_inertia or 0.0, along_z, along_y], dtype=float)

    def modes(self, word: str, count: int, ends: str) -> list[BeamMode]:
        """The first modes of one direction."""
        if word in "yz":
            values = (self.bending_stiffness, self.shear_stiffness, self.rotary_inertia)
            EI, GA, rho = (_one(value, "yz".index(word)) for value in values)
            require_positive(bending_stiffness=EI, **({} if GA is None else {"shear_stiffness": GA}))
            return bending_modes(
                count, length=self.length, bending_stiffness=EI, mass_per_length=self.mass_per_length, ends=ends,
                shear_stiffness=GA, rotary_inertia=rho or 0.0,
            )  # fmt: skip
        stiffness = self._rod_stiffness(word)
        density: float | None = self.mass_per_length
        if word == "twist":
            require_positive(polar_inertia=self.polar_inertia)
            density = self.polar_inertia
        return rod_modes(count, length=self.length, stiffness=stiffness, density=density, ends=ends)

    def _rod_stiffness(self, word: str) -> Any:
        """EA of stretching or GJ of twisting, which must be given."""
        if word == "x":
            require_positive(axial_stiffness=self.axial_stiffness)
            return self.axial_stiffness
        require_positive(torsional_stiffness=self.torsional_stiffness)
        return self.torsional_stiffness

    def strain_product(self, word: str, first: BeamMode, second: BeamMode, x: Array, weights: Array) -> float:
        """∫ of the strains of two fields of one direction."""
        if word in "yz":
            EI, GA = (_one(value, "yz".index(word)) for value in (self.bending_stiffness, self.shear_stiffness))
            total = EI * (first.slope.deriv()(x) * second.slope.deriv()(x)) @ weights
            if GA is not None:
                shears = [mode.field.deriv()(x) - mode.slope(x) for mode in (first, second)]
                total += GA * (shears[0] * shears[1]) @ weights
            return float(total)
        return float(self._rod_stiffness(word) * (first.slope(x) * second.slope(x)) @ weights)


def _given_shape(name: str, function: Callable[[Array], Array], length: float) -> BeamMode:
    """A function of x as a polynomial through Gauss points."""
    x, _ = _gauss(SHAPE_DEGREE + 1, length)
    values = np.asarray(function(x), dtype=float) + np.zeros_like(x)
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        k = wrong[0]
        raise BeamError(
            f"beam: {name} is {values[k]} at x = {x[k]:.3g} m, expected finite numbers from 0 to {length:g} m"
        )
    field = Legendre.fit(x, values, SHAPE_DEGREE, [0, length])
    return BeamMode(None, field, field.deriv())


def _body(
    section: _Section,
    modes: list[tuple[str, BeamMode]],
    damping_ratio: float,
    stiffening: bool,
    places: Mapping[str, float],
) -> FlexibleBody:
    """The body of these modes of a beam."""
    degree = max((mode.field.degree() for _, mode in modes), default=0)
    # products of three fields and an x, of which one is an integral: exact up to 4 degree + 2
    x, weights = _gauss(2 * degree + 4, section.length)
    shapes, slopes = _fields(modes, x)
    bend = _shortening(modes, x) if stiffening else None
    dI = np.einsum("p,ab->pab", weights, np.diag(section.inertias))
    samples = Samples(_on_axis(x), section.mass_per_length * weights, shapes, slopes, dI, bend)
    integrals = _orthonormal(integrate_samples(samples), modes)
    K = _modal_stiffness(modes, section, x, weights)
    n, points = len(modes), np.linspace(0.0, section.length, OUTLINE_POINTS)
    drawn = np.swapaxes(_fields(modes, points)[0], 0, 1)
    return FlexibleBody(
        frozen_integrals(integrals),
        frozen_array(K, (n, n)),
        frozen_array(modal_damping(integrals.modal_mass, K, damping_ratio), (n, n)),
        tuple(_frame_at(name, at, modes, stiffening) for name, at in places.items()),
        tuple(f"{word}{1 + [w for w, _ in modes[:k]].count(word)}" for k, (word, _) in enumerate(modes)),
        frozen_array(_on_axis(points), (OUTLINE_POINTS, 3)),
        frozen_array(drawn, drawn.shape),
        tuple((k, k + 1) for k in range(OUTLINE_POINTS - 1)),
    )


def _frame_at(name: str, at: float, modes: list[tuple[str, BeamMode]], stiffening: bool) -> FlexibleFrame:
    """A frame of the beam at x = ``at``."""
    here = np.array([at])
    phi, psi = (field[:, 0] for field in _fields(modes, here))
    bend = _shortening(modes, here)[:, :, 0] if stiffening else None
    return FlexibleFrame.of(name, pose_matrix((at, 0, 0)), phi, psi, bend)


def _on_axis(x: Array) -> Array:
    """Points (p, 3) on the axis of the beam."""
    return np.stack([x, np.zeros_like(x), np.zeros_like(x)], axis=-1)


def _orthonormal(integrals: Any, modes: list[tuple[str, BeamMode]]) -> Any:
    """The integrals with the exact zeros and ones of modes that are orthonormal by theory, where rounding left 1e-16.

    Modes of one direction without rotary inertia are orthogonal in ∫ φᵢ φⱼ; with it, only together with that.
    """
    products, rotary = integrals.shape_products.copy(), integrals.rotary_products.copy()
    axis = {"x": 0, "y": 1, "z": 2}
    for i, (word, _) in enumerate(modes):
        for j, (other, _) in enumerate(modes):
            unit = float(i == j)
            if modes[i][1].omega is None or modes[j][1].omega is None:
                continue  # shapes that were given are what they are
            if word != other:
                rotary[i, j] = 0.0
            elif word == "twist":
                rotary[i, j] = unit
            elif word == "x" or not integrals.rotary[{"y": 2, "z": 1}[word], {"y": 2, "z": 1}[word]]:
                products[i, j, axis[word], axis[word]] = unit
            else:
                rotary[i, j] = unit - products[i, j, axis[word], axis[word]]
    return integrals._replace(shape_products=products, rotary_products=rotary)


def _modal_stiffness(modes: list[tuple[str, BeamMode]], section: _Section, x: Array, weights: Array) -> Array:
    """ω² of modes, and integrals over the strains of given shapes, (n, n)."""
    K = np.zeros((len(modes), len(modes)))
    for i, (word, first) in enumerate(modes):
        for j, (other, second) in enumerate(modes[: i + 1]):
            if word != other:
                continue
            if first.omega is None or second.omega is None:
                K[i, j] = K[j, i] = section.strain_product(word, first, second, x, weights)
            elif i == j:
                K[i, i] = first.omega**2
    return K


def _fields(modes: list[tuple[str, BeamMode]], x: Array) -> tuple[Array, Array]:
    """φ and ψ (n, p, 3) of modes at places x."""
    phi, psi = np.zeros((len(modes), len(x), 3)), np.zeros((len(modes), len(x), 3))
    for k, (word, mode) in enumerate(modes):
        if word == "y":
            phi[k, :, 1], psi[k, :, 2] = mode.field(x), mode.slope(x)
        elif word == "z":
            phi[k, :, 2], psi[k, :, 1] = mode.field(x), -mode.slope(x)
        elif word == "x":
            phi[k, :, 0] = mode.field(x)
        else:
            psi[k, :, 0] = mode.field(x)
    return phi, psi


def _shortening(modes: list[tuple[str, BeamMode]], x: Array) -> Array:
    """g (n, n, p, 3): −∫₀ˣ φᵢ' φⱼ' along x, of modes that bend in one direction."""
    n = len(modes)
    g = np.zeros((n, n, len(x), 3))
    for i, (word, mode) in enumerate(modes):
        for j, (other, second) in enumerate(modes[: i + 1]):
            if word == other and word in "yz":
                steep = (mode.field.deriv() * second.field.deriv()).integ(lbnd=0)
                g[i, j, :, 0] = g[j, i, :, 0] = -steep(x)
    return g


def _lowest(K: Array, M: Array, held: list[Array], count: int) -> list[tuple[float, Array]]:
    """ω and the coefficients of the lowest elastic modes; ``held``: rows that vanish on them."""
    Z = np.eye(len(K))
    if held:
        _, _, Vt = np.linalg.svd(np.array(held))
        Z = Vt[len(held) :].T
    K, M = Z.T @ K @ Z, Z.T @ M @ Z
    # the reciprocals μ of ω² + shift are found, so that the lowest frequencies are those with the most digits
    shift = np.trace(K) / np.trace(M) / len(K) ** 8
    L = np.linalg.inv(np.linalg.cholesky(K + shift * M))
    mu, vectors = np.linalg.eigh(L @ M @ L.T)
    few = slice(None, -min(len(mu), count + 3) - 1, -1)  # up to two rigid motions, and one that sets the scale
    mu, fields = mu[few], (Z @ (L.T @ vectors[:, few])) / np.sqrt(mu[few])
    squares = 1 / mu - shift
    # of a free beam two motions are rigid; the third one sets the scale
    elastic = np.flatnonzero(squares > RIGID_SHARE * squares[min(2, len(squares) - 1)])[:count]
    return [(float(np.sqrt(squares[k])), fields[:, k] * np.sign(fields[:, k].sum())) for k in elastic]


def _with_interfaces(K: Array, M: Array, held: list[Array], carried: int, count: int) -> list[tuple[float, Array]]:
    """Modes with all ends held, and the shapes of unit motions of the last ``carried`` rows, made orthonormal.

    Where these shapes can make up rigid motions, those are left out and more modes come in.
    """
    n, rows = len(K), np.array(held)
    block = np.block([[K, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    units = np.concatenate([np.zeros((n + len(rows) - carried, carried)), np.eye(carried)])
    static = np.linalg.solve(block, units)[:n]
    stiff = static.T @ K @ static
    rigid = carried - np.linalg.matrix_rank(stiff, RIGID_SHARE * np.abs(stiff).max(), hermitian=True)
    fixed = _lowest(K, M, held, max(count + rigid - carried, 0))
    Z = np.concatenate([static, *[c[:, None] for _, c in fixed]], axis=1)
    squares, vectors = scipy.linalg.eigh(Z.T @ K @ Z, Z.T @ M @ Z)
    return [(float(np.sqrt(squares[k])), Z @ vectors[:, k]) for k in range(rigid, min(rigid + count, len(squares)))]


def _held_rows(basis: list[Legendre], length: float, ends: str, shear: bool) -> list[Array]:
    """Combinations that end conditions ask to be zero; of interfaces, which come last, while they are held."""
    rows = []
    for at, end in _places(ends, length):
        field = np.array([p(at) for p in basis])
        slope = np.array([p.deriv()(at) for p in basis])
        none = np.zeros(len(basis))
        if end in ("clamped", "pinned", "interface"):
            rows.append(np.concatenate([field, none]) if shear else field)
        if end in ("clamped", "sliding", "interface"):
            rows.append(np.concatenate([none, field]) if shear else slope)
    return rows


def _places(ends: str, length: float) -> list[tuple[float, str]]:
    """Where each end is; interfaces last."""
    return sorted(zip((0.0, length), _ends(ends), strict=True), key=lambda place: place[1] == "interface")


def _ends(ends: str) -> list[str]:
    words = str(ends).split("-")
    if len(words) != 2 or any(word not in ENDS for word in words):
        raise BeamError(f"beam: ends {ends!r}, expected two of {', '.join(ENDS)} such as 'clamped-free'")
    return words


def _gauss(points: int, length: float) -> tuple[Array, Array]:
    x, weights = np.polynomial.legendre.leggauss(points)
    return (x + 1) * length / 2, weights * length / 2


def _combination(basis: list[Legendre], coefficients: Array) -> Legendre:
    return Legendre(coefficients, basis[0].domain)


def _one(value: Any, number: int) -> Any:
    return value if value is None or np.ndim(value) == 0 else value[number]


def _each(word: str, value: Any) -> dict[str, Any]:
    """One number, or two, by name."""
    return {word: value} if np.ndim(value) == 0 else {f"{word}[{k}]": x for k, x in enumerate(value)}


def _require_counts(counts: Mapping[str, Any]) -> None:
    for word, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 0:
            raise BeamError(f"beam: {count!r} modes along {word!r}, expected a whole number, 0 or more")


def require_positive(where: str = "beam", /, *, zero_too: bool = False, **numbers: Any) -> None:
    for word, value in numbers.items():
        try:
            good = value is not None and np.isfinite(value) and (value > 0 or (zero_too and value == 0))
        except TypeError:
            good = False
        if not good:
            raise BeamError(
                f"{where}: {word} is {value!r}, expected a {'number from 0 on' if zero_too else 'positive number'}"
            )
