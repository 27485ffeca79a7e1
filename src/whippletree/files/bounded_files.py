"""Opening files that somebody else wrote: which of them may be opened, and how much of them is read.

A model file from the network may name any other file, and a few hundred bytes of it can ask for years of work. So every
reader of models and meshes opens files here (:func:`read_bounded`), follows names only to files inside a root folder
(:func:`resolve_inside`), and checks how much work a file asks for before it begins (:data:`limits`).
"""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from whippletree.errors import FileError

_VALUE = re.compile(rb"""=\s*["']""")
_ASIDES = {b"!--": b"-->", b"![CDATA[": b"]]>", b"?": b"?>"}
"""How parts of an XML file begin and end in which tags are none."""
_ENCODING = re.compile(rb"""<\?xml[^>]*?encoding\s*=\s*["']([^"']*)""")
_PLAIN_ENCODINGS = re.compile(
    r"utf-?8|utf-?16([lb]e)?|us-ascii|ascii|iso-8859-\d+|latin-?1|windows-125\d", re.IGNORECASE
)
"""Encodings in which the signs of XML are those of ASCII, perhaps with zero bytes between them."""


@dataclass
class Limits:
    """The most that a file may ask for. A program that means more sets the attribute of :data:`limits`."""

    file_bytes: int = 64 * 2**20
    """Bytes of one file. The largest published models have a few megabytes, the largest meshes some tens."""
    elements: int = 1_000_000
    """Elements of an XML file. A chain of 100 000 links has as many as that; they take about a gigabyte of memory."""
    attributes: int = 1000
    """Attributes of one XML element: lxml and MuJoCo look each of them up among all, in time that grows with the
    square."""
    depth: int = 256
    """Depth of tables or lists inside each other. Recursive functions follow them."""
    xml_depth: int = 500
    """Depth of XML elements inside each other, as those of an MJCF chain of 490 bodies; MuJoCo's parser has the same
    limit. A file with a document type is read to a depth of 250, with all limits of libxml2."""
    mjcf_elements: int = 50_000
    """Elements of an MJCF model after all its copies are made (``replicate``, ``attach``, ``composite``, ``include``):
    MuJoCo's parser takes time with the square of the number of bodies, 10 s for 20 000 with a geom each."""
    mjcf_mesh_resolution: int = 300
    """Resolution of a mesh that MuJoCo makes itself (``builtin``): the convex hull of 1000 × 1000 points takes 18 s."""
    height_cells: int = 4_000_000
    """Cells of a height field, 2000 × 2000. A PNG file of a kilobyte can hold 10⁹."""
    mesh_triangles: int = 2_000_000
    """Triangles of a mesh file, with the copies that a Collada scene makes. The largest STL file has 1.3 million."""
    mesh_instances: int = 10_000
    """Number of nodes in a Collada scene after all copies are made; ten nodes that hold the next one ten times are
    10¹⁰."""
    mesh_seconds: float = 60.0
    """Seconds of processor time for one mesh file, should its numbers be slow to read in spite of the limits above."""


limits = Limits()
"""The limits in force; ``limits.file_bytes = …`` changes one for the whole process."""


def limit_text(name: str, found: str) -> str:
    """A fault about something beyond a limit: what was found, the limit, and how to raise it.

    Args:
        name: The attribute of :class:`Limits`.
        found: How much there is, to be continued by the limit: ``"the file has 3 bytes"``.
    """
    most = getattr(limits, name)
    return f"{found}, the most that is read is {most:,}. If this is meant, raise {__name__}.limits.{name}"


