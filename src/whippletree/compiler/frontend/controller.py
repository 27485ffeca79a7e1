"""A user's controller, traced: plain NumPy code on the library's scalars, so that it runs inside a kernel.

A controller with a memory (an integral, a filter, a log) may be asked on traced scalars, and at sample states, only to
find out whether it can be compiled. Afterwards it must begin its run as it was handed over: what it keeps from call to
call is put back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.numpy_protocol import scalar_array
from whippletree.arithmetic.scalars import Table
from whippletree.arithmetic.trace import Trace, Traced, finish, lift_constants, linear_parts
from whippletree.arithmetic.trace.traced import JUMPS
from whippletree.compiler.cpu.cpu_function import CompiledFunction, compile_function
from whippletree.compiler.llvm.kernel import digest
from whippletree.compiler.program import Buffer, straight_program
from whippletree.errors import ScalarError
from whippletree.model import Model

CONTROLLERS_HELD = 96
"""Facts about controllers that a process holds: three of each."""

AGREEMENT = 1e-9
"""How well, relative to its forces, a traced controller must repeat what it says in Python at sample states."""


class NotTraceable(Exception):
    """Why a controller cannot be compiled."""


def traced_controller(
    model: Model, controller: Callable[[Any, Any, Any], Any], samples: Sequence[tuple[float, Array, Array]]
) -> FunctionOfState:
    """tau(t, q, v) as a compiled function.

    Args:
        model: whose forces it computes.
        controller: a function of (t, q, v) without memory, made of arithmetic, matrix products, NumPy's sin, cos, tan,
            sqrt, arctan, arctan2, exp, log, tanh, power, abs, sign, maximum, minimum, clip and where, and the functions
            of :mod:`whippletree.arithmetic.scalars`; a branch on a value cannot be traced.
        samples: states at which the compiled function is compared with the controller in Python.

    Raises:
        NotTraceable: with the reason.
    """
    return traced_function(model, controller, model.nv, samples)


class FunctionOfState:
    """A function of (t, q, v) as machine code, at one state or many."""

    def __init__(self, function: CompiledFunction, constants: Sequence[float], may_jump: bool) -> None:
        """``constants``: the last argument of the function, where there are any; ``may_jump``: whether it chooses."""
        self.function, self.constants, self.may_jump = function, [np.array(constants)] if constants else [], may_jump

    def __call__(self, t: Any, q: Array, v: Array) -> Array:
        """Numbers of the function (..., size)."""
        return np.asarray(self.function(t, q, v, *self.constants))


class AffineForces:
    """τ = gains · (1, t, q, v), at one state or many: what constant forces, springs, dampers, regulators about a fixed
    pose and servos under fixed commands come to."""

    may_jump = False

    def __init__(self, gains: Array) -> None:
        """``gains`` (nv, 2 + nq + nv)."""
        self.gains = gains

    def __call__(self, t: Any, q: Array, v: Array) -> Array:
        """The forces (..., nv)."""
        time = np.broadcast_to(np.asarray(t, dtype=float), v.shape[:-1])[..., None]
        return np.concatenate([np.ones(time.shape), time, q, v], axis=-1) @ self.gains.T


def compiled_forces(
    model: Model, controller: Callable[[Any, Any, Any], Any], samples: Sequence[tuple[float, Array, Array]]
) -> FunctionOfState | AffineForces:
    """A controller as gains, where its expressions show that it is affine, else as machine code; traced once.

    ``samples``: states at which it is compared with the controller in Python.

    Raises:
        NotTraceable: with the reason.
    """
    with preserve_memory(controller):
        traced = _trace_controller(model, controller, model.nv)
        return _as_gains(model, controller, traced, samples) or _as_code(model, controller, traced, samples)


def affine_forces(
    model: Model, controller: Callable[[Any, Any, Any], Any], samples: Sequence[tuple[float, Array, Array]]
) -> AffineForces | None:
    """A controller's forces as an affine function of (t, q, v), where its expressions show that they are one.

    ``samples``: states at which they are compared with the controller in Python.
    """
    with preserve_memory(controller):
        try:
            return _as_gains(model, controller, _trace_controller(model, controller, model.nv), samples)
        except NotTraceable:
            return None


def _as_gains(
    model: Model,
    controller: Callable[..., Any],
    traced: _ControllerTrace,
    samples: Sequence[tuple[float, Array, Array]],
) -> AffineForces | None:
    try:
        slopes = _recall(("slopes", traced.key), lambda: _slopes(traced, 1 + model.nq + model.nv))
        if slopes is None:
            return None
        function = AffineForces(np.zeros((model.nv, 2 + model.nq + model.nv)))
        function.gains[:, 1:] = slopes
        t, q, v = samples[0]
        function.gains[:, 0] = np.asarray(controller(t, q.copy(), v.copy()), dtype=float) - function(t, q, v)
        for sample in samples:
            _compare(function, controller, *sample)
    except Exception:  # whatever it is, it is not this simple
        return None
    return function


def _slopes(traced: _ControllerTrace, inputs: int) -> list[list[float]] | None:
    """Constant slopes of all outputs by all inputs, if they are."""
    slopes = [[part.slope(i) for i in range(inputs)] for part in linear_parts(*traced)]
    return None if any(slope is None for row in slopes for slope in row) else slopes  # type: ignore[return-value]


class OwnGains(NamedTuple):
    """Gains of a controller on each joint's own motion, where that is a constant; 0 elsewhere."""

    stiffness: Array
    """−∂τᵢ/∂qᵢ, N m/rad or N/m, (nv,)."""
    damping: Array
    """−∂τᵢ/∂vᵢ, N m s/rad or N s/m, (nv,)."""


