"""MJCF: MuJoCo's files, through MuJoCo's own parser (extra ``mjcf``).

MuJoCo resolves defaults, angle units, frames, orientations and inertias from geoms; nothing of that is written again
here. Its compiler refuses massless bodies, though. So a copy of the parsed model is compiled with a lower bound on
mass that only massless bodies meet, and wherever a compiled number *is* that bound, the model gets the 0 that the file
meant.

What becomes of it (:mod:`whippletree.io.mjcf_model`): each joint of a body is a joint, through massless bodies in
between where a body has several; q is MuJoCo's qpos, joint by joint (``ref`` included). Equalities are constraints,
sites are frames, the key frame ``home`` is the start state, declared pairs of geoms are contacts. Actuators, sensors,
tendons (but for equalities of their lengths) and the softness of contacts and equalities (solref, solimp) are not used;
their names are in ``model.source``.

Files are opened only near the model: included ones in its own folder, and meshes, where a body takes its inertia from
one, and height fields in that folder or the one above it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whippletree.errors import FileError, MissingExtraError
from whippletree.io import markup, mjcf_model, mjcf_spec
from whippletree.io.draft import Draft
from whippletree.io.files import inside, read_bytes
from whippletree.model import Model

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_LINE = re.compile(r"[Ll]ine (?:number=)?(\d+)")
_NAN = re.compile(r"(?<![\w.])[+-]?(nan|inf)(?![\w.])", re.IGNORECASE)
_OTHER_FILES = ("include", "model")
"""Elements that make MuJoCo's parser open another model file."""


def read(path: Path, data: bytes, root: Element, *, base: str) -> Model:
    """A model from an MJCF file.

    Raises:
        FileError: listing every fault found before MuJoCo's parser, or its first one, with its line.
        MissingExtraError: MuJoCo is not installed.
    """
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("reading MJCF", "mujoco", "mjcf") from None
    draft = Draft(path, root.get("model") or path.stem)
    others = _other_files(draft, root)
    draft.stop_if_faulty()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(str(path), [f"the file is not UTF-8 text (byte {error.start})"]) from None
    spec = _ask(draft, lambda: mujoco.MjSpec.from_string(text, include=others))
    parts = mjcf_spec.prepare(draft, spec)
    draft.stop_if_faulty()
    parts.masses = _ask(draft, parts.mass_spec.compile)
    parts.poses = _ask(draft, parts.pose_spec.compile)
    mjcf_model.convert(draft, parts, base)
    return draft.finish("MJCF")


def _ask(draft: Draft, question: Callable[[], Any]) -> Any:
    """MuJoCo's answer; its errors become ours, and its warnings notes instead of a log file in the current folder."""
    import mujoco

    heard: list[str] = []
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(heard.append)
    try:
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            answer = question()
        heard += [str(warning.message) for warning in shown]
    except (ValueError, RuntimeError) as error:
        lines = _LINE.findall(str(error))
        said = "; ".join(part.strip() for part in str(error).strip().splitlines() if part.strip())
        draft.fault(f"MuJoCo says: {said}", int(lines[-1]) if lines else None)
    finally:
        mujoco.set_mju_user_warning(before)
    draft.notes.extend(f"MuJoCo says: {' '.join(text.split())}" for text in dict.fromkeys(heard))
    draft.stop_if_faulty()
    return answer


def _other_files(draft: Draft, root: Element) -> dict[str, bytes]:
    """The content of every file that the model includes, by the name it uses; MuJoCo sees these and no others."""
    contents: dict[str, bytes] = {}
    waiting = [(draft.path, root)]
    while waiting:
        source, element = waiting.pop()
        in_file = "" if source == draft.path else f" in {source.name!r}"
        for part in element.iter():
            line = markup.line_of(part)
            _refuse_parts(draft, part, line, in_file)
            name = part.get("file")
            if part.tag not in _OTHER_FILES or name is None or name in contents:
                continue
            found = next((p for folder in (draft.path, source) if (p := folder.parent / name).is_file()), None)
            if found is None:
                draft.fault(f"<{part.tag}> names the file {name!r}{in_file}, which does not exist", line)
            elif not inside(draft.path.parent, found):
                draft.fault(f"<{part.tag}> names {name!r}{in_file}, outside the model's folder: it is not opened", line)
            else:
                contents[name] = read_bytes(found)
                waiting.append((found, markup.parse(found, contents[name])))
    return contents


def _refuse_parts(draft: Draft, part: Element, line: int | None, in_file: str) -> None:
    """What must not reach MuJoCo's parser: it lets NaN pass, and a flexcomp may name any file."""
    if part.tag in ("flex", "flexcomp", "deformable"):
        draft.fault(f"<{part.tag}>{in_file}: deformable bodies are not supported", line)
    for key, value in part.attrib.items():
        if key not in ("name", "class", "childclass") and _NAN.search(str(value)):
            draft.fault(
                f"<{part.tag}>{in_file} {key!s}={str(value)!r} holds something that is not a finite number", line
            )
