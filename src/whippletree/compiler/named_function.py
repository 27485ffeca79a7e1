"""Common parts of all compiled functions, whatever it runs on: named inputs, named outputs, and a status per state."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import Parameter, Signature
from typing import Any, TypeAlias

import numpy as np

from whippletree.compiler.llvm.kernel import Interface
from whippletree.errors import SingularSystemError, did_you_mean
from whippletree.functions.lost_digits import EVERY, FIRST, NOT_WATCHED
from whippletree.functions.registry import result_type
from whippletree.model.input_checks import warn_user

NO_MEMORY = -1
"""The status of a call that could not get its work space."""

ANSWERED_IN_PYTHON = -2
"""The status of a state that machine code had no answer for, and a rank-revealing route in Python had."""

CALLS_TOLD = 10
"""So many calls with failed states are explained one by one."""

Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True)
class Wording:
    """Words of errors: ``hints`` about inputs whose shape is wrong, ``failure`` about a status that is not zero; what
    ``help`` says: the ``explanation``; and what several results are called: the fields of a named tuple. ``watch``
    looks for lost digits in a call, its inputs by name and its results, and warns; ``watch_every`` call, or first ones.
    ``rescue`` answers one state that machine code has no answer for, given its inputs by name: the results, or None
    where it is not offered; it raises SingularSystemError where there is none. ``on_traced`` answers on traced scalars,
    given the inputs in order: a controller that asks the function is compiled with it.
    """

    hints: Mapping[str, str] = field(default_factory=dict)
    failure: Callable[[int, Mapping[str, Any]], str] | None = None
    explanation: str = ""
    results: tuple[str, ...] = ()
    watch: Callable[[Mapping[str, Any], Sequence[Any]], Any] | None = None
    watch_every: bool = False
    rescue: Callable[[Mapping[str, Any]], Sequence[Any] | None] | None = None
    on_traced: Callable[..., Sequence[Any]] | None = None


class ToldSignature:
    """Facts for help and editors about a function, which is an instance here, and of its class, which answers apart."""

    def __init__(self, of_class: str | None, of_function: Callable[[Any], Any]) -> None:
        self.of_class, self.of_function = of_class, of_function

    def __get__(self, function: Any, owner: type) -> Any:
        return self.of_class if function is None else self.of_function(function)


_new_tuple = tuple.__new__
"""Makes a named tuple of a tuple in half the time that its own constructor takes."""


class NamedFunction:
    """A function of arrays with names; ``status`` tells of the last call whose program has a status."""

    __signature__ = ToldSignature(None, lambda function: function._signature())
    __slots__ = (
        "_arity",
        "_failed_calls",
        "_inputs",
        "_outputs",
        "_results",
        "_status",
        "_tuple",
        "_wording",
        "digits_lost",
        "name",
        "status",
    )

    def __init__(self, interface: Interface, wording: Wording) -> None:
        self.name = interface.name
        self.status: Any = None
        self.digits_lost: Any = None
        """Digits lost in each state of the last call that was watched, None if none was: ``watch`` says which calls
        are."""
        self._inputs = [b for b in interface.buffers if b.role == "input"]
        self._outputs = [b for b in interface.buffers if b.role == "output"]
        self._arity = len(self._inputs)
        self._wording = wording
        # an integer at the end is a status per state: it is not returned but acted upon
        self._status = bool(self._outputs) and self._outputs[-1].integer
        self._results = self._outputs[:-1] if self._status else self._outputs
        self._failed_calls = 0
        self._tuple = result_type(self.name, wording.results)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in the order of a positional call."""
        return tuple(b.name for b in self._inputs)

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the results, in order."""
        return tuple(b.name for b in self._results)

    @property
    def watch(self) -> str:
        """Which calls are looked at for lost digits, ``"every"`` or the ``"first"``, or that the function is ``"not
        watched"``: see :mod:`whippletree.functions.lost_digits`."""
        if self._wording.watch is None:
            return NOT_WATCHED
        return EVERY if self._wording.watch_every else FIRST

    @property
    def fails(self) -> bool:
        """Whether there may be states without an answer: then calls have a status."""
        return self._status

    def _signature(self) -> Signature:
        inputs = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in self.inputs if name.isidentifier()]
        return Signature([*inputs, Parameter("out", Parameter.KEYWORD_ONLY, default=None)])

    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Evaluate; positional or named inputs of any batch shape."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<compiled function {self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)}>"

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self.name}: machine code stays where it was made: pickle or copy what wt.compile returned, and take the "
            f"function from it"
        )

    def _in_order(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        """Positional and named inputs as one tuple."""
        names = self.inputs
        listed = f"its inputs are {', '.join(names)}"
        if len(inputs) > self._arity:
            count = f"{len(inputs)} inputs were given"
            raise TypeError(f"{self.name}: {count}; {listed}. An output array is given by out=.")
        found = dict(zip(names, inputs))
        for name, value in named.items():
            if name not in names:
                raise TypeError(f"{self.name}: there is no input {name!r}; {listed}{did_you_mean(name, names)}")
            if name in found:
                raise TypeError(f"{self.name}: {name} was given twice, by position and by name")
            found[name] = value
        missing = [name for name in names if name not in found]
        if missing:
            raise TypeError(f"{self.name}: {', '.join(missing)} not given; {listed}")
        return tuple(found[name] for name in names)

    def _name_results(self, results: Any) -> Any:
        """Several results with their names; one result as it is."""
        if self._tuple is None or type(results) is not tuple:
            return results
        return _new_tuple(self._tuple, results)

    def _look_for_lost_digits(self, inputs: Sequence[Any], results: Any) -> None:
        """Tell of digits that rounding has cost, where this is asked for."""
        if self._wording.watch is not None:
            by_name = dict(zip(self.inputs, inputs, strict=True))
            self.digits_lost = self._wording.watch(by_name, as_tuple(results))

    # ---- status --------------------------------------------------------------------------------------------------

    def answer_plainly(self, *inputs: Any) -> Any | None:
        """The results, where that takes nothing but a call of machine code which succeeds for every state; else None,
        without a warning. For callers that have a second way."""
        return None

    def _act_on_status(self, results: Sequence[Any], inputs: Sequence[Any]) -> Any:
        """NumPy results without their status. States that machine code has no answer for are answered in Python where
        that can be done; else a single one raises, and those of a batch become NaN."""
        status = results[-1]
        if type(status) is not np.int64:
            status = np.asarray(status)[()]  # of a subclass of arrays, one state has an array without dimensions
        self.status = status
        if status.ndim == 0:
            if status:
                results = self._answered_one(results, int(status), inputs)
        elif status.any():
            self._answer_or_mark(results[:-1], status, inputs)
        return results[0] if len(results) == 2 else results[:-1]

    def _answered_one(self, results: Sequence[Any], code: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The results of one state, from the second way to an answer.

        Raises:
            SingularSystemError: there is none.
        """
        answers = self._second_answer(code, inputs)
        if answers is None:
            raise SingularSystemError(self._explain_failure(code, inputs))
        self.status = np.int64(ANSWERED_IN_PYTHON)
        kept: list[Any] = []
        for result, answer in zip(results, answers, strict=False):  # the status is the last of the results
            if isinstance(result, np.ndarray):
                result[...] = answer
                kept.append(result)
            else:
                kept.append(np.asarray(answer, dtype=np.asarray(result).dtype)[()])
        return (*kept, self.status)

    def _second_answer(self, code: int, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The answer to one state by :class:`Wording`'s rescue; None where that is not offered.

        Raises:
            SingularSystemError: it finds none either.
        """
        rescue = self._wording.rescue
        if rescue is None or code == NO_MEMORY:
            return None
        return rescue(dict(zip(self.inputs, inputs, strict=True)))

    def _answer_or_mark(self, results: Sequence[Any], status: Array, inputs: Sequence[Any]) -> None:
        """Answer failed states of a batch one by one; those without an answer become NaN. Warn of both."""
        reason = ""
        known: dict[bytes, Sequence[Any] | None] = {}  # a batch often begins from one singular state
        for place in map(tuple, np.argwhere(status != 0).tolist()):
            own_inputs = self._inputs_of(place, status.shape, inputs)
            state = b"".join(np.asarray(x).tobytes() for x in own_inputs)
            if state not in known:
                try:
                    known[state] = self._second_answer(int(status[place]), own_inputs)
                except SingularSystemError as error:
                    known[state], reason = None, reason or str(error)
            answers = known[state]
            if answers is not None:
                status[place] = ANSWERED_IN_PYTHON
            for number, (result, buffer) in enumerate(zip(results, self._results, strict=True)):
                # NumPy lets a given array do without leading dimensions of size 1
                own = place[len(place) - (result.ndim - len(buffer.shape)) :]
                result[own] = np.nan if answers is None else answers[number]
        self._failed_calls += 1
        warn_user(self._failure_text(status, inputs, reason), RuntimeWarning)

    def _inputs_of(self, place: tuple[int, ...], batch: tuple[int, ...], inputs: Sequence[Any]) -> list[Any]:
        """The numbers of one state out of those of all."""
        return [
            np.broadcast_to(x, batch + np.shape(x)[np.ndim(x) - len(buffer.shape) :])[place]
            for x, buffer in zip(inputs, self._inputs, strict=True)
        ]

    def _failure_text(self, status: Array, inputs: Sequence[Any], reason: str) -> str:
        """Text of a warning. Python shows a text once for each line of a program: the first calls that fail have
        texts of their own, and of a loop in which many do, one for each power of ten.

        ``reason``: of the first state without an answer, where it is known.
        """
        if self._failed_calls > CALLS_TOLD:
            many = 10 ** int(math.log10(self._failed_calls - 1))
            return (
                f"{self.name}: more than {many} calls had states that machine code has no answer for: singular ones "
                f"are answered in Python, others are NaN in the result (status of the last call: {self.name}.status)"
            )
        again = "" if self._failed_calls == 1 else f" ({self._failed_calls} calls with failures so far)"
        answered, failed = status == ANSWERED_IN_PYTHON, (status != 0) & (status != ANSWERED_IN_PYTHON)
        sentences = []
        if answered.any():
            sentences.append(
                f"{self.name}: machine code has no answer for {int(answered.sum())} of {status.size} states, whose "
                f"constraint rows depend on each other; a rank-revealing route in Python has answered them one by one, "
                f"which is slow (status {ANSWERED_IN_PYTHON} in {self.name}.status); the first is {_first(answered)}"
            )
        if failed.any():
            place = _first(failed)
            own = self._inputs_of(place, status.shape, inputs)
            why = reason or self._explain_failure(int(status[place]), own)
            sentences.append(
                f"{int(failed.sum())} of {failed.size} states failed and are NaN in the result "
                f"(status: {self.name}.status); the first is {place}: {why}"
            )
        return f"{'. '.join(sentences)}{again}"

    def _explain_failure(self, code: int, inputs: Sequence[Any]) -> str:
        if code == NO_MEMORY:
            return f"{self.name}: there is not enough memory for the work space of this call"
        explain = self._wording.failure
        return explain(code, dict(zip(self.inputs, inputs, strict=True))) if explain else f"{self.name}: status {code}"


def _first(flags: Array) -> tuple[int, ...]:
    """The place of the first state of a batch that is flagged."""
    return tuple(int(i) for i in np.argwhere(flags)[0])


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One array or several, as a tuple."""
    return tuple(value) if isinstance(value, tuple) else (value,)
