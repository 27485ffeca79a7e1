"""``wt.reference(model)``: every function of the catalogue in plain NumPy, on any scalar. No compiler, no surprises.

The slow, readable oracle. A state of floats gives float64 results; Fractions, mpmath, complex numbers or symbols
give arrays of those. Leading dimensions broadcast as in the compiled functions, one state at a time.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.rounding_tape import RoundingTape
from whippletree.constraints.failures import failure
from whippletree.constraints.massless import with_massless
from whippletree.constraints.route_choice import ROUTES, require_route, reveals_by_clusters
from whippletree.constraints.routes import fails
from whippletree.constraints.singular.dead_points import words_off_branch
from whippletree.constraints.singular.exploration import LONG_SYSTEM
from whippletree.constraints.singular.tangent_cone import TieWarning
from whippletree.errors import NameLookupError, ScalarError, ShapeError, SingularSystemError, WhippletreeError
from whippletree.functions.differentiate import derived_function
from whippletree.functions.lost_digits import (
    DOUBLE,
    EVERY,
    FIRST_STATES,
    NEVER,
    NOT_WATCHED,
    SINGLE,
    VECTORS,
    is_watched,
    watch_call,
)
from whippletree.functions.reference_table import ReferenceTable
from whippletree.functions.registry import Function, checked_names, for_names, result_type
from whippletree.model import Model
from whippletree.model.input_checks import common_batch, plain_input, shape_message
from whippletree.model.parameters import find_parameter, parameter_paths, with_parameters, with_scalars
from whippletree.tree.mechanism import Margin, Mechanism
from whippletree.tree.skeleton import Skeleton, skeleton


def reference(
    model: Model,
    *,
    parameters: Sequence[str] = (),
    massless: str = "refuse",
    route: str | None = None,
    watch: str = VECTORS,
) -> Reference:
    """The functions of a model in plain NumPy.

    Args:
        model: any model.
        parameters: paths of numbers that become inputs of every function; see :mod:`whippletree.model.parameters`.
        massless: what to do about massless motions that nothing stops: ``"refuse"``, ``"hold"`` or ``"relax"``; see
            :mod:`whippletree.constraints.massless`.
        route: how the block matrix of constraints is solved: ``"schur"``, ``"augmented"``, ``"recursion"``,
            ``"embedding"``, ``"elimination"``, ``"nullspace"`` or ``"block"``; default: what suits the model. Where the
            route's pivots fail at a state, ``"nullspace"`` takes over.
        watch: which calls on floats are looked at for digits lost to rounding, and warn of them: those that return
            numbers or ``"vectors"``, which takes about twice the time, ``"every"`` one, with matrices, derivatives and
            models of more than 64 velocities, or ``"never"``; see :mod:`whippletree.functions.lost_digits`.
    """
    chosen = with_massless(model, massless)
    require_route(chosen, route, ROUTES)
    if watch not in (VECTORS, EVERY, NEVER):
        raise NameLookupError("choice of calls", watch, (VECTORS, EVERY, NEVER), where="reference, watch")
    return Reference(chosen, parameters, route, watch=watch)


class Reference(ReferenceTable):
    """The catalogue's functions as methods: ``ref.forward_dynamics(q, v, tau)``, ``ref.jacobian("tool")(q)``."""

    def __init__(
        self, model: Model, parameters: Sequence[str] = (), route: str | None = None, *, watch: str = NEVER
    ) -> None:
        self.model = model
        self.watch = watch
        self.route = route
        self.parameters = {path: find_parameter(model, path).shape for path in parameter_paths(model, parameters)}
        self.tree = skeleton(model)

    def __repr__(self) -> str:
        return f"<reference functions of model {self.model.name!r}: {len(functions.CATALOGUE)}, listed by dir()>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *functions.CATALOGUE})

    if not TYPE_CHECKING:  # type checkers know the functions from the table, and are to find a misspelt one

        def __getattr__(self, name: str) -> Any:
            if name.startswith("__"):
                raise AttributeError(name)
            function = functions.find(name, self.model)
            if not function.names:
                return ReferenceFunction(self, function)

            def named(*names: Any) -> ReferenceFunction:
                return ReferenceFunction(self, function, checked_names(function, names))

            named.__doc__ = function.explanation
            return named

    def rounding_error(self, name: str, *names: Any) -> ReferenceFunction:
        """How wrong rounding can make each number that a function returns; see :class:`RoundingError`.

        ``ref.rounding_error("forward_dynamics")(q, v, tau)`` has the shapes of ``ref.forward_dynamics(q, v, tau)``.
        """
        function = functions.find(name, self.model)
        return RoundingError(self, function, checked_names(function, names))

    def jvp(self, name: str, *names: Any) -> ReferenceFunction:
        """The derivative of a function along a direction; see :mod:`whippletree.functions.differentiate`."""
        function = derived_function("jvp", functions.find(name, self.model), self.parameters)
        return ReferenceFunction(self, function, checked_names(function, names))

    def vjp(self, name: str, *names: Any) -> ReferenceFunction:
        """The gradient of a seeded function; see :mod:`whippletree.functions.differentiate`."""
        function = derived_function("vjp", functions.find(name, self.model), self.parameters)
        return ReferenceFunction(self, function, checked_names(function, names))


