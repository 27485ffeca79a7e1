"""A parsed MJCF model made ready for MuJoCo's compiler: everything named, nothing in it that needs a file or a mass."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.files.bounded_files import is_inside, limit_text, limits, resolve_inside
from whippletree.io.draft import Draft, fresh
from whippletree.io.mjcf.height_fields import height_field

PAD = 2e-15
"""kg and kg m²: twice the least that MuJoCo's compiler takes for a moving body. Nothing real has it."""

_UNUSED = (
    *("tendons", "actuators", "sensors", "cameras", "lights", "skins", "textures", "materials"),
    *("numerics", "texts", "tuples", "plugins"),
)
"""What the model does not use: told, and taken out before compiling."""

_READ = ("pairs", "excludes", "hfields")
"""What is read from the specification itself, and taken out before compiling."""

_SIZES = (
    *("memory", "njmax", "nconmax"),
    *(f"nuser_{word}" for word in ("body", "jnt", "geom", "site", "cam", "tendon", "actuator", "sensor")),
)
"""Sizes that a file may ask for: -1 is MuJoCo's own choice."""

_MESH_SUFFIXES = (".stl", ".obj", ".msh")


@dataclass
class Parts:
    """What the conversion needs: two compiled models, and what compiling would lose."""

    spec: Any
    """As parsed, with every part named."""
    pose_spec: Any
    """Meshes replaced by points: gives poses as the file means them, without opening a mesh."""
    mass_spec: Any
    """With the meshes that give some body its inertia."""
    shapes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Geoms that are more than a primitive: kind and parameters."""
    colors: dict[str, tuple[float, ...]] = field(default_factory=dict)
    keys: dict[str, list[float]] = field(default_factory=dict)
    """Key frames: qpos by name."""
    site_frames: dict[str, str] = field(default_factory=dict)
    """The frame that each site became."""
    total_mass: float = 0
    """kg that the masses are scaled to; 0 for none."""
    poses: Any = None
    masses: Any = None


def prepare(draft: Draft, spec: Any) -> Parts:
    """Name all parts and make the two models to compile. Faults go to the draft."""
    for group, word in ((spec.bodies, "body"), (spec.equalities, "equality")):
        _name_all(group, word)
    for body in spec.bodies:
        for group, word in ((body.joints, "joint"), (body.geoms, "geom"), (body.sites, "site")):
            _name_all(group, f"{body.name}/{word}")
        if body.explicitinertial and body.mass < 0:
            draft.fault(f"body {body.name!r}: mass {body.mass:g} is negative", line_of(body))
    _check_references(draft, spec)
    parts = Parts(spec, spec, spec)
    parts.keys = {key.name: list(key.qpos) for key in spec.keys}
    _report_unused(draft, spec)
    materials = {material.name: material for material in spec.materials}
    for geom in spec.geoms:
        color = materials[geom.material].rgba if geom.material in materials else geom.rgba
        parts.colors[geom.name] = tuple(float(c) for c in color)
        if geom.meshname or geom.hfieldname or geom.plugin.active:
            parts.shapes[geom.name] = _shape(draft, spec, geom)
    if spec.compiler.settotalmass > 0:
        parts.total_mass = float(spec.compiler.settotalmass)
        spec.compiler.settotalmass = -1  # after the padding, this would scale the padding too
    parts.pose_spec, parts.mass_spec = spec.copy(), spec.copy()
    for copy in (parts.pose_spec, parts.mass_spec):
        _strip(copy)
    _keep_weighing_meshes(draft, parts)
    return parts


def line_of(part: Any) -> int | None:
    """The line that MuJoCo remembers for a part; None for one that came from an included file."""
    match = re.search(r"line (\d+)", part.info or "")
    return int(match[1]) or None if match else None


def _check_references(draft: Draft, spec: Any) -> None:
    """Find names that lead nowhere: copying a spec drops the parts that hold them without a word."""
    from mujoco import mjtEq, mjtObj

    names = {
        word: {part.name for part in getattr(spec, word)}
        for word in ("bodies", "sites", "joints", "tendons", "meshes", "hfields")
    }
    for part in spec.equalities:
        if part.type == mjtEq.mjEQ_JOINT:
            word = "joints"
        elif part.type in (mjtEq.mjEQ_CONNECT, mjtEq.mjEQ_WELD):
            word = "sites" if part.objtype == mjtObj.mjOBJ_SITE else "bodies"
        elif part.type == mjtEq.mjEQ_TENDON:
            word = "tendons"
        else:
            continue
        if not part.name1:
            draft.fault(f"equality {part.name!r} names none of the {word}", line_of(part))
        for name in (part.name1, part.name2):
            if name and name not in names[word]:
                hint = draft.hint(name, names[word])
                draft.fault(f"equality {part.name!r}: there is no {name!r} among the {word}{hint}", line_of(part))
    for geom in spec.geoms:
        for name, word in ((geom.meshname, "meshes"), (geom.hfieldname, "hfields")):
            if name and name not in names[word]:
                hint = draft.hint(name, names[word])
                draft.fault(f"geom {geom.name!r}: there is no {name!r} among the {word}{hint}", line_of(geom))


def _name_all(group: Iterable[Any], word: str) -> None:
    group = list(group)
    taken = {part.name for part in group}
    for number, part in enumerate(group):
        if not part.name:
            part.name = fresh(word if len(group) == 1 else f"{word}_{number}", taken)
            taken.add(part.name)


def _report_unused(draft: Draft, spec: Any) -> None:
    for word in _UNUSED:
        group = [part for part in getattr(spec, word) if word != "tendons" or _acts_by_itself(spec, part)]
        names = [part.name for part in group if getattr(part, "name", "")]
        if group:
            shown = ", ".join(map(repr, names)) if word in ("tendons", "actuators", "sensors") else str(len(group))
            draft.unused[f"{word}: {shown}" if shown else f"{word}: {len(group)} without a name"] += 1
    others = [key.name or "without a name" for key in spec.keys if key.name != "home"]
    if others:
        draft.unused["key frames: " + ", ".join(map(repr, others))] += 1
    for word, bodies in (
        ("gravity compensation", [b for b in spec.bodies if b.gravcomp]),
        ("mocap (the body stands still)", [b for b in spec.bodies if b.mocap]),
        ("plugin", [b for b in spec.bodies if b.plugin.active]),
    ):
        if bodies:
            draft.unused[f"{word} of {', '.join(repr(b.name) for b in bodies)}"] += 1
    option = spec.option
    if option.density or option.viscosity or np.any(option.wind != 0):
        draft.unused["fluid forces (density, viscosity, wind)"] += 1


def _acts_by_itself(spec: Any, tendon: Any) -> bool:
    """Whether a tendon is more than what an equality speaks of: one that nothing speaks of, a spring, a stop."""
    spoken_of = any(tendon.name in (part.name1, part.name2) for part in spec.equalities)
    acting = (tendon.stiffness, tendon.damping, tendon.frictionloss, tendon.armature, tendon.range)
    return not spoken_of or any(np.any(numbers) for numbers in acting)


def _shape(draft: Draft, spec: Any, geom: Any) -> dict[str, Any]:
    """Kind and parameters of a geom that is not described by its size alone."""
    from mujoco import mjtGeom

    if geom.hfieldname:
        asset = spec.hfield(geom.hfieldname)
        if asset is None:
            return {"kind": "height_field"}  # a fault already
        return height_field(draft, asset, *_located(draft, spec, asset))
    if not geom.meshname:
        return {"kind": "signed_distance", "asset": geom.plugin.plugin_name}
    mesh = spec.mesh(geom.meshname)
    if mesh is None:
        return {"kind": "mesh"}  # a fault already
    scale = tuple(float(s) for s in mesh.scale)
    shape = {"kind": "mesh", "asset": geom.meshname, "file": mesh.file, "scale": scale}
    if geom.type not in (mjtGeom.mjGEOM_MESH, mjtGeom.mjGEOM_SDF):
        shape["fit"] = geom.type.name.removeprefix("mjGEOM_").lower()
    if len(mesh.uservert) % 3:
        draft.fault(
            f"mesh {mesh.name!r}: vertex has {len(mesh.uservert)} numbers, expected three for each", line_of(mesh)
        )
    elif len(mesh.uservert):
        shape["vertices"] = tuple(map(tuple, (np.reshape(mesh.uservert, (-1, 3)) * mesh.scale).tolist()))
    elif mesh.file and _plainly_placed(mesh):
        found = resolve_inside(*_located(draft, spec, mesh))
        if found is not None:
            shape["path"] = str(found)
    return shape


def _plainly_placed(mesh: Any) -> bool:
    """Whether the mesh's numbers are in the geom's frame: the asset does not move them."""
    return not np.any(mesh.refpos) and bool(np.all(mesh.refquat == (1, 0, 0, 0)))


def _located(draft: Draft, spec: Any, mesh: Any) -> tuple[Path, Path]:
    """The folder that files of meshes and heights must be in, and where the asset's file is."""
    folder = draft.path.resolve().parent
    near = folder.parent if folder.parent.name else folder  # never the root of the file system
    return near, folder / (spec.meshdir or "") / (Path(mesh.file).name if spec.strippath else mesh.file)


