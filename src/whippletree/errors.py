"""Every error this library raises on purpose, and the status codes of compiled functions.

::

    WhippletreeError
    ├── GraphError            a graph is not what an operation needs (a cycle, two parents, an unknown node)
    ├── ModelError            a model description is wrong; lists every fault at once
    │   └── FileError         ... and it came from a file; each fault carries its line
    ├── NameLookupError       a joint, body, frame or function that the model does not have
    ├── ShapeError            an array whose shape does not fit the model
    ├── ScalarError           a scalar type that cannot do what an algorithm needs
    ├── SingularSystemError   the equations of motion do not determine an acceleration
    ├── AssemblyError         loops that cannot close, or a state that violates the constraints
    ├── UnsupportedError      valid, but not something this function can do; nothing is ever ignored
    ├── MissingExtraError     an optional dependency is needed; says what to install
    └── DeviceError           a GPU is missing, or arrays are not where it can reach them
        └── DeviceMemoryError ... or it has not enough memory

Each message says where, what was found, what was expected, why, and what to do, with names instead of indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


class WhippletreeError(Exception):
    """Base of every error raised on purpose by this library."""

    def __reduce__(self) -> tuple[Any, ...]:
        # it must cross processes, whatever its constructor asks for: a pool may wait for ever for one that does not
        attributes = self.__dict__ | ({"name": self.name} if hasattr(self, "name") else {})  # a slot of AttributeError
        return _restored, (type(self), self.args, attributes)


def _restored(kind: type[WhippletreeError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> WhippletreeError:
    error = kind.__new__(kind, *args)
    for name, value in attributes.items():
        setattr(error, name, value)
    return error


class GraphError(WhippletreeError, ValueError):
    """A graph is not what an operation needs: a directed cycle, several parents, an unknown node."""


class ModelError(WhippletreeError, ValueError):
    """A model description is wrong. ``faults`` lists everything found, not only the first."""

    def __init__(self, subject: str, faults: Sequence[str]) -> None:
        self.subject = subject
        self.faults = tuple(faults)
        listed = "\n".join(f"  - {fault}" for fault in self.faults)
        one = len(self.faults) == 1
        super().__init__(f"{subject}: {self.faults[0]}" if one else f"{subject}: {len(self.faults)} faults\n{listed}")


class FileError(ModelError):
    """A model file cannot be used. Each fault carries its line number where the format has lines."""


class NameLookupError(WhippletreeError, LookupError, AttributeError):
    """A name that is not there. The message lists the names that are.

    Also an AttributeError, so that ``hasattr(dyn, "no_such_function")`` answers as Python expects.
    """

    def __init__(self, kind: str, name: object, known: Iterable[str], where: str = "") -> None:
        self.kind, self.name, self.known = kind, str(name), tuple(known)
        shown = ", ".join(repr(k) for k in self.known[:20]) or "none"
        if len(self.known) > 20:
            shown += f", … ({len(self.known)} in all)"
        place = f"{where}: " if where else ""
        super().__init__(f"{place}there is no {kind} {name!r}; known: {shown}{did_you_mean(str(name), self.known)}")


class ShapeError(WhippletreeError, ValueError):
    """An array does not have the shape that the model asks for."""


class ScalarError(WhippletreeError, TypeError):
    """A scalar type cannot do what was asked exactly (for example the sine of a Fraction)."""


class SingularSystemError(WhippletreeError, ArithmeticError):
    """The equations of motion do not determine an acceleration."""


class AssemblyError(WhippletreeError, ArithmeticError):
    """Constraints that cannot be met near a guess, or that a given state violates; says which, and by how much.

    ``q`` is the best configuration that was found, ``residuals`` the open rows by name.
    """

    def __init__(self, message: str, q: object = None, residuals: Mapping[str, float] | None = None) -> None:
        super().__init__(message)
        self.q = q
        self.residuals = dict(residuals or {})


class UnsupportedError(WhippletreeError, NotImplementedError):
    """A valid request that this function cannot serve; it says so instead of ignoring a part of it."""


class DeviceError(WhippletreeError, RuntimeError):
    """A device, or its driver, is missing or fails; or an array is not in its memory."""


class DeviceMemoryError(DeviceError, MemoryError):
    """A device has not enough memory for what was asked."""


class MissingExtraError(WhippletreeError, ImportError):
    """An optional dependency is missing."""

    def __init__(self, feature: str, package: str, extra: str) -> None:
        super().__init__(f"{feature} needs the package {package!r}: pip install 'whippletree[{extra}]'")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A short suggestion to append to a message, or nothing when no known name is close."""
    from difflib import get_close_matches  # only errors pay for this import

    close = get_close_matches(name, list(known), n=1)
    return f". Did you mean {close[0]!r}?" if close else ""
