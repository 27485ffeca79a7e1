"""``wt.simulate``: from a model and a start state to a labelled trajectory."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.bound import Bound
from whippletree.compiler.compiled import Compiled, shared_functions
from whippletree.compiler.compiled import compile as compile_model
from whippletree.compiler.frontend.fingerprint import fingerprint
from whippletree.compiler.rollout.activation_steps import checked_activations
from whippletree.constraints.assembly import require_consistent
from whippletree.constraints.singular.dead_points import words_off_branch
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.constraints.singular.tangent_cone import TieWarning
from whippletree.contact.kinematics.joint_contacts import limited_axes, nearer_ends_of_many, rubbing_axes
from whippletree.contact.restitution_share import warn_of_unheeded_laws
from whippletree.controllers import ActuatorForces, limited
from whippletree.errors import (
    IntegrationError,
    NameLookupError,
    ShapeError,
    UnsupportedError,
    list_items,
    quote,
    warn_caller,
)
from whippletree.model import Model, require_model
from whippletree.model.input_checks import (
    PART_OF_STATE,
    as_names,
    floats,
    is_text,
    refuse_zero_quaternions,
    require_arguments,
)
from whippletree.simulation.adaptive.user_events import Event
from whippletree.simulation.checkpoint import Checkpoint
from whippletree.simulation.conditioning_watch import Watch
from whippletree.simulation.method import METHODS, Method, Task, find_method, limited_tendons, positive, suitable
from whippletree.simulation.motion import Motion
from whippletree.simulation.one_by_one import InTurn
from whippletree.simulation.output.dataset import check_names, dataset, refuse_more_than_memory
from whippletree.simulation.progress import bar
from whippletree.simulation.record import Record
from whippletree.simulation.run_identity import run_identity

if TYPE_CHECKING:
    import xarray

Controller = Callable[[float, Array, Array], Any]
"""tau = f(t, q, v), (nv,)."""

MOST_OUTPUT_ROWS = 1e8
"""Rows of output beyond which a request is taken for a mistake."""

ROUNDED_SPACING = 1e-12
"""Share of the duration by which whole spacings of the output may miss its end and count as reaching it."""

EXCESS_WORTH_A_WARNING = 1e-3
"""rad or m beyond a joint's range that a warning reports."""

CONSISTENT_START = 1e-9
"""Residual, m or rad, per second for velocities, below which a start state needs no closer look."""


