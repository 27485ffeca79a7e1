"""The data of a body with modes: integrals over its mass, stiffness, damping, and the frames that others hold on to.

:mod:`whippletree.flexible` makes them, from beams, finite elements and files; ``Builder.flexible_body`` puts them into
a model. There a flexible body NAME is three kinds of parts behind ordinary joints, so that everything that a tree knows
of bodies and joints it knows of these:

    NAME             the reference frame, a massless body: a joint carries it like any other
    NAME/modes       the body itself, on a joint of kind ``modal`` whose coordinates are the modal coordinates, m
    NAME/FRAME       each of its frames, a body on a joint of kind ``port`` without freedoms: joints, constraints,
                     shapes and forces hold on to it where the body is bent
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import NameLookupError
from whippletree.model.frozen import Part, frozen_array
from whippletree.spatial import Pose
from whippletree.spatial.modal import Modal, ModalInertia, ModalIntegrals, Port

MODES = "modes"
"""Ending of the body's own name, after that of its reference frame."""

SYMMETRY_TOLERANCE = 1e-9
"""Share of its largest entry by which a matrix of stiffness, damping or mass may differ from its transpose: files are
written with ten digits or more."""

DEFINITE_TOLERANCE = 1e-12
"""Share of the largest eigenvalue below which one of the modal mass, or of the stiffness, counts as zero: rounding of
integrals over a body."""


@dataclass(frozen=True, eq=False, repr=False)
class FlexibleFrame(Part):
    """A frame of a flexible body: where it is, and how the modes move it."""

    name: str
    pose: Array
    """In the undeformed body, (4, 4)."""
    shapes: Array
    """φᵢ there: displacement per unit of ηᵢ, (n, 3)."""
    slopes: Array
    """ψᵢ there: small rotation per unit of ηᵢ, rad/m, (n, 3)."""
    shortening: Array | None = None
    """gᵢⱼ there: second-order displacement, 1/m, (n, n, 3); None without geometric stiffening."""

    @staticmethod
    def of(name: str, pose: Any, shapes: Any, slopes: Any, shortening: Any) -> FlexibleFrame:
        """A frame from arrays that others may still write to: a pose (4, 4), φ and ψ (n, 3), g (n, n, 3) or None."""
        n = np.size(shapes) // 3
        bend = None if shortening is None else frozen_array(shortening, (n, n, 3))
        return FlexibleFrame(
            name, frozen_array(pose, (4, 4)), frozen_array(shapes, (n, 3)), frozen_array(slopes, (n, 3)), bend
        )

    @cached_property
    def port(self) -> Port:
        """The mathematics of the frame."""
        bend = None if self.shortening is None else self.shortening.astype(object)
        pose = Pose.from_matrix(self.pose)
        return Port(pose, self.shapes.astype(object), self.slopes.astype(object), bend)