class ReferenceFunction:
    """One function of the catalogue for one model."""

    def __init__(self, owner: Reference, function: Function, names: tuple[Any, ...] = ()) -> None:
        self.owner = owner
        function = for_names(function, owner.model, names)
        self.function = function
        self.names = names
        self.digits_lost: Any = None
        """Digits lost in each state of the last call that was watched, None if none was: ``watch`` says which calls
        are."""
        looked_at = owner.watch != NEVER and is_watched(function, every=owner.watch == EVERY)
        self.watch = owner.watch if looked_at else NOT_WATCHED
        """Which calls are looked at for lost digits: see :mod:`whippletree.functions.lost_digits`."""
        self.__doc__ = function.explanation
        known = functions.sizes(owner.model)
        self.shapes = {name: functions.resolve(shape, known) for name, shape in function.inputs.items()}
        self.shapes |= owner.parameters
        self.results = result_type(function.name, tuple(function.outputs))
        named = [name for name in self.shapes if name.isidentifier()]
        self.__signature__ = Signature([Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in named])

    def __repr__(self) -> str:
        return f"<reference {self.function.name} of model {self.owner.model.name!r}>"

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        arrays = self._bind_inputs(args, keywords)
        batch = common_batch(
            self.function.name, {n: a.shape[: a.ndim - len(self.shapes[n])] for n, a in arrays.items()}
        )
        full = {n: np.broadcast_to(a, (*batch, *self.shapes[n])) for n, a in arrays.items()}
        exact = any(a.dtype == object or a.dtype.kind == "c" for a in arrays.values())
        try:
            results = [self._one({n: a[index] for n, a in full.items()}) for index in np.ndindex(*batch)]
        except ZeroDivisionError as error:
            listed = ", ".join(arrays)
            raise SingularSystemError(
                f"{self.function.name}: one of {listed} is 0 where it divides ({error})"
            ) from error
        except (OverflowError, TypeError) as error:
            if not exact or isinstance(error, WhippletreeError):
                raise
            raise ScalarError(f"{self.function.name}: {_scalars_of(arrays)} do not work together: {error}") from error
        shapes = [functions.resolve(s, functions.sizes(self.owner.model)) for s in self.function.outputs.values()]
        outputs = []
        for number, shape in enumerate(shapes):
            flat = np.empty((len(results), *shape), dtype=object)
            for row, result in enumerate(results):
                flat[row] = result[number]
            outputs.append(_finish_output(flat.reshape((*batch, *shape)), exact))
        if self.watch != NOT_WATCHED and not exact:
            self.digits_lost = watch_call(self, full, outputs, large=self.watch == EVERY)
        if len(outputs) == 1:
            return outputs[0]
        return tuple(outputs) if self.results is None else self.results(*outputs)

    def _one(self, state: Mapping[str, Array]) -> tuple[Any, ...]:
        """One state through the generic implementation."""
        return self.of_model(self.owner.model, state)

    def of_model(self, model: Model, state: Mapping[str, Array]) -> tuple[Any, ...]:
        """Results at one state, of the model or of one that differs in its numbers only."""
        values = {name: _plain(value) for name, value in state.items()}
        opened = {path: values.pop(path) for path in self.owner.parameters}
        tree = skeleton(with_parameters(model, opened) if opened else model)
        result, failed = self._by_route(tree, values, self.owner.route)
        if failed is not None and self.owner.model.constraints and not self.function.derived:
            # dependent rows, or a loss of digits: the rank-revealing route takes over, and decides
            result, failed = self._by_rank(tree, values)
            if failed is None:
                _tell_of_velocity_off_branch(tree.model, values)
        if failed is not None:
            raise failure(tree, failed, values)
        return result if isinstance(result, tuple) else (result,)

    def _by_rank(self, tree: Skeleton, values: Mapping[str, Any]) -> tuple[Any, int | None]:
        """By the rank-revealing route: for single clusters of loops where loops are embedded, else for the whole."""
        route = self.owner.route
        if reveals_by_clusters(tree.model, route):
            result, failed = self._by_route(tree, values, route, reveals=True)
            if failed is None:
                return result, None
        return self._by_route(tree, values, "nullspace")

    def _by_route(
        self, tree: Skeleton, values: Mapping[str, Any], route: str | None, *, reveals: bool = False
    ) -> tuple[Any, int | None]:
        """The result, and the number of the first margin that is none."""
        mechanism = Mechanism(tree, route=route, reveals=reveals)
        try:
            with np.errstate(divide="ignore", invalid="ignore"):  # a failed pivot makes NaN; the margins tell
                found = self.function.evaluate(mechanism, *self.names, *values.values())
        except SingularSystemError:
            failed = _first_failure(mechanism.margins)
            if failed is None or route != "block":
                raise
            return None, failed  # elimination with pivoting stops where a margin has told already
        for remark in found.remarks:
            warnings.warn(remark, TieWarning, stacklevel=4)
        return found.result, _first_failure(found.margins)

    def _bind_inputs(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> dict[str, Array]:
        """Inputs by name, as arrays, with their last dimensions checked."""
        names = list(self.shapes)
        if len(args) > len(names):
            raise TypeError(f"{self.function.name} takes {len(names)} inputs ({', '.join(names)}), got {len(args)}")
        given = dict(zip(names, args, strict=False)) | dict(keywords)
        if set(given) != set(names) or len(args) + len(keywords) != len(names):
            raise TypeError(
                f"{self.function.name} takes the inputs {', '.join(names)}; got {', '.join(given) or 'none'}"
            )
        arrays = {name: np.asarray(plain_input(self.function.name, name, given[name])) for name in names}
        for name, array in arrays.items():
            _require_numbers(self.function.name, name, array)
            expected = self.shapes[name]
            if array.shape[array.ndim - len(expected) :] != expected or array.ndim < len(expected):
                raise ShapeError(shape_message(self.function.name, name, array.shape, expected, self.owner.model))
        return arrays


def watch_machine_code(
    plain: Reference,
    function: Function,
    names: tuple[Any, ...],
    inputs: Mapping[str, Any],
    results: Sequence[Any],
    *,
    every: bool,
    double: bool,
) -> Any:
    """Digits that a call of a compiled function has lost, of every state or of a first few: see :func:`watch_call`."""
    same = ReferenceFunction(plain, function, names)
    states, precision = None if every else FIRST_STATES, DOUBLE if double else SINGLE
    return watch_call(same, inputs, results, states, has_status=True, large=every, precision=precision)


class RoundingError(ReferenceFunction):
    """Bounds on what rounding does to a function of floats, in the units of its results.

    The function is evaluated with numbers that remember how they were computed
    (:mod:`whippletree.arithmetic.rounding_tape`). Infinite where something is divided by a number of which rounding
    leaves no digit for certain. What one unit in the last place of the inputs does is another matter: they are taken
    as they are.
    """

    def __repr__(self) -> str:
        return f"<rounding error of {self.function.name} of model {self.owner.model.name!r}>"

    def _one(self, state: Mapping[str, Array]) -> tuple[Any, ...]:
        tape = RoundingTape()
        inputs = {name: tape.numbers(value) for name, value in state.items()}
        results = self.of_model(with_scalars(self.owner.model, tape.number), inputs)
        return tuple(tape.errors_of(result).reshape(np.shape(result)) for result in results)


def _tell_of_velocity_off_branch(model: Model, values: Mapping[str, Any]) -> None:
    """Warn of accelerations on a dead point at a velocity that no motion has; of plain numbers."""
    state = [values.get(name) for name in ("q", "v", "tau")]
    if model.nv > LONG_SYSTEM or any(part is None for part in state):
        return
    q, v = (np.asarray(part) for part in state[:2])
    plain = all(isinstance(x, float | int) for x in [*q, *v])
    if plain and (words := words_off_branch(model, q, v, values.get("t", 0))):
        warnings.warn(words, RuntimeWarning, stacklevel=5)


def _first_failure(margins: Sequence[Margin]) -> int | None:
    """The number of the first margin that is none."""
    return next((number for number, pivot in margins if fails(pivot)), None)


def _require_numbers(function: str, name: str, array: Array) -> None:
    """ScalarError for an array of what is no scalar at all: text, dates, None."""
    if array.dtype.kind in "biufc":
        return
    odd = [type(x) for x in array.flat if not all(hasattr(x, word) for word in ARITHMETIC)]
    if array.dtype != object or odd:
        content = f"{odd[0].__name__} objects" if array.dtype == object else f"{array.dtype} values"
        raise ScalarError(f"{function}: {name} holds {content}, expected numbers: real, complex, exact or symbolic")


ARITHMETIC = ("__add__", "__sub__", "__mul__", "__truediv__", "__neg__")
"""Operations that a scalar must know."""


def _scalars_of(arrays: Mapping[str, Array]) -> str:
    """Which kinds of scalars each input holds, for a message."""
    kinds = {
        name: " and ".join(dict.fromkeys(type(x).__name__ for x in a.flat)) if a.dtype == object else str(a.dtype)
        for name, a in arrays.items()
    }
    return ", ".join(f"{name} ({kind})" for name, kind in kinds.items())


def _plain(value: Any) -> Any:
    """Python's own numbers instead of NumPy's, one by one or in an array; other scalars as they are."""
    if isinstance(value, np.ndarray):
        return value.astype(object)
    return value.item() if isinstance(value, np.generic) else value


def _finish_output(array: Array, exact: bool) -> Array | Any:
    """float64 for plain numbers; a scalar result of one state as a scalar."""
    if not exact:
        array = array.astype(np.float64)
    elif all(isinstance(x, (complex, float, int)) for x in array.flat):
        kinds = {type(x) for x in array.flat}
        if any(issubclass(kind, complex) for kind in kinds):
            array = array.astype(np.complex128)
        elif any(issubclass(kind, float) for kind in kinds):
            array = array.astype(np.float64)
    return array[()] if array.ndim == 0 else array
