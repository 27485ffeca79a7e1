"""Readings of a model's sensors, at single states or over a whole run (``wt.read_sensors``)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import xarray

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.constraints.reactions import reaction_names
from whippletree.contact.geometry.rays import way_along_ray
from whippletree.contact.geometry.shapes import shape_of
from whippletree.contact.kinematics.contact_set import contact_set_named
from whippletree.contact.kinematics.large_scenes import Snapshot
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.model import WORLD, Geometry, Model, require_model
from whippletree.model.input_checks import as_names, floats
from whippletree.model.sensors import SENSOR_KINDS, Sensor
from whippletree.spatial import rotation_quaternion

AXES = {"frame_x_axis": 0, "frame_y_axis": 1, "frame_z_axis": 2}


def read_sensors(
    model: Model, run: xarray.Dataset | None = None, *, q: Any = None, v: Any = None, a: Any = None
) -> Any:
    """Readings of the model's sensors: of a run, or of states.

    Args:
        model: with sensors.
        run: by ``wt.simulate``: its states, accelerations and contact forces are taken; with ``reactions=True`` where
            there are sensors of force or torque.
        q: (..., nq), instead of a run.
        v: (..., nv); default: at rest.
        a: (..., nv), which accelerometers need, and sensors of force and torque; default: none. Without a run nothing
            touches.

    Returns:
        A dataset with one variable for each sensor, over the time of the run; for states a dict of arrays, (...,) or
        (..., n).

    Raises:
        UnsupportedError: a model without sensors; sensors of force in a run without reactions.
        ShapeError: neither a run nor q is given.
    """
    require_model(model, "read_sensors")
    if not model.sensors:
        raise UnsupportedError(f"read_sensors: model {model.name!r} has no sensors: Builder.sensor adds them")
    if run is not None:
        state = {word: np.asarray(run[word].values) for word in ("q", "v", "a")}
        dims = run["q"].dims[:-1]
        readings = _Readings(model, state["q"], state["v"], state["a"], run).all()
        found = {
            sensor.name: ((*dims, *(() if readings[sensor.name].ndim == len(dims) else (f"{sensor.name} part",))), x)
            for sensor, x in zip(model.sensors, readings.values(), strict=True)
        }
        return xarray.Dataset(found, coords={word: run.coords[word] for word in dims if word in run.coords})
    if q is None:
        raise ShapeError("read_sensors: give a run, or states q= and v=")
    at = floats("read_sensors", "q", q)
    rest = np.zeros((*at.shape[:-1], model.nv))
    speed, rate = (rest if x is None else floats("read_sensors", word, x) for word, x in (("v", v), ("a", a)))
    return _Readings(model, at, speed, rate).all()


class _Readings:
    """All sensors of a model at states (...)."""

    def __init__(self, model: Model, q: Array, v: Array, a: Array, run: xarray.Dataset | None = None) -> None:
        self.model, self.q, self.v, self.a, self.run = model, q, v, a, run
        self.dyn: Compiled = compile_model(model.tree, watch="never")

    def all(self) -> dict[str, Array]:
        return {
            sensor.name: np.clip(self._read(sensor), -sensor.cutoff, sensor.cutoff) for sensor in self.model.sensors
        }

    def _read(self, sensor: Sensor) -> Array:
        kind = SENSOR_KINDS[sensor.kind]
        if kind.on == "joint":
            return self._joint(sensor.on, kind.quantity)
        if kind.on in ("actuator", "tendon"):
            return self._length(sensor, kind.on, kind.quantity)
        if kind.on == "geometry":
            return self._touch(self.model.geometry(sensor.on))
        if kind.quantity == "load":
            return self._load(sensor)
        if kind.quantity == "distance":
            return self._range(sensor)
        return self._seen_from_frame(sensor) if kind.relative else self._fixed_to_frame(sensor)

    def _joint(self, joint: str, what: str) -> Array:
        found = self.q[..., self.model.q_slice(joint)] if what == "position" else self.v[..., self.model.slice(joint)]
        return found[..., 0] if found.shape[-1] == 1 else found

    def _length(self, sensor: Sensor, word: str, what: str) -> Array:
        """Length of a tendon, or of the transmission of an actuator: its length is where a command of 0 would hold
        it."""
        from whippletree.tree.element_forces import Elements
        from whippletree.tree.mechanism import Mechanism

        m = Mechanism.of(self.model.tree)

        def one(q: Array, v: Array) -> float:
            if word == "tendon":
                found = Elements(m, q.astype(object), v.astype(object)).stretch(self.model.tendon(sensor.on))
                return float(found[what == "velocity"])
            (actuator,) = (actuator for actuator in self.model.actuators if actuator.name == sensor.on)
            if actuator.tendon is not None:
                tendon = self.model.tendon(actuator.tendon)
                found = Elements(m, q.astype(object), v.astype(object)).stretch(tendon)
                return float(actuator.gear[0]) * float(found[what == "velocity"])
            if actuator.frame is not None:
                twist = np.asarray(self.dyn.twist(actuator.frame)(q, v))
                return float(actuator.gear.astype(float) @ twist) if what == "velocity" else 0.0
            state = q if what == "position" else v
            slices = [(self.model.q_slice if what == "position" else self.model.slice)(j) for j in actuator.joints]
            return float(sum(float(g) * float(state[s][0]) for g, s in zip(actuator.gear, slices, strict=True)))

        flat = [
            one(q, v) for q, v in zip(self.q.reshape(-1, self.model.nq), self.v.reshape(-1, self.model.nv), strict=True)
        ]
        return np.array(flat).reshape(self.q.shape[:-1])

    def _motion(self, frame: str) -> tuple[Array, Array, Array, Array]:
        """Rotation (..., 3, 3), position, angular and linear velocity (..., 3) of a frame, in world axes."""
        X = np.asarray(self.dyn.pose(frame)(self.q))
        V = np.asarray(self.dyn.twist(frame)(self.q, self.v))
        R = X[..., :3, :3]
        return R, X[..., :3, 3], _turn_vectors(R, V[..., :3]), _turn_vectors(R, V[..., 3:])

    def _seen_from_frame(self, sensor: Sensor) -> Array:
        """Pose or velocity of a frame, in world axes, or as its reference frame sees it."""
        R, p, w, v = self._motion(sensor.on)
        if sensor.reference is not None:
            S, origin, spin, speed = self._motion(sensor.reference)
            v = v - speed - np.cross(spin, p - origin)
            back = np.swapaxes(S, -1, -2)
            R, p, w, v = (
                back @ R,
                _turn_vectors(back, p - origin),
                _turn_vectors(back, w - spin),
                _turn_vectors(back, v),
            )
        if sensor.kind in AXES:
            return np.asarray(R[..., AXES[sensor.kind]])
        if sensor.kind == "frame_quaternion":
            flat = [np.asarray(rotation_quaternion(r.astype(object)), dtype=float) for r in R.reshape(-1, 3, 3)]
            return np.array(flat).reshape(*R.shape[:-2], 4)
        return {"frame_position": p, "frame_linear_velocity": v, "frame_angular_velocity": w}[sensor.kind]

    def _fixed_to_frame(self, sensor: Sensor) -> Array:
        """A device fixed to a frame, or an acceleration of it."""
        V = np.asarray(self.dyn.twist(sensor.on)(self.q, self.v))
        if sensor.kind in ("gyro", "velocimeter"):
            return V[..., :3] if sensor.kind == "gyro" else V[..., 3:]
        J = np.asarray(self.dyn.jacobian(sensor.on)(self.q))
        A = (J @ self.a[..., None])[..., 0] + np.asarray(self.dyn.jacobian_bias(sensor.on)(self.q, self.v))
        linear = A[..., 3:] + np.cross(V[..., :3], V[..., 3:])
        R = np.asarray(self.dyn.pose(sensor.on)(self.q))[..., :3, :3]
        if sensor.kind == "frame_angular_acceleration":
            return _turn_vectors(R, A[..., :3])
        felt = linear - _turn_vectors(np.swapaxes(R, -1, -2), self.model.gravity.astype(float))
        return felt if sensor.kind == "accelerometer" else _turn_vectors(R, felt)

    def _load(self, sensor: Sensor) -> Array:
        """Load of the parent of a frame's body on it, in the frame."""
        frame = self.model.frame(sensor.on)
        R, p = np.array(frame.pose[:3, :3], dtype=float), np.array(frame.pose[:3, 3], dtype=float)
        carriers = [joint.name for joint in self.model.joints if joint.child == frame.body]
        if not carriers:
            raise UnsupportedError(f"read_sensors: {sensor.name!r} is fixed to the world, which nothing carries")
        wrench = self._reactions[..., reaction_names(self.model).index(carriers[0]), :]
        moment, force = wrench[..., :3], wrench[..., 3:]
        return np.asarray(force @ R if sensor.kind == "force" else (moment - np.cross(p, force)) @ R)

    @cached_property
    def _reactions(self) -> Array:
        """Moment and force in every joint, on the child and in its frame, (..., reactions, 6)."""
        if self.run is not None:
            if "joint_reactions" not in self.run:
                raise UnsupportedError(
                    "read_sensors: sensors of force and torque need reactions of joints: simulate with reactions=True"
                )
            return np.asarray(self.run["joint_reactions"].values)
        shape = self.q.shape[:-1]
        wrenches = np.zeros((*shape, len(self.model.bodies), 6))
        found, _ = self.dyn.joint_reactions_of_motion(self.q, self.v, self.a, np.zeros((*shape, 0)), wrenches)
        return np.asarray(found)

    def _touch(self, zone: Geometry) -> Array:
        """Sum of the normal forces on a body whose lines, into the body, meet one of its geometries."""
        total = np.zeros(self.q.shape[:-1])
        if self.run is None or "names" not in getattr(self.run.get("contact_force"), "attrs", ()):
            return total  # nothing can touch
        pushes = np.asarray(self.run["contact_force"].values)[..., 0]
        pose, shape = self._geometry_pose(zone), shape_of(zone)
        touching = contact_set_named(self.model, as_names(self.run["contact_force"].attrs["names"]))
        own = [(i, c) for i, c in enumerate(touching.candidates) if zone.body in (c.first_body, c.second_body)]
        for at in np.argwhere(np.any(pushes[..., [i for i, _ in own]] > 0, axis=-1)) if own else ():
            points, row = Snapshot(touching, self.q[tuple(at)]).points, tuple(at)
            R, p = pose[row][:3, :3], pose[row][:3, 3]
            for i, candidate in own:
                if pushes[row][i] > 0:
                    inwards = points.axes[i, 0] * (1 if candidate.first_body == zone.body else -1)
                    ray = ((points.point[i] - p) @ R)[None], (inwards @ R)[None]
                    total[row] += pushes[row][i] * bool(np.isfinite(way_along_ray(shape, *ray)[0]))
        return total

    def _range(self, sensor: Sensor) -> Array:
        """Distance along a frame's z axis to the next geometry of another body; −1 for none."""
        X, body = np.asarray(self.dyn.pose(sensor.on)(self.q)), self.model.frame(sensor.on).body
        start, along = X[..., :3, 3].reshape(-1, 3), X[..., :3, 2].reshape(-1, 3)
        nearest = np.full(len(start), np.inf)
        for geometry in self.model.geometries:
            if geometry.body == body or not (geometry.visible or geometry.collides):
                continue
            pose = np.broadcast_to(self._geometry_pose(geometry), X.shape).reshape(-1, 4, 4)
            arms, turned = start - pose[:, :3, 3], pose[:, :3, :3]
            own = (np.einsum("ki,kij->kj", x, turned) for x in (arms, along))
            nearest = np.minimum(nearest, way_along_ray(shape_of(geometry), *own))
        return np.where(np.isfinite(nearest), nearest, -1.0).reshape(X.shape[:-2])

    def _geometry_pose(self, geometry: Geometry) -> Array:
        """The pose of a geometry in the world, (..., 4, 4)."""
        local = np.array(geometry.pose, dtype=float)
        if geometry.body == WORLD:
            return np.broadcast_to(local, (*self.q.shape[:-1], 4, 4))
        return np.asarray(np.asarray(self.dyn.pose(geometry.body)(self.q)) @ local)


def _turn_vectors(R: Array, x: Array) -> Array:
    """R x for vectors (..., 3)."""
    return np.asarray((R @ np.broadcast_to(x, R.shape[:-1])[..., None])[..., 0])
