"""A model on its way from a file: its builder, the lines its parts came from, what is wrong, and what to tell."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import FileError, Hints, ModelError, list_items, warn_caller
from whippletree.io import rotations
from whippletree.io.paths import exists_elsewhere, find_mesh
from whippletree.model import EARTH_GRAVITY, Body, Model, Vector
from whippletree.model.builder import Builder
from whippletree.model.faults import inertia_faults
from whippletree.model.frozen import frozen_array, inertia_matrix
from whippletree.spatial.vectors import ROTATION_NOISE

# how the builder's messages begin: kind and name of the part that is wrong
_SUBJECT = re.compile(
    r"(body or frame|body|joint|key frame|frame|constraint|geometry|contact|actuator|tendon|fluid box|lift|sensor) "
    r"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
)

MOST_TURNS = 4 * np.pi
"""rad: ends of a range beyond two turns are rarely meant."""

MOST_DEGREES = 1080
"""Larger numbers mean a range without end, in whatever unit."""


class Draft:
    """Collects a model and its faults; :meth:`finish` gives the model or raises one error that lists every fault."""

    def __init__(
        self,
        path: Path,
        name: str,
        gravity: Vector = EARTH_GRAVITY,
        *,
        folder: Path | None = None,
        cut: Iterable[str] = (),
    ) -> None:
        self.path = path
        self.cut = tuple(cut)
        """Names of joints at which loops are opened."""
        self.folder = folder
        """The folder that all other files of the model must be in; None for the one that its format means."""
        self.builder = Builder(name, gravity)
        self.included: tuple[str, ...] = ()
        """Names of other files that were read as part of this one."""
        self.notes: list[str] = []
        """For people: what was assumed, cleaned or not used. Ends up in ``model.source``."""
        self.unused: Counter[str] = Counter()
        """Parts of the file that say nothing to this library, by name."""
        self.left_out: dict[str, list[str]] = {}
        """Mechanics of the file that the model does not take over: kind, and names."""
        self.doubts: list[str] = []
        """Statements taken as they stand that are probably not meant: noted in ``model.source`` and in one warning."""
        self.missing: dict[str, str] = {}
        """Mesh files that are not there, and the first shape that asks for each."""
        self.hint = Hints()
        """Suggests a known name for one that is misspelt; not for thousands of them."""
        self._faults: list[tuple[int, str]] = []
        self._lines: dict[tuple[str, str], list[int]] = {}
        self._unphysical: dict[str, Body] = {}
        self._cleaned = 0

    def fault(self, text: str, line: int | None = None) -> None:
        """Something is wrong; reading goes on, to find everything else that is."""
        self._faults.append((line or 0, f"line {line}: {text}" if line else text))

    def leave_out(self, kind: str, *names: str) -> None:
        """Something that acts in the file, and not in the model: noted in ``model.source`` and in one warning."""
        self.left_out.setdefault(kind, []).extend(names)

    def declare(self, kind: str, name: str, line: int | None) -> None:
        """Remember where a part is declared, so that the builder's faults about it get a line."""
        if line:
            self._lines.setdefault((kind, name), []).append(line)

    def body(self, name: str, mass: Any, center: Any, inertia: Any, line: int | None = None) -> None:
        """Add a body. An inertia that no mass distribution has is kept, with a note: many published robots have one."""
        self.declare("body", name, line)
        try:
            body = Body(name, mass, frozen_array(center, (3,)), inertia_matrix(inertia))
            hollow = Body(name, mass, body.center)
        except (TypeError, ValueError):  # the builder will say what is wrong with it
            self.builder.body(name, mass, center, inertia)
            return
        unphysical = [] if inertia_faults([hollow]) else inertia_faults([body])
        if any("triangle" in fault for fault in unphysical):
            self._unphysical[name] = body
            self.builder.body(name, mass, center)
        else:
            self.builder.body(name, mass, center, inertia)

    def rotation(self, matrix: Array) -> Array:
        """A rotation freed of rounding noise; how many were is noted."""
        cleaned, changed = rotations.clean(matrix)
        self._cleaned += changed
        return cleaned

    def mesh_file(self, name: str, of: str, touches: bool) -> Path | None:
        """The file of a mesh that shape ``of`` has, where it may be opened; one that lies elsewhere is noted by name.

        ``touches``: whether the shape is one of collisions, and not of pictures only.
        """
        found = find_mesh(name, self.path, self.folder)
        if found is None and exists_elsewhere(name, self.path):
            kind = "outside the model's folder, which are not opened (root= names a wider one)"
            if touches:
                self.leave_out(f"collision meshes {kind}", f"{of} ({name})")
            else:
                self.notes.append(f"meshes of pictures {kind}: {of!r} ({name!r})")
        elif found is None:
            self.missing.setdefault(name, of)
        return found

    def stop_if_faulty(self) -> None:
        """Raise what was found so far, in the order of the lines.

        Raises:
            FileError: with every fault.
        """
        if self._faults:
            raise FileError(str(self.path), [text for _, text in sorted(self._faults, key=lambda fault: fault[0])])

    def finish(self, kind: str, source: str | None = None) -> Model:
        """The finished model; ``kind`` names the file format, ``source`` replaces the report.

        Raises:
            FileError: with every fault, those that the builder found included.
        """
        self._suspect_degrees()
        try:
            self.builder.source = self._report(kind) if source is None else source
            model = self.builder.build(cut=self.cut)
        except ModelError as error:
            for text in error.faults:
                self._builder_fault(text)
        self.stop_if_faulty()
        if self.left_out:
            warn_caller(
                f"load: {self.path.name}: left out of the model: {'; '.join(self._left_out())}. The model's source "
                f"tells more"
            )
        if self.doubts:
            warn_caller(f"load: {self.path.name}: taken as it stands: {list_items(self.doubts)}", UserWarning)
        bodies = (self._unphysical.get(body.name, body) for body in model.bodies)
        return replace(model, bodies=tuple(bodies)) if self._unphysical else model

    def extend(self, model: Model, cut: Iterable[str]) -> Model:
        """A finished model with the joints of this draft, each of which closes a loop.

        Raises:
            FileError: with every fault, those that the builder found included.
        """
        try:
            return self.builder.add_to(model, cut=cut)
        except ModelError as error:
            for text in error.faults:
                self._builder_fault(text)
        self.stop_if_faulty()
        return model

    def _builder_fault(self, text: str) -> None:
        """Add a fault of the builder with the line, or the lines, of the part that it names."""
        match = _SUBJECT.match(text)
        lines: list[int] = []
        if match:
            kind = "body" if match[1] == "body or frame" else match[1]
            lines = self._lines.get((kind, ast.literal_eval(match[2])), [])
        if len(lines) > 1:
            self._faults.append((lines[0], f"lines {list_items(map(str, lines))}: {text}"))
        else:
            self.fault(text, lines[0] if lines else None)

    def _suspect_degrees(self) -> None:
        """Tell of angles that would be many turns in radians, and are common numbers of degrees."""
        for joint in self.builder.joints:
            ends = [abs(end) for end in (joint.lower, joint.upper) if np.isfinite(end)]
            if joint.kind == "revolute" and ends and MOST_TURNS < max(ends) <= MOST_DEGREES:
                self.doubts.append(
                    f"joint {joint.name!r} from {joint.lower:g} to {joint.upper:g} rad: are these degrees?"
                )

    def _place(self, kind: str, name: str) -> str:
        lines = self._lines.get((kind, name), [])
        return f" (line {lines[0]})" if lines else ""

    def _left_out(self) -> list[str]:
        """``tendons: 'a', 'b'``, one text for each kind."""
        return [f"{kind}: {list_items(map(repr, names))}" if names else kind for kind, names in self.left_out.items()]

    def _report(self, kind: str) -> str:
        notes = list(self.notes)
        if self._unphysical:
            names = list_items(f"{name!r}" + self._place("body", name) for name in self._unphysical)
            notes.append(f"kept, though no distribution of mass has such inertias (triangle inequality): {names}")
        if self._cleaned:
            notes.append(
                f"freed {self._cleaned} rotation{'s' * (self._cleaned > 1)} of rounding noise: "
                f"entries within {ROTATION_NOISE:g} of 0 or ±1 are exactly that"
            )
        notes += [f"doubtful: {text}" for text in self.doubts]
        if self.missing:
            names = list_items(f"{file!r} of {shape!r}" for file, shape in self.missing.items())
            notes.append(f"not there: the mesh files {names}")
        notes += [f"{LEFT_OUT}{text}" for text in self._left_out()]
        if self.unused:
            notes.append("not used: " + ", ".join(count_names(self.unused)))
        return "\n".join([f"{kind} file {str(self.path)!r}", *(f"- {note}" for note in notes)])


LEFT_OUT = "left out: "
"""Begins a note about what loading has left out."""


def left_out(source: str) -> list[str]:
    """The notes of a model's ``source`` about what loading has left out."""
    mark = f"- {LEFT_OUT}"
    return [line.removeprefix(mark) for line in source.splitlines() if line.startswith(mark)]


def count_names(names: Counter[str]) -> Iterable[str]:
    """Names with how often each came, where that is more than once."""
    return (name if count == 1 else f"{count} × {name}" for name, count in sorted(names.items()))


def fresh(name: str, taken: Iterable[str]) -> str:
    """The name itself, or with the smallest number that makes it different from those taken."""
    taken = taken if isinstance(taken, (set, frozenset, dict)) else set(taken)
    if name not in taken:
        return name
    return next(candidate for k in range(2, len(taken) + 3) if (candidate := f"{name}_{k}") not in taken)