def own_gains(model: Model, controller: Callable[[Any, Any, Any], Any]) -> OwnGains | None:
    """The constant gains of a controller on joints of one freedom, as of a regulator about any path in time.

    None for a controller that cannot be traced. Gains that drive a joint on instead of holding it count as 0.
    """
    gains = OwnGains(np.zeros(model.nv), np.zeros(model.nv))
    try:
        with preserve_memory(controller):
            parts = linear_parts(*_trace_controller(model, controller, model.nv))
    except Exception:  # whatever it is, plain numbers may still be fine
        return None
    for joint, at, place in zip(model.joints, model.q_slices, model.v_slices, strict=True):
        if joint.type.nv == joint.type.nq == 1:
            i = place.start
            by_q, by_v = parts[i].slope(1 + at.start), parts[i].slope(1 + model.nq + i)
            gains.stiffness[i], gains.damping[i] = max(-(by_q or 0.0), 0.0), max(-(by_v or 0.0), 0.0)
    return gains


class _ControllerTrace(NamedTuple):
    """A function of (t, q, v), the inputs of a trace."""

    trace: Trace
    outputs: list[Any]

    @property
    def may_jump(self) -> bool:
        """Whether it may jump where its inputs do not."""
        return any(operation in JUMPS or isinstance(operation, Table) for operation, *_ in self.trace.nodes)

    @property
    def key(self) -> tuple[Any, ...]:
        """Content of the trace, which is equal for equal functions."""
        outputs = (("node", x.index) if isinstance(x, Traced) else x for x in self.outputs)
        return (*self.trace.nodes, *outputs)


def _trace_controller(model: Model, asked: Callable[[Any, Any, Any], Any], size: int) -> _ControllerTrace:
    """A function with ``size`` numbers on traced scalars.

    Raises:
        NotTraceable: with the reason.
    """
    trace = Trace()
    t = trace.input()
    q, v = (scalar_array(trace.inputs(count) if count else zeros(0)) for count in (model.nq, model.nv))
    try:
        found = np.asarray(asked(t, q, v), dtype=object)
    except Exception as error:  # whatever it is, plain numbers may still be fine
        raise NotTraceable(f"{type(error).__name__}: {error}") from error
    if found.shape != (size,):
        raise NotTraceable(f"it returned shape {found.shape} on traced scalars, expected ({size},)")
    return _ControllerTrace(trace, list(found))


def traced_function(
    model: Model, asked: Callable[[Any, Any, Any], Any], size: int, samples: Sequence[tuple[float, Array, Array]]
) -> FunctionOfState:
    """A function of (t, q, v) with ``size`` numbers, such as commands of actuators, compiled.

    Raises:
        NotTraceable: with the reason.
    """
    with preserve_memory(asked):
        return _as_code(model, asked, _trace_controller(model, asked, size), samples)


def _as_code(
    model: Model, asked: Callable[..., Any], traced: _ControllerTrace, samples: Sequence[tuple[float, Array, Array]]
) -> FunctionOfState:
    code, constants = _recall(("code", model.nq, model.nv, traced.key), lambda: _machine_code(model, traced))
    function = FunctionOfState(code, constants, traced.may_jump)
    for sample in samples:
        _compare(function, asked, *sample)
    return function