def simulate(
    model: Model,
    q0: Any = None,
    v0: Any = None,
    *,
    duration: float,
    controller: Controller | None = None,
    ctrl: Any = None,
    act0: Any = None,
    method: str = "auto",
    rtol: float = 1e-8,
    atol: float = 1e-10,
    output_dt: float | None = None,
    events: Sequence[Event] = (),
    points: str | Sequence[str] = (),
    variables: str | Sequence[str] | None = None,
    reactions: bool = False,
    effort_limits: bool = False,
    project: bool = False,
    massless: str = "refuse",
    compiled: Compiled | None = None,
    parameters: Mapping[str, Any] | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: float = 10.0,
    **options: Any,
) -> xarray.Dataset:
    """Simulate a model from a start state.

    Springs and dampers of the joints act by themselves, actuators by their commands; ``controller`` adds to them.

    Args:
        model: any model; its constraints are honoured at position, velocity and acceleration level.
        q0, v0: start state, (nq,) and (nv,), or many, (runs, nq) and (runs, nv); default ``model.home``.
        duration: s.
        controller: joint forces as a function of time and state; see :mod:`whippletree.controllers`, whose ``batched``
            marks one that is called once per step for all runs.
        ctrl: commands of the model's actuators: one for each, (actuators,), or by name, or as a function of (t, q, v);
            or a table (n, actuators), each row of which holds for an equal part of the duration. Default: those of the
            key frame ``home``, else 0.
        act0: activations of the actuators that have some, at the start, (activations,) or (runs, activations). Default:
            those of the key frame ``home``, else 0.
        method: how to step through time, a name of :data:`whippletree.simulation.method.METHODS`; ``"auto"`` takes the
            one that suits the model: with contacts, joint limits or dry friction, one that sees them, and time stepping
            with the model's own ``time_step`` where it has one.
        rtol, atol: tolerances of the local error per step, relative and absolute; rtol is raised, with a warning, to
            the predicted rounding error of the accelerations where it asks for less, at the start and on the way.
        output_dt: spacing of the output, s; default about 200 points.
        events: what to look for on the way; a terminal one ends the run.
        points: frames or bodies whose positions are wanted.
        variables: what the result holds beside q, v and points; default everything. A large batch with many rows of
            output spends most of its time on what is not asked for here.
        reactions: whether the result also holds ``joint_reactions``, the moment and force in every joint and closure,
            and ``reactions_determined``, 1 where statics determines them; see ``joint_reactions`` of ``wt.compile``.
        effort_limits: whether the controller's forces are cut to the joints' ``effort_limit``.
        project: bring a start state that violates the constraints onto them; otherwise it is refused.
        massless: what to do about massless motions that nothing stops, as for ``wt.compile``.
        compiled: functions compiled before for this model, to share them among runs.
        parameters: numbers of the model that differ from those it has, by path, such as ``bodies.rod.mass``: one for
            all runs, or one for each. The functions are compiled once, whatever the numbers.
        progress: whether a long run shows how far it has come; default: on a terminal.
        checkpoint: a folder that keeps the run while it is computed. The same call with the same folder goes on where
            an earlier one was interrupted or killed, to the same bits; ``wt.read_checkpoint`` shows what is there. A
            call that differs in anything that decides the run, the code and values of a controller or an event
            included, is refused with what differs.
        checkpoint_every: seconds of computing between two parts of it.
        options: what the method takes beside that.

    Returns:
        An ``xarray.Dataset`` over time (and run): q, v, a, tau, energies, and with constraints their forces and
        residuals, with names and units. A run that fails returns what it had, with the reason in ``attrs["failure"]``;
        in a batch it is NaN from there on, and the variable ``failure`` has the reasons.

    Raises:
        AssemblyError: if the start state violates the constraints and ``project`` is not asked for.
    """
    # the method, and the functions that it steps with
    require_model(model, "simulate")
    _require_flags(reactions=reactions, effort_limits=effort_limits, project=project, progress=progress)
    method = suitable(model, _starts(model, q0, v0)[0]) if method == "auto" else method
    way = _way(model, method, options, _is_alone(q0, v0))
    dyn, q0 = _functions(model, compiled, parameters, massless, q0)
    model = dyn.model  # with what was decided about massless motions
    if controller is not None and not callable(controller):
        raise ValueError(f"simulate: the controller {controller!r} is not a function of (t, q, v)")
    if controller is not None:
        require_arguments("simulate: the controller", controller, "t", "q", "v")

    # the numbers of the call
    q, v = _starts(model, q0, v0)
    refuse_zero_quaternions("simulate", "q0", q, model)
    # rtol may be 0, atol may not: a coordinate at 0 would have to be exact
    rtol, atol = positive("rtol", rtol, or_zero=True), positive("atol", atol)
    duration = positive("duration", duration)
    spacing = positive("output_dt", way.spacing(duration, options) if output_dt is None else output_dt)
    times = _output_times(duration, spacing)
    checkpoint_every = positive("checkpoint_every", checkpoint_every, or_zero=True)
    points, variables = as_names(points), None if variables is None else as_names(variables)
    refuse_more_than_memory(model, len(times), len(q) if q.ndim == 2 else 1, variables)
    for name in points:
        model.frame(name)

    # the model in motion, from a start that its constraints allow
    if effort_limits and controller is not None:
        controller = limited(controller, model)
    motion = _motion(dyn, controller, _actuators(model, ctrl, duration, act0), way, method)
    if not project:
        _require_consistent(motion, q, v)
    watch = Watch(motion, *_first(q, v, model), rtol if way.tolerances else np.inf)

    # the task, and the method at work on it
    sought = _checked_events(events, way, method, model)
    follow = watch.follow if way.tolerances else None
    task = Task(motion, _start_of_run(motion, q, v), times, watch.rtol, atol, sought, follow)
    stepper = _stepper(task, way, options, one_design=parameters is None)
    if variables is not None:
        check_names(model, stepper, variables)

    # the run, from its start or from a checkpoint of the same choices
    choices = {"method": method, "rtol": rtol, "atol": atol, "project": project, "massless": massless} | options
    choices |= {f"parameter {path}": value for path, value in (parameters or {}).items()}
    identify = partial(run_identity, dyn, task, motion.all_that_drives, tuple(events), choices)
    record = _record(stepper, checkpoint, checkpoint_every, identify, bar(progress, model.name))

    # its states as a dataset, with warnings of all that the method did not see
    settings = {"method": method, "duration": duration, "rtol": rtol, "atol": atol, "output_dt": spacing} | options
    if way.tolerances:
        motion.use_compiled(None)  # a run that is read from a checkpoint has none: the same bits of its forces
    result = dataset(motion, stepper, record, settings, watch, points, variables, reactions)
    if not way.touches:
        _warn_of_unseen_limits(model, result, method)
    _warn_of_start_off_branch(motion, *_first(q, v, model))
    return _with_ties(result, motion)


