"""LLVM in one place: the host's CPU, IR text to object code, object code to callable addresses.

Object code is a plain byte string: position independent, complete but for the few functions of :func:`_imports`, and
loadable in another process on the same kind of CPU. That is what the cache stores.

llvmlite is imported only when something is compiled or loaded.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Any

_lock = threading.RLock()


def compiling() -> threading.RLock:
    """The lock to hold while using LLVM: one thread at a time."""
    return _lock


def _forget_lock() -> None:
    # a thread that held the lock does not exist in a forked child
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_lock)


@dataclass(frozen=True)
class Machine:
    """A CPU to compile for."""

    triple: str
    cpu: str
    features: str

    @property
    def vector_bytes(self) -> int:
        """The widest vector registers that the CPU has."""
        have = set(self.features.split(","))
        if "+avx512f" in have and "+avx512dq" in have and "+avx512vl" in have:
            return 64
        if "+avx2" in have:
            return 32
        return 16  # SSE2 and NEON; a CPU without either runs LLVM's scalar expansion of the same operations

    def width(self, real_bytes: int) -> int:
        """How many reals fit side by side."""
        return self.vector_bytes // real_bytes


@cache
def host() -> Machine:
    """The machine that this process runs on."""
    binding = llvm()
    try:
        features = binding.get_host_cpu_features().flatten()
    except RuntimeError:  # not known on this platform; the CPU's name implies most of them
        features = ""
    return Machine(binding.get_process_triple(), binding.get_host_cpu_name(), features)


def llvm_version() -> str:
    """LLVM's and llvmlite's versions, which object code depends on."""
    import llvmlite

    return f"llvmlite {llvmlite.__version__}, LLVM {'.'.join(map(str, llvm().llvm_version_info))}"


@cache
def llvm() -> Any:
    """llvmlite's binding of LLVM, with the switches that code generation is meant to have, on any target."""
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    # LLVM's scheduler spoils an order that keeps numbers in registers and in the cache. Without it small kernels are as
    # fast, a humanoid's derivatives 10 % faster, and large kernels compile in 60 % of the time. Its sinking moves
    # arithmetic from where it was written to the next basic block that needs it: with it a long block that is cut into
    # short ones loses a quarter of its speed. Its preparation of code looks for addresses to compute elsewhere, where
    # they are computed beside their use already: a tenth of the time for the loops over limbs, the same speed. So is
    # its reduction of products in loops to sums, which looks through every address of a long body: another tenth, and
    # loops over bodies and clusters are as fast. Its joining of neighbouring stores looks along chains of hundreds of
    # stores to work space for what it does not find: up to a tenth of the time for those loops, and the same code. Its
    # search for common subexpressions finds none in traced code, and what it moves out of loops it has to put aside
    # again in long ones: a tenth of the time each, and calls of robots, chains, ladders, grids and contact steps are as
    # fast without. The switches are global, as LLVM's are: other users of llvmlite in this process go without all seven
    binding.set_option("", "-enable-misched=0")
    binding.set_option("", "-disable-machine-sink")
    binding.set_option("", "-disable-cgp")
    binding.set_option("", "-disable-lsr")
    binding.set_option("", "-combiner-store-merging=0")
    binding.set_option("", "-disable-machine-cse")
    binding.set_option("", "-disable-machine-licm")
    return binding


def _target_machine(machine: Machine, level: int) -> Any:
    target = llvm().Target.from_triple(machine.triple)
    return target.create_target_machine(
        cpu=machine.cpu, features=machine.features, opt=level, reloc="pic", codemodel="default"
    )


LONG_TEXT = 1_000_000
"""Characters of a module beyond which instructions are not put into another order once they have their registers, which
is what level 2 adds to level 1: of a humanoid's derivatives that takes an eighth of the time and brings no speed, of
its forward dynamics, with fewer, 2 %."""

LONG_TEXT_OF_STATEMENTS = 150_000
"""Number for programs of several statements, whose basic blocks are short: loops over the limbs of humanoids compile in
0.85 of the time, and batches of all their functions take 0.99 to 1.01 of theirs."""


def object_code(text: str, machine: Machine, *, level: int = 2, statements: int = 1) -> bytes:
    """Compile a module of LLVM IR; ``level`` is the effort of code generation, 0 to 3 (1 at most for a long text).

    ``statements``: of the program that the text is of.

    LLVM's passes over the IR are not run. Traced code is folded and free of common subexpressions already: the passes
    were measured to cost 40 % more time for 0 to 3 % more speed, and they take NaNs of different bits for the same.
    """
    longest = LONG_TEXT if statements == 1 else LONG_TEXT_OF_STATEMENTS
    effort = min(level, 1) if len(text) > longest else level
    with compiling():
        llvm()
        return answer_interrupts(lambda: _emit_object(text, machine, effort))


def _emit_object(text: str, machine: Machine, level: int) -> bytes:
    binding = llvm()
    # a context of its own: the global one would keep every type and constant for ever
    module = binding.parse_assembly(text, binding.create_context())
    module.triple = machine.triple
    target = _target_machine(machine, level)
    module.data_layout = str(target.target_data)
    module.verify()
    return bytes(target.emit_object(module))


def answer_interrupts(work: Callable[[], bytes]) -> bytes:
    """The result of work that cannot be interrupted, done on another thread: Ctrl-C is answered while it goes on.

    What was begun then ends by itself, and nobody asks for its result; LLVM at work needs nothing but its own context.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()  # where no signals arrive
    outcome: Future[bytes] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    try:
        threading.Thread(target=run, name="whippletree compiles").start()
    except RuntimeError:  # no thread can be started
        return work()
    return outcome.result()


class LoadedObject:
    """Object code in memory; its addresses are valid for as long as this object lives."""

    def __init__(self, code: bytes, symbols: Sequence[str], imports: Mapping[str, int] | None = None) -> None:
        with compiling():
            library = llvm().JITLibraryBuilder().add_object_img(code)
            for name, address in {**library_functions(), **(imports or {})}.items():
                library.import_symbol(name, address)
            for name in symbols:
                library.export_symbol(name)
            self._tracker = library.link(_linker(), f"whippletree{next(_numbers)}")

    def __getitem__(self, symbol: str) -> int:
        return int(self._tracker[symbol])


_numbers = itertools.count()


@cache
def _linker() -> Any:
    machine = host()
    return llvm().create_lljit_compiler(_target_machine(machine, 2), use_jit_link=True)


@cache
def library_functions() -> dict[str, int]:
    """Functions that object code may call: memory, flags, and what LLVM falls back on without an FMA unit."""
    import sys

    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    names = ("malloc", "free", "fma", "fmaf", "memcpy", "memset", "memmove", "fegetenv", "fesetenv")
    found = {}
    for name in names:
        function = getattr(library, name, None) or getattr(_math_library(), name)
        found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


@cache
def _math_library() -> ctypes.CDLL:
    from ctypes.util import find_library

    return ctypes.CDLL(find_library("m"))
