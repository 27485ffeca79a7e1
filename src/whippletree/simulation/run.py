"""``wt.simulate``: from a model and a start state to a labelled trajectory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.constraints.closing import require_consistent
from whippletree.errors import NameLookupError, ShapeError
from whippletree.model import Model
from whippletree.simulation.integrator import Event
from whippletree.simulation.method import Method, Task, find_method
from whippletree.simulation.motion import Motion
from whippletree.simulation.record import Record
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
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    output_dt: float | None = None,
    events: tuple[Event, ...] = (),
    project: bool = False,
    massless: str = "refuse",
    compiled: Compiled | None = None,
    **options: Any,
) -> xarray.Dataset:
    """Simulate a model from a start state.

    Springs and dampers of the joints act by themselves; ``controller`` adds to them.

    Args:
        model: any model; its constraints are honoured at position, velocity and acceleration level.
        q0, v0: start state, (nq,) and (nv,); default ``model.home``.
        duration: s.
        controller: joint forces as a function of time and state.
        method: how to step through time, a name of :data:`whippletree.simulation.method.METHODS`; ``"auto"`` takes the
            one that suits the model.
        rtol, atol: tolerances of the local error per step, relative and absolute; rtol is raised, with a warning, to
            the predicted rounding error of the accelerations where it asks for less.
        output_dt: spacing of the output, s; default 200 points.
        events: what to look for on the way; a terminal one ends the run.
        project: bring a start state that violates the constraints onto them; otherwise it is refused.
        massless: what to do about massless motions that nothing stops, as for ``wt.compile``.
        compiled: functions compiled before for this model, to share them among runs.
        options: what the method takes beside that.

    Returns:
        An ``xarray.Dataset`` over time: q, v, a, tau, energies, and with constraints their forces and residuals, with
        names and units. A run that fails returns what it had, with the reason in ``attrs["failure"]``.

    Raises:
        AssemblyError: if the start state violates the constraints and ``project`` is not asked for.
    """
    way = _with_options(find_method(method, model), options)
    dyn = compiled if compiled is not None else compile_model(model, massless=massless)
    q = _start("q0", model.home.q if q0 is None else q0, model.nq, model)
    v = _start("v0", model.home.v if v0 is None else v0, model.nv, model)
    spacing = duration / 200 if output_dt is None else output_dt
    times = _output_times(duration, spacing)
    if not project:
        require_consistent(model, q, v)
    motion = Motion(dyn, controller)
    watch = Watch(model, q, v, rtol)
    found_by = tuple(_on_state(event, model.nq) for event in events)
    start = motion.project(0.0, np.concatenate([q, v]))
    stepper = way(Task(motion, start, times, watch.rtol, atol, found_by), **options)
    record = Record()
    record.follow(stepper.chunks())
    settings = {"method": method, "duration": duration, "rtol": rtol, "atol": atol, "output_dt": spacing} | options
    return watch.reported(dataset(motion, stepper, record, settings), dyn)


def _with_options(way: type[Method], options: dict[str, Any]) -> type[Method]:
    """The method, if it knows all these options."""
    for word in options:
        if word not in way.options:
            raise NameLookupError("option", word, way.options, where=f"simulate with method {way.__name__}")
    return way


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
