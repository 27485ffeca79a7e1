"""A program on its way to machine code: what is known without it, and its loops, each compiled when first needed.

A :class:`Recipe` is a cheap key and a function that builds the program. If the key is known to the cache, the program
is never built: its :class:`Interface` and its object code are read instead. That is why a cached first use costs
milliseconds.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whippletree.arithmetic.garbage import garbage_left_alone
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.compile_progress import telling
from whippletree.compiler.llvm.ir import MachineLanes, Real
from whippletree.compiler.program import Block, Buffer, Each, Index, Loop, Program, Statement, bodies, calls_of
from whippletree.files.cache import CodeCache

WORK_LIMIT = 1 << 25
"""Bytes of work space that the vector variant may use; a larger system gets fewer lanes."""

WIDEST_VECTOR = 64
"""Bytes."""

NEAR_WORK_LIMIT = 1 << 23
"""Bytes of work space of the widest vectors beyond which half as many lanes are faster: what loops leave for each other
no longer stays near the core. Measured on a Zen 4 core, whose units are 32 bytes wide: a cell of 10⁴ four-bars takes
36.9 ns with 8 lanes and 25.6 with 4, a rod of 10⁴ (half of this limit) 9.0 and 10.8, of 3·10⁴ 10.5 and 9.8."""

LOOP_SYMBOL = "whippletree_loop"

STOP = 2
"""Slot of the control block that loops over time look at: not 0 if they are to end at once."""

KEPT_CELL = 3
"""Slot of the control block that holds the address of the cell of the kept memory, or 0 if none is kept."""

FIRST_TABLE = 4
"""Slot of the control block that holds the pointer to the first table or index buffer."""

UNKNOWN_ROUNDS = 10
"""So many rounds a loop over a named dimension counts for, where its size is not known."""

FEW = 3
"""So many rounds a list, or a loop whose count is looked up, counts for."""


@dataclass(frozen=True)
class Recipe:
    """How to make a program, and a key that changes whenever the program would.

    The key need not include the versions of this package, of LLVM or the CPU: they are added here.
    """

    key: bytes
    build: Callable[[], Program]
    what: str = ""
    """Purpose, for people who wait for it; the name of the program if nothing is said."""

    @staticmethod
    def of(program: Program, what: str = "") -> Recipe:
        """The recipe of a program that exists already; its key is its content."""
        return Recipe(digest(program), lambda: program, what or program.name)


@dataclass(frozen=True)
class Options:
    """How to compile. None of these changes a single bit of any result, but for ``real``."""

    real: Real = "double"
    width: int | None = None  # lanes of the vector variant; None: what the CPU has
    level: int = 2  # effort of code generation, 0 to 3
    quick_above: float = float("inf")  # operations beyond which that effort is 0: for functions of few calls
    machine: jit.Machine = field(default_factory=jit.host)

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's name for ``real``."""
        return np.dtype(np.float64 if self.real == "double" else np.float32)


@dataclass(frozen=True)
class Interface:
    """Facts of a program that a call needs: everything but its body."""

    name: str
    buffers: tuple[Buffer, ...]
    operations: int  # per state, roughly: decides when threads pay
    calls: tuple[str, ...] = ()  # functions that are handed over to it

    @staticmethod
    def of(program: Program) -> Interface:
        """The interface of a program."""
        return Interface(program.name, program.buffers, _operations(program.body), tuple(calls_of(program)))

    @cached_property
    def shell(self) -> Program:
        """A program with these buffers and no body."""
        return Program(self.name, self.buffers, ())

    @property
    def is_scalar(self) -> bool:
        """Whether the program works on one state at a time."""
        return self.shell.is_scalar or bool(self.calls)

    def pack(self) -> bytes:
        """The recipe as bytes: a line of JSON, then the contents of the tables."""
        buffers = [[b.name, b.role, list(b.shape), b.integer, b.pitch, b.zeroed] for b in self.buffers]
        tables = [_table(b, np.dtype(np.float64)) for b in self.buffers if b.role in ("table", "index")]
        facts = {"name": self.name, "operations": self.operations, "buffers": buffers, "calls": self.calls}
        head = json.dumps(facts).encode()
        return head + b"\n" + b"".join(t.tobytes() for t in tables)

    @staticmethod
    def unpack(data: bytes) -> Interface:
        """The inverse of :meth:`pack`."""
        head, _, rest = data.partition(b"\n")
        content = json.loads(head)
        buffers, place = [], 0
        for name, role, shape, integer, pitch, zeroed in content["buffers"]:
            values = None
            if role in ("table", "index"):
                size = int(np.prod(shape, dtype=np.int64))
                values = np.frombuffer(rest, np.int64 if role == "index" else np.float64, size, place).reshape(shape)
                place += 8 * size
            buffers.append(Buffer(name, role, tuple(shape), values, integer, pitch, zeroed=zeroed))
        return Interface(content["name"], tuple(buffers), content["operations"], tuple(content["calls"]))


