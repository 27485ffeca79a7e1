"""``wt.simulate``: from a model and a start state to a labelled trajectory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.constraints.closing import require_consistent
from whippletree.errors import ShapeError
from whippletree.model import Model
from whippletree.simulation.integrator import Event, IntegrationError, Integrator, Piece
from whippletree.simulation.motion import Motion
from whippletree.simulation.trajectory import dataset
from whippletree.simulation.watch import Watch

if TYPE_CHECKING:
    import xarray

Array = np.ndarray[Any, Any]
Controller = Callable[[float, Array, Array], Any]
"""tau = f(t, q, v), (nv,)."""


def simulate(
    model: Model,
    q0: Any = None,
    v0: Any = None,
    *,
    duration: float,
    controller: Controller | None = None,
    rtol: float = 1e-8,
    atol: float = 1e-10,
    output_dt: float | None = None,
    events: tuple[Event, ...] = (),
    project: bool = False,
    compiled: Compiled | None = None,
) -> xarray.Dataset:
    """Simulate a model from a start state.

    Springs and dampers of the joints act by themselves; ``controller`` adds to them.

    Args:
        model: any model; its constraints are honoured at position, velocity and acceleration level.
        q0, v0: start state, (nq,) and (nv,); default ``model.home``.
        duration: s.
        controller: joint forces as a function of time and state.
        rtol, atol: tolerances of the local error per step, relative and absolute; rtol is raised, with a warning, to
            the predicted rounding error of the accelerations where it asks for less.
        output_dt: spacing of the output, s; default 200 points.
        events: what to look for on the way; a terminal one ends the run.
        project: bring a start state that violates the constraints onto them; otherwise it is refused.
        compiled: functions compiled before for this model, to share them among runs.

    Returns:
        An ``xarray.Dataset`` over time: q, v, a, tau, energies, and with constraints their forces and residuals, with
        names and units. A run that fails returns what it had, with the reason in ``attrs["failure"]``.

    Raises:
        AssemblyError: if the start state violates the constraints and ``project`` is not asked for.
    """
    dyn = compiled if compiled is not None else compile_model(model)
    q = _start("q0", model.home.q if q0 is None else q0, model.nq, model)
    v = _start("v0", model.home.v if v0 is None else v0, model.nv, model)
    motion = Motion(dyn, controller)
    watch = Watch(model, q, v, rtol)
    integrator = Integrator(motion, watch.rtol, atol, tuple(_on_state(event, model.nq) for event in events))
    spacing = duration / 200 if output_dt is None else output_dt
    times = _output_times(duration, spacing)
    if not project:
        require_consistent(model, q, v)
    track = Track(motion, times, motion.project(0.0, np.concatenate([q, v])))
    failure = ""
    try:
        for piece in integrator.pieces(0.0, track.states[0], duration):
            track.follow(piece)
    except IntegrationError as error:
        failure = str(error)
    options = {"duration": duration, "rtol": rtol, "atol": atol, "output_dt": spacing}
    run = dataset(motion, *track.arrays(), integrator.statistics, track.events, failure, options)
    return watch.reported(run, dyn)


class Track:
    """The states at the output times, and at the end of a run that a terminal event has stopped."""

    def __init__(self, motion: Motion, wanted: Array, start: Array) -> None:
        self.motion = motion
        self.wanted = wanted
        self.times = [0.0]
        self.states = [start]
        self.events: list[tuple[str, float]] = []

    def follow(self, piece: Piece) -> None:
        """Take what lies in one step."""
        for time in self.wanted[(self.wanted > self.times[-1]) & (self.wanted <= piece.end)].tolist():
            self.times.append(time)
            inside = time != piece.end
            self.states.append(self.motion.project(time, piece.interpolant(time)) if inside else piece.state)
        self.events += piece.found
        stopped = bool(piece.found) and piece.found[-1][1] == piece.end
        if stopped and self.times[-1] < piece.end:
            self.times.append(piece.end)
            self.states.append(piece.state)

    def arrays(self) -> tuple[Array, Array]:
        """Times (m,) and states (m, nq + nv)."""
        return np.array(self.times), np.array(self.states)


def _output_times(duration: float, spacing: float) -> Array:
    """0, spacing, 2 spacing, … and the end itself."""
    if not (duration > 0 and spacing > 0 and np.isfinite(duration)):
        raise ValueError(f"simulate: duration {duration!r} and output_dt {spacing!r} must be positive and finite")
    count = int(np.floor(duration / spacing * (1 + 1e-12)))
    times = spacing * np.arange(count + 1)
    times[-1] = min(times[-1], duration)
    return times if times[-1] == duration else np.append(times, duration)


def _start(name: str, value: Any, size: int, model: Model) -> Array:
    array = np.asarray(value, dtype=float)
    if array.shape != (size,):
        raise ShapeError(f"simulate: {name} has shape {array.shape}, expected ({size},) for model {model.name!r}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"simulate: {name} holds {array[~np.isfinite(array)][0]}: a start state must be finite")
    return array


def _on_state(event: Event, nq: int) -> Event:
    """An event of (t, q, v) as one of (t, y)."""
    function: Any = event.function
    return Event(event.name, lambda t, y: float(function(t, y[:nq], y[nq:])), event.direction, event.terminal)