@dataclass(frozen=True, eq=False, repr=False)
class FlexibleBody(Part):
    """A body with n modes in a floating frame of reference."""

    integrals: ModalIntegrals
    stiffness: Array
    """N/m, (n, n)."""
    damping: Array
    """N s/m, (n, n)."""
    frames: tuple[FlexibleFrame, ...] = ()
    modes: tuple[str, ...] = ()
    """A name for each modal coordinate."""
    outline: Array = field(default_factory=lambda: frozen_array([], (0, 3)))
    """Points for pictures, in the undeformed body, (points, 3)."""
    outline_shapes: Array = field(default_factory=lambda: frozen_array([], (0, 0, 3)))
    """φᵢ at these points, (points, n, 3)."""
    outline_edges: tuple[tuple[int, int], ...] = ()
    """Which points a line joins."""

    @property
    def n(self) -> int:
        """How many modes it has."""
        return self.integrals.modes

    def __repr__(self) -> str:
        names = ", ".join(frame.name for frame in self.frames)
        return f"<FlexibleBody: {self.n} modes, {float(self.integrals.mass):.6g} kg, frames: {names or 'none'}>"

    @cached_property
    def joint(self) -> Modal:
        """The joint whose coordinates are the modal coordinates."""
        return Modal(ModalInertia(self.integrals))

    def frame(self, name: str) -> FlexibleFrame:
        """A frame by name."""
        found = {frame.name: frame for frame in self.frames}
        if name not in found:
            raise NameLookupError("frame of a flexible body", name, found)
        return found[name]

    @property
    def rigid_data(self) -> tuple[Any, Array, Array]:
        """Mass, centre and inertia about it (3, 3) of the undeformed body: what a list of bodies shows of it."""
        whole = self.integrals.as_objects().rigid()
        center = whole.moment / whole.mass
        shift = np.eye(3, dtype=int).astype(object) * (center @ center) - np.multiply.outer(center, center)
        return (
            self.integrals.mass,
            frozen_array(center, (3,)),
            frozen_array(whole.rotation - whole.mass * shift, (3, 3)),
        )

    @cached_property
    def frequencies(self) -> Array:
        """Hz (n,), of the body on its own with the reference frame held, ascending."""
        M, K = self.integrals.modal_mass.astype(float), self.stiffness.astype(float)
        L = np.linalg.inv(np.linalg.cholesky(M))
        return np.asarray(np.sqrt(np.maximum(np.linalg.eigvalsh(L @ K @ L.T), 0.0)) / (2 * math.pi))

    @cached_property
    def free_vibrations(self) -> tuple[Array, Array]:
        """ω² (n,), s⁻², of the body when nothing holds it, and M φ (n, n) of these vibrations as columns.

        M is the modal inertia that is left where the reference frame may follow, so that K = Σ ω² (M φ) (M φ)ᵀ.
        """
        whole = self.joint.inertia.at(np.zeros(self.n).astype(object)).dense().astype(float)
        frame, both = whole[:6, :6], whole[:6, 6:]
        M = whole[6:, 6:] - both.T @ np.linalg.pinv(frame, hermitian=True) @ both
        L = np.linalg.cholesky((M + M.T) / 2)
        inverse = np.linalg.inv(L)
        squares, vectors = np.linalg.eigh(inverse @ self.stiffness.astype(float) @ inverse.T)
        return squares, np.asarray(L @ vectors)

    def elastic_force(self, eta: Array, rates: Array) -> Array:
        """−K η − D η̇, (n,)."""
        return np.asarray(-(self.stiffness.astype(object) @ eta + self.damping.astype(object) @ rates))

    def elastic_energy(self, eta: Array) -> Any:
        """½ ηᵀ K η, J."""
        return eta @ (self.stiffness.astype(object) @ eta) / 2


def flexible_faults(where: str, body: FlexibleBody) -> list[str]:
    """Faults in the data of a flexible body, by name."""
    n = body.n
    shapes = _shapes_of(body, n)
    faults = [
        f"{where}: {word} has shape {np.shape(value)}, expected {shape}"
        for word, (value, shape) in shapes.items()
        if np.shape(value) != shape
    ]
    if len(body.modes) != n:
        faults.append(f"{where}: {len(body.modes)} names for {n} modes")
    names = [frame.name for frame in body.frames]
    faults += [f"{where}: two frames are called {x!r}" for x in dict.fromkeys(names) if names.count(x) > 1]
    faults += [f"{where}: a frame may not be called {MODES!r}: the body itself is" for x in names if x == MODES]
    if faults:
        return faults
    for word, (value, _) in shapes.items():
        if not all(_is_finite(x) for x in np.ravel(np.asarray(value, dtype=object))):
            faults.append(f"{where}: {word} holds a number that is not finite")
    return faults or _matrix_faults(where, body)


