"""XML that somebody else wrote: parsed without entities, document types or network, and read with every fault noted.

lxml is imported only when a file is read: it is slow to import, and most programs never read one.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from whippletree.errors import FileError, quote
from whippletree.files.bounded_files import check_xml
from whippletree.io.draft import Draft

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

# no two parts of these patterns can match the same letters: the time grows with the length, not with its square
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_INFINITE = re.compile(r"[+-]?inf(inity)?", re.IGNORECASE)
_LEADING_SPACE = re.compile(rb"\A(\s+)(<\?xml\s[^>]*>)")
"""Empty lines before the declaration, where XML allows none and published files have some; after it, they do no harm
and the lines keep their numbers."""

_VERSION = re.compile(rb"""(\A(?:\xef\xbb\xbf)?\s*<\?xml\s+version\s*=\s*["'])(?!1\.[01]["'])([^"']*)""")
"""A version of XML that does not exist; published files have 0.0."""

_START_TAG, _VALUE = re.compile(rb"<[A-Za-z_][^<>]*>"), re.compile(rb"""("[^"]*"|'[^']*')([A-Za-z_]?)""")
"""A start tag, and in it the value of an attribute, with the first letter of the next one if no space is between them:
some published files have it so."""

_XACRO = re.compile(r"\$[({]")

PLAIN_DEPTH = 250
"""Elements inside each other up to which libxml2 reads with all of its limits, of which 256 is one."""


def parse(path: Path, data: bytes) -> Element:
    """The root element of an XML file; comments are gone and a default namespace is ignored.

    Nothing outside the file is touched: entities, external document types and network access are off, and libxml2's
    limits hold. Its limit on depth, 256 elements inside each other, is raised for chains of bodies up to
    ``limits.xml_depth``, in files that declare nothing which could be expanded.

    Raises:
        FileError: not well-formed, hostile, too large, or a xacro file that was not expanded.
    """
    from lxml import etree

    depth = check_xml(path, data)
    data = _VERSION.sub(rb"\g<1>1.0", _LEADING_SPACE.sub(rb"\2\1", data), count=1)
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        dtd_validation=False,
        huge_tree=depth > PLAIN_DEPTH,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as error:
        found = dict.fromkeys(f"line {e.line}: not well-formed XML: {e.message}" for e in parser.error_log)
        try:
            root = etree.fromstring(_with_spaces(data), parser)
        except etree.XMLSyntaxError:
            raise FileError(str(path), _xacro_hint(list(found) or [str(error)])) from None
    document_type = root.getroottree().docinfo.internalDTD
    if document_type is not None and list(cast(Any, document_type).iterentities()):
        raise FileError(str(path), ["the file declares XML entities, which are never expanded: write the values out"])
    for element in root.iter():
        if element.prefix is None and isinstance(element.tag, str):
            element.tag = tag_of(element)
    _refuse_xacro(path, root)
    return root


def spelling_notes(data: bytes) -> list[str]:
    """Notes on a file that was read although it is no XML: a version that does not exist, missing spaces."""
    notes = []
    if found := _VERSION.match(data):
        notes.append(f"the file declares XML version {found[2].decode(errors='replace')!r}, and is read as 1.0")
    if glued := [tag for tag in _START_TAG.finditer(data) if any(found[2] for found in _VALUE.finditer(tag[0]))]:
        lines = sorted({data.count(b"\n", 0, tag.start()) + 1 for tag in glued})
        places = ", ".join(map(str, lines))
        notes.append(f"attributes that follow each other without a space are read as if there were one: line {places}")
    return notes


def _with_spaces(data: bytes) -> bytes:
    """A file with a space behind every attribute that has none before the next one."""

    def separate(value: re.Match[bytes]) -> bytes:
        return value[1] + b" " + value[2] if value[2] else value[1]

    return _START_TAG.sub(lambda tag: _VALUE.sub(separate, tag[0]), data)


def _content(element: Element) -> tuple[object, ...]:
    """Tag, attributes, text and children of an element, to be compared."""
    text = (element.text or "").split()
    return element.tag, sorted(element.attrib.items()), text, [_content(child) for child in element]


def line_of(element: Element) -> int | None:
    """The line of the file where an element begins."""
    return cast("int | None", element.sourceline)  # the stubs of lxml do not know its type


