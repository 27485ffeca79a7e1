"""Bodies of finite elements from files: CalculiX's ``.sti``, ``.mas`` and ``.dof``; Matrix Market with a node table.

CalculiX (``*FREQUENCY, SOLVER=MATRIXSTORAGE``) writes one triangle of K and M as lines ``row column value`` and, row by
row, ``node.direction``. Where nodes are is said in a table (``node x y z`` in each line, commas or blanks between) or
in the ``*NODE`` block of the input file.

A flexible body, once made, is kept in a NumPy archive.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.io
import scipy.sparse as sp

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError
from whippletree.files.bounded_files import read_bounded
from whippletree.files.whole_files import write_whole
from whippletree.flexible.finite_elements import NodalModel
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame, flexible_faults, frozen_integrals
from whippletree.model.frozen import frozen_array
from whippletree.spatial.modal import ModalIntegrals

FilePath: TypeAlias = str | os.PathLike[str]


def read_calculix(stem: FilePath, nodes: FilePath | Mapping[int, Any]) -> NodalModel:
    """K, M and freedoms of ``STEM.sti``, ``STEM.mas`` and ``STEM.dof``.

    Args:
        stem: path of the three files without their suffix (or with one of them).
        nodes: a node table, an input file with a ``*NODE`` block, or number -> position (3,).

    Raises:
        FileError: listing every fault, with its line.
    """
    base = Path(stem)
    base = base.with_suffix("") if base.suffix in (".sti", ".mas", ".dof") else base
    table = _positions(nodes)
    freedoms = _freedoms(base.with_suffix(".dof"), table)
    K, M = (_triangle(base.with_suffix(suffix), len(freedoms)) for suffix in (".sti", ".mas"))
    return _model(str(base), table, freedoms, K, M)


def read_matrix_market(
    stiffness: FilePath, mass: FilePath, nodes: FilePath | Mapping[int, Any], *, freedoms: Any = None
) -> NodalModel:
    """K and M of two Matrix Market files.

    Args:
        stiffness, mass: paths.
        nodes: as for :func:`read_calculix`.
        freedoms: (node, component) of each row, components 0 … 5; default: nodes in the order of their table with 3 or
            6 components each, whichever fits the matrices.

    Raises:
        FileError: listing every fault.
    """
    table = _positions(nodes)
    K, M = (_market(Path(path)) for path in (stiffness, mass))
    if freedoms is None:
        each = K.shape[0] // max(len(table), 1)
        if each not in (3, 6) or each * len(table) != K.shape[0]:
            raise FileError(
                str(stiffness),
                [
                    f"the matrix has {K.shape[0]} rows and there are {len(table)} nodes: neither 3 nor 6 freedoms. "
                    f"Say which freedom each row is with freedoms="
                ],
            )
        freedoms = [(node, c) for node in table for c in range(each)]
    pairs = [(int(a), int(b)) for a, b in freedoms]
    missing = [(i, a) for i, (a, _) in enumerate(pairs) if a not in table]
    if missing:
        raise FileError(
            str(stiffness), [f"freedom {i}: there is no node {a} in the node table" for i, a in missing[:10]]
        )
    return _model(str(stiffness), table, pairs, K, M)


def _model(where: str, table: Mapping[int, Array], freedoms: list[tuple[int, int]], K: Any, M: Any) -> NodalModel:
    used = list(dict.fromkeys(node for node, _ in freedoms))
    number = {node: k for k, node in enumerate(used)}
    places = np.array([[number[node], c] for node, c in freedoms], dtype=int).reshape(-1, 2)
    found = NodalModel(np.array([table[node] for node in used]).reshape(-1, 3), places, K, M, number)
    if faults := found.faults():
        raise FileError(where, faults)
    return found


def _text(path: Path) -> str:
    try:
        return read_bounded(path, "file of a flexible body").decode("ascii")
    except UnicodeDecodeError as error:
        raise FileError(str(path), [f"the file is not plain text (byte {error.start})"]) from None


def _positions(nodes: FilePath | Mapping[int, Any]) -> dict[int, Array]:
    """Node -> position."""
    if isinstance(nodes, Mapping):
        return {int(node): np.asarray(at, dtype=float).reshape(3) for node, at in nodes.items()}
    path = Path(nodes)
    lines = _text(path).splitlines()
    starts = [
        k for k, line in enumerate(lines) if line.strip().upper().startswith("*NODE") and "FILE" not in line.upper()
    ]
    chosen = range(starts[0] + 1, len(lines)) if starts else range(len(lines))
    found: dict[int, Array] = {}
    faults = []
    for k in chosen:
        line = lines[k].split("#")[0].strip()
        if line.startswith("*") and starts:
            if line.startswith("**"):
                continue
            break
        if not line or line.startswith("*"):
            continue
        words = line.replace(",", " ").split()
        try:
            node, place = int(words[0]), np.array([float(x) for x in words[1:4]])
            if place.shape != (3,) or not np.all(np.isfinite(place)):
                raise ValueError
        except (ValueError, IndexError):
            if k == 0 and not starts and not words[0].lstrip("+-").isdigit():
                continue  # a line of headings
            faults.append(f"line {k + 1}: expected a node and three finite numbers, found {line[:60]!r}")
            continue
        if node in found:
            faults.append(f"line {k + 1}: node {node} is there twice")
        found[node] = place
    if not found:
        faults.append("there are no nodes in it")
    if faults:
        raise FileError(str(path), faults[:20])
    return found


def _freedoms(path: Path, table: Mapping[int, Array]) -> list[tuple[int, int]]:
    found, faults = [], []
    for k, line in enumerate(_text(path).splitlines()):
        words = line.strip().split(".")
        if not line.strip():
            continue
        try:
            node, direction = int(words[0]), int(words[1])
            if len(words) != 2 or not 1 <= direction <= 6:
                raise ValueError
        except (ValueError, IndexError):
            faults.append(f"line {k + 1}: expected node.direction such as 12.3, found {line.strip()[:40]!r}")
            continue
        if node not in table:
            faults.append(f"line {k + 1}: there is no node {node} in the node table")
        found.append((node, direction - 1))
    if faults:
        raise FileError(str(path), faults[:20])
    return found


def _triangle(path: Path, size: int) -> Any:
    """A symmetric matrix from one triangle, row column value in each line, counted from 1."""
    # Fortran may write exponents with D; commas stand for blanks
    plain = _text(path).replace(",", " ").replace("D", "E").replace("d", "e")
    if not plain.strip():
        raise FileError(str(path), ["the file is empty: expected row, column and value in each line"])
    try:
        entries = np.loadtxt(io.StringIO(plain), ndmin=2)
    except ValueError as error:
        raise FileError(str(path), [f"expected row, column and value in each line: {error}"]) from None
    if entries.shape[1:] != (3,):
        raise FileError(str(path), [f"lines have {entries.shape[1]} numbers, expected row, column and value"])
    bad = np.flatnonzero(~np.isfinite(entries).all(axis=1))
    if len(bad):
        raise FileError(str(path), [f"line {bad[0] + 1}: {entries[bad[0]].tolist()} is not finite"])
    broken = np.flatnonzero((entries[:, :2] != np.round(entries[:, :2])).any(axis=1))
    if len(broken):
        raise FileError(
            str(path),
            [f"line {broken[0] + 1}: rows and columns are whole numbers, found {entries[broken[0]].tolist()}"],
        )
    rows, cols = (entries[:, k].astype(int) - 1 for k in (0, 1))
    if len(rows) and (min(rows.min(), cols.min()) < 0 or max(rows.max(), cols.max()) >= size):
        worst = int(np.argmax(np.maximum(rows, cols)))
        raise FileError(
            str(path), [f"line {worst + 1}: row {rows[worst] + 1} or column {cols[worst] + 1} of {size} freedoms"]
        )
    _, first, counts = np.unique(np.sort(np.stack([rows, cols]), axis=0), axis=1, return_index=True, return_counts=True)
    if len(counts) and counts.max() > 1:
        again = int(first[np.argmax(counts)])
        raise FileError(
            str(path),
            [
                f"line {again + 1}: row {rows[again] + 1}, column {cols[again] + 1} is there twice, as it is or "
                f"transposed: expected one triangle of a symmetric matrix"
            ],
        )
    A = sp.csc_matrix((entries[:, 2], (rows, cols)), shape=(size, size))
    return (A + A.T - sp.diags(A.diagonal())).tocsc()


def _market(path: Path) -> Any:
    try:
        found = scipy.io.mmread(io.BytesIO(read_bounded(path, "file of a flexible body")))
    except (ValueError, OverflowError) as error:
        raise FileError(str(path), [f"this is no Matrix Market file: {error}"]) from None
    A = sp.csc_matrix(found)
    if np.iscomplexobj(A.data):
        raise FileError(str(path), ["the matrix is complex: a stiffness or mass matrix is real"])
    A = A.astype(float)
    if A.shape[0] != A.shape[1]:
        raise FileError(str(path), [f"the matrix has shape {A.shape}, expected a square one"])
    if not np.all(np.isfinite(A.data)):
        raise FileError(str(path), ["the matrix holds a number that is not finite"])
    return A


# --- archives of a single flexible body -------------------------------------------------------------------------------


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
        pose, shapes, slopes = (data[f"frame{k}.{word}"] for word in FRAME_WORDS[:3])
        frames.append(FlexibleFrame.of(name, pose, shapes, slopes, data.get(f"frame{k}.shortening")))
    words = ("stiffness", "damping", "outline", "outline_shapes")
    stiffness, damping, outline, bent = (frozen_array(data[word], data[word].shape) for word in words)
    edges = tuple((int(a), int(b)) for a, b in data["outline_edges"])
    names = tuple(data["modes"].tolist())
    return FlexibleBody(
        frozen_integrals(ModalIntegrals(**given)), stiffness, damping, tuple(frames), names, outline, bent, edges
    )
