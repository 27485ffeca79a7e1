"""A parsed MJCF model made ready for MuJoCo's compiler: everything named, nothing in it that needs a file or a mass.

Height fields are read here too, on a grid, by MuJoCo itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.files.bounded_files import is_inside, limit_text, limits, read_bounded, resolve_inside
from whippletree.io.draft import Draft, fresh
from whippletree.io.paths import package_folder
from whippletree.model.activations import ACTIVATIONS

PAD = 2e-15
"""kg and kg m²: twice the least that MuJoCo's compiler takes for a moving body. Nothing real has it."""

_UNUSED = ("cameras", "lights", "skins", "textures", "materials", "numerics", "texts", "tuples", "plugins")
"""Elements without mechanics: noted, and taken out before compiling."""

_OPTIONS = (
    *("integrator", "cone", "solver", "impratio", "tolerance", "iterations", "ls_iterations", "ls_tolerance"),
    *("noslip_iterations", "noslip_tolerance", "ccd_iterations", "ccd_tolerance", "jacobian", "magnetic"),
)
"""Options of MuJoCo's own solver, which say nothing of the mechanics."""

_READ = ("excludes", "hfields", "sensors")
"""Elements that are read from the specification itself, or left out and noted, and taken out before compiling."""

_SIZES = (
    *("memory", "njmax", "nconmax"),
    *(f"nuser_{word}" for word in ("body", "jnt", "geom", "site", "cam", "tendon", "actuator", "sensor")),
)
"""Sizes that a file may ask for: -1 is MuJoCo's own choice."""

_MESH_SUFFIXES = (".stl", ".obj", ".msh")

MUSCLE = 9
"""Numbers of a muscle's law."""


@dataclass
class Parts:
    """Inputs of the conversion: two compiled models, and what compiling would lose."""

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
    obstacles: dict[str, str] = field(default_factory=dict)
    """The frame of each geom that tendons wrap around."""
    driven: set[str] = field(default_factory=set)
    """Names of the actuators that are taken over."""
    total_mass: float = 0
    """kg that the masses are scaled to; 0 for none."""
    poses: Any = None
    masses: Any = None

    @property
    def mass_scale(self) -> float:
        """Factor of compiled masses and of numbers that follow from them."""
        if not self.total_mass:
            return 1.0
        return self.total_mass / sum(remove_padding(mass) for mass in self.masses.body_mass)


def remove_padding(value: Any) -> float:
    """A mass or moment of inertia of the file, whose zero was padded for the compiler."""
    return 0.0 if value == PAD else float(value)


def prepare(draft: Draft, spec: Any, actuators: bool) -> Parts:
    """Name all parts and make the two models to compile, with or without actuators. Faults go to the draft."""
    named = ("body", spec.bodies), ("equality", spec.equalities), ("key", spec.keys), ("tendon", spec.tendons)
    for word, group in named:
        _name_all(group, word)
    _name_by_target(spec)
    for body in spec.bodies:
        for group, word in ((body.joints, "joint"), (body.geoms, "geom"), (body.sites, "site")):
            _name_all(group, f"{body.name}/{word}")
        if body.explicitinertial and body.mass < 0:
            draft.fault(f"body {body.name!r}: mass {body.mass:g} is negative", line_of(body))
    _check_references(draft, spec)
    for mesh in spec.meshes:
        if mesh.plugin.active:
            draft.fault(f"mesh {mesh.name!r}: a plugin makes its surface, which is not supported", line_of(mesh))
    parts = Parts(spec, spec, spec)
    parts.keys = {key.name: list(key.qpos) for key in spec.keys}
    parts.driven = _supported_actuators(draft, spec) if actuators else set()
    _report_unused(draft, spec)
    _report_left_out(draft, spec)
    materials = {material.name: material for material in spec.materials}
    for geom in spec.geoms:
        color = materials[geom.material].rgba if geom.material in materials else geom.rgba
        parts.colors[geom.name] = tuple(float(c) for c in color)
        if geom.meshname or geom.hfieldname or geom.plugin.active:
            parts.shapes[geom.name] = _shape(draft, spec, geom)
    if spec.compiler.settotalmass > 0:
        parts.total_mass = float(spec.compiler.settotalmass)
        spec.compiler.settotalmass = -1  # after the padding, this would scale the padding too
    for tendon in spec.tendons:
        tendon.material = ""  # before the copy: MuJoCo compiles the material that a tendon had when it was made
    parts.mass_spec = spec.copy()
    _strip(parts.mass_spec, parts.driven)  # some numbers of actuators follow from masses
    parts.pose_spec = parts.mass_spec.copy()
    parts.pose_spec.compiler.LRopt.mode = 0  # lengths of muscles are found by moving masses, which this one lacks
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
        if group := list(getattr(spec, word)):
            draft.unused[f"{word}: {len(group)}"] += 1
    spoken_of = {name for part in spec.equalities for name in (part.name1, part.name2)}
    spoken_of |= {part.target for part in spec.actuators}
    idle = [t.name for t in spec.tendons if not acts(t) and t.name not in spoken_of]
    if idle:
        draft.unused[f"tendons: {', '.join(map(repr, idle))}"] += 1
    if chosen := _chosen_options(spec):
        draft.notes.append(f"options of MuJoCo's solver are not taken over: {', '.join(chosen)}")


