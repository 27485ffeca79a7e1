"""Files of a single flexible body: NumPy archives of its own, and standard input data (SID) of other programs.

A SID file (Wallrapp 1994) holds Taylor expansions in the modal coordinates, ``m0`` and ``m1``, of what a multibody
program needs: mass, its moments ``mdCM`` and ``J``, the couplings ``Ct`` and ``Cr``, ``Me``, ``Ke``, ``De``, and nodes
with ``origin``, ``phi``, ``psi`` and ``ap``. Terms of first order are read. ``Ct`` and ``Oe`` of first order are
geometric stiffening under acceleration and under centrifugal loads, and become shortening; the file's second-order
inertia, where ``Oe`` has it, comes with it.
"""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError
from whippletree.files.bounded_files import read_bounded
from whippletree.files.whole_files import write_whole
from whippletree.model.flexible_body import (
    FlexibleBody,
    FlexibleFrame,
    default_names,
    flexible_faults,
    frozen_integrals,
)
from whippletree.model.frozen import frozen_array
from whippletree.spatial.modal import ModalIntegrals

FORMAT = 1
"""Version of the archive."""

FRAME_WORDS = ("pose", "shapes", "slopes", "shortening")
"""Arrays of a frame; the last one may be missing."""


def save_body(body: FlexibleBody, path: str | os.PathLike[str]) -> None:
    """Write a flexible body to a NumPy archive (``.npz``) that :func:`load_body` reads back to the last bit."""
    arrays: dict[str, Any] = {"whippletree": np.array(FORMAT), "modes": np.array(body.modes, dtype=str)}
    arrays |= {
        f"integrals.{k}": np.asarray(v, dtype=float) for k, v in body.integrals._asdict().items() if v is not None
    }
    arrays |= {word: np.asarray(getattr(body, word), dtype=float) for word in ("stiffness", "damping", "outline")}
    arrays["outline_shapes"] = np.asarray(body.outline_shapes, dtype=float)
    arrays["outline_edges"] = np.array(body.outline_edges, dtype=int).reshape(-1, 2)
    arrays["frames"] = np.array([frame.name for frame in body.frames], dtype=str)
    for k, frame in enumerate(body.frames):
        for word in FRAME_WORDS:
            if getattr(frame, word) is not None:
                arrays[f"frame{k}.{word}"] = np.asarray(getattr(frame, word), dtype=float)
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_whole(path, stream.getvalue())


def load_body(path: str | os.PathLike[str]) -> FlexibleBody:
    """Read a flexible body that :func:`save_body` wrote.

    Raises:
        FileError: listing every fault.
    """
    place = Path(path)
    try:
        with np.load(io.BytesIO(read_bounded(place, "file of a flexible body")), allow_pickle=False) as archive:
            data = {name: archive[name] for name in archive.files}
        found = _body_of(data)
    except (ValueError, OSError, KeyError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, FileNotFoundError):
            raise
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise FileError(str(place), [f"this is no archive of a flexible body: {reason}"]) from None
    if faults := flexible_faults("flexible body", found):
        raise FileError(str(place), faults)
    return found


def _body_of(data: dict[str, Array]) -> FlexibleBody:
    if int(data["whippletree"]) != FORMAT:
        raise ValueError(f"it has format {int(data['whippletree'])}; this version reads format {FORMAT}")
    given: dict[str, Any] = {
        name.removeprefix("integrals."): value for name, value in data.items() if name.startswith("integrals.")
    }
    given["mass"] = float(given["mass"])
    frames = []
    for k, name in enumerate(data["frames"].tolist()):
        pose, shapes, slopes = (frozen_array(x, x.shape) for x in (data[f"frame{k}.{w}"] for w in FRAME_WORDS[:3]))
        bend = data.get(f"frame{k}.shortening")
        frames.append(
            FlexibleFrame(name, pose, shapes, slopes, None if bend is None else frozen_array(bend, bend.shape))
        )
    words = ("stiffness", "damping", "outline", "outline_shapes")
    stiffness, damping, outline, bent = (frozen_array(data[word], data[word].shape) for word in words)
    edges = tuple((int(a), int(b)) for a, b in data["outline_edges"])
    names = tuple(data["modes"].tolist())
    return FlexibleBody(
        frozen_integrals(ModalIntegrals(**given)), stiffness, damping, tuple(frames), names, outline, bent, edges
    )


# --- standard input data ----------------------------------------------------------------------------------------------


@dataclass
class _SidBlock:
    """A section of a SID file: numbers by name, expansions by order, sections inside."""

    values: dict[str, str] = field(default_factory=dict)
    orders: dict[str, dict[tuple[int, ...], float]] = field(default_factory=dict)
    blocks: list[tuple[str, str, _SidBlock]] = field(default_factory=list)

    def find(self, word: str) -> _SidBlock | None:
        return next((block for name, _, block in self.blocks if name == word), None)

    def array(self, order: str, *shape: int) -> Array:
        """m0 or m1 as an array; entries that are not there are zero."""
        found = np.zeros(shape)
        for index, value in self.orders.get(order, {}).items():
            place = (*[k - 1 for k in index], *[0] * (len(shape) - len(index)))
            if min(place) < 0:
                raise IndexError(f"{order}{index} counts from 1")
            found[place] = value
        return found


