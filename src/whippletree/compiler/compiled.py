"""``wt.compile(model)``: every function of the catalogue as machine code for this model and this CPU or GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.compiler.compiled_motion import CompiledMotion
from whippletree.compiler.frontend.asked_functions import AskedFunction
from whippletree.compiler.frontend.code_forms import Request, catalogue_program
from whippletree.compiler.llvm.ir import Real
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Program
from whippletree.constraints.massless import with_massless
from whippletree.constraints.route_choice import COMPILED_ROUTES, answers_singular_states, require_route
from whippletree.errors import NameLookupError, UnsupportedError
from whippletree.functions import CATALOGUE, Function, find
from whippletree.functions.differentiate import derived_function
from whippletree.functions.lost_digits import EVERY, FIRST, NEVER, is_watched
from whippletree.functions.registry import checked_names, for_names
from whippletree.model import Model

WATCHES = (FIRST, EVERY, NEVER)
"""Which calls may be looked at for lost digits."""

TARGETS = ("cpu", "cuda")
"""Machines that functions are compiled for."""


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


class Compiled(CompiledMotion):
    """Functions compiled for one model. ``dir()`` lists them; on a CPU each is a thin callable over a NumPy gufunc."""

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
            Request(
                self.model,
                function,
                names,
                self.parameters,
                self.route,
                on_cpu=self._target == "cpu",
                exported=exported,
                dtype=self._dtype.name,
            )
        )