class Stopwatch:
    """Processor time spent on one mesh file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = time.process_time()

    def check(self) -> None:
        """Stop a file that takes too long.

        Raises:
            FileError: after ``limits.mesh_seconds``.
        """
        spent = time.process_time() - self._start
        if spent > limits.mesh_seconds:
            raise FileError(str(self._path), [limit_text("mesh_seconds", f"reading took {spent:.0f} s so far")])


def read_bounded(path: Path, what: str = "model file") -> bytes:
    """The content of a regular file of at most ``limits.file_bytes``; a pipe or a device is not waited for.

    Args:
        path: The file.
        what: What should be there, in words, for messages.

    Raises:
        FileError: it is a folder, a device or a pipe, or too large.
        OSError: it is not there or may not be read.
    """
    if path.is_dir():
        raise FileError(str(path), [f"this is a folder: name the {what} inside it"])
    # opening a pipe would wait for its writer; what was opened is what is looked at
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise FileError(str(path), [f"this is not a regular file (a device or a pipe): name a {what}"])
        data = stream.read(limits.file_bytes + 1)
    if len(data) > limits.file_bytes:
        size = f"the file is larger than {limits.file_bytes / 2**20:g} MiB"
        raise FileError(str(path), [limit_text("file_bytes", size)])
    return data


def check_xml(path: Path, data: bytes) -> int:
    """How deep elements lie inside each other; a file is refused before a parser sees it where that, their number, or
    that of attributes on one of them is too much.

    A ``<`` cannot stand inside an attribute, so between two of them are the attributes of one element at most. Of a
    file with a document type the depth is not known (0): libxml2 keeps its own limit on it, and on what it expands.

    Raises:
        FileError: beyond ``limits.elements``, ``limits.attributes`` or ``limits.xml_depth``, or in an encoding whose
            signs cannot be counted.
    """
    signs = data.replace(b"\0", b"")  # of UTF-16, the bytes that say nothing
    declared = _ENCODING.match(signs[:1000].lstrip(b"\xef\xbb\xbf\xff\xfe \t\r\n"))
    if declared and not _PLAIN_ENCODINGS.fullmatch(encoding := declared[1].decode("latin-1")):
        raise FileError(str(path), [f"line 1: the encoding {encoding!r} is not read: save the file as UTF-8"])
    elements = signs.count(b"<")
    if elements > limits.elements:
        raise FileError(str(path), [limit_text("elements", f"the file has up to {elements:,} XML elements")])
    _check_attributes(path, signs)
    if b"<!DOCTYPE" in signs or b"<!ENTITY" in signs:
        return 0
    depth, line = _deepest(signs)
    if depth > limits.xml_depth:
        found = f"line {line}: {depth:,} XML elements inside each other"
        raise FileError(str(path), [limit_text("xml_depth", found)])
    return depth


def _deepest(signs: bytes) -> tuple[int, int]:
    """The number of elements inside each other where it is largest, and the line of that place."""
    depth, deepest, at, place, end = 0, 0, 0, 0, b""
    for part in signs.split(b"<")[1:]:
        at += 1 + len(part)
        end = end or next((close for open_, close in _ASIDES.items() if part.startswith(open_)), b"")
        if end:
            end = b"" if end in part else end
        elif part.startswith(b"/"):
            depth -= 1
        else:
            depth += 1
            deepest, place = (depth, at) if depth > deepest else (deepest, place)
            depth -= b"/>" in part
    return deepest, 1 + signs.count(b"\n", 0, place)


def _check_attributes(path: Path, signs: bytes) -> None:
    """Refuse an element of too many attributes, by its line."""
    if len(_VALUE.findall(signs)) <= limits.attributes:
        return
    line = 1
    for part in signs.split(b"<"):
        count = 0 if part.startswith((b"!", b"?", b"/")) else len(_VALUE.findall(part))
        if count > limits.attributes:
            found = limit_text("attributes", f"line {line}: an XML element has {count:,} attributes")
            raise FileError(str(path), [found])
        line += part.count(b"\n")


def resolve_inside(root: Path, path: Path) -> Path | None:
    """Where a file lies, every link and ``..`` followed; None if that is outside the root folder, or no regular file.

    This is the only guard between a name in a file and the file that is opened for it.
    """
    try:
        found = Path(os.path.realpath(path))
        return found if found.is_relative_to(os.path.realpath(root)) and found.is_file() else None
    except (OSError, ValueError):  # a name too long for the file system, or with a NUL in it
        return None


def is_inside(root: Path, path: Path) -> bool:
    """Whether a path stays inside a root folder after every link and ``..`` is followed, be there a file or not."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    except (OSError, ValueError):
        return False
