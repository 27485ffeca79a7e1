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
    """Steps of one scene in a single call, whatever drives it."""

    def __init__(self, dyn: Compiled, motors: Motors) -> None:
        nq, nv, commands = dyn.model.nq, dyn.model.nv, motors.count
        self._dyn, self._motors, self._ask = dyn, motors, motors.asked_one_by_one()
        self._told = np.zeros(nv + commands)
        self.tau, self._drives = np.split(self._told, [nv])
        """Forces (nv,) of the last step that was begun."""
        self._remembers = motors.motion.remembers
        self.ctrl = np.zeros(commands) if self._remembers else self._drives
        """Its commands (actuators,), which activations follow if there are some."""
        self._lengths, self._activations, self._begun = np.zeros(0), np.zeros((1, 0)), 0
        self._python = PythonCall({"t": 0, "q": nq, "v": nv}, nv + commands)
        kernel = dyn.driven_contact_steps(Driven(held=motors.holds, in_python=True))
        assert isinstance(kernel, CompiledFunction)
        # the code is that of all runs, the function in Python that of this one
        own = kernel.another()
        own.hand_over_python(DRIVES, self._python)
        self._call, self._zeros = own.ufunc_of_one_state, own.zeros_to_write_on

    def __call__(
        self, q: Array, v: Array, act: Array, impulses: Array, h: Array, tolerance: float, clock: Array
    ) -> list[Array]:
        """Results of the kernel for steps of lengths h (n,) that begin at the times of a clock (n,), s: NaN from the
        first on at which a function raises an :attr:`error`."""
        assert self._call is not None  # it has results
        dampers = [self._motors.held_dampers(float(h.max()))] if self._motors.holds else []
        # a ufunc knows no array without numbers: impulses where nothing can touch
        touching = [impulses] if impulses.size else []
        self._lengths, self._begun = h, 0
        self._activations = np.full((len(h) + 1, len(act)), np.nan)
        self._activations[0] = act
        with self._python.asking(self._answer):
            zeros = tuple(self._zeros((), {"T": len(h)}))
            found = list(self._call(q, v, *touching, h, tolerance, tolerance, clock, *dampers, out=zeros))
        return found if touching else [*found[:2], np.zeros((len(h), *impulses.shape)), *found[2:]]

    @property
    def activations(self) -> list[Array]:
        """Activations at the end of each step of the last call, (n, activations); nothing where the state has none."""
        return [self._activations[1:]] if self._remembers else []

    @property
    def error(self) -> BaseException | None:
        """What a function raised in the last call."""
        return self._python.error

    def _answer(self, t: Array, q: Array, v: Array) -> Array:
        """Forces and commands at one state."""
        self.tau[:], self.ctrl[:] = self._ask(t.item(), q[0], v[0])
        if self._remembers:
            step = slice(self._begun, self._begun + 1)
            drives, after = self._dyn.activation_steps(
                self.ctrl[None], self._activations[self._begun], self._lengths[step]
            )
            self._drives[:], self._activations[self._begun + 1] = drives[0], after[0]
            self._begun += 1
        return self._told
