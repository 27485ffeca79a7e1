"""Requests of an MJCF model to MuJoCo's parser, worked out before that parser sees it.

MuJoCo follows ``<model file=…>`` for as long as files name files, copies for as long as ``replicate`` and ``attach``
ask for it, and cannot be interrupted. So all files of a model are collected here, circles among them are refused, and
the number of elements after copying is counted.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from whippletree.errors import quote, route
from whippletree.files.bounded_files import is_inside, limit_text, limits, resolve_inside
from whippletree.io import xml
from whippletree.io.draft import Draft
from whippletree.io.paths import package_folder, read_bytes

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_NAN = re.compile(r"(?<![\w.])[+-]?(nan|inf)(?![\w.])", re.IGNORECASE)
_OTHER_FILES = ("include", "model")
"""Elements that make MuJoCo's parser open another model file."""


@dataclass
class _Source:
    """One file of a model."""

    path: Path
    root: Element
    leads_to: dict[Element, Path] = field(default_factory=dict)
    """The file that each of its elements opens."""


def other_files(draft: Draft, root: Element, folder: Path | None = None) -> dict[str, bytes]:
    """The content of every file that the model includes, by the name it uses; MuJoCo sees these and no others.

    Faults go to the draft: files that do not exist or lie outside, circles of files, too much work for the parser.

    Args:
        draft: The model on its way.
        root: The element ``<mujoco>`` of the model file.
        folder: The folder that all files must be in; that of the model's package if None.
    """
    folder = package_folder(draft.path) if folder is None else folder
    main = Path(os.path.realpath(draft.path))
    contents: dict[str, bytes] = {}
    sources = {main: _Source(main, root)}
    waiting = [main]
    while waiting:
        source = sources[waiting.pop()]
        in_file = "" if source.path == main else f" in {source.path.name!r}"
        for part in source.root.iter():
            line = xml.line_of(part)
            _refuse_parts(draft, part, line, in_file)
            name = part.get("file")
            if part.tag not in _OTHER_FILES or name is None:
                continue
            found = _find(draft.path, source.path, str(name))
            if found is None:
                draft.fault(f"<{part.tag}> names the file {name!r}{in_file}, which does not exist", line)
            elif not is_inside(folder, found):
                draft.fault(
                    f"<{part.tag}> names {name!r}{in_file}, outside the model's folder: it is not opened. "
                    f"wt.load(…, root=FOLDER) names a wider one",
                    line,
                )
            else:
                source.leads_to[part] = found
                if name not in contents:
                    contents[str(name)] = read_bytes(found)
                if found not in sources:
                    sources[found] = _Source(found, xml.parse(found, contents[str(name)]))
                    waiting.append(found)
    draft.stop_if_faulty()
    _Expansion(draft, sources, main).check()
    return contents


def _find(model: Path, source: Path, name: str) -> Path | None:
    """Where a file lies that another one names: beside the model, or beside the one that names it."""
    candidates = (resolve_inside(Path(path.anchor or "/"), path.parent / name) for path in (model.absolute(), source))
    return next((path for path in candidates if path is not None), None)


def _refuse_parts(draft: Draft, part: Element, line: int | None, in_file: str) -> None:
    """Note what must not reach MuJoCo's parser: it lets NaN pass, and a flexcomp may name any file."""
    if part.tag in ("flex", "flexcomp", "deformable"):
        draft.fault(f"<{part.tag}>{in_file}: deformable bodies are not supported", line)
    for key, value in part.attrib.items():
        if key not in ("name", "class", "childclass") and _NAN.search(str(value)):
            shown = quote(str(value))
            draft.fault(f"<{part.tag}>{in_file} {key!s}={shown} holds something that is not a finite number", line)
    cells = _product(part.get("nrow"), part.get("ncol"))
    if cells > limits.height_cells:
        draft.fault(limit_text("height_cells", f"<{part.tag}>{in_file} has {cells:,} heights"), line)
    finest = max(_counts(part.get("params"))[:2], default=0) if part.get("builtin") else 0
    if part.tag == "mesh" and finest > limits.mjcf_mesh_resolution:
        draft.fault(limit_text("mjcf_mesh_resolution", f"<mesh>{in_file} asks for a resolution of {finest:,}"), line)


def _counts(text: str | None) -> list[int]:
    """The whole numbers of an attribute, at least 1 each; MuJoCo says what is wrong with others."""
    numbers: list[int] = []
    for word in (text or "").split():
        try:
            number = float(word)
        except ValueError:
            number = 1
        numbers.append(max(1, int(number)) if math.isfinite(number) else limits.mjcf_elements + 1)
    return numbers