def _require_flags(**flags: Any) -> None:
    """Refuse text for True or False: "no" would count as yes."""
    for name, value in flags.items():
        if is_text(value):
            raise TypeError(f"simulate: {name} is {value!r}, expected True or False, written without quotes")


def _way(model: Model, method: str, options: dict[str, Any], alone: bool) -> type[Method]:
    """The method of this name in the form that suits the model, given the model's own time step; what it does not see
    is refused or warned of."""
    if method == "time_stepping" and model.time_step is not None:
        options.setdefault("step", model.time_step)
    way = _with_options(find_method(method, model).form_for(model, alone, options), method, options, model)
    _refuse_unseen_contacts(model, way, method)
    _warn_of_unseen_forces(model, way, method)
    return way


def _functions(
    model: Model, compiled: Compiled | None, parameters: Mapping[str, Any] | None, massless: str, q0: Any
) -> tuple[Compiled, Any]:
    """The functions of the model, with these parameters, and a start for each design if there are several."""
    dyn: Compiled
    if parameters:
        dyn = bound = _with_parameters(model, compiled, parameters, massless)
        q0 = q0 if bound.designs is None else _for_each(model.home.q if q0 is None else q0, bound.designs)
    else:
        dyn = shared_functions(model, massless) if compiled is None else _of_this_model(compiled, model)
    _refuse_open_parameters(dyn)
    return dyn, q0


def _motion(
    dyn: Compiled, controller: Controller | None, driven: ActuatorForces | None, way: type[Method], method: str
) -> Motion:
    """The model in motion under all that drives it; activations are part of its state where the method keeps them."""
    remembers = way.remembers == "always" or (way.remembers == "state" and callable(driven and driven.ctrl))
    motion = Motion(dyn, controller, actuated=driven, remembers=remembers)
    if driven is not None and dyn.model.activations and not remembers:
        driven.require_known()
        _require_common_activations(driven, method)
    return motion


def _start_of_run(motion: Motion, q: Array, v: Array) -> Array:
    """The start on the constraint manifold, one or one for each run, with the activations that the motion keeps."""
    memory = [_rows_of(motion.actuated.act0, q)] if motion.actuated is not None and motion.remembers else []
    return motion.project(0.0, np.concatenate([q, v, *memory], axis=-1))


def _stepper(task: Task, way: type[Method], options: dict[str, Any], one_design: bool) -> Method:
    """The method at work: all runs of a batch together where it can, else one after the other."""
    together = way.batches and (way.opens or one_design)
    return way(task, **options) if together or task.start.ndim == 1 else InTurn(task, way, options)


def _record(
    stepper: Method,
    checkpoint: str | os.PathLike[str] | None,
    checkpoint_every: float,
    identify: Callable[[], dict[str, str]],
    progress_bar: AbstractContextManager[Any],
) -> Record:
    """The run from its start, or from where its checkpoint ends, to its end."""
    record = Record()
    with ExitStack() as opened:
        keep = None
        if checkpoint is not None:
            keep = opened.enter_context(Checkpoint(checkpoint, checkpoint_every, identify()))
        record.follow(stepper, keep, opened.enter_context(progress_bar))
        if keep is not None:
            keep.note_changes(identify())
    return record