class Kernel:
    """The loops of one program: one state at a time, and W states at a time."""

    def __init__(self, recipe: Recipe, options: Options, cache: CodeCache) -> None:
        self.options = options
        self._recipe = recipe
        self.cache = cache
        self._program: Program | None = None
        self._loaded: dict[int, jit.LoadedObject] = {}
        self.interface = self._find_interface()
        self.tables = [_table(b, options.dtype) for b in self.interface.buffers if b.role in ("table", "index")]

    @property
    def memory(self) -> tuple[Any, ...]:
        """Objects that a loop needs while it may run: the code, also that which is still to come, and the tables."""
        return self._loaded, self.tables

    @property
    def content(self) -> bytes:
        """The key of its program: equal for equal programs."""
        return self._recipe.key

    @cached_property
    def width(self) -> int:
        """Lanes of the vector variant."""
        if self.interface.is_scalar:
            return 1
        bytes_, work = self.options.dtype.itemsize, self.work_bytes
        width = self.options.width or self.options.machine.width(bytes_)
        if width * bytes_ == WIDEST_VECTOR and width * work > NEAR_WORK_LIMIT:
            width //= 2
        while width > 1 and width * work > WORK_LIMIT:
            width //= 2
        return width

    @property
    def work_bytes(self) -> float:
        """Bytes of the buffers in which one state is computed; infinite where a call decides about them."""
        work = [b for b in self.interface.buffers if b.role == "work"]
        if any(b.is_sized_by_call for b in work):
            return float("inf")
        return sum(b.size for b in work) * self.options.dtype.itemsize

    def loop(self, width: int) -> int:
        """The address of NumPy's inner loop with that many lanes."""
        with jit.compiling():
            if width not in self._loaded:
                self._loaded[width] = jit.LoadedObject(self._object_code(width), [LOOP_SYMBOL])
            return self._loaded[width][LOOP_SYMBOL]

    def _find_interface(self) -> Interface:
        key = self._key("interface")
        stored = self.cache.load(key)
        if stored is not None:
            return Interface.unpack(stored)
        with telling(f"{self._recipe.what or 'a function'}: its expressions"):
            interface = Interface.of(self._build())
        self.cache.store(key, interface.pack())
        return interface

    def _object_code(self, width: int) -> bytes:
        o = self.options
        level = o.level if self.interface.operations <= o.quick_above else 0
        key = self._code_key(f"{width} {o.real} {level} {o.machine} {jit.llvm_version()}")
        code = self.cache.load(key)
        if code is None:
            # the emitter is not needed, and not imported, where the cache knows the answer
            from whippletree.compiler.cpu.cpu_target import numpy_loop

            lanes = "one state at a time" if width == 1 else f"{width} states at a time"
            with telling(f"{self._recipe.what or self.interface.name}: machine code for {lanes}"):
                program = self._build()
                text = numpy_loop(program, MachineLanes(width, o.real), LOOP_SYMBOL)
                code = jit.object_code(text, o.machine, level=level, statements=len(program.body))
            self.cache.store(key, code)
        return code

    def _key(self, variant: str) -> str:
        return combined_key(source_digest(), self._recipe.key, variant.encode())

    def _code_key(self, variant: str) -> str:
        """The key of code that runs with this interface: with other tables, or none, it would read foreign memory."""
        return self._key(f"{variant} {hashlib.blake2b(self.interface.pack(), digest_size=20).hexdigest()}")

    def _build(self) -> Program:
        if self._program is None:
            from whippletree.compiler.program.check import ProgramError, check

            with garbage_left_alone():
                program = self._recipe.build()
                check(program)
            if "interface" in self.__dict__ and self.interface.pack() != Interface.of(program).pack():
                raise ProgramError(
                    f"{program.name!r}: its key stands for two programs, and the cache knows the buffers of the other. "
                    f"The key of a recipe must contain everything that its program depends on."
                )
            self._program = program
        return self._program


