"""The library CoACD in a process of its own, which runs this file and imports nothing else of ours.

A mesh that it cannot cope with may end the process that it runs in or keep it for hours, and it cannot be interrupted.
Input and output are archives of arrays (``.npz``):

    in     vertices (n, 3), faces (m, 3), part (m,): which part each triangle is of, tolerance ()
    out    points (k, 3), counts (p,): the corners of all pieces, and how many each piece has
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any

import numpy as np

SEED = 0
"""Seed of the search for the best cuts, so that a mesh has the same pieces every time."""


def main() -> None:
    """Read a mesh from standard input and write its pieces to standard output."""
    # whatever the library prints goes elsewhere
    out = os.dup(1)
    os.dup2(2, 1)
    given = np.load(io.BytesIO(sys.stdin.buffer.read()), allow_pickle=False)
    pieces = [piece for part in np.unique(given["part"]) for piece in _pieces_of(part, given)]
    answer = io.BytesIO()
    np.savez(answer, points=np.concatenate(pieces), counts=np.array([len(piece) for piece in pieces]))
    with open(out, "wb") as stream:
        stream.write(answer.getvalue())


def _pieces_of(part: int, given: Any) -> list[Any]:
    import coacd

    coacd.set_log_level("off")
    faces = given["faces"][given["part"] == part]
    used, own = np.unique(faces, return_inverse=True)
    mesh = coacd.Mesh(given["vertices"][used], own.reshape(-1, 3))
    # the mesh is closed, so nothing has to be filled or made anew; the threshold is a length, in the mesh's unit
    options = {"preprocess_mode": "off", "real_metric": True, "seed": SEED}
    return [corners for corners, _ in coacd.run_coacd(mesh, threshold=float(given["tolerance"]), **options)]


if __name__ == "__main__":
    main()
