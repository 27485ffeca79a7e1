"""MJCF: MuJoCo's files, through MuJoCo's own parser (extra ``mjcf``).

MuJoCo resolves defaults, angle units, frames, orientations and inertias from geoms; nothing of that is written again
here. Its compiler refuses massless bodies, though. So a copy of the parsed model is compiled with a lower bound on
mass that only massless bodies meet, and wherever a compiled number *is* that bound, the model gets the 0 that the file
meant.

What becomes of it (:mod:`whippletree.io.mjcf.bodies`): each joint of a body is a joint, through massless bodies in
between where a body has several; q is MuJoCo's qpos, joint by joint (``ref`` included). Equalities are constraints,
sites are frames, geoms that may touch are contacts (:mod:`~whippletree.io.mjcf.collisions`), actuators are actuators
and key frames key frames (:mod:`~whippletree.io.mjcf.actuators`), of which ``home`` is the start state. Tendons and
fluids are elements of force (:mod:`~whippletree.io.mjcf.elements`), sensors sensors
(:mod:`~whippletree.io.mjcf.mjcf_sensors`). What these leave out, and the softness of contacts, limits and equalities
(solref, solimp), is named in ``model.source`` and in one warning. ``contacts``, ``limits`` and ``actuators`` of
``wt.load`` say what is wanted at all.

Files are opened only near the model: included ones in its own folder, and meshes, where a body takes its inertia from
one, and height fields in that folder or the one above it.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whippletree.errors import FileError, MissingExtraError
from whippletree.io.draft import Draft
from whippletree.io.mjcf import bodies
from whippletree.io.mjcf import spec as mjcf_spec
from whippletree.io.mjcf.included_files import other_files
from whippletree.model import Model

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_LINE = re.compile(r"[Ll]ine (?:number=)?(\d+)")


def read(
    path: Path,
    data: bytes,
    root: Element,
    *,
    base: str,
    folder: Path | None = None,
    contacts: bool = True,
    actuators: bool = True,
    cut: Sequence[str] = (),
) -> Model:
    """A model from an MJCF file, with its contacts and actuators or without.

    Raises:
        FileError: listing every fault found before MuJoCo's parser, or its first one, with its line.
        MissingExtraError: MuJoCo is not installed.
    """
    try:
        import mujoco
    except ImportError:
        raise MissingExtraError("reading MJCF", "mujoco", "mjcf") from None
    draft = Draft(path, root.get("model") or path.stem, folder=folder, cut=cut)
    others = other_files(draft, root, folder)
    draft.stop_if_faulty()
    draft.included = tuple(others)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError(str(path), [f"the file is not UTF-8 text (byte {error.start})"]) from None
    spec = _ask(draft, lambda: mujoco.MjSpec.from_string(text, include=others))
    parts = mjcf_spec.prepare(draft, spec, actuators)
    draft.stop_if_faulty()
    parts.masses = _ask(draft, parts.mass_spec.compile)
    parts.poses = _ask(draft, parts.pose_spec.compile)
    bodies.convert(draft, parts, base, contacts)
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
