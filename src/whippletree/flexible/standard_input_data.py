"""Standard input data (SID): flexible bodies as finite-element programs write them for multibody programs.

A SID file (Wallrapp 1994; the usual suffix is ``.SID_FEM``) is a tree of sections, ``NAME`` or ``new NAME = TITLE`` to
``end NAME``, with numbers ``name = value`` in them, whose exponents may be D. Matrices are Taylor expansions in the
modal coordinates,

    A(i, j) = m0(i, j) + Σ m1(i, q, j) η_q        nrow × ncol; the index of the mode stands in the middle

whose ``structure`` says 0 for zero, 1 diagonal, 2 symmetric, 3 full, 4 unit; entries that are not there are zero. Read
are mass and its moments ``mdCM`` and ``J`` (xx, yy, zz, xy, xz, yz, or a matrix), the couplings ``Ct`` and ``Cr``,
``Me``, ``Ke``, ``De``, and nodes with ``origin``, ``phi``, ``psi`` and ``AP``. First-order terms of ``Ct``, ``phi`` and
``Oe`` (columns ωx², ωy², ωz², ωxωy, ωyωz, ωxωz) are geometric stiffening under acceleration, under forces at nodes and
under rotation; they become shortening. ``Gr`` and ``Ge`` follow from what is read, and the first-order terms of
``origin``, ``AP`` and ``psi`` are those of a frame that turns with its slopes. Terms that would change the motion and
have no place here (second order, initial stresses ``ksigma``) are refused by name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError
from whippletree.files.bounded_files import read_bounded
from whippletree.model.flexible_body import (
    FlexibleBody,
    FlexibleFrame,
    default_names,
    flexible_faults,
    frozen_integrals,
)
from whippletree.model.frozen import frozen_array
from whippletree.spatial.modal import ModalIntegrals

ZERO, DIAGONAL, SYMMETRIC, FULL, UNIT = range(5)
"""Values of ``structure``."""

_HEADER = re.compile(r"^\d+\s+\d+\s*:")
_ENTRY = re.compile(r"^(\w+)\s*\(([^)]*)\)\s*=\s*(\S.*?)\s*$")
_VALUE = re.compile(r"^(\w+)\s*=\s*(.*?)\s*$")


class _Wrong(Exception):
    """Something is missing in a section, or does not fit."""


@dataclass
class _SidBlock:
    """A section: numbers by name, expansions by order, sections inside."""

    name: str = ""
    title: str = ""
    line: int = 0
    values: dict[str, str] = field(default_factory=dict)
    orders: dict[str, dict[tuple[int, ...], float]] = field(default_factory=dict)
    blocks: list[_SidBlock] = field(default_factory=list)

    def find(self, word: str) -> _SidBlock | None:
        return next((block for block in self.blocks if block.name.lower() == word.lower()), None)

    def number(self, word: str) -> float:
        """A number by name, of whatever kind of exponent."""
        text = self.values.get(word)
        if text is None:
            raise _Wrong(f"line {self.line}: section {self.name!r} has no {word!r}")
        try:
            value = _float(text)
        except ValueError:
            raise _Wrong(f"line {self.line}: section {self.name!r}: {word} is {text!r}, expected a number") from None
        if not np.isfinite(value):
            raise _Wrong(f"line {self.line}: section {self.name!r}: {word} is {value}, expected a finite number")
        return value

    def matrix(self, rows: int, columns: int) -> Array:
        """m0 (rows, columns)."""
        found = np.zeros((rows, columns))
        kind = int(self.number("structure")) if "structure" in self.values else FULL
        given = self.orders.get("m0", {})
        if kind == UNIT:
            return np.eye(rows, columns)
        for index, value in given.items():
            place = (index[0], index[0]) if kind == DIAGONAL and index[1:] in ((), (1,)) else index
            found[self._place("m0", place, (rows, columns))] = value
            if kind == SYMMETRIC and (index[1], index[0]) not in given:
                found[self._place("m0", index[::-1], (rows, columns))] = value
        return found

    def rates(self, rows: int, columns: int, modes: int) -> Array:
        """m1 (rows, columns, modes), the index of the mode last."""
        found = np.zeros((rows, modes, columns))
        for index, value in self.orders.get("m1", {}).items():
            found[self._place("m1", index, (rows, modes, columns))] = value
        return np.swapaxes(found, 1, 2)

    def _place(self, order: str, index: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
        full = (*index, *[1] * (len(shape) - len(index)))
        if len(full) != len(shape) or not all(1 <= k <= size for k, size in zip(full, shape, strict=True)):
            meaning = "row, column" if order == "m0" else "row, mode, column"
            raise _Wrong(
                f"line {self.line}: section {self.name!r}: {order}{index} is outside of {shape} ({meaning}, counted "
                f"from 1)"
            )
        return tuple(k - 1 for k in full)


def read_sid(path: str | os.PathLike[str]) -> FlexibleBody:
    """Read standard input data; each of its nodes is a frame with the node's name.

    Raises:
        FileError: listing every fault, with its line.
    """
    place = Path(path)
    lines = read_bounded(place, "file of a flexible body").decode("utf-8", "replace").splitlines()
    faults: list[str] = []
    root = _parse(lines, faults)
    modal = next((block for block in _walk(root) if block.name.lower() == "modal"), None)
    if modal is None:
        raise FileError(str(place), [*faults[:20], "there is no section 'modal': this is no standard input data"])
    faults += _terms_without_place(modal)
    if faults:
        raise FileError(str(place), faults[:20])
    try:
        found = _body_of_sid(modal)
    except _Wrong as error:
        raise FileError(str(place), [str(error)]) from None
    if wrong := flexible_faults("flexible body", found):
        raise FileError(str(place), wrong)
    return found


def _parse(lines: list[str], faults: list[str]) -> _SidBlock:
    root = _SidBlock()
    stack = [root]
    for number, raw in enumerate(lines, start=1):
        line = raw.split("!")[0].strip()
        words = line.lower().split()
        if not line or _HEADER.match(line):
            continue
        here = stack[-1]
        if entry := _ENTRY.match(line):
            _enter(here, entry, number, faults)
        elif value := (None if words[0] == "new" else _VALUE.match(line)):
            here.values[value[1].lower()] = value[2]
        elif words[0] == "end":
            if len(stack) == 1:
                faults.append(f"line {number}: {line!r} ends nothing")
            elif len(words) > 1 and words[1] != here.name.lower():
                faults.append(f"line {number}: {line!r} stands in section {here.name!r}, begun in line {here.line}")
                return root
            else:
                stack.pop()
        else:
            name, _, title = line.removeprefix(line.split()[0] if words[0] == "new" else "").partition("=")
            block = _SidBlock(name.split()[0] if name.split() else "", title.strip(), number)
            here.blocks.append(block)
            stack.append(block)
    if len(stack) > 1:
        faults.append(f"the section {stack[-1].name!r}, begun in line {stack[-1].line}, is not ended")
    return root


def _enter(here: _SidBlock, entry: re.Match[str], number: int, faults: list[str]) -> None:
    """An entry of a matrix, or a text with an index."""
    word = entry[1].lower()
    if not re.fullmatch(r"m\d", word):
        here.values[f"{word}({entry[2].strip()})"] = entry[3]
        return
    try:
        index = tuple(int(part) for part in entry[2].split(","))
        value = _float(entry[3])
    except ValueError:
        faults.append(f"line {number}: {entry[3][:40]!r} is not a number, or {entry[2]!r} not its place")
        return
    if not np.isfinite(value):
        faults.append(f"line {number}: {entry[1]}({entry[2].strip()}) is {value}, not a finite number")
    if index in here.orders.setdefault(word, {}):
        faults.append(f"line {number}: {entry[1]}({entry[2].strip()}) of section {here.name!r} is there twice")
    here.orders[word][index] = value


def _float(text: str) -> float:
    return float(text.replace("D", "E").replace("d", "e"))


def _walk(block: _SidBlock) -> Iterator[_SidBlock]:
    for inner in block.blocks:
        yield inner
        yield from _walk(inner)


def _terms_without_place(modal: _SidBlock) -> list[str]:
    """Numbers that would change the motion and are not read."""
    faults = []
    for block in _walk(modal):
        where = f"line {block.line}: section {block.name!r}"
        if any(value for order in block.orders if order > "m1" for value in block.orders[order].values()):
            faults.append(f"{where} has terms of second order or more, which are not read")
        if block.name.lower() == "ksigma" and any(v for terms in block.orders.values() for v in terms.values()):
            faults.append(f"{where}: the body has initial stresses, which have no place here: reduce it unloaded")
    return faults


def _require_block(block: _SidBlock, word: str) -> _SidBlock:
    found = block.find(word)
    if found is None:
        some = ", ".join(dict.fromkeys(inner.name for inner in block.blocks))
        raise _Wrong(f"section {block.name!r} has no section {word!r}, only {some or 'none'}")
    return found


def _body_of_sid(modal: _SidBlock) -> FlexibleBody:
    head = _require_block(modal, "refmod")
    n = int(head.number("nelastq"))
    Ct, Cr = _require_block(modal, "Ct"), _require_block(modal, "Cr")
    moments = Cr.matrix(n, 3)
    inertia, inertia_rates = _inertia(_require_block(modal, "J"), n)
    crosses, bent = _split(np.swapaxes(Cr.rates(n, 3, n), 1, 2))
    shortening = np.swapaxes(Ct.rates(n, 3, n), 1, 2)
    shortening = (shortening + np.swapaxes(shortening, 0, 1)) / 2
    curved = _inertia_curvature(modal, n)
    position_shapes = [_halve_inertia(inertia_rates[:, :, i]) + _skew(moments[i]) / 2 for i in range(n)]
    products = [[_skew(crosses[i, j]) / 2 for j in range(n)] for i in range(n)]
    bends = [[_halve_inertia(curved[i, j]) + _skew(bent[i, j]) / 2 for j in range(n)] for i in range(n)]
    active = bool(np.any(shortening) or np.any(bends))
    integrals = ModalIntegrals(
        mass=head.number("mass"),
        first=_require_block(modal, "mdCM").matrix(3, 1)[:, 0],
        second=_halve_inertia(inertia) * 2,
        shapes=Ct.matrix(n, 3),
        position_shapes=np.array(position_shapes).reshape(n, 3, 3),
        shape_products=np.array(products).reshape(n, n, 3, 3),
        rotary=np.zeros((3, 3)),
        rotary_shapes=np.zeros((n, 3)),
        rotary_products=_require_block(modal, "Me").matrix(n, n),
        shortening=shortening if active else None,
        position_shortening=np.array(bends).reshape(n, n, 3, 3) if active else None,
    )
    damping = modal.find("De")
    return FlexibleBody(
        frozen_integrals(integrals),
        frozen_array(_require_block(modal, "Ke").matrix(n, n), (n, n)),
        frozen_array(np.zeros((n, n)) if damping is None else damping.matrix(n, n), (n, n)),
        tuple(_sid_frames(modal, n)),
        default_names(n),
    )


def _sid_frames(modal: _SidBlock, n: int) -> Iterator[FlexibleFrame]:
    listed = modal.find("frame")
    for node in [] if listed is None else listed.blocks:
        if node.name.lower() != "node":
            continue
        pose = np.eye(4)
        origin, turn, phi, psi = (node.find(word) for word in ("origin", "AP", "phi", "psi"))
        shapes, bend = np.zeros((n, 3)), np.zeros((n, n, 3))
        if origin is not None:
            pose[:3, 3] = origin.matrix(3, 1)[:, 0]
            shapes = origin.rates(3, 1, n)[:, 0].T
        if turn is not None and (turn.orders.get("m0") or turn.values.get("structure") == str(UNIT)):
            pose[:3, :3] = turn.matrix(3, 3)
        if phi is not None:
            shapes, bend = phi.matrix(3, n).T, np.swapaxes(phi.rates(3, n, n), 0, 2)
        slopes = np.zeros((n, 3)) if psi is None else psi.matrix(3, n).T
        bend = (bend + np.swapaxes(bend, 0, 1)) / 2
        words = node.title.split()
        name = words[0] if words else f"node {node.line}"
        yield FlexibleFrame.of(name, pose, shapes, slopes, bend if np.any(bend) else None)


def _inertia(J: _SidBlock, n: int) -> tuple[Array, Array]:
    """J (3, 3) and its rates (3, 3, n), from xx, yy, zz, xy, xz, yz in a column or from rows."""
    rows = int(J.number("nrow")) if "nrow" in J.values else max([6, *[k[0] for k in J.orders.get("m0", {})]])
    if rows == 3:
        return J.matrix(3, 3), J.rates(3, 3, n)
    return _six(J.matrix(6, 1)[:, 0]), _six(J.rates(6, 1, n)[:, 0])


def _six(values: Array) -> Array:
    """xx, yy, zz, xy, xz, yz (6, …) as matrices (3, 3, …)."""
    xx, yy, zz, xy, xz, yz = values
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def _halve_inertia(inertia: Array) -> Array:
    """½ E of an inertia tr(E) 1 − E, so that ½ E + ½ Eᵀ gives it back."""
    return np.asarray((np.trace(inertia) / 2 * np.eye(3) - inertia) / 2)


def _split(rates: Array) -> tuple[Array, Array]:
    """∫ φᵢ × φⱼ and the part of shortening, (n, n, 3) each, from ∂Cr(i, :)/∂ηⱼ (n, n, 3)."""
    # ∂Nᵢ/∂ηⱼ = ∫ φⱼ × φᵢ + ∫ s × gᵢⱼ: one changes its sign with i and j, the other does not
    turned = np.swapaxes(rates, 0, 1)
    return -(rates - turned) / 2, (rates + turned) / 2


def _inertia_curvature(modal: _SidBlock, n: int) -> Array:
    """∂²J/∂ηᵢ∂ηⱼ (n, n, 3, 3) from Oe of first order, whose columns are ωx², ωy², ωz², ωxωy, ωyωz, ωxωz."""
    Oe = modal.find("Oe")
    if Oe is None:
        return np.zeros((n, n, 3, 3))
    xx, yy, zz, xy, yz, xz = np.moveaxis(-2 * Oe.rates(n, 6, n), 1, 0)
    found = np.array([[xx, xy / 2, xz / 2], [xy / 2, yy, yz / 2], [xz / 2, yz / 2, zz]])
    found = np.moveaxis(found, (0, 1), (2, 3))
    return np.asarray((found + np.swapaxes(found, 0, 1)) / 2)


def _skew(a: Array) -> Array:
    """∫ a bᵀ − ∫ b aᵀ from ∫ a × b."""
    return np.array([[0.0, a[2], -a[1]], [-a[2], 0.0, a[0]], [a[1], -a[0], 0.0]])
