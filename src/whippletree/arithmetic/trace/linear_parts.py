"""Which results of a trace are linear in which inputs, and with what constant slopes: one pass, no new nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from whippletree.arithmetic.trace.traced import Trace, Traced


class LinearPart(NamedTuple):
    """How a number depends on the inputs of a trace."""

    slopes: dict[int, float]
    """Constant slopes by the number of the input."""
    others: frozenset[int]
    """Inputs that it depends on in any other way."""

    def slope(self, number: int) -> float | None:
        """The slope by an input; None where it is not constant."""
        return None if number in self.others else self.slopes.get(number, 0.0)

    @property
    def inputs(self) -> frozenset[int]:
        """All inputs that it depends on."""
        return self.others.union(self.slopes)


CONSTANT = LinearPart({}, frozenset())


def linear_parts(trace: Trace, outputs: Sequence[Any]) -> list[LinearPart]:
    """The linear part of each output, a traced scalar or a plain number."""
    parts: list[LinearPart] = []
    for node in trace.nodes:
        parts.append(_part(trace, parts, node))
    return [parts[x.index] if isinstance(x, Traced) else CONSTANT for x in outputs]


def _part(trace: Trace, parts: Sequence[LinearPart], node: tuple[Any, ...]) -> LinearPart:
    match node:
        case ("input", number):
            return LinearPart({number: 1.0}, frozenset())
        case ("const", *_):
            return CONSTANT
        case ("neg", i):
            return _sum([(parts[i], -1.0)])
        case ("add", i, j):
            return _sum([(parts[i], 1.0), (parts[j], 1.0)])
        case ("sub", i, j):
            return _sum([(parts[i], 1.0), (parts[j], -1.0)])
        case ("mul", i, j):
            for factor, other in ((i, j), (j, i)):
                if trace.nodes[factor][0] == "const":
                    return _sum([(parts[other], trace.nodes[factor][1])])
        case ("div", i, j) if trace.nodes[j][0] == "const" and trace.nodes[j][1] != 0:
            return _sum([(parts[i], 1 / trace.nodes[j][1])])
    # whatever else it is; a table of numbers is an operation with one operand, too
    operands = [i for i in node[1:] if isinstance(i, int)]
    return LinearPart({}, frozenset().union(*[parts[i].inputs for i in operands]))


def _sum(terms: Sequence[tuple[LinearPart, float]]) -> LinearPart:
    """Parts times constant factors, added up."""
    others = frozenset().union(*[part.others for part, _ in terms])
    slopes: dict[int, float] = {}
    for part, factor in terms:
        for number, slope in part.slopes.items():
            if number not in others:
                slopes[number] = slopes.get(number, 0.0) + factor * slope
    return LinearPart(slopes, others)
