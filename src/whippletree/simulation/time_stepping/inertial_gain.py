"""Steps that gain energy from nothing, and what cures them: halves.

A step takes inertial forces, and the curvature of loops, as they are at its beginning. Its kinetic energy
K = vᵀ M v / 2 then changes, beyond the work of contacts, motors and gravity, by

    K(q⁺, v⁺) − K(q, v) − W + h Gᵀ (v + v⁺) / 2        G: gravity's generalised force

or, with springs, by the change of potential energy in place of the last term. That is of second order in h for motions
that the step resolves. In a long chain whose links turn by a tenth of a radian in a step it is not: a belt of 200 links
that falls on its pulleys had five times its energy after two steps of 2 ms, and was torn apart after four. Such a step
is taken as two of half the length, as often as it takes; the first order of the method stays. So is one whose contact
problem the kernel does not solve: on long trees Python takes a second or more for it, and halves are solved nearly
always. Only long trees are watched: short ones gain little, and their first step comes sooner without the functions
that watching needs.

Nothing is worked out twice: a step that is refused is known to the one in halves. After halves that gain more than half
of what is tolerated, where a whole step would gain twice as much, or that are halved themselves, the next step begins
with halves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.named_function import NamedFunction
from whippletree.contact.problem.solver import ContactSolution
from whippletree.errors import IntegrationError
from whippletree.simulation.time_stepping.impulse_kernel import StepPlan, Steps, kernel_steps
from whippletree.simulation.time_stepping.impulse_step import STEPS_OF_CALL, ImpulseStep

GAINED_SHARE = 0.02
"""Share of the kinetic energy that a step may gain from nothing. A falling belt of 200 links gained 0.045 in one step
while its energy was still right to a tenth, and 0.8 in a step before its end."""

MOST_HALVINGS = 6
"""Times that a step is halved at most; the last halves are taken as they are."""

STUBBORN = 0.75
"""Share of its gain that a step keeps at least when halves do not help: something else does work on the scene, such as
a controller that does not say so, and the whole step is taken."""

WARY = 0.5
"""Share of the gain that is tolerated beyond which halves are followed by halves."""


class Refused(NamedTuple):
    """A step of the kernel that is not taken as it is."""

    steps: Steps
    """That one, or none where it is not solved."""
    gain: float
    """J"""
    tolerated: float
    """J"""


class Watched(NamedTuple):
    """Steps of the kernel as far as they may be taken."""

    steps: Steps
    refused: Refused | None
    """The one after them."""


def watched_steps(
    stepper: ImpulseStep, y: Array, impulses: Array, plan: StepPlan, asking: NamedFunction | None = None
) -> Watched:
    """:func:`~whippletree.simulation.time_stepping.impulse_kernel.kernel_steps` up to the first that gains energy."""
    steps = kernel_steps(stepper, y, impulses, plan, asking)
    if not stepper.watched:
        return Watched(steps, None)
    gain, tolerated = _gains(stepper, y, steps, plan.h[: steps.number])
    good = int(np.logical_and.accumulate(gain <= tolerated).sum())
    taken, following = (steps.part(some) for some in (slice(good), slice(good, good + 1)))
    # what comes after a step that is refused is worked out in vain
    stepper.stride = min(2 * stepper.stride, STEPS_OF_CALL) if good == len(plan.h) else 1
    if good == len(plan.h):
        return Watched(taken, None)
    return Watched(taken, Refused(following, *[float(sum(x[good : good + 1])) for x in (gain, tolerated)]))


def careful_step(
    stepper: ImpulseStep,
    y: Array,
    impulses: Array,
    plan: StepPlan,
    solutions: list[ContactSolution],
    refused: Refused | None = None,
) -> Steps:
    """The planned single step from y (nq + nv,), not the kernel's or taken in halves, reported as one.

    Args:
        impulses: of the step before, (blocks, 3).
        solutions: takes those of the problems that Python solves.
        refused: the step as the kernel has it, if that was tried.
    """
    if not stepper.watched:
        return _python_step(stepper, y, impulses, plan, solutions)
    halving = _Halving(stepper, solutions)
    if refused is None and not stepper.wary:
        taken = halving.step(y, impulses, plan, MOST_HALVINGS)
    else:
        solved = refused is not None and refused.steps.number
        taken = halving.halves(y, impulses, plan, MOST_HALVINGS, _Taken(*refused) if refused and solved else None)
    stepper.halved += taken.halved
    stepper.wary = taken.wary
    return taken.steps


class _Taken(NamedTuple):
    steps: Steps
    """One step."""
    gain: float
    """J"""
    tolerated: float
    """J"""
    halved: bool = False
    wary: bool = False
    """Whether the step after it is not worth a try as a whole."""


class _Halving(NamedTuple):
    """A step that is taken in halves: all that its parts share."""

    stepper: ImpulseStep
    solutions: list[ContactSolution]

    def step(self, y: Array, impulses: Array, plan: StepPlan, halvings: int) -> _Taken:
        """A step, taken in halves as long as that helps."""
        whole = self._whole(y, impulses, plan, last=not halvings)
        if whole is not None and (whole.gain <= whole.tolerated or not halvings):
            return whole
        return self.halves(y, impulses, plan, halvings, whole)

    def halves(self, y: Array, impulses: Array, plan: StepPlan, halvings: int, whole: _Taken | None) -> _Taken:
        """A step in halves; ``whole``: what it is otherwise, if that is known."""
        earlier, later = plan.halves()
        first = self.step(y, impulses / 2, earlier, halvings - 1)
        if not np.isfinite(first.steps.states).all():
            return first
        second = self.step(first.steps.states[-1], first.steps.impulses[-1], later, halvings - 1)
        gain = first.gain + second.gain
        if whole is not None and np.isfinite(whole.gain) and gain > STUBBORN * whole.gain:
            return whole
        wary = first.halved or second.halved or gain > WARY * second.tolerated
        return _Taken(_one_step(first.steps, second.steps), gain, second.tolerated, True, wary)

    def _whole(self, y: Array, impulses: Array, plan: StepPlan, last: bool) -> _Taken | None:
        """The step as it is, None if it leads nowhere and is not the last attempt."""
        made = kernel_steps(self.stepper, y, impulses, plan) if self.stepper.kernel else None
        if made is not None and not made.number and not last:
            return None
        if made is None or not made.number:
            try:
                made = _python_step(self.stepper, y, impulses, plan, self.solutions)
            except IntegrationError:
                if last:
                    raise
                return None
        (gain,), (tolerated,) = _gains(self.stepper, y, made, plan.h)
        return _Taken(made, float(gain), float(tolerated))


def _python_step(
    stepper: ImpulseStep, y: Array, impulses: Array, plan: StepPlan, solutions: list[ContactSolution]
) -> Steps:
    assert plan.clock is not None
    (t,), (h,), ctrl = plan.clock, plan.h, None if plan.ctrl is None else plan.ctrl[0]
    step = stepper.step(float(t), y, impulses, plan.tau, float(h), ctrl)
    solutions.append(step.solution)
    return Steps.of(step)


def _gains(stepper: ImpulseStep, y: Array, steps: Steps, h: Array) -> tuple[Array, Array]:
    """Energy (n,) that each of some steps of lengths h (n,) from a state y (nq + nv,) gains from nothing, and how much
    of that is tolerated, J."""
    q, v = stepper.motion.split(np.concatenate([y[None], steps.states]))
    with np.errstate(all="ignore"):  # a scene that grows without bound is reported
        K = stepper.dyn.kinetic_energy(q, v)
        if stepper.stores_energy:
            stored = np.diff(stepper.dyn.potential_energy(q)) - steps.correction_work
        else:
            stored = h * (stepper.dyn.gravity(q[:-1]) * (v[:-1] + v[1:])).sum(axis=-1) / 2
        gain = np.diff(K) + stored - steps.contact_work - steps.joint_work
        # residuals that are tolerated do work, too
        return gain, GAINED_SHARE * K[1:] + stepper.tolerance * np.abs(steps.impulses).sum(axis=(-1, -2))


def _one_step(first: Steps, second: Steps) -> Steps:
    """Two steps as one: the last state, the sums of impulses and works, the worst residuals."""
    sums = {name: getattr(first, name) + getattr(second, name) for name in Steps._fields[3:-1]}
    return Steps(
        states=second.states,
        impulses=first.impulses + second.impulses,
        measure=np.maximum(first.measure, second.measure),
        **sums,
    )
