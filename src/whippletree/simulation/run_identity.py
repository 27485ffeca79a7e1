"""Identity of a run, in words and short texts that can be stored and compared years later.

Numbers, texts, arrays and containers of them are compared by content. A Python function is compared by what decides its
answers: its bytecode and constants (of nested functions too), its defaults, the values that it has captured, the
attributes of the object that it is bound to, and the globals that it refers to, functions among them followed in the
same way. Code of installed libraries counts as its version. Objects are compared as ``pickle`` sees them; what has no
content to compare (an open file, a lock, machine code of another library) is named as such, and never taken for equal.

What a function reads elsewhere (a file, the clock, chance) leaves no trace here.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.compiler.compiled import Compiled
from whippletree.compiler.cpu.cpu_function import CompiledFunction
from whippletree.compiler.frontend.fingerprint import fingerprint
from whippletree.model import Model
from whippletree.simulation.adaptive.user_events import Event
from whippletree.simulation.method import Task

INCOMPARABLE = "cannot be compared: "
"""How the text of a word begins whose value has no content to go by; then comes what it is."""

CHARACTERS_KEPT = 60
"""Characters up to which a value is its own text; longer ones are a digest."""

MOST_WORDS = 10_000
"""Words beyond which a value counts as too large to be compared: it has the whole program behind it."""

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
"""Version of Python: bytecode can be compared within one."""

_OWN = Path(__file__).resolve().parents[1]
_NUMBERS = (bool, int, float, complex, str, bytes, type(None), type(...), np.generic)
_DESCRIPTORS = (types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType)


def run_identity(
    dyn: Compiled,
    task: Task,
    controller: Callable[..., Any] | None,
    events: tuple[Event, ...],
    settings: Mapping[str, Any],
) -> dict[str, str]:
    """Words and texts that are equal for equal runs; a word is ``part: where in it``.

    Args:
        dyn: the functions that are integrated.
        task: start and output times.
        controller: as it is called, with limits around it.
        events: as the user gave them.
        settings: method, tolerances and options by name.
    """
    model = dyn.model
    content = Content()
    content.text("model", model.name)
    content.text("nq", str(model.nq))
    content.text("nv", str(model.nv))
    content.add("content of the model", model)
    content.text("start", _digest(task.start.tobytes()))
    content.text("output times", _digest(task.times.tobytes()))
    content.add("controller", controller)
    for event in events:
        content.text(f"events: {event.name}", f"direction {event.direction}, terminal {event.terminal}")
        content.add(f"events: {event.name}: function", event.function)
    for name, value in {**settings, "functions compiled for": str(dyn.dtype)}.items():
        content.add(f"settings: {name}", value)
    if content.has_bytecode:
        content.text("version of Python", VERSION)
    return content.words


class Content:
    """Collects the content of values, word by word."""

    def __init__(self) -> None:
        self.words: dict[str, str] = {}
        self.has_bytecode = False
        self._met: dict[int, tuple[str, Any]] = {}
        """Functions, classes and objects by their id, with the word they were met at; held, so that ids stay theirs."""

    def text(self, word: str, text: str) -> None:
        """A word whose text is known."""
        self.words[word] = text

    def add(self, word: str, value: Any) -> None:
        """A value and all that decides what it is."""
        if len(self.words) >= MOST_WORDS:
            self.text(word, f"{INCOMPARABLE}too much hangs on it")
            return
        try:
            plain = _plain_text(value)
            if plain is None:
                self._add_structure(word, value)
            else:
                self.text(word, plain)
        except RecursionError:
            self.text(word, f"{INCOMPARABLE}nested too deeply")

    def _add_structure(self, word: str, value: Any) -> None:
        """A value that is more than numbers; one that was met before is written as the place where it was."""
        if id(value) in self._met:
            self.text(word, f"see {self._met[id(value)][0]}")
            return
        self._met[id(value)] = word, value
        kind = next((kind for kind in _READERS if isinstance(value, kind)), None)
        if kind is not None:
            _READERS[kind](self, word, value)
        else:
            self._add_object(word, value)

    def _add_model(self, word: str, model: Model) -> None:
        functions: list[Any] = []

        def note_function(function: Any) -> bytes:
            functions.append(function)
            return b"function"

        self.text(word, fingerprint(model, note_function).hex())
        for constraint in model.constraints:
            own = [(key, value) for key, value in constraint.parameters.items() if callable(value)]
            functions = [f for f in functions if all(f is not value for _, value in own)]
            for key, value in own:
                self.add(f"constraint {constraint.name!r}: {key}", value)
        for k, function in enumerate(functions):
            self.add(f"{word}: function {k}", function)

    def _add_function(self, word: str, function: types.FunctionType) -> None:
        code = function.__code__
        self.has_bytecode = True
        self.text(f"{word}: code", _digest(*_code_pieces(code)))
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._add_cell(f"{word}: {name}", cell)
        defaults = function.__defaults__ or ()
        names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
        self._add_items(f"{word}: default", list(zip(names, defaults, strict=True)))
        self._add_items(f"{word}: default", sorted((function.__kwdefaults__ or {}).items()))
        if not _library_of(function.__globals__):
            self._add_globals(word, set(_names(code)), function.__globals__)

    def _add_cell(self, word: str, cell: types.CellType) -> None:
        try:
            value = cell.cell_contents
        except ValueError:
            self.text(word, "not set yet")
        else:
            self.add(word, value)

    def _add_globals(self, word: str, names: set[str], known: Mapping[str, Any]) -> None:
        for name in sorted(names & set(known)):
            value = known[name]
            place = f"{word}: {name}"
            if not isinstance(value, types.ModuleType):
                self.add(place, value)
            elif library := _library_of(vars(value)):
                self.text(place, f"{value.__name__} of {library}")
            else:  # of a user's module, what the code may refer to; each name once, so that modules may know each other
                self._add_globals(place, names - {name}, vars(value))

    def _add_method(self, word: str, method: types.MethodType) -> None:
        self.add(word, method.__func__)
        self.add(f"{word}: self", method.__self__)

    def _add_builtin(self, word: str, function: types.BuiltinFunctionType) -> None:
        owner = function.__self__
        self.text(word, f"{function.__module__}.{function.__qualname__}")
        if owner is not None and not isinstance(owner, types.ModuleType):
            self.add(f"{word}: self", owner)

    def _add_partial(self, word: str, made: functools.partial[Any]) -> None:
        self.add(word, made.func)
        self._add_items(f"{word}: argument", [*enumerate(made.args), *sorted(made.keywords.items())])

    def _add_class(self, word: str, kind: type) -> None:
        """A class of the user's with all its functions and values; of a library's, the name."""
        for owner in kind.__mro__:
            library = _library_of_class(owner)
            self.text(f"{word}: class {owner.__qualname__}", f"{owner.__module__} of {library}" if library else "here")
            if library:
                continue
            for name, value in sorted(vars(owner).items()):
                inner = _inside_descriptor(value)
                hidden = name.startswith("__") or name == "_abc_impl"
                if isinstance(inner, _DESCRIPTORS) or (hidden and not isinstance(inner, types.FunctionType)):
                    continue
                self.add(f"{word}: {owner.__qualname__}.{name}", inner)

    def _add_object(self, word: str, value: Any) -> None:
        """Any other object, as ``pickle`` sees it: how it is made, and its state."""
        wrapped = getattr(value, "__wrapped__", None)
        if wrapped is not None and isinstance(value, functools._lru_cache_wrapper):
            self.add(word, wrapped)
            return
        try:
            made = value.__reduce_ex__(4)
        except Exception:  # whatever it is, it does not say what it holds
            self.text(word, f"{INCOMPARABLE}a {type(value).__module__}.{type(value).__qualname__}")
            return
        if isinstance(made, str):
            self.text(word, f"{getattr(value, '__module__', '')}.{made}")
            return
        maker, arguments, state, items, pairs = (*made, None, None, None)[:5]
        self.add(f"{word}: made by", maker)
        self._add_items(f"{word}: made of", list(enumerate(arguments)))
        self._add_state(word, type(value), state)
        self._add_items(word, list(enumerate(items or ())))
        self._add_items(word, list(pairs or ()))

    def _add_state(self, word: str, kind: type, state: Any) -> None:
        parts = state if isinstance(state, tuple) and len(state) == 2 else (state,)
        for part in parts:
            if isinstance(part, dict):
                self._add_items(word, [(k, v) for k, v in part.items() if not _is_remembered(kind, k)], ".")
            elif part is not None:
                self.add(f"{word}: state", part)

    def _add_sequence(self, word: str, values: Any) -> None:
        self.text(f"{word}: length", str(len(values)))
        self._add_items(word, list(enumerate(values)))

    def _add_mapping(self, word: str, values: Mapping[Any, Any]) -> None:
        self.text(f"{word}: length", str(len(values)))
        self._add_items(word, list(values.items()))

    def _add_items(self, word: str, items: list[tuple[Any, Any]], sign: str = "") -> None:
        for key, value in items:
            self.add(f"{word}{sign}{key}" if sign else f"{word}[{key!r}]", value)


_READERS: dict[Any, Callable[[Content, str, Any], None]] = {
    Model: Content._add_model,
    types.FunctionType: Content._add_function,
    types.MethodType: Content._add_method,
    types.BuiltinFunctionType: Content._add_builtin,
    functools.partial: Content._add_partial,
    type: Content._add_class,
    np.ufunc: lambda content, word, value: content.text(word, f"{value.__name__} of numpy {np.__version__}"),
    CompiledFunction: lambda content, word, value: content.text(word, _digest(value.content)),
    (tuple, list): Content._add_sequence,
    dict: Content._add_mapping,
}
"""How the content of a value is read, by its type; the first that fits."""


def _plain_text(value: Any) -> str | None:
    """The content of numbers, texts, arrays and containers of them: itself where that is short, else a digest; None for
    everything else."""
    pieces = _plain_pieces(value)
    if pieces is None:
        return None
    shown = _show_value(value)
    return shown if shown and len(shown) <= CHARACTERS_KEPT else f"{type(value).__name__} {_digest(*pieces)}"


def _show_value(value: Any) -> str:
    """A number, a text or a few numbers with every digit; empty for what would not be shown whole."""
    if isinstance(value, np.ndarray):
        return f"{value.tolist()!r} as {value.dtype}" if value.size <= CHARACTERS_KEPT and value.dtype != object else ""
    items = value if isinstance(value, (tuple, list)) else [value]
    return repr(value) if all(isinstance(item, _NUMBERS) for item in items) else ""


def _plain_pieces(value: Any) -> list[bytes] | None:
    if isinstance(value, Enum):
        return [type(value).__qualname__.encode(), value.name.encode()]
    if isinstance(value, _NUMBERS):
        return [type(value).__name__.encode(), repr(value).encode()]
    if type(value) is np.ndarray and value.dtype != object:
        return [f"{value.dtype}{value.shape}".encode(), np.ascontiguousarray(value).tobytes()]
    if type(value) is np.ndarray:
        return _pieces_of_all("array", value.tolist())
    if type(value) in (tuple, list):
        return _pieces_of_all(type(value).__name__, value)
    if type(value) in (set, frozenset):  # in no order: texts hash differently in every process
        found = [_plain_pieces(item) for item in value]
        return None if None in found else [b"set", *sorted(_digest(*p).encode() for p in found if p is not None)]
    if type(value) is dict:
        return _pieces_of_all("dict", [item for pair in value.items() for item in pair])
    return None


def _pieces_of_all(kind: str, values: Any) -> list[bytes] | None:
    pieces = [f"{kind} {len(values)}".encode()]
    for value in values:
        own = _plain_pieces(value)
        if own is None:
            return None
        pieces += own
    return pieces


def _digest(*pieces: bytes) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "little"))
        digest.update(piece)
    return digest.hexdigest()


def _code_pieces(code: types.CodeType) -> Iterator[bytes]:
    """Content of a code object, without its place in a file."""
    yield code.co_code
    yield repr((code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)).encode()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)).encode()
    yield getattr(code, "co_exceptiontable", b"")
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code_pieces(constant)
        else:
            yield from _plain_pieces(constant) or (repr(constant).encode(),)


def _names(code: types.CodeType) -> Iterator[str]:
    """Globals and attributes that a code object, or one inside it, refers to."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _inside_descriptor(value: Any) -> Any:
    """The function of a static or class method, or of a property."""
    if isinstance(value, (staticmethod, classmethod)):
        return value.__func__
    if isinstance(value, property):
        return (value.fget, value.fset)
    return value.func if isinstance(value, functools.cached_property) else value


def _is_remembered(kind: type, name: Any) -> bool:
    """Whether an attribute is a cached property: it follows from the others, once it was asked for."""
    return isinstance(name, str) and isinstance(getattr(kind, name, None), functools.cached_property)


@functools.cache
def _library(module: str, file: str | None) -> str:
    """The installed library that a module belongs to, with its version; nothing for a user's own module."""
    top = module.partition(".")[0]
    if file is None:
        return f"Python {VERSION}" if top in sys.stdlib_module_names and top != "__main__" else ""
    parents = set(Path(file).resolve().parents)
    if parents & {_OWN, *(Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib"))}:
        return f"{top} {getattr(sys.modules.get(top), '__version__', '')}".strip()
    return f"Python {VERSION}" if Path(sysconfig.get_path("stdlib")).resolve() in parents else ""


def _library_of(known: Mapping[str, Any]) -> str:
    """The library whose module has these globals; a user's file may be called as a library is."""
    return _library(str(known.get("__name__", "")), known.get("__file__"))


def _library_of_class(kind: type) -> str:
    module = sys.modules.get(kind.__module__)
    found: Any = module
    for name in kind.__qualname__.split("."):
        found = getattr(found, name, None)
    return _library_of(vars(module)) if module is not None and found is kind else ""