def _actuators(model: Model, ctrl: Any, duration: float, act0: Any) -> ActuatorForces | None:
    """The model's actuators under their commands; None where they do nothing."""
    homes = [key for key in model.key_frames if key.name == "home"]
    if act0 is None and homes and len(homes[0].act):
        act0 = homes[0].act.astype(float)
    elif act0 is not None:
        checked_activations(model, "simulate", act0)
    if ctrl is None:
        commands = [key.commands for key in homes if np.any(key.commands != 0)]
        acts = any(actuator.acts_uncommanded for actuator in model.actuators) or bool(model.activations)
        if not commands and not acts:
            return None  # motors without a command
        ctrl = commands[0] if commands else None
    return ActuatorForces.of(model, ctrl, duration, act0)


def _require_common_activations(driven: ActuatorForces, method: str) -> None:
    if driven.act0.ndim > 1:
        raise ShapeError(
            f"simulate: act0 has shape {driven.act0.shape}; method {method!r} takes the same activations for all runs, "
            f"(activations,): 'time_stepping' takes those of each"
        )


def _rows_of(act: Array, q: Array) -> Array:
    """Activations (..., activations) of as many states as there are coordinates q (..., nq)."""
    try:
        return np.broadcast_to(act, (*q.shape[:-1], act.shape[-1]))
    except ValueError:
        count = act.shape[-1]
        raise ShapeError(
            f"simulate: act0 has shape {act.shape}, expected ({count},) for all {len(q)} runs, or ({len(q)}, {count}) "
            f"with a row for each"
        ) from None


def _warn_of_start_off_branch(motion: Motion, q: Array, v: Array) -> None:
    """Warn of a velocity at the start, on a dead point, that no motion has; of several starts the first is examined."""
    small = motion.model.nv <= LONG_SYSTEM and bool(motion.model.constraints)
    if motion.dead_points and small and (words := words_off_branch(motion.model, q, v, 0.0)):
        warn_caller(f"simulate: {words}", RuntimeWarning)


def _with_ties(run: xarray.Dataset, motion: Motion) -> xarray.Dataset:
    """The run with a note on dead points at which its branch was a matter of choice; a warning, too."""
    if not motion.ties:
        return run
    note = "; ".join(sorted(motion.ties))
    warn_caller(f"simulate: {note}", TieWarning)
    return run.assign_attrs(ties=note)


def _is_alone(q0: Any, v0: Any) -> bool:
    """Whether there is one start state, not a batch."""
    return max(np.ndim(q0), np.ndim(v0)) < 2


def _with_options(way: type[Method], method: str, options: dict[str, Any], model: Model) -> type[Method]:
    """The method, if it knows all these options."""
    for word in options:
        if word not in way.options:
            known = [*way.options, *(name for name in inspect.signature(simulate).parameters if name != "options")]
            others = [f"method={name!r}" for name in METHODS if word in find_method(name, model).all_options()]
            hint = f". {' and '.join(others)} {'has' if len(others) == 1 else 'have'} it" if others else ""
            raise NameLookupError("option", word, known, where=f"simulate with method {method!r}", hint=hint)
    return way


def _refuse_unseen_contacts(model: Model, way: type[Method], method: str) -> None:
    if model.touches and not way.touches:
        without = ", ".join(f"{name}=()" for name in ("contacts", "contact_groups") if getattr(model, name))
        raise UnsupportedError(
            f"simulate: model {model.name!r} has contacts, which method {method!r} does not see: choose "
            f"method='events' or 'time_stepping', or take them off: dataclasses.replace(model, {without})"
        )


def _warn_of_unseen_forces(model: Model, way: type[Method], method: str) -> None:
    if way.touches and not way.obeys_laws:
        warn_of_unheeded_laws(model, f"simulate: method {method!r}")
    tendons = [repr(name) for name in limited_tendons(model)]
    if tendons and not way.touches:
        warn_caller(
            f"simulate: method {method!r} leaves out the limits of tendon {', '.join(tendons)}: they act in "
            f"method='time_stepping'; wt.load(..., limits=False) has none",
            RuntimeWarning,
        )
    dry = [repr(axis.name) for axis in rubbing_axes(model)]
    if dry and not way.touches:
        warn_caller(
            f"simulate: method {method!r} leaves out the dry friction of joint {', '.join(dry)}: it acts in "
            f"method='events' (or 'time_stepping'); a model without it has friction=0 there",
            RuntimeWarning,
        )


