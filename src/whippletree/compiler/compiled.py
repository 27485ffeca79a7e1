"""``wt.compile(model)``: every function of the catalogue as machine code for this model and this CPU or GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.compiler.compiled_table import CompiledTable
from whippletree.compiler.cpu.cpu_function import compile_function, real_type
from whippletree.compiler.frontend.asked_functions import AskedFunction
from whippletree.compiler.frontend.code_forms import UNROLL_MATRICES_UP_TO, UNROLL_UP_TO, Request, catalogue_program
from whippletree.compiler.frontend.fingerprint import fingerprint
from whippletree.compiler.llvm.ir import Real
from whippletree.compiler.llvm.kernel import Recipe, digest
from whippletree.compiler.named_function import NamedFunction, Wording
from whippletree.compiler.program import Program
from whippletree.constraints.dynamics import COMPILED_ROUTES, answers_singular_states, require_route
from whippletree.constraints.failures import failure
from whippletree.constraints.massless import with_massless
from whippletree.errors import NameLookupError, ShapeError, UnsupportedError
from whippletree.functions import CATALOGUE, Function, find
from whippletree.functions.differentiate import derived_function
from whippletree.functions.lost_digits import EVERY, FIRST, NEVER, is_watched
from whippletree.functions.registry import checked_names, for_names
from whippletree.model import Model
from whippletree.model.input_checks import shape_hints
from whippletree.model.parameters import find_parameter, parameter_paths
from whippletree.tree.skeleton import Skeleton, skeleton

if TYPE_CHECKING:
    from whippletree.compiler.rollout.collocation.collocation_frame import IterationLimits, Scheme
    from whippletree.compiler.rollout.collocation.collocation_kernel import CollocationKernel
    from whippletree.compiler.rollout.collocation.collocation_rates import RateBlocks
    from whippletree.compiler.rollout.collocation.step_watch import GuardBlocks
    from whippletree.compiler.rollout.contact_rollout import ContactRollout
    from whippletree.compiler.rollout.rollout import Plan, Rollout
    from whippletree.compiler.rollout.single_step import SingleStep, StepDerivatives, StepResult
    from whippletree.compiler.rollout.step_space import Driven

STEP_TOLERANCES = {"float64": 1e-7, "float32": 1e-4}
"""m/s: residual to which a single step solves its contact problem, if it can, by type of numbers."""


def compile(  # the public name; Python's own compile is not used here
    model: Model,
    *,
    target: str = "cpu",
    dtype: Any = np.float64,
    threads: int | None = None,
    parameters: Sequence[str] = (),
    massless: str = "refuse",
    route: str | None = None,
    watch: str = FIRST,
) -> Compiled:
    """The functions of a model, compiled for this machine, each on its first use.

    Args:
        model: what to compile for.
        target: ``cpu``, or ``cuda`` for NVIDIA GPUs (:mod:`whippletree.compiler.cuda`). The bits are the same.
        dtype: float64 or float32, of all inputs and outputs.
        threads: how many threads share a large batch; default: WHIPPLETREE_THREADS, else every core.
        parameters: paths of numbers of the model that become inputs of every function, such as ``bodies.rod.mass``.
        massless: what to do about massless motions that nothing stops: ``"refuse"``, ``"hold"`` or ``"relax"``; see
            :mod:`whippletree.constraints.massless`.
        route: how the block matrix of constraints is solved: ``"schur"``, ``"augmented"``, ``"recursion"``,
            ``"embedding"`` or ``"elimination"``; default: what suits the model (``wt.diagnose`` tells which). Answers
            agree within rounding.
        watch: which calls of a function are looked at for digits lost to rounding, and warn of them: the ``"first"`` of
            one state and of a batch, in double precision; ``"every"`` one (milliseconds a state; matrices, derivatives,
            long models and single precision, too); or ``"never"``. On a GPU none is. ``watch`` of a function says what
            holds for it; see :mod:`whippletree.functions.lost_digits`.

    Returns:
        An object with the functions of the catalogue: ``dyn.forward_dynamics(q, v, tau)``, ``dyn.jacobian("tool")(q)``.

    Raises:
        DeviceError: the target is ``cuda`` and there is no driver or no device.
    """
    if target not in TARGETS:
        raise NameLookupError("target", target, TARGETS)
    chosen = with_massless(model, massless)
    require_route(chosen, route, COMPILED_ROUTES)
    if route == "elimination" and chosen.is_flexible:
        raise UnsupportedError(
            f"route 'elimination': model {model.name!r} has flexible bodies, and machine code of this route is a loop "
            f"over bodies of six numbers each. wt.reference(model, route='elimination') evaluates it; compile with "
            f"'embedding', or leave route= out"
        )
    if watch not in WATCHES:
        raise NameLookupError("choice of calls", watch, WATCHES, where="compile, watch")
    if watch == EVERY and target != "cpu":
        raise UnsupportedError(
            "watch='every': what is on a GPU is not brought back to be looked at for lost digits. target='cpu' has the "
            "same bits, and can watch; leave watch= out here"
        )
    return Compiled(chosen, dtype, threads, parameters, target, route, watch=watch)


def shared_functions(model: Model, massless: str = "refuse") -> Compiled:
    """The functions of a model for runs and controllers, of which an earlier one may have compiled some."""
    # kept beside the model's own cached properties: they live as long as the model and no longer
    kept: dict[str, Compiled] = model.__dict__.setdefault("_shared_functions", {})
    if massless not in kept:
        kept[massless] = compile(model, massless=massless, watch=NEVER)
    return kept[massless]


WATCHES = (FIRST, EVERY, NEVER)

TARGETS = ("cpu", "cuda")


class Compiled(CompiledTable):
    """Functions compiled for one model. ``dir()`` lists them; on a CPU each is a thin callable over a NumPy gufunc."""

    def __init__(
        self,
        model: Model,
        dtype: Any,
        threads: int | None,
        parameters: Sequence[str],
        target: str = "cpu",
        route: str | None = None,
        *,
        quick_above: float = float("inf"),
        watch: str = NEVER,
    ) -> None:
        """``quick_above``: operations of a function beyond which its code is generated quickly, on a CPU."""
        self.model = model
        self._watch = watch
        self._quick_above = quick_above
        self.route = route
        self.parameters = parameter_paths(model, parameters)
        self._dtype = real_type(dtype)
        self._threads = threads
        self._target = target
        if target == "cuda":
            from whippletree.compiler.cuda import driver

            driver.driver()  # its absence is said here, not at the first call
        self._made: dict[tuple[Any, ...], NamedFunction] = {}
        self._kernels: dict[tuple[Any, ...], CollocationKernel] = {}

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64 or float32, of all inputs and outputs."""
        return self._dtype

    def __repr__(self) -> str:
        opened = f", open: {', '.join(self.parameters)}" if self.parameters else ""
        return f"<compiled functions of model {self.model.name!r}: {self._target}, {self._dtype}{opened}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *CATALOGUE})

    def __reduce__(self) -> tuple[Any, ...]:
        # what is compiled stays on this machine: the cache, or the compiler, makes it again where it is needed
        arguments = self.model, self._dtype, self._threads, self.parameters, self._target, self.route
        return partial(Compiled, watch=self._watch), arguments

    if not TYPE_CHECKING:  # type checkers know the functions from the table, and are to find a misspelt one

        @garbage_left_alone()
        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            function = find(name, self.model)
            found: Any
            if function.names:

                def found(*names: Any) -> NamedFunction:
                    return self._function(function, checked_names(function, names))

                found.__doc__ = function.explanation
            else:
                found = self._function(function, ())
            self.__dict__[name] = found  # the next look-up does not come here
            return found

    def rounding_error(self, name: str, *names: Any) -> Any:
        """How wrong rounding can make each number that a function returns: that of the same function in the reference,
        :meth:`whippletree.functions.reference.Reference.rounding_error`; milliseconds a state.
        """
        from whippletree.functions.reference import Reference

        return Reference(self.model, tuple(self._parameter_shapes), self.route).rounding_error(name, *names)

    def jvp(self, name: str, *names: Any) -> NamedFunction:
        """The derivative of a function along a direction: inputs x and ẋ; see
        :mod:`whippletree.functions.differentiate`.
        """
        function = derived_function("jvp", find(name, self.model), self._parameter_shapes)
        return self._function(function, checked_names(function, names))

    def vjp(self, name: str, *names: Any) -> NamedFunction:
        """The gradient of a seeded function: inputs x and ȳ; see :mod:`whippletree.functions.differentiate`."""
        function = derived_function("vjp", find(name, self.model), self._parameter_shapes)
        return self._function(function, checked_names(function, names))

    def program(self, key: tuple[Any, ...], build: Callable[[], Program], *, width: int | None = None) -> NamedFunction:
        """A kernel program for this model as a function, built once; ``key`` and the model must say all about it.

        ``width``: lanes of a batch that go through it together; default: as many as suit the CPU.
        """
        if key not in self._made:
            self._made[key] = self._compile_once(key, build, thorough=True, width=width)
        return self._made[key]

    @cached_property
    def rollout(self) -> Rollout:
        """``dyn.rollout(q0, v0, tau, dt, method=…)``: whole trajectories in one call."""
        from whippletree.compiler.rollout.rollout import Rollout

        return Rollout(self._tree, self.rollout_function, self._activate)

    def activations(self, ctrl: Any, dt: Any, act: Any = None) -> Any:
        """Activations of the actuators after each of T steps: they follow the commands, whatever the motion.

        Args:
            ctrl: commands over each step, (..., T, actuators).
            dt: length of a step, s, (...).
            act: at the start, (..., activations); default 0.

        Returns:
            (..., T, activations), as in ``step``, ``rollout`` and ``contact_rollout``: Euler steps, but exact ones of
            actuators that ask for it (``filterexact``).
        """
        if not self.model.activations:
            raise UnsupportedError(f"activations: no actuator of model {self.model.name!r} has an activation")
        return self._activate("activations", ctrl, act, dt)[1]

    @cached_property
    def activation_steps(self) -> NamedFunction:
        """The function of :func:`whippletree.compiler.rollout.activation_steps.activation_rows_program`."""
        from whippletree.compiler.rollout.activation_steps import activation_rows_program

        return self.program(("activation_rows",), lambda: activation_rows_program(self.model))

    def _activate(self, what: str, ctrl: Any, act: Any, dt: Any) -> tuple[Any, Any]:
        from whippletree.compiler.rollout.activation_steps import roll_activations

        return roll_activations(self, what, ctrl, act, dt)

    def rollout_function(self, plan: Plan) -> NamedFunction:
        """The function of :func:`whippletree.compiler.rollout.rollout.rollout_program`."""
        from whippletree.compiler.rollout.rollout import loops, rollout_program

        key = ("rollout", plan)
        count = len(self._tree.nodes)
        if count > UNROLL_MATRICES_UP_TO and not loops(self.model, plan, self.parameters):
            raise UnsupportedError(
                f"rollout: model {self.model.name!r} has {count} moving bodies; roll-outs by implicit_midpoint, and "
                f"those whose dynamics is no loop (constraints solved as one matrix, open parameters of ladders), are "
                f"unrolled, up to {UNROLL_MATRICES_UP_TO} bodies. Use rk4, or wt.simulate."
            )
        if plan.controller is not None:
            # it is known by its code only after it was traced: the same function may do something else today
            program = rollout_program(self.model, plan, self.parameters)
            return self.program(("rollout", digest(program)), lambda: program)
        return self.program(key, lambda: rollout_program(self.model, plan, self.parameters))

    def collocation_steps(
        self,
        scheme: Scheme,
        patience: IterationLimits,
        *,
        controller: Callable[[Any, Any, Any], Any] | Literal["affine"] | None = None,
        blocks: RateBlocks | None = None,
        guards: GuardBlocks | None = None,
    ) -> tuple[NamedFunction, list[float]]:
        """The function of :class:`whippletree.compiler.rollout.collocation.collocation_kernel.CollocationKernel`, and
        the constants of a traced controller, which are its last argument where there are any.

        ``controller``: one that becomes part of it, or an affine one, whose gains come with each call; ``blocks``: the
        equations of motion, where they are not the model's; ``guards``: what ends a call where it may vanish.
        """
        from whippletree.compiler.rollout.collocation.collocation_kernel import CollocationKernel

        key = ("collocation_steps", scheme.name, patience, blocks and blocks.key, guards and guards.key)

        def kernel_under(control: Literal["none", "traced", "affine"]) -> CollocationKernel:
            return CollocationKernel(self.model, scheme, patience, control, self.route, blocks, guards)

        if controller is None:
            return self.program(key, lambda: kernel_under("none").program()), []
        if controller == "affine":

            def build() -> Program:
                kernel = kernel_under("affine")
                return kernel.program(kernel.affine_control())

            return self.program((*key, "affine"), build), []
        if key not in self._kernels:
            self._kernels[key] = kernel_under("traced")
        kernel = self._kernels[key]
        # a controller is known by its code only after it was traced: the same function may do something else today
        control, constants = kernel.control(controller)
        known = (*key, digest(Program("controller", (), (control,))))
        return self.program(known, lambda: kernel.program(control, len(constants))), constants

    def contact_rollout(
        self,
        q0: Any,
        v0: Any,
        tau: Any,
        dt: Any,
        *opened: Any,
        ctrl: Any = None,
        act: Any = None,
        sweeps: int = 10,
        impulses: Any = None,
        out: Any = None,
    ) -> ContactRollout:
        """Whole trajectories with contact, joint limits and joint friction in one call, for many scenes at once.

        Blocks of impulses are those of contacts, joint limits, joint friction, torsional and rolling friction, and
        servos with a force range, in this order.

        Args:
            q0, v0: start states, (..., nq) and (..., nv).
            tau: joint forces over each step, (..., T, nv), or None with ``ctrl``; springs and dampers act beside them.
            dt: length of a step, s, (...).
            opened: open parameters, in their order.
            ctrl: commands of the actuators over each step, (..., T, actuators); default: they do nothing. Servos act
                at the end of a step; those with a force range are further blocks.
            act: activations of the actuators at the start, (..., activations); default 0. ``dyn.activations`` tells
                what becomes of them.
            sweeps: over the contacts in each step, from the impulses of the step before; the same for every scene.
            impulses: to begin with, N s, (..., blocks, 3); default: none.
            out: an earlier result of the same shapes, whose arrays are written again: fresh memory costs time.

        Returns:
            States, impulses and the residual of each step:
            :class:`~whippletree.compiler.rollout.contact_rollout.ContactRollout`. A scene that is no longer finite is
            NaN from there on, with a RuntimeWarning.
        """
        from whippletree.compiler.rollout import contact_rollout
        from whippletree.compiler.rollout.activation_steps import refuse_idle_activations
        from whippletree.compiler.rollout.rollout import commands_and_forces

        ctrl, tau = commands_and_forces(self.model, "contact_rollout", ctrl, tau)
        if ctrl is not None and self.model.activations:
            ctrl, _ = self._activate("contact_rollout", ctrl, act, dt)
        elif act is not None:
            refuse_idle_activations(self.model, "contact_rollout", act)
        commands = [] if ctrl is None else [ctrl]
        contact_rollout.refuse_timed(self.model, "contact_rollout")
        contact_rollout.refuse_large(self.model, len(self._tree.nodes), UNROLL_MATRICES_UP_TO)
        contact_rollout.require_steps(dt, sweeps)
        function = partial(self._contact_function, int(sweeps), bool(commands))
        start = contact_rollout.start_impulses(self.model, impulses, bool(commands))
        sizes = 1, 1, 2, 2, *[2] * len(commands), 0, *[len(shape) for shape in self._parameter_shapes.values()]
        inputs = contact_rollout.RolloutInputs((q0, v0, start, tau, *commands, dt, *opened), sizes)
        twice = self._target == "cpu" and contact_rollout.has_limits(self.model)
        return contact_rollout.roll_scenes(function, inputs, contact_rollout.earlier_result(out), twice=twice)

    def step(
        self,
        q: Any,
        v: Any,
        ctrl: Any = None,
        dt: Any = None,
        *opened: Any,
        act: Any = None,
        tau: Any = None,
        impulses: Any = None,
    ) -> StepResult:
        """One time step of one state or many, with contacts, joint limits, dry friction and actuators.

        The step is that of ``wt.simulate(method="time_stepping")``: servos act at its end, their force ranges are
        bounds of the contact problem. A tree whose shapes have closed forms is solved to 1e-7 m/s (1e-4 in float32), or
        as well as the kernel can; ``measure`` tells. Models with constraints, or with open parameters, take 20 sweeps;
        where nothing of them can touch, the forces of servos are those of the start of the step.

        Args:
            q, v: states, (..., nq) and (..., nv).
            ctrl: commands of the actuators, (..., actuators); default 0.
            dt: length of the step, s, (...); default the model's ``time_step``.
            opened: open parameters, in their order.
            act: activations of the actuators that have some, (..., activations); default 0.
            tau: joint forces beside those of actuators, springs and dampers, (..., nv).
            impulses: of the step before, to begin with, N s, (..., blocks, 3); default: none.

        Returns:
            The state after the step, and what acted in it: q, v, tau, impulses, measure, act.
        """
        try:
            return self._single_step(q, v, ctrl, dt, opened, act, tau, impulses)
        except ShapeError:
            self._single_step.require_state(q, v, impulses)
            raise

    def step_derivatives(
        self,
        q: Any,
        v: Any,
        ctrl: Any = None,
        dt: Any = None,
        *,
        act: Any = None,
        tau: Any = None,
        impulses: Any = None,
    ) -> StepDerivatives:
        """How the end of a step (:meth:`step`) depends on its start, its commands and its forces.

        Coordinates are compared in velocity space: the rows and columns of q have nv entries, not nq. Central
        differences of steps that are solved to 1e-13 m/s, all in one call: relative errors are about 1e-7 while no
        contact, limit or range changes its mode; where one does, they are the mean of both sides, and ``kinks`` tells
        in which columns.

        Args:
            q, v: one state, (nq,) and (nv,).
            ctrl, dt, act, tau, impulses: as for ``step``, of this state.

        Returns:
            Matrices of derivatives of the end state (q, v, act), of n = 2 nv + activations numbers: by the start state
            (n, n), by the commands (n, actuators), and by joint forces (n, nv); and how far the derivatives to both
            sides lie apart, by column: ``kinks``.
        """
        from whippletree.compiler.rollout.single_step import step_derivatives

        return step_derivatives(self._single_step, q, v, ctrl, dt, act, tau, impulses)

    @cached_property
    def _single_step(self) -> SingleStep:
        from whippletree.compiler.rollout.single_step import SingleStep

        return SingleStep(self, STEP_TOLERANCES[self._dtype.name])

    def _contact_function(self, sweeps: int, commands: bool, limits: bool) -> NamedFunction:
        """The function of :func:`whippletree.compiler.rollout.contact_rollout.contact_rollout_program`."""
        from whippletree.compiler.rollout.contact_rollout import contact_rollout_program

        key = ("contact_rollout", sweeps, limits, commands)
        if key not in self._made:
            self._made[key] = self._compile_once(
                key,
                lambda: contact_rollout_program(self.model, sweeps, self.parameters, limits=limits, commands=commands),
            )
        return self._made[key]

    @cached_property
    def contact_steps(self) -> NamedFunction:
        """The function of :func:`whippletree.compiler.rollout.contact_lists.contact_lists_program`, for steps of one
        scene.
        """
        from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program

        return self.program(("contact_lists",), lambda: contact_lists_program(self.model))

    def contact_list_touches(self, q: Any, *, reach: float = np.inf) -> Any:
        """The function of
        :func:`whippletree.compiler.rollout.contact_lists.contact_list_gaps.contact_list_touches_program` at coordinates
        q (..., nq).
        """
        from whippletree.compiler.rollout.contact_lists.contact_list_gaps import contact_list_touches_program

        # its code is long, and that of lanes would be compiled beside that of single states
        find = self.program(("contact_list_touches",), lambda: contact_list_touches_program(self.model), width=1)
        return find(q, reach)

    @cached_property
    def contact_list_loads(self) -> NamedFunction:
        """The function of :func:`whippletree.compiler.rollout.contact_list_gaps.contact_list_loads_program`."""
        from whippletree.compiler.rollout.contact_lists.contact_list_gaps import contact_list_loads_program

        return self.program(("contact_list_loads",), lambda: contact_list_loads_program(self.model))

    def driven_contact_steps(self, driven: Driven, *, world_only: bool = False) -> NamedFunction:
        """Those steps under a traced controller and traced commands, or one in Python, or with dampers that come with
        each call; ``world_only``: while nothing but the world is touched."""
        from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program

        if not driven.traced:
            forms = {"held": driven.held, "asking": driven.in_python, "world only": world_only}
            words = ("contact_lists", *[word for word, holds in forms.items() if holds])
            return self.program(words, lambda: contact_lists_program(self.model, driven, world_only))
        key = ("contact_lists", driven)
        if key not in self._made:
            # functions are known by their code only after they were traced
            self._made[key] = self._compile_once(key, lambda: contact_lists_program(self.model, driven), known=False)
        return self._made[key]

    def export(self, folder: str | Path, functions: Sequence[str], *, cpu: str | None = None) -> list[Path]:
        """Write functions for a controller without Python: object files, a C header, and an example that ``cc`` builds.

        Args:
            folder: where to; made if it does not exist.
            functions: names of the catalogue; one that needs a name is given with it, such as ``"jacobian:tool"``.
            cpu: LLVM's name of the CPU to compile for, such as ``x86-64-v3``; default: this one.

        Returns:
            The files written. The header explains how to call the functions.
        """
        from whippletree.compiler.cpu.export import c_name, export_programs

        programs = {}
        for text in functions:
            name, *names = text.split(":")
            programs[c_name(text)] = self._program(find(name, self.model), tuple(names), exported=True)
        real: Real = "double" if self._dtype == np.float64 else "float"
        return export_programs(Path(folder), c_name(self.model.name), programs, real, cpu)

    @cached_property
    def _parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {path: find_parameter(self.model, path).shape for path in self.parameters}

    @cached_property
    def _tree(self) -> Skeleton:
        return skeleton(self.model)

    def _function(self, function: Function, names: tuple[Any, ...]) -> NamedFunction:
        function = for_names(function, self.model, names)
        key = (function.name, *names)
        if key not in self._made:
            self._made[key] = self._compile_once(
                key,
                lambda: self._program(function, names),
                explanation=function.explanation,
                results=tuple(function.outputs),
                watch=self._watch_of(function, names),
                rescue=None if function.derived else self._rescue_of(function, names),
                on_traced=None if function.derived else self._on_traced(function, names),
            )
        return self._made[key]

    def _rescue_of(
        self, function: Function, names: tuple[Any, ...]
    ) -> Callable[[Mapping[str, Any]], Sequence[Any] | None]:
        """A second way to the answer of a state where machine code has none: the reference, which reveals ranks."""

        def rescue(inputs: Mapping[str, Any]) -> Sequence[Any] | None:
            from whippletree.functions.reference import Reference, ReferenceFunction

            if not answers_singular_states(self.model, self.route):
                return None
            state = {name: np.asarray(x, dtype=float) for name, x in inputs.items()}
            if not all(np.isfinite(x).all() for x in state.values()):
                return None
            plain = Reference(self.model, tuple(self._parameter_shapes), self.route)
            second = ReferenceFunction(plain, find(function.name, self.model), names)
            try:
                return second.of_model(self.model, state)
            except ZeroDivisionError:  # an input is 0 that divides, such as a weight
                return None

        return rescue

    def _on_traced(self, function: Function, names: tuple[Any, ...]) -> Callable[..., Sequence[Any]]:
        """The function on traced scalars, as a controller asks it that is being compiled: the reference."""

        def answer(*inputs: Any) -> Any:
            from whippletree.functions.reference import Reference, ReferenceFunction

            plain = Reference(self.model, tuple(self._parameter_shapes), self.route)
            return ReferenceFunction(plain, find(function.name, self.model), names)(*inputs)

        return AskedFunction(answer)

    def _watch_of(self, function: Function, names: tuple[Any, ...]) -> Callable[..., Any] | None:
        """Watch over lost digits in calls of a function; None where they are not looked at."""
        every, double = self._watch == EVERY, self._dtype == np.float64
        looked_at = self._watch != NEVER and self._target == "cpu" and (every or double)
        if not (looked_at and is_watched(function, every=every)):
            return None

        def watch(inputs: Mapping[str, Any], results: Sequence[Any]) -> Any:
            from whippletree.functions.reference import Reference, watch_machine_code

            plain = Reference(self.model, tuple(self._parameter_shapes), self.route)
            return watch_machine_code(plain, function, names, inputs, results, every=every, double=double)

        return watch

    @garbage_left_alone()
    def _program(self, function: Function, names: tuple[Any, ...], *, exported: bool = False) -> Program:
        return catalogue_program(
            Request(self.model, function, names, self.parameters, self.route, self._target == "cpu", exported)
        )

    def _compile_once(
        self,
        key: tuple[Any, ...],
        build: Callable[[], Program],
        *,
        known: bool = True,
        thorough: bool = False,
        explanation: str = "",
        results: tuple[str, ...] = (),
        width: int | None = None,
        watch: Callable[..., Any] | None = None,
        rescue: Callable[[Mapping[str, Any]], Sequence[Any] | None] | None = None,
        on_traced: Callable[..., Sequence[Any]] | None = None,
    ) -> NamedFunction:
        """``known``: whether the key and the model say all about the program. ``thorough``: never quickly."""
        what = f"{key[0]} of {self.model.name!r}"
        if len(self._tree.nodes) > UNROLL_UP_TO or not known:
            recipe = Recipe.of(build(), what)  # a loop is built faster than a large model is read for a fingerprint
        else:
            # the target too: limbs are loops for a CPU and copies for a GPU
            known_by = repr((key, self.parameters, self.route, self._target)).encode() + self._fingerprint
            recipe = Recipe(known_by, build, what)
        wording = Wording(
            shape_hints(self.model),
            self._explain,
            explanation,
            results,
            watch,
            self._watch == EVERY and watch is not None,
            rescue,
            on_traced,
        )
        if self._target == "cuda":
            from whippletree.compiler.cuda.cuda_function import compile_for_cuda

            return compile_for_cuda(recipe, dtype=self._dtype, wording=wording)
        quick = float("inf") if thorough else self._quick_above
        return compile_function(
            recipe, dtype=self._dtype, threads=self._threads, wording=wording, width=width, quick_above=quick
        )

    @cached_property
    def _fingerprint(self) -> bytes:
        return fingerprint(self.model)

    def _explain(self, status: int, inputs: Mapping[str, Any]) -> str:
        """Meaning of a status that is not zero: the joint that lacked inertia."""
        return str(failure(self._tree, status - 1, inputs))
