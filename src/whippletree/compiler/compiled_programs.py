"""Kernel programs of one model as functions, each compiled once: what every compiled function is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from whippletree.compiler.compiled_table import CompiledTable
from whippletree.compiler.cpu.cpu_function import compile_function, real_type
from whippletree.compiler.frontend.code_forms import UNROLL_UP_TO
from whippletree.compiler.frontend.fingerprint import fingerprint
from whippletree.compiler.llvm.kernel import Recipe
from whippletree.compiler.named_function import NamedFunction, Wording
from whippletree.compiler.program import Program
from whippletree.compiler.program.work_space import write_zeros
from whippletree.constraints.failures import failure
from whippletree.functions.lost_digits import EVERY, NEVER
from whippletree.model import Model
from whippletree.model.input_checks import shape_hints
from whippletree.model.parameters import find_parameter, parameter_paths
from whippletree.tree.skeleton import Skeleton, skeleton

if TYPE_CHECKING:
    from whippletree.compiler.rollout.collocation.collocation_kernel import CollocationKernel


class CompiledPrograms(CompiledTable):
    """Makes functions of programs for one model and one machine, and keeps them."""

    def __init__(
        self,
        model: Model,
        dtype: Any,
        threads: int | None,
        parameters: Sequence[str],
        target: str = "cpu",
        route: str | None = None,
        *,
        quick_above: float = float("inf"),
        watch: str = NEVER,
    ) -> None:
        """``quick_above``: operations of a function beyond which its code is generated quickly, on a CPU."""
        self.model = model
        self._watch = watch
        self._quick_above = quick_above
        self.route = route
        self.parameters = parameter_paths(model, parameters)
        self._dtype = real_type(dtype)
        self._threads = threads
        self._target = target
        if target == "cuda":
            from whippletree.compiler.cuda import driver

            driver.driver()  # its absence is said here, not at the first call
        self._made: dict[tuple[Any, ...], NamedFunction] = {}
        self._kernels: dict[tuple[Any, ...], CollocationKernel] = {}

    @property
    def dtype(self) -> np.dtype[Any]:
        """float64 or float32, of all inputs and outputs."""
        return self._dtype

    def program(self, key: tuple[Any, ...], build: Callable[[], Program], *, width: int | None = None) -> NamedFunction:
        """A kernel program for this model as a function, built once; ``key`` and the model must say all about it.

        ``width``: lanes of a batch that go through it together; default: as many as suit the CPU.
        """
        if key not in self._made:
            self._made[key] = self._compile_once(key, build, thorough=True, width=width)
        return self._made[key]

    def _compile_once(
        self,
        key: tuple[Any, ...],
        build: Callable[[], Program],
        *,
        known: bool = True,
        thorough: bool = False,
        explanation: str = "",
        results: tuple[str, ...] = (),
        width: int | None = None,
        watch: Callable[..., Any] | None = None,
        rescue: Callable[[Mapping[str, Any]], Sequence[Any] | None] | None = None,
        on_traced: Callable[..., Sequence[Any]] | None = None,
    ) -> NamedFunction:
        """``known``: whether the key and the model say all about the program. ``thorough``: never quickly."""
        what = f"{key[0]} of {self.model.name!r}"
        if len(self._tree.nodes) > UNROLL_UP_TO or not known:
            recipe = Recipe.of(build(), what)  # a loop is built faster than a large model is read for a fingerprint
        else:
            # the machine too: limbs are loops for a CPU, and for a GPU loops or copies, by the numbers computed with
            machine = self._target, self._dtype.name
            known_by = repr((key, self.parameters, self.route, machine)).encode() + self._fingerprint
            recipe = Recipe(known_by, build, what)
        wording = Wording(
            shape_hints(self.model),
            self._explain,
            explanation,
            results,
            watch,
            self._watch == EVERY and watch is not None,
            rescue,
            on_traced,
        )
        if self._target == "cuda":
            from whippletree.compiler.cuda.cuda_function import compile_for_cuda

            # nobody clears the memory of results there
            own = recipe
            recipe = replace(own, key=own.key + b"zeros", build=lambda: write_zeros(own.build()))
            return compile_for_cuda(recipe, dtype=self._dtype, wording=wording)
        quick = float("inf") if thorough else self._quick_above
        return compile_function(
            recipe, dtype=self._dtype, threads=self._threads, wording=wording, width=width, quick_above=quick
        )

    @cached_property
    def _parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        return {path: find_parameter(self.model, path).shape for path in self.parameters}

    @cached_property
    def _tree(self) -> Skeleton:
        return skeleton(self.model)

    @cached_property
    def _fingerprint(self) -> bytes:
        return fingerprint(self.model)

    def _explain(self, status: int, inputs: Mapping[str, Any]) -> str:
        """Meaning of a status that is not zero: the joint that lacked inertia."""
        return str(failure(self._tree, status - 1, inputs))