def _chosen_options(spec: Any) -> list[str]:
    """Choices of the file about MuJoCo's integrator and solver, in words."""
    import mujoco

    usual, words = mujoco.MjSpec().option, []
    for word in _OPTIONS:
        value = getattr(spec.option, word, None)
        if value is not None and np.any(value != getattr(usual, word)):
            named = {"integrator": mujoco.mjtIntegrator, "cone": mujoco.mjtCone, "solver": mujoco.mjtSolver}.get(word)
            text = named(value).name.rpartition("_")[2].lower() if named else f"{np.asarray(value).tolist()}"
            words.append(f"{word} = {text}")
    return words


def _report_left_out(draft: Draft, spec: Any) -> None:
    """Elements that act or measure in the file and are not taken over."""
    for word, group in (
        ("mocap (the body stands still: wt.with_motion moves it)", [b for b in spec.bodies if b.mocap]),
        ("plugins", [part for part in (*spec.bodies, *spec.geoms) if part.plugin.active]),
        ("softness (solref, solimp)", _softened_parts(spec)),
        ("flexible bodies", getattr(spec, "flexes", ())),
    ):
        if names := [part.name or "without a name" for part in group]:
            draft.leave_out(word, *names)
    if _switched_on(spec, "OVERRIDE"):
        draft.leave_out("one law for all contacts (flag override): o_margin, o_friction, o_solref, o_solimp")


def _switched_on(spec: Any, flag: str) -> bool:
    """Whether the file switches a part of MuJoCo on that is usually off (``mjENBL_…``)."""
    from mujoco import mjtEnableBit

    return bool(int(spec.option.enableflags) & int(getattr(mjtEnableBit, f"mjENBL_{flag}", 0)))


def acts(tendon: Any) -> bool:
    """Whether a tendon does something by itself: a spring, a damper, friction, inertia, a stop."""
    acting = (tendon.stiffness, tendon.damping, tendon.frictionloss, tendon.armature, tendon.range)
    return any(np.any(numbers) for numbers in acting)


def _softened_parts(spec: Any) -> Iterator[Any]:
    """Parts whose softness the file chooses: rigid here, whatever it says."""
    import mujoco

    usual = mujoco.MjSpec().default
    for part in spec.geoms:
        if _differs(part, usual.geom, "solref", "solimp"):
            yield part
    for part in spec.joints:
        if _differs(part, usual.joint, "solref_limit", "solimp_limit", "solref_friction", "solimp_friction"):
            yield part
    for group, own in ((spec.pairs, usual.pair), (spec.equalities, usual.equality)):
        for part in group:
            if _differs(part, own, "solref", "solimp"):
                yield part


def _differs(part: Any, usual: Any, *words: str) -> bool:
    return any(not np.array_equal(getattr(part, word), getattr(usual, word)) for word in words)


def switched_off(spec: Any, *flags: str) -> bool:
    """Whether the file switches one of these parts of MuJoCo off (``mjDSBL_…``); a flag that MuJoCo lacks is not."""
    from mujoco import mjtDisableBit

    bits = [int(getattr(mjtDisableBit, f"mjDSBL_{flag}", 0)) for flag in flags]
    return any(int(spec.option.disableflags) & bit for bit in bits)


