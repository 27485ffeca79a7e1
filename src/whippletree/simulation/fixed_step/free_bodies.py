"""Free bodies in steps of first order, all of a model at once: their linear velocities are stepped in space.

The mathematics is :class:`whippletree.spatial.joints.Free`'s, compiled once for all models.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Buffer, straight_program
from whippletree.model import Model
from whippletree.simulation.motion import Motion
from whippletree.spatial import quaternion_rotation
from whippletree.spatial.joints import Free


class FreeBodies:
    """The free joints of a model."""

    def __init__(self, model: Model) -> None:
        parts = zip(model.joint_types, model.q_slices, model.v_slices, strict=True)
        free = [(range(i.start, i.stop), range(j.start, j.stop)) for joint, i, j in parts if isinstance(joint, Free)]
        self._q, self._v = (np.array([pair[k] for pair in free], dtype=int).reshape(-1, n) for k, n in ((0, 7), (1, 6)))

    def acceleration(self, motion: Motion, t: float, q: Array, v: Array, tau: Array) -> Array:
        """The accelerations (..., nv) under joint forces, those of free bodies in axes that do not turn."""
        return motion.evaluate("forward_dynamics", q=q, v=v, tau=tau, t=t) + self.turning(v)

    def turning(self, v: Array) -> Array:
        """Difference between the change of velocity in space and v̇ (..., nv)."""
        turning = np.zeros(v.shape)
        if self._v.size:
            turning[..., self._v] = _turning()(v[..., self._v])
        return turning

    def move(self, integrated: Array, q: Array, v: Array, d: Array) -> Array:
        """The state (..., nq + nv) after a displacement d (..., nv): ``integrated``, with free bodies along straight
        lines.
        """
        state = np.concatenate([integrated, v], axis=-1)
        if self._v.size:
            places, speeds = _straight()(q[..., self._q], v[..., self._v], d[..., self._v])
            state[..., self._q], state[..., integrated.shape[-1] + self._v] = places, speeds
        return state

    def in_earlier_axes(self, before: Array, q: Array, v: Array) -> Array:
        """Velocities v (..., nv) at q (..., nq), in the axes that the free bodies had at earlier coordinates."""
        found = np.array(v)
        if self._v.size:
            now, then = (_rotation()(x[..., self._q]).reshape(*x.shape[:-1], -1, 3, 3) for x in (q, before))
            linear = v[..., self._v[:, 3:], None]
            found[..., self._v[:, 3:]] = (np.swapaxes(then, -1, -2) @ (now @ linear))[..., 0]
        return found

    def are_pushed(self, tau: Array) -> bool:
        """Whether joint forces (..., nv) act on a free body."""
        return bool(self._v.size) and bool(np.any(tau[..., self._v]))


@cache
def _rotation() -> NamedFunction:
    return _compile_function("rotated", lambda q: quaternion_rotation(*q[3:]).ravel(), {"q": 7}, {"R": 9})


@cache
def _turning() -> NamedFunction:
    return _compile_function("turning", Free().turning, {"v": 6}, {"w": 6})


@cache
def _straight() -> NamedFunction:
    def straight(q: Array, v: Array, d: Array) -> Array:
        return np.concatenate(Free().straight(q, v, d))

    return _compile_function("straight", straight, {"q": 7, "v": 6, "d": 6}, {"q_out": 7, "v_out": 6})


def _compile_function(
    name: str, function: Callable[..., Array], inputs: Mapping[str, int], outputs: Mapping[str, int]
) -> NamedFunction:
    trace = Trace()
    code = finish(trace, list(function(*[trace.inputs(size) for size in inputs.values()])))
    given = [Buffer(word, "input", (size,)) for word, size in inputs.items()]
    wanted = [Buffer(word, "output", (size,)) for word, size in outputs.items()]
    return compile_function(straight_program(name, code, given, wanted))
