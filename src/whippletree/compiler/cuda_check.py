"""Does the assembler keep its word? A large kernel, assembled twice, on a few random states.

NVIDIA's assembler (driver 580, CUDA 13.0) makes wrong code of some large kernels at its best level: on an H200,
forward_dynamics_derivatives of two humanoids in float32 and operational_inertia of one in float64 had other numbers
than the CPU, out of two hundred kernels. Nothing in their text tells. At level 1, where it changes little, the first
two were right. So a large kernel is assembled at both levels when it is loaded; where the two disagree in any bit of
any result, the plain one is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from whippletree.compiler.cuda_arrays import DeviceArray
from whippletree.compiler.program import Buffer

STATES = 96
"""Three warps."""

SIZE = 3
"""Of the dimensions that the arrays of a call decide."""


class Trial:
    """Random inputs of a function on one device, and what a kernel makes of them."""

    def __init__(self, device: int, buffers: Sequence[Buffer], dtype: Any) -> None:
        """``buffers``: inputs and outputs in the order of the call."""
        random = np.random.default_rng(0)
        names = {d for b in buffers for d in b.shape if isinstance(d, str)}
        self.sizes = dict.fromkeys(names, SIZE)
        self.arrays = []
        for b in buffers:
            shape = (STATES, *[SIZE if isinstance(d, str) else d for d in b.shape])
            array = DeviceArray(device, shape, np.dtype(np.int64 if b.integer else dtype))
            array.fill(np.zeros(shape) if b.role == "output" else random.uniform(-1, 1, shape))
            self.arrays.append(array)
        self.outputs = [array for array, b in zip(self.arrays, buffers, strict=True) if b.role == "output"]
        self.described = [x for array in self.arrays for x in (array.memory.pointer, *array.strides)]
        """Of every array its address, the step from state to state and its strides, in bytes."""

    def results(self) -> list[bytes]:
        """The bits of every output, after the work of the default stream."""
        return [output.numpy().tobytes() for output in self.outputs]