# --- actuators ---


def _name_by_target(spec: Any) -> None:
    """An actuator without a name gets that of what it drives."""
    taken = {part.name for part in spec.actuators}
    for part in spec.actuators:
        if not part.name:
            part.name = fresh(part.target or "actuator", taken)
            taken.add(part.name)


def _supported_actuators(draft: Draft, spec: Any) -> set[str]:
    """Names of the actuators that this library can express; the others are left out, by reason."""
    found = set()
    for part in spec.actuators:
        reason = _unsupported_actuator(spec, part)
        if reason is None:
            found.add(part.name)
        else:
            draft.leave_out(f"actuators that {reason}", part.name)
    return found


def _unsupported_actuator(spec: Any, part: Any) -> str | None:
    """Why an actuator cannot be taken over; None if it can."""
    from mujoco import mjtBias, mjtDyn, mjtGain

    if part.plugin.active:
        return "are plugins"
    dynamics = part.dyntype.name.removeprefix("mjDYN_").lower()
    if part.dyntype != mjtDyn.mjDYN_NONE and dynamics not in ACTIVATIONS:
        return f"have activation dynamics ({dynamics})"
    constants = {"filter": 1, "filterexact": 1, "muscle": 2}.get(dynamics, 0)
    if not all(time > 0 for time in part.dynprm[:constants]):
        return "have activation dynamics with a time constant of 0"
    linear = (mjtGain.mjGAIN_FIXED, mjtGain.mjGAIN_AFFINE), (mjtBias.mjBIAS_NONE, mjtBias.mjBIAS_AFFINE)
    pulls = part.gaintype == mjtGain.mjGAIN_MUSCLE and part.biastype in (mjtBias.mjBIAS_NONE, mjtBias.mjBIAS_MUSCLE)
    if not pulls and (part.gaintype not in linear[0] or part.biastype not in linear[1]):
        return "have another law than a linear one or a muscle's"
    if pulls and (reason := _unsupported_muscle(part)) is not None:
        return reason
    if any(np.any(getattr(part, word, 0)) for word in ("armature", "damping", "delay")):
        return "have an armature, damping or delay of their own"
    if 0 <= part.group < 31 and int(spec.option.disableactuator) & (1 << part.group):
        return "belong to a group that the file switches off"
    return _unsupported_transmission(spec, part)


def _unsupported_muscle(part: Any) -> str | None:
    from mujoco import mjtBias, mjtTrn

    if part.biastype == mjtBias.mjBIAS_MUSCLE and np.any(part.biasprm[:MUSCLE] != part.gainprm[:MUSCLE]):
        return "are muscles whose passive force has other numbers than the active one"
    r_0, r_1, _, _, shortest, longest, fastest = part.gainprm[:7]
    if not (r_0 < r_1 and shortest < 1 < longest and fastest > 0):
        return "are muscles with an empty range, or without an optimal length within it"
    return "are muscles of a site, which has no length" if part.trntype == mjtTrn.mjTRN_SITE else None


def _unsupported_transmission(spec: Any, part: Any) -> str | None:
    from mujoco import mjtJoint, mjtTrn

    if part.trntype == mjtTrn.mjTRN_JOINT or part.trntype == mjtTrn.mjTRN_JOINTINPARENT:
        joint = spec.joint(part.target)
        simple = joint is not None and joint.type in (mjtJoint.mjJNT_HINGE, mjtJoint.mjJNT_SLIDE)
        return None if simple else "drive ball or free joints"
    if part.trntype == mjtTrn.mjTRN_TENDON:
        return None
    if part.trntype == mjtTrn.mjTRN_SITE:
        return "drive a site with a reference site" if part.refsite else None
    return {mjtTrn.mjTRN_BODY: "adhere"}.get(part.trntype, "drive slider-cranks or other mechanisms")


