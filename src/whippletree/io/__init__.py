"""Files to models and back.

:func:`load` reads URDF, SDF, MJCF and this library's own files; :func:`save` writes the latter. Each format has its own
reader, which is imported when it is first needed and produces a :class:`~whippletree.model.Model`.

    urdf, sdf, mjcf, native   one folder for each format
    loops_file                loops for a model whose format has none
    draft                     a model while it is read: builder, line numbers, faults, notes
    paths, xml, rotations     what the readers share

Constraints that files bring are those of :mod:`whippletree.constraints`: a URDF mimic, an SDF gearbox and an MJCF joint
equality are a ``coupling``; SDF joints that close a loop, MJCF connect and weld tie two frames. ``active`` is False
where the file switches one off. A kind that no other layer knows (``unresolved_coupling``: a mimic whose leader the
file lacks; ``mjcf_…`` and ``sdf_…``: one that only those have) is kept all the same, so that evaluating the model
refuses it instead of ignoring it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from whippletree.errors import FileError, UnsupportedError, did_you_mean, quote
from whippletree.io.paths import read_bytes
from whippletree.model import Model, require_model
from whippletree.model.contact_pairs import with_contacts
from whippletree.model.force_elements import Tendon
from whippletree.model.input_checks import as_names

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

__all__ = ["load", "save"]

_XML = (".urdf", ".xml", ".mjcf", ".sdf")
_NATIVE = (".toml", ".json")
BASES = ("fixed", "free")


def load(
    path: str | os.PathLike[str],
    *,
    base: str = "fixed",
    loops: str | os.PathLike[str] | None = None,
    root: str | os.PathLike[str] | None = None,
    contacts: bool | None = None,
    limits: bool = True,
    actuators: bool = True,
    cut: Sequence[str] = (),
) -> Model:
    """A model from a file: URDF, SDF, MJCF (extra ``mjcf``), or a native ``.toml`` or ``.json`` file.

    The dialect of XML is read off its root element, not its suffix. What a file says of the mechanics and the model
    does not take over is listed by name, in ``model.source`` and in one :class:`~whippletree.errors.LeftOutWarning`.

    Args:
        path: The file.
        base: How the root of a URDF or SDF model stands in the world: ``"fixed"`` welds it, ``"free"`` lets it float.
            An MJCF file says so itself; there ``"free"`` lets a welded root body float. A native file is complete and
            takes no base.
        loops: A ``.toml`` or ``.json`` file with joints, frames and constraints to add
            (:mod:`whippletree.io.loops_file`): the loops that a URDF cannot say; or the ``.yaml`` of a collection of
            closed-loop robots. Nothing is looked for by itself; a file
            ``robot.loops.toml`` beside ``robot.urdf`` that was not asked for is mentioned in ``model.source``.
        root: The folder that all other files of the model (meshes, included files) must be in. Default: the folder of
            its package (ROS: the one with ``package.xml``; Python: the outermost with ``__init__.py``), else that of
            the model file, of MJCF meshes also those beside it. Nothing outside is opened.
        contacts: Whether shapes may touch. Default: those that the file lets touch, by the rules of its format; a URDF
            or SDF file has shapes, but no such rules. ``True`` lets all shapes of such a file touch that are no
            neighbours, as ``wt.with_contacts`` does; ``False`` none.
        limits: Whether joints and tendons keep the ends of their ranges.
        actuators: Whether actuators are taken over.
        cut: Names of joints at which loops of joints are opened. Default: those that the file names (native files,
            loops files), else, in each loop, the joint declared last; of SDF every joint but the first that names a
            link as its child. ``model.source`` and ``wt.diagnose`` say what was cut.

    Raises:
        FileError: the file cannot be used; lists every fault with its line.
        FileNotFoundError: there is no such file.
        MissingExtraError: an MJCF file without the extra ``mjcf`` installed.
        UnsupportedError: a format or a request that this version does not serve.
    """
    if base not in BASES:
        raise UnsupportedError(f"load: base is {base!r}, expected 'fixed' or 'free'{did_you_mean(base, BASES)}")
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"load: expected the path of a model file, got {quote(path)}")
    path = Path(path)
    cut = as_names(cut)
    model = _load(path, base, _folder(root), contacts is not False, actuators, () if loops is not None else cut)
    model = _with_choices(model, contacts, limits, actuators)
    if loops is not None:
        if Path(loops).suffix.lower() in (".yaml", ".yml"):
            from whippletree.io.loops_file import with_yaml_loops

            return with_yaml_loops(model, Path(loops))
        from whippletree.io.loops_file import with_loops

        return with_loops(model, Path(loops), cut)
    beside = path.with_suffix(".loops.toml")
    if beside != path and beside.is_file():
        note = f"- not used: {str(beside)!r} lies beside the file; ask for it with loops="
        return replace(model, source=f"{model.source}\n{note}")
    return model


def _with_choices(model: Model, contacts: bool | None, limits: bool, actuators: bool) -> Model:
    """The model with what was asked for of its contacts, limits and actuators."""
    if not limits:
        joints = (replace(joint, lower=-math.inf, upper=math.inf) for joint in model.joints)
        free = -math.inf, math.inf
        elements = (replace(x, limits=free) if isinstance(x, Tendon) else x for x in model.elements)
        model = replace(model, joints=tuple(joints), elements=tuple(elements))
    if not actuators and model.actuators:
        keys = (replace(key, commands=np.zeros(0), act=np.zeros(0)) for key in model.key_frames)
        model = replace(model, actuators=(), key_frames=tuple(keys))
    if contacts is False:
        return replace(model, contacts=(), contact_groups=()) if model.touches else model
    return with_contacts(model) if contacts and not model.touches else model


def _folder(root: str | os.PathLike[str] | None) -> Path | None:
    if root is None:
        return None
    folder = Path(root).resolve()
    if not folder.is_dir():
        raise FileNotFoundError(f"load: root is {str(root)!r}, which is no folder")
    return folder


def _load(path: Path, base: str, folder: Path | None, contacts: bool, actuators: bool, cut: Sequence[str]) -> Model:
    suffix = path.suffix.lower()
    if suffix == ".xacro":
        raise FileError(
            str(path), ["xacro is a macro language on top of URDF: expand it first (xacro FILE > robot.urdf)"]
        )
    data = read_bytes(path)
    if suffix in _NATIVE:
        from whippletree.io.native import native_reader

        return native_reader.read(path, data, base=base, folder=folder, cut=cut)
    if suffix not in _XML:
        known = ", ".join((*_XML, *_NATIVE))
        raise FileError(
            str(path), [f"unknown suffix {suffix!r}; known: {known}{did_you_mean(suffix, (*_XML, *_NATIVE))}"]
        )
    return _load_xml(path, data, base, folder, contacts, actuators, cut)


def _load_xml(
    path: Path, data: bytes, base: str, folder: Path | None, contacts: bool, actuators: bool, cut: Sequence[str]
) -> Model:
    from whippletree.io import xml

    root = xml.parse(path, data)
    model = _from_root(path, data, root, base, folder, contacts, actuators, cut)
    notes = xml.spelling_notes(data)
    return replace(model, source="\n- ".join([model.source, *notes])) if notes else model


def _from_root(
    path: Path,
    data: bytes,
    root: Element,
    base: str,
    folder: Path | None,
    contacts: bool,
    actuators: bool,
    cut: Sequence[str],
) -> Model:
    match root.tag:
        case "robot":
            from whippletree.io.urdf import urdf_reader

            return urdf_reader.read(path, root, base=base, folder=folder, actuators=actuators, cut=cut)
        case "mujoco":
            from whippletree.io.mjcf import mjcf_reader

            choices = {"base": base, "folder": folder, "contacts": contacts, "actuators": actuators, "cut": cut}
            return mjcf_reader.read(path, data, root, **choices)  # type: ignore[arg-type]
        case "sdf":
            from whippletree.io.sdf import sdf_reader

            return sdf_reader.read(path, root, base=base, folder=folder, cut=cut)
        case _:
            fault = f"line {root.sourceline}: the root element is <{root.tag}>, expected <robot>, <sdf> or <mujoco>"
            raise FileError(str(path), [fault])


def save(model: Model, path: str | os.PathLike[str]) -> Path:
    """Write a model to a native file (``.toml`` or ``.json``) that :func:`load` reads back exactly.

    Mesh files stay where they are, and ``load`` opens only those in the folder of the file that names them: write the
    model there to keep its meshes. The file is replaced as a whole or not at all.

    Returns:
        The path.

    Raises:
        UnsupportedError: the suffix is another one, or the model holds numbers that a file cannot keep exactly.
    """
    from whippletree.io.native import native_writer

    require_model(model, "save")
    written = Path(path)
    native_writer.write(model, written)
    return written
