"""Commands about the machine: how fast a model's functions are here, and what the compiler keeps on disk."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from whippletree.cli.arguments import ModelFile
from whippletree.cli.drawing import grid

if TYPE_CHECKING:
    from rich.console import Console

FUNCTIONS = ("forward_dynamics", "inverse_dynamics", "mass_matrix")


@dataclass(frozen=True, kw_only=True)
class Bench(ModelFile):
    """Measure a model's compiled functions on this machine: one state at a time, and in a batch."""

    batch: int = 4096
    """States at once."""
    threads: int = 1
    """Threads that share them."""

    def run(self, console: Console) -> int:
        """Print a table of times; the same seeds and states every time."""
        from rich.table import Table

        import whippletree as wt

        if self.batch < 1:
            raise ValueError(f"--batch {self.batch}: expected at least one state")
        model = self.load()
        dyn = wt.compile(model, threads=self.threads)
        rng = np.random.default_rng(0)
        q = np.asarray(dyn.integrate(model.home.q, rng.normal(scale=0.3, size=(self.batch, model.nv))))
        states = {"q": q, **{name: rng.normal(size=(self.batch, model.nv)) for name in ("v", "a", "tau")}}
        table = Table(title=f"{model.name}: nv = {model.nv}, batch {self.batch}, threads {self.threads}")
        for title in ("function", "first use", "one state", "per state in a batch"):
            table.add_column(title, justify="left" if title == "function" else "right")
        for name in FUNCTIONS:
            function = getattr(dyn, name)
            many = [states[word] for word in function.inputs if word in states]
            if len(many) < len(function.inputs):
                continue  # switches and time have no generic value
            one = [x[0] for x in many]
            begun = time.perf_counter()
            function(*many)
            cold = time.perf_counter() - begun
            batch = _median(lambda function=function, many=many: function(*many)) / self.batch  # type: ignore[misc]
            single = _median(lambda function=function, one=one: function(*one))  # type: ignore[misc]
            table.add_row(name, f"{cold:.2f} s", f"{single * 1e6:.2f} µs", f"{batch * 1e6:.4f} µs")
        console.print(table)
        return 0


def _median(call: Callable[[], object], rounds: int = 15, seconds: float = 0.02) -> float:
    call()
    begun = time.perf_counter()
    call()
    count = max(1, int(seconds / max(time.perf_counter() - begun, 1e-7)))
    found = []
    for _ in range(rounds):
        begun = time.perf_counter()
        for _ in range(count):
            call()
        found.append((time.perf_counter() - begun) / count)
    return statistics.median(found)


@dataclass(frozen=True)
class Cache:
    """Show where compiled functions are kept on disk and how much room they take; or remove them all."""

    clear: bool = False
    """Remove every entry; the next use compiles again."""

    def run(self, console: Console) -> int:
        """Print it."""
        from whippletree.compiler.llvm.cache import default_cache

        cache = default_cache()
        if self.clear:
            cache.clear()
        found = cache.info()
        table = grid()
        for word, value in (
            ("folder", str(found.folder) if found.folder is not None else "off (WHIPPLETREE_CACHE)"),
            ("entries", str(found.entries)),
            ("size", f"{found.bytes / 1e6:.1f} MB of at most {found.limit / 1e6:.0f} MB"),
        ):
            table.add_row(word, value)
        console.print(table)
        return 0
