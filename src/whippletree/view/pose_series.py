"""Where everything is at every moment: poses of bodies and frames along a run, as plain arrays."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import ShapeError
from whippletree.model import WORLD, Model
from whippletree.model.input_checks import floats

if TYPE_CHECKING:
    import xarray


class Moves:
    """The poses of a model at some states."""

    def __init__(self, model: Model, times: Array, q: Array, exaggeration: float = 1.0) -> None:
        """times (T,) in s, q (T, nq); what flexible bodies are drawn with is their modal coordinates times a factor."""
        self.model, self.times, self.q = model, times, q
        self.drawn = q
        if exaggeration != 1.0 and model.is_flexible:
            self.drawn = np.array(q, dtype=float)
            for joint, part in zip(model.joints, model.q_slices, strict=True):
                if joint.kind == "modal":
                    self.drawn[:, part] *= exaggeration

    @cached_property
    def bodies(self) -> Array:
        """Poses of the bodies in the world, (bodies, T, 4, 4)."""
        poses: Array = np.empty((len(self.model.bodies), len(self.times), 4, 4))
        for k, (joint, kind, part) in enumerate(
            zip(self.model.joints, self.model.joint_types, self.model.q_slices, strict=True)
        ):
            parent = self.model.parents[k]
            if joint.kind == "port":
                part = self.model.q_slices[parent]  # a frame of a flexible body moves with its modes
            if kind.nq or joint.kind == "port":
                moved = np.array([kind.pose(q.astype(object)).matrix() for q in self.drawn[:, part]], dtype=float)
            else:
                moved = np.eye(4)[None]
            own = joint.pose.astype(float) @ moved
            poses[k] = poses[parent] @ own if parent >= 0 else own
        return poses

    def body(self, name: str) -> Array:
        """Poses of a body, or of the world, (T, 4, 4)."""
        if name == WORLD:
            return np.broadcast_to(np.eye(4), (len(self.times), 4, 4))
        return np.asarray(self.bodies[self.model.body_index(name)])

    def frame(self, name: str) -> Array:
        """Poses of a frame or a body, (T, 4, 4)."""
        found = self.model.frame(name)
        return np.asarray(self.body(found.body) @ found.pose.astype(float))

    def outline(self, k: int) -> Array:
        """The points of a flexible body's outline in the world, bent, (points, T, 3); ``k`` its body of modes."""
        body = self.model.joints[k].flexible
        assert body is not None
        eta = self.drawn[:, self.model.q_slices[k]]
        shapes = body.outline_shapes.astype(float)
        points = body.outline.astype(float)[:, None] + np.einsum("pna,tn->pta", shapes, eta)
        poses = self.bodies[k]
        return np.asarray(np.einsum("tab,ptb->pta", poses[:, :3, :3], points) + poses[None, :, :3, 3])

    def joint(self, k: int) -> Array:
        """Poses of a joint's frame, fixed to the parent, (T, 4, 4)."""
        joint = self.model.joints[k]
        return np.asarray(self.body(joint.parent) @ joint.pose.astype(float))


def require_single(run: xarray.Dataset) -> None:
    """Refuse a batch of runs.

    Raises:
        ShapeError: q is not over time and coordinates alone.
    """
    if "q" not in getattr(run, "variables", ()):
        raise TypeError(f"a picture needs a run, what wt.simulate returns, and got {run!r}")
    dims = run["q"].dims
    if len(dims) != 2 or dims[0] != "time":
        others = [name for name in dims if name not in ("time", "coordinate")] or ["batch"]
        raise ShapeError(
            f"a picture shows one run, this one has q over {dims}: choose one, as by run.isel({others[0]}=0)"
        )


def choose_moments(run: xarray.Dataset, model: Model, frames: int) -> xarray.Dataset:
    """At most ``frames`` moments of a run, evenly spread over its time, the first and the last among them.

    Raises:
        ShapeError: the run is not one of this model, or not a single one, or it is empty.
        ValueError: it holds coordinates that are not finite.
    """
    require_single(run)
    if run["q"].shape[1] != model.nq or run.sizes["time"] == 0:
        raise ShapeError(
            f"the run has q of shape {run['q'].shape}, model {model.name!r} has nq = {model.nq}: "
            f"give the model that was simulated, and a run that is not empty"
        )
    times = np.asarray(run["time"], dtype=float)
    lost = np.flatnonzero(~np.isfinite(run["q"].values).all(axis=1))
    if len(lost):
        raise ValueError(
            f"the run of model {model.name!r} holds coordinates that are not finite at t = {times[lost[0]]:g} s: show "
            f"the part before, run.isel(time=slice({lost[0]}))"
        )
    if len(times) <= frames:
        return run
    wanted = np.linspace(times[0], times[-1], max(frames, 2))
    return run.isel(time=np.unique(np.searchsorted(times, wanted)))


def single(model: Model, q: Any = None, exaggeration: float = 1.0) -> Moves:
    """One configuration, home if none is given.

    Raises:
        ShapeError: q has not nq entries.
    """
    state = floats("show", "q", model.home.q if q is None else q)
    if state.shape != (model.nq,):
        raise ShapeError(f"q has shape {state.shape}, expected ({model.nq},) for model {model.name!r}")
    return Moves(model, np.zeros(1), state[None], exaggeration)
