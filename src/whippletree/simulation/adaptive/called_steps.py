"""Steps of collocation by one program for all models, which calls the functions that a run needs anyway.

See :mod:`whippletree.compiler.rollout.collocation.collocation_calls`. Nothing but these functions is compiled for a
model, so a run of any size takes its first step this way.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.cpu.cpu_function import CompiledFunction
from whippletree.compiler.cpu.python_call import PythonCall
from whippletree.compiler.frontend.controller import AffineForces, FunctionOfState
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe
from whippletree.compiler.named_function import Wording
from whippletree.compiler.program import Program
from whippletree.compiler.rollout.collocation.collocation_calls import CalledCollocation, CalledModel, Callee, Callees
from whippletree.compiler.rollout.collocation.collocation_frame import IterationLimits, Scheme
from whippletree.errors import IntegrationError
from whippletree.files.cache import default_cache
from whippletree.simulation.motion import Motion

Asked: TypeAlias = Callable[[Array, Array, Array], Array]
"""A function in Python of m times (m,), coordinates (m, nq) and velocities (m, nv)."""


class Drives(NamedTuple):
    """All that drives a motion and is no part of its model: compiled, or in Python, or as gains, or not there."""

    controller: FunctionOfState | AffineForces | Asked | None = None
    commands: FunctionOfState | Asked | None = None
    """Commands of actuators whose activations are part of the state."""


FUNCTIONS = {
    "rate": "rate",
    "acceleration": "forward_dynamics",
    "passive": "passive_forces",
    "velocity": "project_velocity",
    "residual": "constraint_residual",
    "closing": "closing_step",
    "integrate": "integrate",
    "relaxed": "relaxed_velocity",
    "actuators": "actuator_forces",
    "following": "activation_rates",
}
"""What the program calls them, and what they are called."""

LONG_STEPS = 20_000
"""Operations of the accelerations from which steps are taken on another thread, so that Ctrl-C is answered."""


class CalledSteps:
    """Steps of a model, Picard's or Newton's as the scheme says.

    (clock, bounds, state, guess, drives) -> (coefficients, states, trial, notes, verdict), as
    :class:`~whippletree.compiler.rollout.collocation.collocation_kernel.CollocationKernel`.
    """

    def __init__(self, motion: Motion, scheme: Scheme, patience: IterationLimits, drives: Drives) -> None:
        """``drives``: of which only the numbers, and functions in Python, may differ from call to call."""
        self._motion_parts = motion.state_parts
        groups, unit = _quaternion_groups(motion)
        functions = _functions_of(motion)
        asked = {name: _place_for(motion, name) for name, own in drives._asdict().items() if _is_python(own)}
        functions |= {name: own.function for name, own in drives._asdict().items() if isinstance(own, FunctionOfState)}
        rigid = [motion.rigid_rows] if "residual" in functions else []
        switches = [motion.all_on] if len(motion.all_on) else []
        ranges = [*motion.activation_ranges, np.zeros(len(motion.model.actuators))] if motion.remembers else []
        stiff = scheme.values is not None
        integers, numbers = _places(motion, len(scheme.nodes)) if stiff else ([], [])
        self._first, self._middle, self._last = [*groups, *integers], [*switches, *rigid, *unit], [*ranges, *numbers]
        callees = {name: _callee(function) for name, function in functions.items()}
        callees |= {name: Callee(call.inputs, fails=True) for name, call in asked.items()}
        form = CalledModel(
            Callees(**callees),
            switches=bool(switches),
            quaternions=bool(unit),
            affine=isinstance(drives.controller, AffineForces),
            asked="controller" in asked,
            constants=_has_constants(drives.controller),
            command_constants=_has_constants(drives.commands),
            halved=stiff and _integrates_itself(motion),
        )
        # an object of its own: two models share the code, but not the functions that are handed over
        self._function = CompiledFunction(_kernel(scheme, patience, form), 1, Wording())
        for name, function in functions.items():
            self._function.hand_over(name, function)
        for name, call in asked.items():
            self._function.hand_over_python(name, call)
        self._asked = asked
        # a function in Python is asked on the thread of its owner, and answers Ctrl-C itself
        long = functions["acceleration"].interface.operations > LONG_STEPS and not asked
        plain = self._function.ufunc_of_one_state
        assert plain is not None  # it has results
        self._call: Callable[..., Any] = self._function.call_interruptibly if long else plain

    def __call__(
        self, clock: Array, bounds: Array, state: Array, guess: Array, drives: Drives, tangent: Array | None
    ) -> tuple[Array, ...]:
        """``tangent`` (nv, nq + nv): of a controller in Python; None, or empty, to ask it in each iteration."""
        own = self._motion_parts
        given = clock, bounds, *(state[part] for part in own), *(guess[:, part] for part in own)
        gains = _numbers_of(drives, own[0].stop)
        if "controller" in self._asked:
            q, v = own[:2]
            known = tangent is not None and tangent.size > 0
            by_state = tangent if tangent is not None and known else np.zeros((v.stop - v.start, v.stop))
            gains = [by_state[:, q], by_state[:, v], np.array([1.0 if known else -1.0]), *gains]
        with ExitStack() as asking:
            for name, call in self._asked.items():
                asking.enter_context(call.asking(getattr(drives, name)))
            *parts, notes, verdict = self._call(*self._first, *given, *self._middle, *gains, *self._last)
        for call in self._asked.values():
            # no numbers at a state: the step is in doubt, and whoever takes it up finds out what to do about it
            if call.error is not None and not isinstance(call.error, IntegrationError):
                raise call.error
        kept, k = int(verdict[0]), len(own)
        coefficients, states, trial = (
            np.concatenate([part[:count] for part in parts[first : first + k]], axis=-1)
            for first, count in zip(range(0, 3 * k, k), (kept, kept, len(guess)), strict=True)
        )
        return coefficients, states, trial, notes, verdict


_held: WeakKeyDictionary[Compiled, dict[tuple[Any, ...], CalledSteps]] = WeakKeyDictionary()
"""Steps of models, as long as their functions live."""


def called_steps(motion: Motion, scheme: Scheme, patience: IterationLimits, drives: Drives) -> CalledSteps:
    """The steps of a motion, made once for its model and the code of what drives it; with functions in Python, which
    several threads may be asking, for each run."""
    if any(_is_python(own) for own in drives):
        return CalledSteps(motion, scheme, patience, drives)
    held = _held.setdefault(motion.dyn, {})
    codes = (own.function.content if isinstance(own, FunctionOfState) else type(own) for own in drives)
    key = scheme.name, patience, motion.remembers, motion.is_driven, *codes
    if key not in held:
        held[key] = CalledSteps(motion, scheme, patience, drives)
    return held[key]


def can_be_called(motion: Motion) -> bool:
    """Whether there are such steps of a motion: where its functions are machine code for one model."""
    return motion.has_steps_by_calls and isinstance(motion.dyn.rate, CompiledFunction)


def _is_python(drive: Any) -> bool:
    return drive is not None and not isinstance(drive, FunctionOfState | AffineForces)


def _has_constants(drive: Any) -> bool:
    return isinstance(drive, FunctionOfState) and bool(drive.constants)


def _place_for(motion: Motion, name: str) -> PythonCall:
    """For a controller, or commands, in Python."""
    model = motion.model
    size = model.nv if name == "controller" else len(model.actuators)
    return PythonCall({"t": 0, "q": model.nq, "v": model.nv}, size)


_kernels: dict[tuple[Any, ...], Kernel] = {}
"""Code for all models, by its form."""


def _kernel(scheme: Scheme, patience: IterationLimits, form: CalledModel) -> Kernel:
    key = scheme.name, patience, form
    if key not in _kernels:

        def build() -> Program:
            return CalledCollocation(scheme, patience, form).program()

        _kernels[key] = Kernel(Recipe(repr(key).encode(), build, "steps of any model"), Options(), default_cache())
    return _kernels[key]


def _functions_of(motion: Motion) -> dict[str, CompiledFunction]:
    """The functions that the model needs, by what the program calls them."""
    needed = ["rate", "acceleration", *(["passive"] if motion.has_passive_forces else [])]
    if motion.model.constraints:
        needed += ["velocity", *(["residual", "closing", "integrate"] if motion.rigid_rows.any() else [])]
        needed += ["relaxed"] if motion.is_relaxed_by_forces else []
    needed += ["actuators", "following"] if motion.remembers else []
    return {name: getattr(motion.dyn, FUNCTIONS[name]) for name in needed}


def _callee(function: CompiledFunction) -> Callee:
    """The facts of a function that code depends on."""
    buffers = [b for b in function.interface.buffers if not b.empty]
    inputs = tuple(b.name for b in buffers if b.role == "input")
    return Callee(inputs, any(b.integer for b in buffers if b.role == "output"))


def _quaternion_groups(motion: Motion) -> tuple[list[Array], list[Array]]:
    """The group of each coordinate, and which groups are quaternions; nothing where none is."""
    own = motion.quaternions
    if not own:
        return [], []
    groups = np.full(motion.model.nq, len(own))  # the last group is that of all others
    for number, part in enumerate(own):
        groups[part] = number
    return [groups], [np.array([1.0] * len(own) + [0.0])]


def _integrates_itself(motion: Motion) -> bool:
    """Whether each coordinate is the integral of the velocity of the same number."""
    plain = not (motion.model.constraints or motion.remembers)
    return plain and all(kind.nq == kind.nv == 1 for kind in motion.model.joint_types)


def _places(motion: Motion, points: int) -> tuple[list[Array], list[Array]]:
    """Arguments of Newton's method, see
    :class:`~whippletree.compiler.rollout.collocation.called_newton.CalledNewton`.
    """
    parts = motion.state_parts
    n = parts[-1].stop
    places = np.arange(n)
    lanes = np.concatenate([[-1], places])
    # what is left of the last bundle repeats the last neighbour
    moved = np.append(lanes, np.full(-len(lanes) % points, n - 1)).reshape(-1, points)
    columns = np.maximum(moved, 0)
    numbers = places.astype(float)
    probe = np.cos(np.arange(1, n + 1) ** 2)  # which no eigenvector is at right angles to
    integers, own = [places[part] for part in parts], [numbers[part] for part in parts]
    return [*integers, columns], [*own, moved.astype(float), probe]


def _numbers_of(drives: Drives, nq: int) -> list[Array]:
    """Numbers of a call: gains of a controller as constant, by time, by q and by v, or its constants; and those of
    commands."""
    found: list[Array] = []
    if isinstance(drives.controller, AffineForces):
        gains = drives.controller.gains
        found = [gains[:, 0], gains[:, 1], gains[:, 2 : 2 + nq], gains[:, 2 + nq :]]
    for drive in drives:
        found += drive.constants if isinstance(drive, FunctionOfState) else []
    return found