def _shape(draft: Draft, spec: Any, geom: Any) -> dict[str, Any]:
    """Kind and parameters of a geom that is not described by its size alone."""
    from mujoco import mjtGeom

    if geom.hfieldname:
        asset = spec.hfield(geom.hfieldname)
        if asset is None:
            return {"kind": "height_field"}  # a fault already
        return height_field(draft, asset, *_locate_asset(draft, spec, asset))
    if not geom.meshname:
        return {"kind": "signed_distance", "asset": geom.plugin.plugin_name}
    mesh = spec.mesh(geom.meshname)
    if mesh is None:
        return {"kind": "mesh"}  # a fault already
    scale = tuple(float(s) for s in mesh.scale)
    # the format says that hulls touch
    shape = {"kind": "mesh", "asset": geom.meshname, "file": mesh.file, "scale": scale, "convex": True}
    if geom.type not in (mjtGeom.mjGEOM_MESH, mjtGeom.mjGEOM_SDF):
        shape["fit"] = geom.type.name.removeprefix("mjGEOM_").lower()
    if len(mesh.uservert) % 3:
        draft.fault(
            f"mesh {mesh.name!r}: vertex has {len(mesh.uservert)} numbers, expected three for each", line_of(mesh)
        )
    elif len(mesh.uservert):
        shape["vertices"] = tuple(map(tuple, (np.reshape(mesh.uservert, (-1, 3)) * mesh.scale).tolist()))
    elif mesh.file and _plainly_placed(mesh):
        found = resolve_inside(*_locate_asset(draft, spec, mesh))
        if found is not None:
            shape["path"] = str(found)
    return shape


def primitive(kind: int, size: Any) -> dict[str, Any]:
    """Kind and sizes in m, full lengths where MuJoCo has half ones."""
    from mujoco import mjtGeom

    a, b, c = (float(x) for x in size)
    match mjtGeom(kind):
        case mjtGeom.mjGEOM_PLANE:
            return {"kind": "half_space"}
        case mjtGeom.mjGEOM_SPHERE:
            return {"kind": "sphere", "radius": a}
        case mjtGeom.mjGEOM_CAPSULE:
            return {"kind": "capsule", "radius": a, "length": 2 * b}
        case mjtGeom.mjGEOM_CYLINDER:
            return {"kind": "cylinder", "radius": a, "length": 2 * b}
        case mjtGeom.mjGEOM_BOX:
            return {"kind": "box", "size": (2 * a, 2 * b, 2 * c)}
        case other:
            return {"kind": other.name.removeprefix("mjGEOM_").lower(), "radii": (a, b, c)}


def _plainly_placed(mesh: Any) -> bool:
    """Whether the mesh's numbers are in the geom's frame: the asset does not move them."""
    return not np.any(mesh.refpos) and bool(np.all(mesh.refquat == (1, 0, 0, 0)))


def _locate_asset(draft: Draft, spec: Any, mesh: Any) -> tuple[Path, Path]:
    """The folder that files of meshes and heights must be in, and where the asset's file is."""
    folder = draft.path.resolve().parent
    near = package_folder(draft.path) if draft.folder is None else draft.folder
    if draft.folder is None and near == folder and folder.parent.name:  # never the root of the file system
        near = folder.parent
    base, file = folder / (spec.meshdir or ""), Path(mesh.file).name if spec.strippath else mesh.file
    # of an included file MuJoCo takes what is beside it for beside the model where it cannot look, as here
    included = [os.path.dirname(name) or "." for name in draft.included] if file else []
    named = [base / file, *[base / os.path.relpath(file, place) for place in included]]
    return near, next((path for path in named if resolve_inside(near, path) is not None), named[0])