_ENTRY = re.compile(r"^(\w+)\s*\(([^)]*)\)\s*=\s*(\S.*?)\s*$")
_VALUE = re.compile(r"^(\w+)\s*=\s*(.*?)\s*$")


def read_sid(path: str | os.PathLike[str]) -> FlexibleBody:
    """Read standard input data; each of its nodes is a frame with the node's name.

    Raises:
        FileError: listing every fault, with its line.
    """
    place = Path(path)
    lines = read_bounded(place, "file of a flexible body").decode("utf-8", "replace").splitlines()
    faults: list[str] = []
    root = _parsed(lines, faults)
    modal = _first(root, "modal")
    if modal is None:
        raise FileError(str(place), [*faults[:20], "there is no section 'modal': this is no standard input data"])
    if faults:
        raise FileError(str(place), faults[:20])
    try:
        found = _body_of_sid(modal)
    except (KeyError, ValueError, IndexError) as error:
        raise FileError(str(place), [f"a section or number is missing or out of range: {error}"]) from None
    if wrong := flexible_faults("flexible body", found):
        raise FileError(str(place), wrong)
    return found


def _parsed(lines: list[str], faults: list[str]) -> _SidBlock:
    root = _SidBlock()
    stack = [("", root)]
    for number, raw in enumerate(lines, start=1):
        line = raw.split("!")[0].strip()
        if not line:
            continue
        here = stack[-1][1]
        if entry := _ENTRY.match(line):
            _enter(here, entry, number, faults)
        elif value := (None if line.lower().startswith("new ") else _VALUE.match(line)):
            here.values[value[1].lower()] = value[2]
        elif line.lower() == "end" or line.lower().startswith("end "):
            if len(stack) == 1:
                faults.append(f"line {number}: {line!r} ends nothing")
            else:
                stack.pop()
        else:
            words = line.split()
            new = words[0].lower() == "new"
            name, _, title = " ".join(words[1:] if new else words).partition("=")
            block = _SidBlock()
            here.blocks.append((name.strip().split()[0].lower(), title.strip(), block))
            stack.append((name, block))
    if len(stack) > 1:
        faults.append(f"the section {stack[-1][0]!r} is not ended")
    return root


def _enter(here: _SidBlock, entry: re.Match[str], number: int, faults: list[str]) -> None:
    try:
        index = tuple(int(word) for word in entry[2].split(","))
        value = float(entry[3].replace("D", "E").replace("d", "e"))
    except ValueError:
        if entry[1].lower().startswith("m"):
            faults.append(f"line {number}: {entry[3][:40]!r} is not a number, or {entry[2]!r} not its place")
        else:
            here.values[f"{entry[1].lower()}({entry[2].strip()})"] = entry[3]
        return
    if not np.isfinite(value):
        faults.append(f"line {number}: {entry[1]}({entry[2].strip()}) is {value}, not a finite number")
    here.orders.setdefault(entry[1].lower(), {})[index] = value


def _first(block: _SidBlock, word: str) -> _SidBlock | None:
    for name, _, inner in _walk(block):
        if name == word:
            return inner
    return None


def _walk(block: _SidBlock) -> Iterator[tuple[str, str, _SidBlock]]:
    for name, title, inner in block.blocks:
        yield name, title, inner
        yield from _walk(inner)


def _needed(block: _SidBlock, word: str) -> _SidBlock:
    found = block.find(word.lower())
    if found is None:
        raise KeyError(f"section {word!r}")
    return found


