"""``wt.symbolic(model)``: every function of the catalogue as a CasADi function (extra ``casadi``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from whippletree import functions
from whippletree.arithmetic.trace import evaluate
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.compiler.program import Block, Program
from whippletree.errors import MissingExtraError
from whippletree.functions import Function
from whippletree.functions.registry import checked_names, for_names
from whippletree.model import Model, require_model


def symbolic(model: Model, *, parameters: Sequence[str] = ()) -> Symbolic:
    """The functions of a model as ``casadi.Function`` objects with named inputs and outputs.

    Matrices keep their shape; a pose is (4, 4). CasADi differentiates them further as it likes.

    Raises:
        MissingExtraError: if CasADi is not installed.
    """
    require_model(model, "symbolic")
    return Symbolic(model, parameters)


class Symbolic:
    """The catalogue's functions as attributes: ``sym.forward_dynamics``, ``sym.jacobian("tool")``."""

    def __init__(self, model: Model, parameters: Sequence[str]) -> None:
        self.model = model
        self.parameters = tuple(parameters)
        self._casadi = import_casadi("wt.symbolic")

    def __repr__(self) -> str:
        return f"<CasADi functions of model {self.model.name!r}>"

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *functions.CATALOGUE})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        function = functions.find(name, self.model)
        if function.names:
            return lambda *names: self._function(function, checked_names(function, names))
        return self._function(function, ())

    def _function(self, function: Function, names: Sequence[Any]) -> Any:
        """Trace the generic implementation and replay its operations on CasADi scalars.

        (Running it on CasADi scalars directly would be ten times slower, and NumPy and CasADi disagree on who
        multiplies an array by a symbol.)
        """
        function = for_names(function, self.model, tuple(names))
        program = unrolled_program(self.model, function, names, self.parameters, checked=False)
        inputs, outputs = program.of_role("input"), program.of_role("output")
        symbols = [self._casadi.SX.sym(_identifier(b.name), *(b.shape or (1,))) for b in inputs]
        scalars = [symbol[i] for symbol in symbols for i in range(symbol.numel())]
        values = iter(evaluate(_only_block(program).code, scalars))
        results = [self._fill(b.shape, values) for b in outputs]
        labels = [_identifier(b.name) for b in inputs]
        # an output that has the name of an input gets a suffix, since CasADi keeps one name space
        titles = [f"{b.name}_out" if b.name in labels else b.name for b in outputs]
        return self._casadi.Function(function.name, symbols, results, labels, titles)

    def _fill(self, shape: tuple[Any, ...], values: Iterator[Any]) -> Any:
        """The next numbers as a CasADi matrix."""
        rows, columns = (*shape, 1, 1)[:2]
        matrix = self._casadi.SX(rows, columns)
        for index in np.ndindex(rows, columns):
            matrix[index] = next(values)
        return matrix


def _only_block(program: Program) -> Block:
    (block,) = program.body
    assert isinstance(block, Block)
    return block


def _identifier(name: str) -> str:
    """A parameter's path as a CasADi name: letters, digits and single underscores."""
    return "_".join(filter(None, "".join(c if c.isalnum() else "_" for c in name).split("_")))


def import_casadi(feature: str) -> Any:
    """The package, or what to install for a feature."""
    try:
        import casadi
    except ImportError:
        raise MissingExtraError(feature, "casadi", "casadi") from None
    return casadi