def _warn_of_unseen_limits(model: Model, run: xarray.Dataset, method: str) -> None:
    """Warn where a run has left the range of a joint, whose limits its method does not see."""
    axes = limited_axes(model)
    if not axes:
        return
    nearest, _ = nearer_ends_of_many(axes, run["q"].values.reshape(-1, model.nq))
    excess = np.fmax.reduce(-nearest, axis=0, initial=0.0)  # fmax: states after a failure are no numbers
    beyond = [f"{axes[k].name!r} by {excess[k]:.3g}" for k in np.flatnonzero(excess > EXCESS_WORTH_A_WARNING)]
    if beyond:
        warn_caller(
            f"simulate: method {method!r} does not see joint limits, and the run leaves the range of "
            f"{list_items(beyond)} (rad or m): method='events' and 'time_stepping' keep them; wt.load(..., "
            f"limits=False) has none"
        )


def _of_this_model(compiled: Compiled, model: Model) -> Compiled:
    """Functions compiled before, if for an equal tree of bodies; loops may have been added or left out since."""
    if not isinstance(compiled, Compiled):
        raise TypeError(f"simulate: compiled is {quote(compiled)}, expected what wt.compile(model) gives")
    if compiled.model.bodies is not model.bodies:
        trees = [
            fingerprint(replace(m, constraints=(), contacts=(), contact_groups=())) for m in (compiled.model, model)
        ]
        if trees[0] != trees[1]:
            raise ValueError(f"simulate: compiled= is for model {compiled.model.name!r}, not for this {model.name!r}")
    return compiled


def _with_parameters(model: Model, compiled: Compiled | None, parameters: Mapping[str, Any], massless: str) -> Bound:
    """The functions with these numbers."""
    if not isinstance(parameters, Mapping):
        raise TypeError(
            f"simulate: parameters is {quote(parameters)}, expected numbers by path: {{'bodies.rod.mass': 0.3}}"
        )
    if compiled is None:
        compiled = compile_model(model, massless=massless, parameters=tuple(parameters), watch="never")
    return Bound(_of_this_model(compiled, model), parameters)


def _for_each(q0: Any, designs: int) -> Array:
    """A start for each design; one that is given serves all."""
    start = np.asarray(q0)
    if start.ndim == 2 and len(start) != designs:
        raise ShapeError(
            f"simulate: q0 has {len(start)} runs and parameters have {designs}: give one of each for a run"
        )
    return np.broadcast_to(start, (designs, start.shape[-1]))


def _refuse_open_parameters(dyn: Compiled) -> None:
    if dyn.parameters:
        raise UnsupportedError(
            f"simulate: the functions of model {dyn.model.name!r} leave {', '.join(dyn.parameters)} open: compile "
            f"them without open parameters, or use dyn.rollout"
        )


def _output_times(duration: float, spacing: float) -> Array:
    """0, spacing, 2 spacing, … and the end itself."""
    if duration / spacing > MOST_OUTPUT_ROWS:
        raise ValueError(
            f"simulate: duration {duration!r} and output_dt {spacing!r} ask for {duration / spacing:.3g} rows of "
            f"output, more than {MOST_OUTPUT_ROWS:g}: choose a longer output_dt"
        )
    count = int(np.floor(duration / spacing * (1 + ROUNDED_SPACING)))
    times = spacing * np.arange(count + 1)
    if duration - times[-1] > ROUNDED_SPACING * duration:
        return np.append(times, duration)
    times[-1] = duration  # 3 · 0.3 is less than 0.9, and what is left is no row
    return times


def _starts(model: Model, q0: Any, v0: Any) -> tuple[Array, Array]:
    """The start of one run, (nq,) and (nv,), or of many, (runs, nq) and (runs, nv)."""
    q = _start("q0", model.home.q if q0 is None else q0, model.nq, model)
    v = _start("v0", model.home.v if v0 is None else v0, model.nv, model)
    runs = {len(x) for x in (q, v) if x.ndim == 2}
    if not runs:
        return q, v
    if len(runs) > 1:
        raise ShapeError(f"simulate: q0 has {len(q)} runs and v0 has {len(v)}: give one start state for each run")
    (count,) = runs
    return np.broadcast_to(q, (count, model.nq)), np.broadcast_to(v, (count, model.nv))


