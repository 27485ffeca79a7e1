"""Small native functions that all compiled functions share: compiled once, kept on disk, loaded once per process."""

from __future__ import annotations

from collections.abc import Mapping

from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.cache import CodeCache
from whippletree.compiler.llvm.kernel import combined_key

_loaded: dict[str, jit.Loaded] = {}


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
            _loaded[symbol] = jit.Loaded(code, [symbol], imports)
        return _loaded[symbol][symbol]
