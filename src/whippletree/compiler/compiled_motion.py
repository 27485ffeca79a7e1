"""Motion in time as compiled functions of a model: single steps, roll-outs, and the kernels of simulations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from whippletree.compiler.compiled_programs import CompiledPrograms
from whippletree.compiler.frontend.code_forms import UNROLL_MATRICES_UP_TO
from whippletree.compiler.llvm.kernel import digest
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Program
from whippletree.errors import ShapeError, UnsupportedError

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


class CompiledMotion(CompiledPrograms):
    """Steps and trajectories of one model. Programs are written when they are first asked for, so their modules are
    imported then."""

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
            raise UnsupportedError(
                f"activations: no actuator of model {self.model.name!r} has an activation: Builder.actuator gives it "
                f"one with activation=wt.Activation(...)"
            )
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
        from whippletree.contact.restitution_share import warn_of_unheeded_laws

        ctrl, tau = commands_and_forces(self.model, "contact_rollout", ctrl, tau)
        if ctrl is not None and self.model.activations:
            ctrl, _ = self._activate("contact_rollout", ctrl, act, dt)
        elif act is not None:
            refuse_idle_activations(self.model, "contact_rollout", act)
        commands = [] if ctrl is None else [ctrl]
        contact_rollout.refuse_timed(self.model, "contact_rollout")
        contact_rollout.refuse_large(self.model, len(self._tree.nodes), UNROLL_MATRICES_UP_TO)
        contact_rollout.require_steps(dt, sweeps)
        warn_of_unheeded_laws(self.model, "contact_rollout")
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
        """The function of :func:`whippletree.compiler.rollout.contact_lists.contact_list_step.contact_lists_program`,
        for steps of one scene.
        """
        from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program

        return self.program(("contact_lists",), lambda: contact_lists_program(self.model))

    def contact_list_gaps(self, q: Any, *, reach: float = np.inf) -> Any:
        """Gaps (..., candidates) of :meth:`contact_list_touches`, some states at a time: all that is found of thousands
        of candidates in hundreds of them is more than memory takes quickly."""
        from whippletree.compiler.rollout.contact_kinds import TOUCH
        from whippletree.compiler.rollout.contact_lists.contact_list_gaps import rows_of_touches
        from whippletree.contact.kinematics.contact_set import contact_set_of_steps

        every, count = np.asarray(q), len(contact_set_of_steps(self.model).candidates)
        rows, gaps = every.reshape(-1, self.model.nq), np.empty((every[..., 0].size, count))
        parts = rows_of_touches(count, len(rows))
        touches = np.empty((len(rows[parts[0]]), count, TOUCH), dtype=self._dtype)  # for one part after the other
        for part in parts:
            own = touches[: len(rows[part])]
            self.contact_list_touches(rows[part], reach=reach, out=own)
            gaps[part] = own[..., 0]
        return gaps.reshape(*every.shape[:-1], count)

    def contact_list_touches(self, q: Any, *, reach: float = np.inf, wanted: Any = None, out: Any = None) -> Any:
        """The function of
        :func:`whippletree.compiler.rollout.contact_lists.contact_list_gaps.contact_list_touches_program` at coordinates
        q (..., nq); all candidates are ``wanted`` by default.
        """
        from whippletree.compiler.rollout.contact_lists.contact_list_gaps import contact_list_touches_program
        from whippletree.contact.kinematics.contact_set import contact_set_of_steps

        if wanted is None:
            wanted = np.ones(len(contact_set_of_steps(self.model).candidates))

        # its code is long, and that of lanes would be compiled beside that of single states
        find = self.program(("contact_list_touches",), lambda: contact_list_touches_program(self.model), width=1)
        return find(q, reach, wanted, out=out)

    @cached_property
    def contact_list_loads(self) -> NamedFunction:
        """The function of
        :func:`whippletree.compiler.rollout.contact_lists.contact_list_gaps.contact_list_loads_program`.
        """
        from whippletree.compiler.rollout.contact_lists.contact_list_gaps import contact_list_loads_program

        return self.program(("contact_list_loads",), lambda: contact_list_loads_program(self.model))

    def driven_contact_steps(self, driven: Driven, *, world_only: bool = False) -> NamedFunction:
        """:attr:`contact_steps` under a traced controller and traced commands, or one in Python, or with dampers that
        come with each call; ``world_only``: while nothing but the world is touched."""
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
