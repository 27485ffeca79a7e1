"""Steps of collocation by one program for all models, which calls the functions that a run needs anyway.

See :mod:`whippletree.compiler.rollout.collocation_calls`. Nothing but these functions is compiled for a model, so a run
of any size takes its first step this way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.cpu.cpu_function import CompiledFunction
from whippletree.compiler.frontend.controller import AffineForces, FunctionOfState
from whippletree.compiler.llvm.cache import default_cache
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe
from whippletree.compiler.named_function import Wording
from whippletree.compiler.program import Program
from whippletree.compiler.rollout.collocation_calls import CalledCollocation, CalledModel, Callee, Callees
from whippletree.compiler.rollout.collocation_frame import IterationLimits, Scheme
from whippletree.simulation.motion import Motion

Control: TypeAlias = FunctionOfState | AffineForces | None
"""A controller that is compiled, or comes as gains, or none."""

FUNCTIONS = {
    "rate": "rate",
    "acceleration": "forward_dynamics",
    "passive": "passive_forces",
    "velocity": "project_velocity",
    "residual": "constraint_residual",
    "closing": "closing_step",
    "integrate": "integrate",
}
"""What the program calls them, and what they are called."""

LONG_STEPS = 20_000
"""Operations of the accelerations from which steps are taken on another thread, so that Ctrl-C is answered."""


class CalledSteps:
    """Picard steps of a model.

    (clock, bounds, state, guess, control) -> (coefficients, states, trial, notes, verdict), as
    :class:`~whippletree.compiler.rollout.collocation_kernel.CollocationKernel`.
    """

    def __init__(self, motion: Motion, scheme: Scheme, patience: IterationLimits, control: Control) -> None:
        """``control``: the controller, of which only the numbers may differ from call to call."""
        self._nq = motion.model.nq
        groups, unit = _quaternion_groups(motion)
        functions = _functions_of(motion)
        if isinstance(control, FunctionOfState):
            functions["controller"] = control.function
        rigid = [motion.rigid_rows] if "residual" in functions else []
        switches = [motion.all_on] if len(motion.all_on) else []
        self._first, self._last = groups, [*switches, *rigid, *unit]
        form = CalledModel(
            Callees(**{name: _callee(function) for name, function in functions.items()}),
            switches=bool(switches),
            quaternions=bool(unit),
            affine=isinstance(control, AffineForces),
            constants=isinstance(control, FunctionOfState) and bool(control.constants),
        )
        # an object of its own: two models share the code, but not the functions that are handed over
        self._function = CompiledFunction(_kernel(scheme, patience, form), 1, Wording())
        for name, function in functions.items():
            self._function.hand_over(name, function)
        long = functions["acceleration"].interface.operations > LONG_STEPS
        plain = self._function.ufunc_of_one_state
        assert plain is not None  # it has results
        self._call: Callable[..., Any] = self._function.call_interruptibly if long else plain

    def __call__(self, clock: Array, bounds: Array, state: Array, guess: Array, control: Control) -> tuple[Array, ...]:
        n = self._nq
        numbers = _numbers_of(control, n)
        *parts, notes, verdict = self._call(
            *self._first, clock, bounds, state[:n], state[n:], guess[:, :n], guess[:, n:], *self._last, *numbers
        )
        kept = int(verdict[0])
        coefficients, states, trial = (
            np.concatenate([q[:count], v[:count]], axis=-1)
            for q, v, count in zip(parts[::2], parts[1::2], (kept, kept, len(guess)), strict=True)
        )
        return coefficients, states, trial, notes, verdict


_held: WeakKeyDictionary[Compiled, dict[tuple[Any, ...], CalledSteps]] = WeakKeyDictionary()
"""Steps of models, as long as their functions live."""


def called_steps(motion: Motion, scheme: Scheme, patience: IterationLimits, control: Control) -> CalledSteps:
    """The steps of a motion, made once for its model and the code of its controller."""
    held = _held.setdefault(motion.dyn, {})
    code = control.function.content if isinstance(control, FunctionOfState) else type(control)
    key = scheme.name, patience, code
    if key not in held:
        held[key] = CalledSteps(motion, scheme, patience, control)
    return held[key]


def can_be_called(motion: Motion) -> bool:
    """Whether there are such steps of a motion: where its functions are machine code for one model."""
    return motion.can_be_unrolled and isinstance(motion.dyn.rate, CompiledFunction)


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


def _numbers_of(control: Control, nq: int) -> list[Array]:
    """Numbers of a controller that come with a call: gains as constant, by time, by q and by v; or its constants."""
    if isinstance(control, AffineForces):
        gains = control.gains
        return [gains[:, 0], gains[:, 1], gains[:, 2 : 2 + nq], gains[:, 2 + nq :]]
    return [] if control is None else control.constants
