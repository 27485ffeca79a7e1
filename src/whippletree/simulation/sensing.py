"""Readings of a model's sensors, at single states or over a whole run (``wt.read_sensors``)."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.errors import ShapeError, UnsupportedError
from whippletree.model import Model, require_model
from whippletree.model.sensors import Sensor
from whippletree.spatial import rotation_quaternion

AXES = {"frame_x_axis": 0, "frame_y_axis": 1, "frame_z_axis": 2}


def read_sensors(
    model: Model, run: xarray.Dataset | None = None, *, q: Any = None, v: Any = None, a: Any = None
) -> Any:
    """What the model's sensors read: of a run, or of states.

    Args:
        model: with sensors.
        run: by ``wt.simulate``: its states and accelerations are taken.
        q: (..., nq), instead of a run.
        v: (..., nv); default: at rest.
        a: (..., nv), which accelerometers need; default: none.

    Returns:
        A dataset with one variable for each sensor, over the time of the run; for states a dict of arrays, (...,) or
        (..., n).

    Raises:
        UnsupportedError: a model without sensors.
        ShapeError: neither a run nor q is given.
    """
    require_model(model, "read_sensors")
    if not model.sensors:
        raise UnsupportedError(f"read_sensors: model {model.name!r} has no sensors: Builder.sensor adds them")
    if run is not None:
        state = {word: np.asarray(run[word].values) for word in ("q", "v", "a")}
        dims = run["q"].dims[:-1]
        readings = _Readings(model, state["q"], state["v"], state["a"]).all()
        found = {
            sensor.name: ((*dims, *(() if readings[sensor.name].ndim == len(dims) else (f"{sensor.name} part",))), x)
            for sensor, x in zip(model.sensors, readings.values(), strict=True)
        }
        return xarray.Dataset(found, coords={word: run.coords[word] for word in dims if word in run.coords})
    if q is None:
        raise ShapeError("read_sensors: give a run, or states q= and v=")
    at = np.asarray(q, dtype=float)
    rest = np.zeros((*at.shape[:-1], model.nv))
    return _Readings(model, at, *(rest if x is None else np.asarray(x, dtype=float) for x in (v, a))).all()


class _Readings:
    """All sensors of a model at states (...)."""

    def __init__(self, model: Model, q: Array, v: Array, a: Array) -> None:
        self.model, self.q, self.v, self.a = model, q, v, a
        self.dyn: Compiled = compile_model(model.tree)

    def all(self) -> dict[str, Array]:
        return {
            sensor.name: np.clip(self._read(sensor), -sensor.cutoff, sensor.cutoff) for sensor in self.model.sensors
        }

    def _read(self, sensor: Sensor) -> Array:
        word, _, what = sensor.kind.partition("_")
        if word == "joint":
            return self._joint(sensor.on, what)
        if word in ("actuator", "tendon"):
            return self._length(sensor, word, what)
        if sensor.kind in ("accelerometer", "gyro", "velocimeter") or sensor.kind.endswith("acceleration"):
            return self._fixed_to_frame(sensor)
        return self._frame(sensor)

    def _joint(self, joint: str, what: str) -> Array:
        found = self.q[..., self.model.q_slice(joint)] if what == "position" else self.v[..., self.model.slice(joint)]
        return found[..., 0] if found.shape[-1] == 1 else found

    def _length(self, sensor: Sensor, word: str, what: str) -> Array:
        """Of a tendon, or of the transmission of an actuator: its length is where a command of 0 would hold it."""
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
        return R, X[..., :3, 3], _turned(R, V[..., :3]), _turned(R, V[..., 3:])

    def _frame(self, sensor: Sensor) -> Array:
        R, p, w, v = self._motion(sensor.on)
        if sensor.reference is not None:
            S, origin, spin, speed = self._motion(sensor.reference)
            v = v - speed - np.cross(spin, p - origin)
            back = np.swapaxes(S, -1, -2)
            R, p, w, v = back @ R, _turned(back, p - origin), _turned(back, w - spin), _turned(back, v)
        if sensor.kind in AXES:
            return np.asarray(R[..., AXES[sensor.kind]])
        if sensor.kind == "frame_quaternion":
            flat = [np.asarray(rotation_quaternion(r.astype(object)), dtype=float) for r in R.reshape(-1, 3, 3)]
            return np.array(flat).reshape(*R.shape[:-2], 4)
        return {"frame_position": p, "frame_linear_velocity": v, "frame_angular_velocity": w}[sensor.kind]

    def _fixed_to_frame(self, sensor: Sensor) -> Array:
        V = np.asarray(self.dyn.twist(sensor.on)(self.q, self.v))
        if sensor.kind in ("gyro", "velocimeter"):
            return V[..., :3] if sensor.kind == "gyro" else V[..., 3:]
        J = np.asarray(self.dyn.jacobian(sensor.on)(self.q))
        A = (J @ self.a[..., None])[..., 0] + np.asarray(self.dyn.jacobian_bias(sensor.on)(self.q, self.v))
        linear = A[..., 3:] + np.cross(V[..., :3], V[..., 3:])
        R = np.asarray(self.dyn.pose(sensor.on)(self.q))[..., :3, :3]
        if sensor.kind == "frame_angular_acceleration":
            return _turned(R, A[..., :3])
        felt = linear - _turned(np.swapaxes(R, -1, -2), self.model.gravity.astype(float))
        return felt if sensor.kind == "accelerometer" else _turned(R, felt)


def _turned(R: Array, x: Array) -> Array:
    """R x for vectors (..., 3)."""
    return np.asarray((R @ np.broadcast_to(x, R.shape[:-1])[..., None])[..., 0])
