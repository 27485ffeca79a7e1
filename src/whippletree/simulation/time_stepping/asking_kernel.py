"""A kernel of one run that asks its controller and commands, functions in Python, in every step."""

from __future__ import annotations

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.cpu.cpu_function import CompiledFunction
from whippletree.compiler.cpu.python_call import PythonCall
from whippletree.compiler.rollout.contact_lists.contact_list_asking import DRIVES
from whippletree.compiler.rollout.step_space import Driven
from whippletree.simulation.time_stepping.motors import Motors


class AskingKernel:
    """Steps of one scene in a single call, whatever drives it: (q, v, impulses, h, tolerance, clock) → steps."""

    def __init__(self, dyn: Compiled, motors: Motors) -> None:
        nq, nv, commands = dyn.model.nq, dyn.model.nv, motors.count
        self._motors, self._ask = motors, motors.asked_one_by_one()
        self._told = np.zeros(nv + commands)
        self.tau, self.ctrl = np.split(self._told, [nv])
        """Forces (nv,) and commands (actuators,) of the last step that was begun."""
        self._python = PythonCall({"t": 0, "q": nq, "v": nv}, nv + commands)
        kernel = dyn.driven_contact_steps(Driven(held=motors.holds, in_python=True))
        assert isinstance(kernel, CompiledFunction)
        # the code is that of all runs, the function in Python that of this one
        own = kernel.another()
        own.hand_over_python(DRIVES, self._python)
        self._call = own.ufunc_of_one_state

    def __call__(self, q: Array, v: Array, impulses: Array, h: Array, tolerance: float, clock: Array) -> list[Array]:
        """Results of the kernel for steps of lengths h (n,) that begin at the times of a clock (n,), s: NaN from the
        first on at which a function raises an :attr:`error`."""
        assert self._call is not None  # it has results
        dampers = [self._motors.held_dampers(float(h.max()))] if self._motors.holds else []
        with self._python.asking(self._answer):
            # a ufunc knows no array without numbers: impulses where nothing can touch
            touching = [impulses] if impulses.size else []
            found = list(self._call(q, v, *touching, h, tolerance, tolerance, clock, *dampers))
        return found if touching else [*found[:2], np.zeros((len(h), *impulses.shape)), *found[2:]]

    @property
    def error(self) -> BaseException | None:
        """What a function raised in the last call."""
        return self._python.error

    def _answer(self, t: Array, q: Array, v: Array) -> Array:
        """Forces and commands at one state."""
        self.tau[:], self.ctrl[:] = self._ask(t.item(), q[0], v[0])
        return self._told