def _body_of_sid(modal: _SidBlock) -> FlexibleBody:
    head = _needed(modal, "refmod")
    n = int(head.values["nelastq"])
    mass = float(head.values["mass"])
    J = _needed(modal, "J")
    Ct, Cr, Me = _needed(modal, "Ct"), _needed(modal, "Cr"), _needed(modal, "Me")
    moments, rates = (
        Cr.array("m0", n, 3),
        _six(J.array("m1", 6, 1, n)[:, 0]) if _is_column(J) else J.array("m1", 3, 3, n),
    )
    inertia = _six(J.array("m0", 6, 1)[:, 0]) if _is_column(J) else J.array("m0", 3, 3)
    crosses, bent = _split(Cr.array("m1", n, 3, n))
    shortening = np.swapaxes(Ct.array("m1", n, 3, n), 1, 2)
    shortening = (shortening + np.swapaxes(shortening, 0, 1)) / 2
    stiffened = _inertia_curvature(modal, n)
    mass_matrix = Me.array("m0", n, n)
    position_shapes = np.array([_halved(rates[:, :, i]) + _skew(moments[i]) / 2 for i in range(n)]).reshape(n, 3, 3)
    products = np.array([[_skew(crosses[i, j]) / 2 for j in range(n)] for i in range(n)]).reshape(n, n, 3, 3)
    bends = np.array([[_halved(stiffened[i, j]) + _skew(bent[i, j]) / 2 for j in range(n)] for i in range(n)])
    bends = bends.reshape(n, n, 3, 3)
    active = bool(np.any(shortening) or np.any(bends))
    integrals = ModalIntegrals(
        mass=mass,
        first=_needed(modal, "mdCM").array("m0", 3, 1)[:, 0],
        second=_halved(inertia) * 2,
        shapes=Ct.array("m0", n, 3),
        position_shapes=position_shapes,
        shape_products=products,
        rotary=np.zeros((3, 3)),
        rotary_shapes=np.zeros((n, 3)),
        rotary_products=mass_matrix,
        shortening=shortening if active else None,
        position_shortening=bends if active else None,
    )
    damping = modal.find("de")
    return FlexibleBody(
        frozen_integrals(integrals),
        frozen_array(_needed(modal, "Ke").array("m0", n, n), (n, n)),
        frozen_array(np.zeros((n, n)) if damping is None else damping.array("m0", n, n), (n, n)),
        tuple(_sid_frames(modal, n)),
        default_names(n),
    )


def _sid_frames(modal: _SidBlock, n: int) -> Iterator[FlexibleFrame]:
    listed = modal.find("frame")
    for name, title, node in [] if listed is None else listed.blocks:
        if name != "node":
            continue
        pose = np.eye(4)
        origin, turn = node.find("origin"), node.find("ap")
        pose[:3, 3] = np.zeros(3) if origin is None else origin.array("m0", 3, 1)[:, 0]
        pose[:3, :3] = np.eye(3) if turn is None or not turn.orders.get("m0") else turn.array("m0", 3, 3)
        phi, psi = node.find("phi"), node.find("psi")
        if phi is None:
            shapes = np.zeros((n, 3)) if origin is None else origin.array("m1", 3, 1, n)[:, 0].T
        else:
            shapes = phi.array("m0", 3, n).T
        slopes = np.zeros((n, 3)) if psi is None else psi.array("m0", 3, n).T
        words = title.split()
        yield FlexibleFrame(
            words[0] if words else str(title), frozen_array(pose, (4, 4)), frozen_array(shapes, (n, 3)),
            frozen_array(slopes, (n, 3)),
        )  # fmt: skip


def _is_column(J: _SidBlock) -> bool:
    """Whether an inertia is written as xx, yy, zz, xy, xz, yz instead of rows."""
    return int(J.values.get("nrow", "6")) == 6 or max(k[0] for k in J.orders.get("m0", {(6,): 0.0})) > 3


def _six(values: Array) -> Array:
    """xx, yy, zz, xy, xz, yz (6, …) as matrices (3, 3, …)."""
    xx, yy, zz, xy, xz, yz = values
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _halved(inertia: Array) -> Array:
    """½ E of an inertia tr(E) 1 − E, so that ½ E + ½ Eᵀ gives it back."""
    return np.asarray((np.trace(inertia) / 2 * np.eye(3) - inertia) / 2)


def _split(rates: Array) -> tuple[Array, Array]:
    """∫ φᵢ × φⱼ and the part of shortening, (n, n, 3) each, from ∂Cr(i, :)/∂ηⱼ (n, 3, n)."""
    A = np.swapaxes(rates, 1, 2)
    # ∂Nᵢ/∂ηⱼ = ∫ φⱼ × φᵢ + ∫ s × gᵢⱼ: one changes its sign with i and j, the other does not
    return -(A - np.swapaxes(A, 0, 1)) / 2, (A + np.swapaxes(A, 0, 1)) / 2


def _inertia_curvature(modal: _SidBlock, n: int) -> Array:
    """∂²J/∂ηᵢ∂ηⱼ (n, n, 3, 3) from Oe of first order, whose columns are ωx², ωy², ωz², ωxωy, ωyωz, ωxωz."""
    Oe = modal.find("oe")
    if Oe is None:
        return np.zeros((n, n, 3, 3))
    terms = Oe.array("m1", n, 6, n)
    xx, yy, zz, xy, yz, xz = (-2 * terms[:, k] for k in range(6))
    found = np.array([[xx, xy / 2, xz / 2], [xy / 2, yy, yz / 2], [xz / 2, yz / 2, zz]])
    found = np.moveaxis(found, (0, 1), (2, 3))
    return np.asarray((found + np.swapaxes(found, 0, 1)) / 2)


def _skew(a: Array) -> Array:
    """∫ a bᵀ − ∫ b aᵀ from ∫ a × b."""
    return np.array([[0.0, a[2], -a[1]], [-a[2], 0.0, a[0]], [a[1], -a[0], 0.0]])