def combined_key(*parts: bytes) -> str:
    """A key for the cache that changes if any of the parts does."""
    return hashlib.blake2b(b"".join(len(p).to_bytes(8, "little") + p for p in parts), digest_size=20).hexdigest()


def _table(buffer: Buffer, real: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(buffer.data, dtype=np.int64 if buffer.role == "index" else real)


def _operations(body: tuple[Statement, ...]) -> int:
    """Operations of one evaluation, roughly.

    A loop over a named dimension counts as ``UNKNOWN_ROUNDS``, a list as ``FEW``, an iteration as done after its first
    round, a switch as its longest case, a condition as fulfilled.
    """
    return sum(map(_operations_of, body))


def _operations_of(statement: Statement) -> int:
    inner = max(map(_operations, bodies(statement)), default=0)
    match statement:
        case Block():
            return statement.code.operations
        case Loop():
            if isinstance(statement.count, Index):
                return FEW * inner
            return (statement.count if isinstance(statement.count, int) else UNKNOWN_ROUNDS) * inner
        case Each():
            return FEW * inner
    return inner


def digest(program: Program) -> bytes:
    """A hash of everything in a program."""
    hasher = hashlib.blake2b(digest_size=20)
    hasher.update(repr((program.name, program.buffers, program.body)).encode())
    for b in program.buffers:
        if b.data is not None:
            hasher.update(np.ascontiguousarray(b.data).tobytes())
    return hasher.digest()


STAGES = (
    "arithmetic",
    "graph",
    "spatial",
    "model",
    "tree",
    "constraints",
    "contact",
    "accuracy",
    "functions",
    "compiler",
    "analysis",
    "control",
    "simulation/events",
)
"""The chapters that decide what machine code a model gets, from the scalars to the emitter and the programs that are
written outside the catalogue; none that only uses it."""


@cache
def source_digest() -> bytes:
    """A hash of the sources of :data:`STAGES`: a change in any algorithm or emitter must not meet old object code."""
    hasher = hashlib.blake2b(digest_size=20)
    package = Path(__file__).parents[2]
    for path in sorted(path for stage in STAGES for path in (package / stage).rglob("*.py")):
        content = path.read_bytes()
        hasher.update(f"{path.relative_to(package).as_posix()} {len(content)} ".encode())
        hasher.update(content)
    return hasher.digest()


# --- small native functions that all compiled functions share: compiled once, loaded once per process -----------------


_loaded: dict[str, jit.LoadedObject] = {}


def address_of(symbol: str, text: str, kept: CodeCache, imports: Mapping[str, int] | None = None) -> int:
    """The address of a function of a module of LLVM IR, which may call the ``imports``."""
    with jit.compiling():
        if symbol not in _loaded:
            machine = jit.host()
            key = combined_key(text.encode(), repr(machine).encode(), jit.llvm_version().encode())
            code = kept.load(key)
            if code is None:
                code = jit.object_code(text, machine)
                kept.store(key, code)
            _loaded[symbol] = jit.LoadedObject(code, [symbol], imports)
        return _loaded[symbol][symbol]