def _strip(spec: Any) -> None:
    """Take out what is not used, and let massless bodies pass the compiler."""
    from mujoco import mjtAlignFree, mjtEq

    for part in [*spec.keys, *(e for e in spec.equalities if e.type == mjtEq.mjEQ_TENDON)]:
        spec.delete(part)
    for word in (*_UNUSED, *_READ):
        for part in list(getattr(spec, word)):
            spec.delete(part)
    for part in [*spec.geoms, *spec.sites]:
        part.material = ""
    for part in [*spec.bodies, *spec.geoms]:
        part.plugin.active = False
    for joint in spec.joints:
        joint.align = mjtAlignFree.mjALIGNFREE_FALSE  # the body frame stays where the file puts it
    for word in _SIZES:
        setattr(spec, word, -1)  # MuJoCo would set memory aside for a simulation that nobody runs
    spec.compiler.fusestatic = spec.compiler.discardvisual = False
    spec.compiler.usethread = False  # warnings must come from this thread
    spec.compiler.boundmass = max(PAD, spec.compiler.boundmass)
    spec.compiler.boundinertia = max(PAD, spec.compiler.boundinertia)


def _keep_weighing_meshes(draft: Draft, parts: Parts) -> None:
    """Replace mesh geoms by points without mass; in the mass model only those that give no body its inertia."""
    needed: set[str] = set()
    for geom in parts.mass_spec.geoms:
        if geom.name not in parts.shapes:
            continue
        if not _weighs(parts.mass_spec, geom):
            _to_point(geom)
        elif parts.shapes[geom.name]["kind"] == "mesh":
            needed.add(geom.meshname)
        else:
            text = (
                f"takes its inertia from geom {geom.name!r}, which is no mesh and no primitive: give it an <inertial>"
            )
            draft.fault(f"body {geom.parent.name!r} {text}", line_of(geom))
    for mesh in list(parts.mass_spec.meshes):
        if mesh.name in needed:
            _vet_mesh(draft, parts.mass_spec, mesh)
        else:
            parts.mass_spec.delete(mesh)
    parts.mass_spec.meshdir = ""
    for geom in parts.pose_spec.geoms:
        if geom.name in parts.shapes:
            _to_point(geom)
    for mesh in list(parts.pose_spec.meshes):
        parts.pose_spec.delete(mesh)


