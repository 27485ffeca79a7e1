"""Fixed steps in Python: the slow path, for what cannot be compiled into a roll-out.

One state at a time; all runs of a batch at once where the controller is batched and the method explicit.

The same steps as in a kernel, with the same results to rounding. Each evaluation is a call of a compiled function, and
where that meets a dead point, the reference follows the branch of the motion.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.rollout.rollout_steps import CLOSED_STEP, CONVERGED_STEP
from whippletree.constraints import midpoint_step
from whippletree.controllers import is_batched
from whippletree.errors import SingularSystemError
from whippletree.simulation.adaptive.integrator import IntegrationError
from whippletree.simulation.fixed_step.free_bodies import FreeBodies
from whippletree.simulation.motion import Motion
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton
from whippletree.tree.steps import runge_kutta_4, semi_implicit_euler

RESOLVED = 0.1
"""Difference of a step from two of half its length, as a share of what they move, from which it is to blame for what
cannot be closed after it."""

MIDPOINT_ITERATIONS = 50
"""Rounds that the implicit midpoint rule may iterate here."""


class PythonSteps:
    """Steps of one method for one motion."""

    def __init__(self, motion: Motion, method: str) -> None:
        self.motion = motion
        self._free = FreeBodies(motion.model)
        self._step = {
            "semi_implicit_euler": self._euler,
            "rk4": self._rk4,
            "implicit_midpoint": self._midpoint,
        }[method]

    def step(self, t: float, h: float, y: Array) -> Array:
        """The state (nq + nv,) at t + h.

        Raises:
            IntegrationError: if the step has no answer.
        """
        motion = self.motion
        try:
            with np.errstate(all="ignore"):
                moved = np.concatenate(self._step(t, h, *motion.split(y)))
                state = self._projected(t, h, y, moved)
        except SingularSystemError as error:
            raise IntegrationError(f"the integration stopped at t = {t:.9g} s: {error}", t) from error
        if not np.all(np.isfinite(state)):
            raise IntegrationError(
                f"the integration stopped at t = {t:.9g} s: the state is no longer finite; the forces grow without "
                f"bound, or the step of {h:g} s is too long",
                t,
            )
        gap = motion.gap(t + h, motion.split(state)[0])
        if gap > CLOSED_STEP:
            raise IntegrationError(
                f"the integration stopped at t = {t:.9g} s: constraints stay open by {gap:.3g} m or rad: the step of "
                f"{h:g} s is too long, or the mechanism cannot move on",
                t,
            )
        return state

    def _projected(self, t: float, h: float, y: Array, moved: Array) -> Array:
        """The state after a step, on the constraints; where it cannot be brought there, the step may be to blame."""
        try:
            return self.motion.project(t + h, moved)
        except IntegrationError:
            if not self._is_resolved(t, h, y, moved):
                raise IntegrationError(
                    f"the integration stopped at t = {t:.9g} s: the step of {h:g} s is too long: two of half its "
                    f"length end elsewhere. Gains, springs and dampers on light parts ask for shorter steps; "
                    f"method='adaptive' chooses its own",
                    t,
                ) from None
            raise

    def _is_resolved(self, t: float, h: float, y: Array, moved: Array) -> bool:
        """Whether a step and two of half its length differ by little of what they move."""
        middle = np.concatenate(self._step(t, h / 2, *self.motion.split(y)))
        end = np.concatenate(self._step(t + h / 2, h / 2, *self.motion.split(middle)))
        return bool(np.linalg.norm(moved - end) < RESOLVED * np.linalg.norm(end - y))

    @property
    def steps_many(self) -> bool:
        """Whether :meth:`step_together` can step a batch, with one call of the controller for all of its runs."""
        return is_batched(self.motion.controller) and self._step != self._midpoint

    def step_together(self, t: float, h: float, y: Array) -> Array:
        """The states (runs, nq + nv) at t + h, NaN of runs whose step has no answer; :meth:`step` tells why."""
        motion, found = self.motion, np.full(y.shape, np.nan)
        there = np.flatnonzero(np.isfinite(y).all(axis=1))
        try:
            with np.errstate(all="ignore"):
                state = np.concatenate(self._step(t, h, *motion.split(y[there])), axis=-1)
                finite = np.isfinite(state).all(axis=1)
                there, state = there[finite], motion.project(t + h, state[finite])
        except SingularSystemError:  # of one run: which one shows when each is stepped alone
            return found
        closed = np.isfinite(state).all(axis=1) & (motion.gaps(t + h, motion.split(state)[0]) <= CLOSED_STEP)
        found[there[closed]] = state[closed]
        return found

    # what a step asks of the coordinates

    def integrate(self, q: Array, d: Array) -> Array:
        """q ⊕ d (nq,)."""
        return np.asarray(self.motion.dyn.integrate(q, d))

    def rate(self, q: Array, v: Array) -> Array:
        """q̇ (nq,)."""
        return np.asarray(self.motion.dyn.rate(q, v))

    def normalised(self, q: Array) -> Array:
        """The coordinates with quaternions at unit length."""
        return self.motion.normalised(q)

    def turning(self, v: Array) -> Array:
        """Difference between the change of velocity in space and v̇ (nv,)."""
        return self._free.turning(v)

    def straight(self, q: Array, v: Array, d: Array) -> tuple[Array, Array]:
        """q ⊕ d (nq,) and v (nv,) there, free bodies along straight lines."""
        return self.motion.split(self._free.moved(self.integrate(q, d), q, v, d))

    def _acceleration(self, t: float, q: Array, v: Array) -> Array:
        """Accelerations at one state, (nv,), or at those of a batch, (runs, nv), NaN where forces have no answer."""
        tau = self._forces(t, q, v)
        good: Any = np.isfinite(tau).all(axis=-1) if q.ndim == 2 else ...
        a = np.full(v.shape, np.nan)
        a[good] = self.motion.evaluate("forward_dynamics", q=q[good], v=v[good], tau=tau[good], t=t)
        return a

    def _forces(self, t: float, q: Array, v: Array) -> Array:
        """Joint forces at one state, (nv,), or at those of a batch, (runs, nv), where some may have no answer."""
        if q.ndim == 2:
            return self.motion.forces_if_told(np.full(len(q), t), q, v)
        return np.asarray(self.motion.forces(np.array([t]), q[None], v[None])[0])

    def _euler(self, t: float, h: float, q: Array, v: Array) -> tuple[Array, Array]:
        return semi_implicit_euler(self, partial(self._acceleration, t), q, v, h)

    def _rk4(self, t: float, h: float, q: Array, v: Array) -> tuple[Array, Array]:
        return runge_kutta_4(self, self._acceleration, q, v, t, h)

    def _midpoint(self, t: float, h: float, q: Array, v: Array) -> tuple[Array, Array]:
        m = Mechanism(skeleton(self.motion.model))
        active = self.motion.all_on if self.motion.all_on.size else None

        def forces(time: Any, at: Array, speed: Array) -> Array:
            return self._forces(float(time), at.astype(float), speed.astype(float))

        start = midpoint_step.begin(m, q.astype(object), v.astype(object), t, active)
        now = midpoint_step.Middle(v.astype(object), np.zeros(len(start.A), dtype=object))
        limit = CONVERGED_STEP * np.sqrt(1 + q @ q)
        for _ in range(MIDPOINT_ITERATIONS):
            before, now = now, midpoint_step.improved(m, forces, start, now, t, h, active)
            if np.linalg.norm(h * (now.v - before.v).astype(float)) <= limit:
                break
        else:
            dead = ", or at a dead point of its loops, which this method does not pass ('adaptive' and 'rk4' do)"
            dead = dead if self.motion.model.constraints else ""
            raise IntegrationError(
                f"the integration stopped at t = {t:.9g} s: the iteration of implicit_midpoint did not converge in "
                f"{MIDPOINT_ITERATIONS} rounds: the step of {h:g} s is too long{dead}",
                t,
            )
        q_end, v_end = midpoint_step.end(m, forces, start, now, t, h, active)
        return q_end.astype(float), v_end.astype(float)
