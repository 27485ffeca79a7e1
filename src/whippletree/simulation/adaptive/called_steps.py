"""Steps of collocation by one program for all models, which calls the functions that a run needs anyway.

See :mod:`whippletree.compiler.rollout.collocation.collocation_calls`. Nothing but these functions is compiled for a
model, so a run of any size takes its first step this way.
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
from whippletree.compiler.llvm.kernel import Kernel, Options, Recipe
from whippletree.compiler.named_function import Wording
from whippletree.compiler.program import Program
from whippletree.compiler.rollout.collocation.collocation_calls import CalledCollocation, CalledModel, Callee, Callees
from whippletree.compiler.rollout.collocation.collocation_frame import IterationLimits, Scheme
from whippletree.files.cache import default_cache
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
    """Steps of a model, Picard's or Newton's as the scheme says.

    (clock, bounds, state, guess, control) -> (coefficients, states, trial, notes, verdict), as
    :class:`~whippletree.compiler.rollout.collocation.collocation_kernel.CollocationKernel`.
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
        stiff = scheme.values is not None
        integers, numbers = _places(motion, len(scheme.nodes)) if stiff else ([], [])
        self._first, self._middle, self._last = [*groups, *integers], [*switches, *rigid, *unit], numbers
        form = CalledModel(
            Callees(**{name: _callee(function) for name, function in functions.items()}),
            switches=bool(switches),
            quaternions=bool(unit),
            affine=isinstance(control, AffineForces),
            constants=isinstance(control, FunctionOfState) and bool(control.constants),
            halved=stiff and _integrates_itself(motion),
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
        given = clock, bounds, state[:n], state[n:], guess[:, :n], guess[:, n:]
        gains = _numbers_of(control, n)
        *parts, notes, verdict = self._call(*self._first, *given, *self._middle, *gains, *self._last)
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


def _integrates_itself(motion: Motion) -> bool:
    """Whether each coordinate is the integral of the velocity of the same number."""
    return not motion.model.constraints and all(kind.nq == kind.nv == 1 for kind in motion.model.joint_types)


def _places(motion: Motion, points: int) -> tuple[list[Array], list[Array]]:
    """Arguments of Newton's method, see
    :class:`~whippletree.compiler.rollout.collocation.called_newton.CalledNewton`.
    """
    nq, n = motion.model.nq, motion.model.nq + motion.model.nv
    places = np.arange(n)
    lanes = np.concatenate([[-1], places])
    # what is left of the last bundle repeats the last neighbour
    moved = np.append(lanes, np.full(-len(lanes) % points, n - 1)).reshape(-1, points)
    columns = np.maximum(moved, 0)
    numbers = places.astype(float)
    probe = np.cos(np.arange(1, n + 1) ** 2)  # which no eigenvector is at right angles to
    return [places[:nq], places[nq:], columns], [numbers[:nq], numbers[nq:], moved.astype(float), probe]


def _numbers_of(control: Control, nq: int) -> list[Array]:
    """Numbers of a controller that come with a call: gains as constant, by time, by q and by v; or its constants."""
    if isinstance(control, AffineForces):
        gains = control.gains
        return [gains[:, 0], gains[:, 1], gains[:, 2 : 2 + nq], gains[:, 2 + nq :]]
    return [] if control is None else control.constants