def _product(*texts: str | None) -> int:
    return math.prod(number for text in texts for number in _counts(text))


_Node: TypeAlias = tuple[Path, Path]
"""A document, which is the model file or one that a ``<model>`` names, and a file that is included in it."""


class _Expansion:
    """Counts the elements of a model after all its copies are made."""

    def __init__(self, draft: Draft, sources: dict[Path, _Source], main: Path) -> None:
        self._draft = draft
        self._sources = sources
        self._main = main
        self._sizes: dict[_Node, int] = {}
        """Elements that a file adds to a document."""
        self._work: dict[Path, int] = {}
        """Elements that MuJoCo makes for a document: its own, and those of the models from which it copies."""
        self._models: dict[Path, list[tuple[str, Path]]] = {}

    def check(self) -> None:
        """Note circles of files, chains that are too long, and the first element that makes too many copies."""
        first = (self._main, self._main)
        chain = {first: self._references(*first)}
        while chain:
            node, references = next(reversed(chain.items()))
            part, needed = next(references, (None, node))
            if part is None:
                chain.pop(node)
                self._finish(*node)
            elif needed in chain or len(chain) > limits.depth:
                self._refuse_chain(part, [*chain, needed])
                return
            elif needed not in self._sizes:
                chain[needed] = self._references(*needed)

    def _references(self, document: Path, path: Path) -> Iterator[tuple[Element, _Node]]:
        """The elements of a file that need the size of another one, with that file."""
        source = self._sources[path]
        for part, found in source.leads_to.items():
            yield part, (found if part.tag == "model" else document, found)
        for part in source.root.iter("attach"):
            for found in self._attached_files(part, document):
                yield part, (found, found)

    def _finish(self, document: Path, path: Path) -> None:
        root = self._sources[path].root
        self._sizes[document, path] = size = self._size(root, document, path)
        if path == document:
            self._work[document] = size + sum(self._work[found] for _, found in self._models_of(document))
            self._refuse_copies(root, path, self._work[document])

    def _attached_files(self, part: Element, document: Path) -> list[Path]:
        """The files that an ``<attach>`` of a document may mean."""
        return [found for name, found in self._models_of(document) if name == part.get("model")]

    def _models_of(self, document: Path) -> list[tuple[str, Path]]:
        """The files from which a document may copy, with the names under which an ``<attach>`` knows them."""
        if document not in self._models:
            names: list[tuple[str, Path]] = []
            waiting, seen = [document], {document}
            while waiting:
                for part, found in self._sources[waiting.pop()].leads_to.items():
                    if part.tag == "model":
                        names.append((part.get("name") or self._sources[found].root.get("model") or "", found))
                    elif found not in seen:
                        seen.add(found)
                        waiting.append(found)
            self._models[document] = names
        return self._models[document]

    def _refuse_chain(self, part: Element, chain: list[_Node]) -> None:
        place = self._place(chain[-2][1])
        line = xml.line_of(part)
        if chain[-1] in chain[:-1]:
            circle = route([path.name for _, path in chain[chain.index(chain[-1]) :]], "→")
            text = "leads back to a file that is already included"
            self._draft.fault(f"<{part.tag}>{place} {text}: {circle}. Remove one of these", line)
        else:
            self._draft.fault(limit_text("depth", f"<{part.tag}>{place}: {len(chain)} files name each other"), line)

    def _place(self, path: Path) -> str:
        return "" if path == self._main else f" in {path.name!r}"

    def _size(self, element: Element, document: Path, path: Path) -> int:
        """Elements that an element stands for; ``limits.xml_depth`` bounds the recursion."""
        own = 1 + sum(self._size(child, document, path) for child in element)
        opened = self._sources[path].leads_to.get(element)
        if opened is not None and element.tag == "include":
            own += self._sizes[document, opened]
        if element.tag == "attach":
            own += max((self._sizes[found, found] for found in self._attached_files(element, document)), default=0)
        if element.tag in ("replicate", "composite"):
            own *= _product(element.get("count"))
        self._refuse_copies(element, path, own)
        return own

    def _refuse_copies(self, element: Element, path: Path, count: int) -> None:
        """Stop at the innermost element that asks for too much."""
        if count > limits.mjcf_elements:
            found = f"<{element.tag}>{self._place(path)} makes {count:,} elements, copies included"
            self._draft.fault(limit_text("mjcf_elements", found), xml.line_of(element))
            self._draft.stop_if_faulty()