def _weighs(spec: Any, geom: Any) -> bool:
    """Whether a geom gives its body mass."""
    from mujoco import mjtInertiaFromGeom as Rule

    body, compiler = geom.parent, spec.compiler
    first, last = compiler.inertiagrouprange
    explicit = body.explicitinertial and compiler.inertiafromgeom != Rule.mjINERTIAFROMGEOM_TRUE
    if body.name == "world" or explicit or compiler.inertiafromgeom == Rule.mjINERTIAFROMGEOM_FALSE:
        return False
    massless = geom.density == 0 if np.isnan(geom.mass) else geom.mass == 0
    return bool(first <= geom.group <= last and not massless)


def _to_point(geom: Any) -> None:
    from mujoco import mjtGeom

    geom.type, geom.size = mjtGeom.mjGEOM_SPHERE, [1, 0, 0]
    geom.meshname = geom.hfieldname = ""
    geom.mass = 0


def _vet_mesh(draft: Draft, spec: Any, mesh: Any) -> None:
    """Let MuJoCo open a mesh only by the full path of a mesh file near the model."""
    if not mesh.file:
        return  # made by MuJoCo itself, or given as vertices
    near, named = _located(draft, spec, mesh)
    found = resolve_inside(near, named)
    where = f"mesh {mesh.name!r} gives a body its inertia, and its file {mesh.file!r}"
    if not is_inside(near, named):
        draft.fault(
            f"{where} is outside the model's folder: it is not opened. Give the body an <inertial>", line_of(mesh)
        )
    elif found is None:
        draft.fault(f"{where} does not exist", line_of(mesh))
    elif found.suffix.lower() not in _MESH_SUFFIXES:
        draft.fault(f"{where} is no mesh file that is read ({', '.join(_MESH_SUFFIXES)})", line_of(mesh))
    elif found.stat().st_size > limits.file_bytes:
        draft.fault(limit_text("file_bytes", f"{where} has {found.stat().st_size:,} bytes"), line_of(mesh))
    else:
        mesh.file = str(found)