def _machine_code(model: Model, traced: _ControllerTrace) -> tuple[CompiledFunction, list[float]]:
    """The function of a trace, and the constants that it reads; functions that differ in these share their code."""
    inputs = [Buffer("t", "input", ()), Buffer("q", "input", (model.nq,)), Buffer("v", "input", (model.nv,))]
    try:
        code, constants = lift_constants(finish(*traced), 1 + model.nq + model.nv)
    except (TypeError, ValueError) as error:
        raise NotTraceable(f"it returned something that is no number: {error}") from error
    inputs += [Buffer("constants", "input", (len(constants),))] if constants else []
    output = Buffer("tau", "output", (len(traced.outputs),))
    program = straight_program("controller", code, inputs, [output])
    return _recall(("program", digest(program)), lambda: compile_function(program)), constants


_recalled: OrderedDict[tuple[Any, ...], tuple[Any]] = OrderedDict()
"""What was found out about the last few controllers: most runs have that of the run before."""

_Found = TypeVar("_Found")


def _recall(key: tuple[Any, ...], find: Callable[[], _Found]) -> _Found:
    """What is known by a key, or is found out now."""
    try:
        known = _recalled.pop(key, None)
    except TypeError:  # a controller that returned something that is no number, and has no hash either
        return find()
    if known is None:
        known = (find(),)
    _recalled[key] = known  # the last to be forgotten
    while len(_recalled) > CONTROLLERS_HELD:
        _recalled.popitem(last=False)
    return cast(_Found, known[0])


def _compare(function: Callable[..., Any], controller: Any, t: float, q: Array, v: Array) -> None:
    try:
        expected = np.asarray(controller(t, q.copy(), v.copy()), dtype=float)
    except ScalarError as error:
        raise NotTraceable("it keeps what it was asked with: it has a memory") from error
    with np.errstate(all="ignore"):
        difference = np.abs(function(t, q, v) - expected)
    if np.any(difference > AGREEMENT * (1 + np.abs(expected).max(initial=0.0))):
        raise NotTraceable(
            f"at t = {t:g} its code and a call in Python give different forces: it has a memory, or depends on chance "
            f"or on the clock"
        )


# --- tried out without a trace: what a function keeps from call to call is put back afterwards ------------------------


DEPTH = 4
"""Objects within objects in which a memory is looked for."""

_FOREIGN, _OURS = ("whippletree", "numpy", "scipy", "builtins", "torch", "jax"), "whippletree.controllers"
"""Packages whose objects are not looked into (models, compiled functions and networks are large, and keep no memory),
and the one of our own modules whose objects hold functions of users."""


@contextmanager
def preserve_memory(function: Callable[..., Any]) -> Iterator[None]:
    """Leave the memory of a function, a closure, a method or an object as it was before.

    Attributes and variables of closures are put back, and the contents of arrays, lists, dictionaries and sets among
    them; global variables are not.
    """
    undo: list[Callable[[], None]] = []
    _note(function, undo, set(), DEPTH)
    try:
        yield
    finally:
        for step in undo:
            step()


def _note(thing: Any, undo: list[Callable[[], None]], seen: set[int], depth: int) -> None:
    """Collect what puts a thing back into its present state."""
    if id(thing) in seen or not depth:
        return
    seen.add(id(thing))
    inner: list[Any] = []
    if isinstance(thing, np.ndarray):
        if thing.flags.writeable:
            undo.append(partial(np.copyto, thing, thing.copy()))
    elif isinstance(thing, list):
        undo.append(partial(thing.__setitem__, slice(None), list(thing)))
        inner = list(thing)
    elif isinstance(thing, dict | set):
        undo.append(partial(_refill, thing, thing.copy()))
        inner = list(thing.values()) if isinstance(thing, dict) else []
    elif isinstance(thing, tuple):
        inner = list(thing)
    elif isinstance(thing, MethodType):
        inner = [thing.__self__, thing.__func__]
    elif isinstance(thing, partial):
        inner = [thing.func, *thing.args, *thing.keywords.values()]
    elif isinstance(thing, FunctionType):
        inner = [thing.__dict__] if thing.__dict__ else []
        for cell in thing.__closure__ or ():
            inner += _note_cell(cell, undo)
    elif hasattr(thing, "__dict__") and not isinstance(thing, type) and not _is_foreign(thing):
        inner = [thing.__dict__]
    for part in inner:
        _note(part, undo, seen, depth - 1)


def _note_cell(cell: CellType, undo: list[Callable[[], None]]) -> list[Any]:
    """The variable of a closure; none where it has no value yet."""
    try:
        held = cell.cell_contents
    except ValueError:
        return []
    undo.append(partial(setattr, cell, "cell_contents", held))
    return [held]


def _refill(thing: Any, contents: Any) -> None:
    thing.clear()
    thing.update(contents)


def _is_foreign(thing: Any) -> bool:
    module = type(thing).__module__
    return module != _OURS and module.partition(".")[0] in _FOREIGN