def _start(name: str, value: Any, size: int, model: Model) -> Array:
    if isinstance(value, Mapping) and not hasattr(value, PART_OF_STATE[name]):
        cure = "wt.assemble(model, hold=...) and model.slice(...) place joints by name"
        raise ShapeError(f"simulate: {name} is {value!r}, expected {size} numbers for model {model.name!r}: {cure}")
    array = floats("simulate", name, value)
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise ShapeError(
            f"simulate: {name} has shape {array.shape}, expected ({size},) or (runs, {size}) for model {model.name!r}"
        )
    if not np.all(np.isfinite(array)):
        raise ValueError(f"simulate: {name} holds {array[~np.isfinite(array)][0]}: a start state must be finite")
    return array


def _first(q: Array, v: Array, model: Model) -> tuple[Array, Array]:
    """The first start state, for what is found out once; the model's own if there are no runs."""
    if q.ndim == 1:
        return q, v
    return (q[0], v[0]) if len(q) else (model.home.q, model.home.v)


def _require_consistent(motion: Motion, q: Array, v: Array) -> None:
    """Refuse start states that violate the constraints; the reference, which takes a hundred times as long as a step,
    examines only those that look suspicious."""
    if not motion.model.constraints:
        return
    states, speeds = np.atleast_2d(q), np.atleast_2d(v)
    g = motion.evaluate("constraint_residual", q=states, t=0.0)
    rates = motion.evaluate("constraint_velocity", q=states, v=speeds, t=0.0)
    suspicious = [np.abs(rows).max(axis=1, initial=0.0) > CONSISTENT_START for rows in (g, rates)]
    for k in np.flatnonzero(np.any(suspicious, axis=0)):
        require_consistent(motion.of_run(int(k)).model, states[k], speeds[k])


def _checked_events(events: Any, way: type[Method], method: str, model: Model) -> tuple[Event, ...]:
    """The events of a run, as functions of (t, y).

    Raises:
        TypeError: something else than a list of events.
        ValueError: two of one name.
        UnsupportedError: a method that does not look for any.
    """
    if isinstance(events, Event) or not isinstance(events, Iterable):
        raise TypeError(f"simulate: events is {events!r}, expected a list of wt.Event(name, function)")
    found = tuple(_on_state(event, model.nq, model.nv) for event in events)
    names = [event.name for event in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"simulate: two events have the name {name!r}: the run tells them apart by their names")
    if names and not way.looks_for_events:
        other = "events" if way.touches else "adaptive"
        raise UnsupportedError(
            f"simulate: method {method!r} takes fixed steps and does not look for events "
            f"({', '.join(map(repr, names))}): use method={other!r}"
        )
    return found


def _on_state(event: Event, nq: int, nv: int) -> Event:
    """An event of (t, q, v) as one of (t, y)."""
    if not isinstance(event, Event):
        raise TypeError(f"simulate: {event!r} is no event: give wt.Event(name, function)")
    if not callable(event.function):
        raise TypeError(f"simulate: event {event.name!r}: {event.function!r} is not a function of (t, q, v)")
    require_arguments(f"simulate: event {event.name!r}", event.function, "t", "q", "v")
    if event.direction not in (-1, 0, 1):
        raise ValueError(
            f"simulate: event {event.name!r}: direction is {event.direction!r}, expected 1 (rising), -1 (falling) or 0"
        )
    function: Any = event.function

    def value(t: float, y: Array) -> float:
        try:
            answer = function(t, y[:nq].copy(), y[nq : nq + nv].copy())  # copies: it may write on them
        except Exception as error:
            error.add_note(f"simulate: raised by event {event.name!r} at t = {t:.9g} s")
            raise
        # a truth value, too, is a number to Python, and its sign never changes
        if np.ndim(answer) or np.asarray(answer).dtype.kind not in "fiu":
            raise TypeError(
                f"simulate: event {event.name!r} returned {quote(answer)} at t = {t:.9g} s, expected one number whose "
                f"sign changes, such as q[0] - 0.1 for q[0] > 0.1"
            )
        found = float(answer)
        if math.isnan(found):
            raise IntegrationError(
                f"the event {event.name!r} returned nan at t = {t:.9g} s: nobody can tell whether it has happened. "
                f"Look at what it divides by, and at the state that it is given there",
                t,
            )
        return found

    return replace(event, function=value)