def _strip(spec: Any, driven: set[str]) -> None:
    """Take out what is not used, and let massless bodies pass the compiler; ``driven`` are actuators to keep.

    MuJoCo looks through the whole model for every part that is deleted: tendons, of which there may be hundreds, stay.
    """
    from mujoco import mjtAlignFree, mjtEq

    for part in [*spec.keys, *(e for e in spec.equalities if e.type == mjtEq.mjEQ_TENDON)]:
        spec.delete(part)
    for part in list(spec.actuators):
        if part.name not in driven:
            spec.delete(part)
    for part in [*spec.bodies, *spec.geoms, *spec.meshes]:
        part.plugin.active = False  # before plugins are deleted, which a part that has one would look for
    for word in (*_UNUSED, *_READ):
        for part in list(getattr(spec, word)):
            spec.delete(part)
    for part in [*spec.geoms, *spec.sites]:
        part.material = ""
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
    near, named = _locate_asset(draft, spec, mesh)
    found = resolve_inside(near, named)
    where = f"mesh {mesh.name!r} gives a body its inertia, and its file {mesh.file!r}"
    if not is_inside(near, named):
        draft.fault(
            f"{where} is outside the model's folder: it is not opened. wt.load(…, root=FOLDER) names a wider one; or "
            f"give the body an <inertial>",
            line_of(mesh),
        )
    elif found is None:
        draft.fault(f"{where} does not exist", line_of(mesh))
    elif found.suffix.lower() not in _MESH_SUFFIXES:
        draft.fault(f"{where} is no mesh file that is read ({', '.join(_MESH_SUFFIXES)})", line_of(mesh))
    elif found.stat().st_size > limits.file_bytes:
        draft.fault(limit_text("file_bytes", f"{where} has {found.stat().st_size:,} bytes"), line_of(mesh))
    else:
        mesh.file = str(found)


# --- height fields: heights on a grid, read by MuJoCo itself (inline, PNG, or its own binary format) ------------------


_READS = (".png", ".hf", ".bin")
"""Endings of files of heights."""


def height_field(draft: Draft, asset: Any, near: Path, found: Path) -> dict[str, Any]:
    """Kind and parameters of a geom that shows an asset: heights (n, m) in m, first index along x, and cells (dx, dy).

    ``near`` is the folder that its file must be in, ``found`` where the file is. The block of MuJoCo below the heights
    (the fourth size) is not used: everything below the surface is ground, and beyond its border it goes on straight.
    """
    x, y, top, _ = (float(s) for s in asset.size)
    grid = _compiled_heights(draft, asset, near, found)
    if grid is None:
        return {"kind": "height_field", "asset": asset.name}
    n, m = grid.shape
    # numbers of a file: tuples, as all parameters are
    heights = tuple(map(tuple, (top * grid).tolist()))
    return {"kind": "height_field", "asset": asset.name, "heights": heights, "cell": (2 * x / (n - 1), 2 * y / (m - 1))}


def _compiled_heights(draft: Draft, asset: Any, near: Path, found: Path) -> Any:
    """The heights from 0 to 1 as MuJoCo scales them, first index along x; None if the file is not opened."""
    import mujoco

    words: dict[str, Any] = {"nrow": asset.nrow, "ncol": asset.ncol, "userdata": asset.userdata}
    if asset.file:
        where = f"height field {asset.name!r}: its file {asset.file!r}"
        file = resolve_inside(near, found)
        if file is None:
            draft.notes.append(f"{where} is not in the model's folder: the field has no heights")
            return None
        if file.suffix.lower() not in _READS:
            draft.fault(f"{where} is no file of heights that is read ({', '.join(_READS)})", None)
            return None
        cells = _cells(file)
        if cells > limits.height_cells:
            draft.fault(limit_text("height_cells", f"{where} has {cells:,} heights"), None)
            return None
        words = {"file": str(file)}
    alone = mujoco.MjSpec()
    alone.add_hfield(name="field", size=asset.size, content_type=asset.content_type, **words)
    try:
        model = alone.compile()
    except ValueError as error:
        reason = str(error).splitlines()[0]
        draft.fault(f"height field {asset.name!r} cannot be read: {reason}", None)
        return None
    rows, columns = int(model.hfield_nrow[0]), int(model.hfield_ncol[0])
    # MuJoCo's rows go along y
    return np.array(model.hfield_data, dtype=float).reshape(rows, columns).T


def _cells(file: Path) -> int:
    """How many heights a file says that it holds, before anything is unpacked.

    A PNG picture tells its width and height in bytes 16 to 24, most significant first. MuJoCo's own format begins with
    its rows and columns, and has four bytes for each height.
    """
    data = read_bounded(file)
    if data[:4] == b"\x89PNG":
        width, height = (int.from_bytes(data[k : k + 4], "big") for k in (16, 20))
        return width * height
    return len(data) // 4