def _shapes_of(body: FlexibleBody, n: int) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Every array of a flexible body, with the shape that it must have."""
    given = body.integrals
    expected: dict[str, tuple[Any, tuple[int, ...]]] = {
        "mass": (given.mass, ()),
        "first moment of mass": (given.first, (3,)),
        "second moment of mass": (given.second, (3, 3)),
        "∫φ": (given.shapes, (n, 3)),
        "∫s φᵀ": (given.position_shapes, (n, 3, 3)),
        "∫φ φᵀ": (given.shape_products, (n, n, 3, 3)),
        "rotary inertia": (given.rotary, (3, 3)),
        "∫dI ψ": (given.rotary_shapes, (n, 3)),
        "∫ψᵀ dI ψ": (given.rotary_products, (n, n)),
        "stiffness": (body.stiffness, (n, n)),
        "damping": (body.damping, (n, n)),
    }
    if given.shortening is not None or given.position_shortening is not None:
        expected["∫g"] = (given.shortening, (n, n, 3))
        expected["∫s gᵀ"] = (given.position_shortening, (n, n, 3, 3))
    for frame in body.frames:
        expected[f"frame {frame.name!r}: pose"] = (frame.pose, (4, 4))
        expected[f"frame {frame.name!r}: shapes"] = (frame.shapes, (n, 3))
        expected[f"frame {frame.name!r}: slopes"] = (frame.slopes, (n, 3))
        if frame.shortening is not None:
            expected[f"frame {frame.name!r}: shortening"] = (frame.shortening, (n, n, 3))
    return expected


def _matrix_faults(where: str, body: FlexibleBody) -> list[str]:
    M, K, D = (np.asarray(x).astype(float) for x in (body.integrals.modal_mass, body.stiffness, body.damping))
    faults = []
    for word, A in (("modal mass", M), ("stiffness", K), ("damping", D)):
        if np.abs(A - A.T).max(initial=0.0) > SYMMETRY_TOLERANCE * np.abs(A).max(initial=0.0):
            faults.append(f"{where}: its {word} is not symmetric")
    if not float(body.integrals.mass) > 0:
        faults.append(f"{where}: its mass is {body.integrals.mass}, expected a positive number")
    if faults:
        return faults
    central = np.linalg.eigvalsh(np.asarray(body.rigid_data[2], dtype=float))
    if central[0] < -SYMMETRY_TOLERANCE * np.abs(np.asarray(body.integrals.rigid().rotation, dtype=float)).max():
        faults.append(
            f"{where}: mass, first and second moments do not belong together: about its centre of mass the undeformed "
            f"body has the moment of inertia {central[0]:.6g} kg m². A planar body needs all of them, too"
        )
        return faults
    if not body.n:
        return faults
    own = np.linalg.eigvalsh(M)
    if own[0] <= DEFINITE_TOLERANCE * own[-1]:
        faults.append(
            f"{where}: modal mass has the eigenvalue {own[0]:.3g} beside {own[-1]:.3g}: some modes are one motion. "
            f"Leave out modes that others can make up"
        )
        return faults
    whole = _with_rigid_motion(body)
    lightest = np.linalg.eigvalsh(whole / np.sqrt(np.outer(np.diag(whole), np.diag(whole))))[0]
    if lightest <= RIGID_TOLERANCE:
        faults.append(
            f"{where}: its modes contain a motion of the whole body (the inertia of reference frame and modes together "
            f"is singular). Leave out rigid-body modes: the reference frame moves by itself"
        )
    L = np.linalg.inv(np.linalg.cholesky(M))
    squares, vectors = np.linalg.eigh(L @ K @ L.T)
    if squares[0] <= DEFINITE_TOLERANCE * squares[-1]:
        worst = body.modes[int(np.argmax(np.abs(L.T @ vectors[:, 0]) * np.sqrt(np.diag(M))))]
        faults.append(
            f"{where}: its stiffness is singular or negative (ω² = {squares[0]:.3g} beside {squares[-1]:.3g} s⁻², "
            f"mostly mode {worst!r}): a motion that nothing resists is a rigid-body mode or a mechanism. Leave it out, "
            f"or give the body more support"
        )
    if np.linalg.eigvalsh(L @ D @ L.T)[0] < -DEFINITE_TOLERANCE * max(np.abs(D).max(), 1e-300):
        faults.append(f"{where}: its damping has a negative eigenvalue: it would feed the motion")
    return faults


RIGID_TOLERANCE = 1e-10
"""Smallest eigenvalue of the scaled inertia of reference frame and modes below which a mode is a rigid motion: a mode
left in by mistake gives rounding, 1e-16; a real body with many modes has 1e-6 or more."""


def _with_rigid_motion(body: FlexibleBody) -> Array:
    """The inertia of the directions in which the undeformed body has any, and of its modes."""
    M = body.joint.inertia.at(np.zeros(body.n).astype(object)).dense().astype(float)
    sizes = np.diag(M)
    kept = [i for i in range(len(M)) if i >= 6 or sizes[i] > DEFINITE_TOLERANCE * sizes.max()]
    return np.asarray(M[np.ix_(kept, kept)])


def default_names(n: int) -> tuple[str, ...]:
    """1 … n, for modes without names."""
    return tuple(str(i + 1) for i in range(n))


def frozen_integrals(integrals: ModalIntegrals) -> ModalIntegrals:
    """The integrals as read-only arrays."""
    n = integrals.modes
    shapes: Sequence[tuple[int, ...]] = (
        (3,), (3, 3), (n, 3), (n, 3, 3), (n, n, 3, 3), (3, 3), (n, 3), (n, n), (n, n, 3), (n, n, 3, 3),
    )  # fmt: skip
    arrays: list[Any] = [None if x is None else frozen_array(x, s) for x, s in zip(integrals[1:], shapes, strict=True)]
    return ModalIntegrals(integrals.mass, *arrays)


def _is_finite(x: Any) -> bool:
    try:
        return math.isfinite(float(x))
    except (TypeError, ValueError):
        return False