def tag_of(element: Element) -> str:
    """An element's tag without its namespace."""
    return str(element.tag).rpartition("}")[2]


def _xacro_hint(faults: list[str]) -> list[str]:
    if any("Namespace prefix xacro" in fault for fault in faults):
        faults.append("this is a xacro file: expand it first (xacro FILE > robot.urdf) and load the result")
    return faults


def _refuse_xacro(path: Path, root: Element) -> None:
    for element in root.iter():
        found = f"<xacro:{tag_of(element)}>" if element.prefix == "xacro" else ""
        for key, value in element.attrib.items():
            if not found and root.tag == "robot" and _XACRO.search(str(value)):
                found = f"{key!s}={quote(str(value))}"
        if found:
            fault = f"line {line_of(element)}: {found} is xacro, a macro language on top of URDF: "
            raise FileError(str(path), [fault + "expand it first (xacro FILE > robot.urdf) and load the result"])


def parse_number(text: str, *, infinite: bool = False) -> float:
    """A decimal number, finite unless ``infinite`` allows ±inf.

    Raises:
        ValueError: saying what the text is instead; the message continues a sentence about the text.
    """
    text = text.strip()
    if infinite and _INFINITE.fullmatch(text):
        return float(text)
    if not _NUMBER.fullmatch(text):
        raise ValueError(
            "is not a finite number" if text.lower().strip("+-")[:3] in ("nan", "inf") else "is not a number"
        )
    value = float(text)
    if math.isinf(value):
        raise ValueError("is too large for a float")
    return value


class Reader:
    """Reads attributes and children of elements; what is wrong becomes a fault, and a harmless value is returned."""

    def __init__(self, draft: Draft, owners: tuple[str, ...]) -> None:
        self.draft = draft
        self.owners = owners
        """Tags of the elements by whose name a fault is placed: link, joint, …"""

    def where(self, element: Element) -> str:
        """The place of a fault in this element, by name: ``joint 'elbow': <limit>``."""
        for ancestor in (element, *element.iterancestors()):
            if ancestor.tag in self.owners:
                name = ancestor.get("name")
                owner = f"{ancestor.tag} {name!r}" if name else f"a {ancestor.tag}"
                return owner if ancestor is element else f"{owner}: <{element.tag}>"
        return f"<{element.tag}>"

    def fault(self, element: Element, text: str) -> None:
        """Note a fault at an element."""
        self.draft.fault(f"{self.where(element)} {text}", line_of(element))

    def child(self, element: Element, tag: str, *, required: bool = False) -> Element | None:
        """The only child with a tag."""
        found = element.findall(tag)
        if not found and required:
            self.fault(element, f"has no <{tag}>")
        if len(found) > 1 and all(_content(other) == _content(found[0]) for other in found[1:]):
            self.draft.notes.append(f"{self.where(found[1])} comes {len(found)} times, each time the same")
        elif len(found) > 1:
            self.fault(found[1], f"comes {len(found)} times, expected once")
        return found[0] if found else None

    def text(self, element: Element, key: str) -> str:
        """A required attribute."""
        value = element.get(key)
        if value is None or not value.strip():
            self.fault(element, f"has no {key}" if value is None else f"has an empty {key}")
            return ""
        return str(value)

    def number(self, element: Element, key: str, default: float | None = None, *, infinite: bool = False) -> float:
        """An attribute that is one number; required where there is no default."""
        value = element.get(key)
        if value is None and default is not None:
            return default
        if value is None:
            self.fault(element, f"has no {key}")
            return 0.0
        try:
            return parse_number(value, infinite=infinite)
        except ValueError as reason:
            self.fault(element, f"{key}={quote(str(value))} {reason}")
            return default or 0.0

    def numbers(self, element: Element, key: str, default: tuple[float, ...]) -> tuple[float, ...]:
        """An attribute that is as many numbers as the default has."""
        value = element.get(key)
        if value is None:
            return default
        words = value.split()
        if len(words) != len(default):
            self.fault(element, f"{key}={quote(str(value))} has {len(words)} numbers, expected {len(default)}")
            return default
        try:
            return tuple(parse_number(word) for word in words)
        except ValueError:
            self.fault(element, f"{key}={quote(str(value))} holds something that is not a finite number")
            return default
