"""Whole trajectories with contact as one kernel: a loop over time steps around a loop over sweeps.

Every lane of a batch is a scene of the same model with its own state; all take the same number of sweeps, and the
residual that these leave is part of the result, step by step.

A robot has more joint limits than feet, and hardly ever reaches one. So a first kernel solves for everything but the
limits, and tells of every step that ends with a joint beyond its range. Where none does, impulses of zero at all limits
are the answer of the whole problem, and nothing was left out; a scene in which one does is stepped again, from its
start, by the kernel that has all blocks. Which of the two answers depends on the scene alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import less, select
from whippletree.compiler.call_shapes import convert
from whippletree.compiler.frontend.unrolled import traced_tree
from whippletree.compiler.program import Buffer, Loop, Program, Statement, Until
from whippletree.compiler.program.traced_blocks import Kept, Piece, flat_piece, keeping_block, piece, traced_block
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.problem.cones import both, largest
from whippletree.contact.problem.contact_problem import ContactProblem, Local, local, measure_residual, sweep_blocks
from whippletree.contact.restitution_share import ROLLOUT_GAIN, gains, islands_of, may_gain, restitution_share
from whippletree.contact.time_step import ContactBlocks, Stepped, UnsolvedStep, finish_step, pose_step, shifts, work_of
from whippletree.errors import UnsupportedError, warn_caller
from whippletree.model import Model
from whippletree.model.parameters import find_parameter
from whippletree.tree.element_forces import tendon_lengths
from whippletree.tree.mechanism import Mechanism

STEP, SWEEP, LAW = "step", "sweep", "law of impact"


class ContactRollout(NamedTuple):
    """States and impulses after each of T steps."""

    q: Array
    """(..., T, nq)"""
    v: Array
    """(..., T, nv)"""
    impulses: Array
    """Of every block (normal, tangent 1, tangent 2), N s, (..., T, blocks, 3)."""
    measure: Array
    """Residual as impulse (N s), as velocity (m/s), and largest violation of a cone (N s), (..., T, 3)."""
    work: Array
    """Of the impulses in each step, J, (..., T)."""
    friction_work: Array
    """The part of it that friction does, of contacts and joints, J, (..., T)."""

    @property
    def good_steps(self) -> Array:
        """Steps before a scene was no longer finite, (...,): T where all went well."""
        return np.asarray(np.logical_and.accumulate(np.isfinite(self.work), axis=-1).sum(axis=-1))


COUPLINGS_UP_TO = 16_000
"""Entries of the Delassus matrix up to which roll-outs are unrolled: half a minute of compilation
(docs/contact_steps.md)."""


def refuse_large(model: Model, bodies: int, most: int) -> None:
    """Say what to do instead where the code would be too long to unroll.

    Raises:
        UnsupportedError: too many bodies or contacts, or nothing that touches.
    """
    blocks = ContactBlocks(model)
    cure = (
        "declare only contacts that can happen (feet on ground, no limits that are never reached), or use "
        'wt.simulate(..., method="time_stepping"), which steps such scenes one by one with the contacts that are near'
    )
    if bodies > most or blocks.couplings > COUPLINGS_UP_TO:
        raise UnsupportedError(
            f"contact_rollout: model {model.name!r} has {bodies} moving bodies, and {blocks.count} contacts, limits "
            f"and joint frictions with {blocks.couplings} couplings; every one is code of its own, up to {most} bodies "
            f"and {COUPLINGS_UP_TO} couplings: {cure}"
        )
    if not blocks.count:
        raise UnsupportedError(
            f"contact_rollout: model {model.name!r} has no contacts, joint limits or joint friction: use rollout"
        )


def refuse_timed(model: Model, what: str) -> None:
    """Refuse constraints that depend on time, which these steps do not know.

    Raises:
        UnsupportedError: naming one, and what knows the time.
    """
    if not model.constraints or not constraint_set(model).timed:
        return
    timed = next(c.constraint.name for c in constraint_set(model).demands if c.demand.timed)
    raise UnsupportedError(
        f"{what}: constraint {timed!r} of model {model.name!r} depends on time, and these steps begin at no time: "
        f'wt.simulate(..., method="time_stepping") knows it, for many start states, too'
    )


def require_steps(dt: Any, sweeps: Any) -> None:
    """Refuse steps and sweeps that lead nowhere; what is on a device is not looked at.

    Raises:
        ValueError: a step that is not positive and finite, or no sweep.
        ScalarError: a step that is no real number.
    """
    if isinstance(sweeps, bool) or not isinstance(sweeps, int | np.integer) or sweeps < 1:
        raise ValueError(f"contact_rollout: sweeps is {sweeps!r}, expected a whole number of at least 1")
    if isinstance(dt, int | float | list | tuple | np.generic | np.ndarray):
        (steps,) = convert("contact_rollout", [Buffer("dt", "input", ())], [dt], np.dtype(np.float64))
        bad = ~((steps > 0) & np.isfinite(steps))
        if bad.any():
            raise ValueError(f"contact_rollout: dt is {steps[bad][0]} s, expected a positive, finite number")


def earlier_result(out: Any) -> ContactRollout | None:
    """Arrays given as ``out``: an earlier result, or nothing.

    Raises:
        TypeError: anything else.
    """
    if out is None or (isinstance(out, tuple) and len(out) == len(ContactRollout._fields)):
        return None if out is None else ContactRollout(*out)
    fields = ", ".join(ContactRollout._fields)
    raise TypeError(f"contact_rollout: out is a {type(out).__name__}, expected an earlier result: {fields}")


def has_limits(model: Model) -> bool:
    """Whether a joint or a tendon of the model has an end of its range."""
    blocks = ContactBlocks(model)
    return bool(blocks.limited or blocks.taut)


def start_impulses(model: Model, impulses: Any, commands: bool) -> Any:
    """Impulses (..., blocks, 3) to begin with, wherever they are; zeros if None."""
    return np.zeros((ContactBlocks(model, servos=commands).count, 3)) if impulses is None else impulses


def _without_lost_scenes(found: ContactRollout) -> ContactRollout:
    """The result, NaN throughout from the step on in which a scene was lost, with a warning that counts such scenes."""
    if not isinstance(found.q, np.ndarray):
        return found  # on a device, where looking costs a transfer
    lost = ~(np.isfinite(found.q).all(axis=-1) & np.isfinite(found.v).all(axis=-1))
    if lost.any():
        lost = np.logical_or.accumulate(lost, axis=-1)
        scenes = lost.any(axis=-1)
        warn_caller(
            f"contact_rollout: {scenes.sum()} of {scenes.size} scenes are no longer finite and NaN from there on "
            f"(good_steps); the first is {tuple(int(i) for i in np.argwhere(scenes)[0])}: shorten the step",
            RuntimeWarning,
        )
        found = ContactRollout(*[np.where(_beside(lost, part), np.nan, part) for part in found])
    return found


def _beside(lost: Array, part: Array) -> Array:
    """(..., T) with further dimensions of one, for comparison with an array (..., T, …)."""
    return lost.reshape(*lost.shape, *[1] * (part.ndim - lost.ndim))


def contact_rollout_program(
    model: Model, sweeps: int, parameters: Sequence[str] = (), *, limits: bool = True, commands: bool = False
) -> Program:
    """(q0, v0, impulses0, tau (T, nv), [ctrl (T, actuators)], dt, parameters …) → arrays of :class:`ContactRollout`.

    Without ``limits``, their impulses are zero, and one more result (T,) is 1 in steps that end beyond one, else 0.
    """
    return _RolloutBuilder(model, parameters, limits, commands).program(sweeps)


class RolloutInputs(NamedTuple):
    """Inputs of :func:`contact_rollout_program` for many scenes."""

    arrays: Sequence[Any]
    dimensions: Sequence[int]
    """How many of the last dimensions of each array belong to one scene."""


def roll_scenes(
    function: Callable[[bool], Callable[..., Any]], inputs: RolloutInputs, out: ContactRollout | None, *, twice: bool
) -> ContactRollout:
    """Roll-outs of a model, with a warning where scenes are lost.

    Args:
        function: the compiled program with all blocks, or (False) without limits.
        inputs: its inputs.
        out: an earlier result to write in, or None.
        twice: whether scenes are first stepped without limits, and once more only where one reaches a limit.
    """
    with np.errstate(all="ignore"):  # a scene that grows without bound is told of
        if twice:
            found = _limits_where_reached(function, inputs, out)
        else:
            found = ContactRollout(*function(True)(*inputs.arrays, out=out))
    return _without_lost_scenes(found)


def _limits_where_reached(
    function: Callable[[bool], Callable[..., Any]], given: RolloutInputs, out: ContactRollout | None
) -> ContactRollout:
    """Roll-outs of a model with joint limits, which count only where a scene reaches one."""
    inputs, dimensions = given
    memory = None
    if out is not None:
        memory = (*out, np.empty_like(out.work))
        # they are read again after the first results were written
        inputs = [x.copy() if any(np.may_share_memory(x, y) for y in out) else x for x in map(np.asarray, inputs)]
    *found, beyond = function(False)(*inputs, out=memory)
    again = np.asarray(beyond).any(axis=-1)
    if again.any():
        parts = [np.asarray(x) for x in inputs]
        shapes = [part.shape[part.ndim - n :] for part, n in zip(parts, dimensions, strict=True)]
        theirs = [np.broadcast_to(part, again.shape + shape)[again] for part, shape in zip(parts, shapes, strict=True)]
        for all_scenes, some in zip(found, function(True)(*theirs), strict=True):
            all_scenes[again] = some
    return ContactRollout(*found)


class _RolloutBuilder:
    """Collects the buffers and blocks of a roll-out with contact."""

    def __init__(self, model: Model, parameters: Sequence[str], limits: bool, commands: bool) -> None:
        self.model = model
        self.all_blocks = ContactBlocks(model, servos=commands)
        self.blocks = self.all_blocks if limits else ContactBlocks(model, limits=False, servos=commands)
        self.commanded = ["ctrl"] * commands
        if not self.blocks.contacts.closed_form:
            raise UnsupportedError(
                f"contact_rollout: model {model.name!r} has contacts between shapes without a closed form, which "
                f'cannot be compiled; wt.simulate(..., method="time_stepping") steps them one scene at a time'
            )
        nq, nv, k = model.nq, model.nv, self.all_blocks.count
        contacts = len(self.blocks.contacts.candidates)
        limited = self.all_blocks.closing - self.blocks.closing
        self.solved = [i for i in range(k) if not contacts <= i < contacts + limited]
        """Numbers of the blocks that are solved for, among all."""
        self.parameters = {path: find_parameter(model, path).shape for path in parameters}
        self.inputs = [
            Buffer("q0", "input", (nq,)),
            Buffer("v0", "input", (nv,)),
            Buffer("impulses0", "input", (k, 3)),
            Buffer("tau", "input", ("T", nv)),
            *[Buffer(name, "input", ("T", len(model.actuators))) for name in self.commanded],
            Buffer("dt", "input", ()),
            *[Buffer(path, "input", shape) for path, shape in self.parameters.items()],
        ]
        self.outputs = [
            Buffer("q", "output", ("T", nq)),
            Buffer("v", "output", ("T", nv)),
            Buffer("impulses", "output", ("T", k, 3)),
            Buffer("measure", "output", ("T", 3)),
            Buffer("work", "output", ("T",)),
            Buffer("friction_work", "output", ("T",)),
            *[Buffer("beyond", "output", ("T",))] * (not limits),
        ]
        own = self.blocks.count
        shapes: dict[str, tuple[int, ...]] = {"state q": (nq,), "state v": (nv,), "impulse": (own, 3), "kappa": (own,)}
        self.gains = may_gain(self.blocks)
        if self.gains:
            shapes |= {"newton": (own, 3), "plastic": (1,), "judged": (1,)}
            islands = islands_of(self.blocks)[: self.blocks.passive]
            self.islands = [np.flatnonzero(islands == k) for k in np.unique(islands)]
        sizes = {name: int(np.prod(shape, dtype=int)) for name, shape in shapes.items()}
        starts = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist()))
        state = Buffer("state", "work", (sum(sizes.values()),))
        self.buffers = [state]
        self.at = {name: flat_piece(state, starts[name], *shape) for name, shape in shapes.items()}
        self.at |= {b.name: piece(b, *[STEP if d == "T" else None for d in b.shape]) for b in self.inputs}
        self.now = [piece(b, STEP, *[None] * (len(b.shape) - 1)) for b in self.outputs]

    def program(self, sweeps: int) -> Program:
        begin = traced_block(
            lambda q, v, impulse: [q, v, impulse[self.solved], [0] * self.blocks.count],
            self._pieces("q0", "v0", "impulses0"),
            self._pieces("state q", "state v", "impulse", "kappa"),
        )
        pose, kept = keeping_block(
            self._pose_step,
            self._pieces("state q", "state v", "tau", *self.commanded, "dt", *self.parameters),
            self._memory,
        )
        reads = self._pieces("kept", "impulse", "kappa", *["plastic"] * self.gains)
        sweep = traced_block(partial(self._sweep_blocks, kept), reads, self._pieces("impulse", "kappa"))
        solve: tuple[Statement, ...] = (Loop(SWEEP, sweeps, (sweep,)),)
        if self.gains:
            solve = self._without_gain(kept, solve)
        finish = traced_block(
            partial(self._finish_step, kept),
            self._pieces("kept", "state q", "dt", "impulse", *["newton", "plastic"] * self.gains),
            [*self._pieces("state q", "state v", *["impulse"] * self.gains), *self.now],
        )
        body = (begin, Loop(STEP, "T", (pose, *solve, finish)))
        name = f"contact_rollout_{sweeps}" + "_without_limits" * (self.blocks is not self.all_blocks)
        name += "_commanded" * len(self.commanded)
        return Program(name, (*self.inputs, *self.outputs, *self.buffers), body)

    def _pieces(self, *names: str) -> list[Piece]:
        return [self.at[name] for name in names]

    def _memory(self, size: int) -> Piece:
        self.buffers.append(Buffer("kept", "work", (size,)))
        self.at["kept"] = piece(self.buffers[-1])
        return self.at["kept"]

    def _mechanism(self, opened: Sequence[Any]) -> Mechanism:
        return Mechanism(traced_tree(self.model, dict(zip(self.parameters, opened, strict=True))))

    def _pose_step(self, q: Array, v: Array, tau: Array, *rest: Any) -> list[Any]:
        """The arrays of a posed step, and what each block knows of itself."""
        ctrl, (h, *opened) = (rest[0], rest[1:]) if self.commanded else (None, rest)
        at = pose_step(self._mechanism(opened), self.blocks, q, v, tau, h, ctrl=ctrl)
        own = [list(local(at.problem.G[i, :, i])) for i in range(self.blocks.count)]
        nothing = np.zeros(self.blocks.count, dtype=int)
        lift = [at.shift - shifts(at.gaps, at.approach[:, 0], nothing, h)] * self.gains
        return [own, *at.problem[:4], *at[1:-1], *lift, *at.response]

    def _restore_step(self, kept: Kept, memory: Array) -> tuple[Any, UnsolvedStep, Any]:
        """Each block by itself, the posed step, and by how much restitution shifts its normal velocities."""
        own, G, g, friction, cap, free, gaps, shift, closing, approach, *rest = kept.restore(memory)
        lift, response = (rest[0], rest[1:]) if self.gains else (0, rest)
        problem = ContactProblem(G, g, friction, cap, self.blocks.hosts)
        return own, UnsolvedStep(problem, free, gaps, shift, closing, approach, tuple(response)), lift

    def _sweep_blocks(self, kept: Kept, memory: Array, impulse: Array, kappa: Array, *plastic: Array) -> list[Any]:
        own, at, lift = self._restore_step(kept, memory)
        problem = _lower_restitution(at.problem, lift, plastic[0]) if plastic else at.problem
        return list(sweep_blocks(problem, [Local(*row) for row in own], impulse, kappa))

    def _without_gain(self, kept: Kept, solve: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """The sweeps, and again without restitution where that adds energy
        (:mod:`whippletree.contact.restitution_share`)."""

        def judge(memory: Array, impulse: Array, newton: Array, plastic: Array) -> list[Any]:
            _, at, _ = self._restore_step(kept, memory)
            again, gained = less(0, plastic[0]), -1
            for gain in self._gains(at, impulse):
                gained = select(gain, 1, gained)
            gained = select(again, -1, gained)
            first = [select(again, a, b) for a, b in zip(newton.ravel(), impulse.ravel(), strict=True)]
            return [first, [select(again, 1, gained)], [-gained]]

        reads = self._pieces("kept", "impulse", "newton", "plastic")
        judged = self.at["judged"].addresses[0]
        block = traced_block(judge, reads, self._pieces("newton", "plastic", "judged"))
        begin = traced_block(lambda: [[-1], [-1]], [], self._pieces("plastic", "judged"))
        return begin, Until(LAW, 2, judged, (*solve, block))

    def _finish_step(self, kept: Kept, memory: Array, q: Array, h: Any, impulse: Array, *bounces: Array) -> list[Any]:
        _, at, lift = self._restore_step(kept, memory)
        measure = list(measure_residual(at.problem, bounces[0] if bounces else impulse))
        if bounces:
            newton, plastic = bounces
            also = measure_residual(_lower_restitution(at.problem, lift, plastic), impulse)
            measure = [select(less(0, plastic[0]), largest([a, b]), a) for a, b in zip(measure, also, strict=True)]
            impulse = self._share(at, impulse, newton, plastic)
        # only topology matters here: open parameters stay as they are in the model
        end = finish_step(Mechanism(traced_tree(self.model, {})), at, q, impulse, h, self.blocks)
        every = zeros(self.all_blocks.count, 3)
        every[self.solved] = impulse
        told = [end.q, end.v, every, measure, [end.work], [end.friction_work]]
        told += [[self._beyond(q, end, h)]] * (self.blocks is not self.all_blocks)
        return [end.q, end.v, *[impulse] * self.gains, *told]

    def _works(self, at: UnsolvedStep, impulse: Array) -> list[Any]:
        """Work of the contacts of each island."""
        works = work_of(at, impulse, self.blocks.passive)
        return [works[own].sum() for own in self.islands]

    def _gains(self, at: UnsolvedStep, impulse: Array) -> list[Any]:
        """Whether the bounces of each island add energy."""
        found = []
        for own, work in zip(self.islands, self._works(at, impulse), strict=True):
            load = [(impulse[i, 0], largest([-at.shift[i], 0])) for i in own]
            found.append(gains(work, sum(p * e for p, e in load), sum(p for p, _ in load), ROLLOUT_GAIN))
        return found

    def _share(self, at: UnsolvedStep, impulse: Array, newton: Array, plastic: Array) -> Array:
        """The impulses (blocks, 3) of a step: of Newton's, in each island, as many as add no energy."""
        works = [self._works(at, p) for p in (impulse, newton, (impulse + newton) / 2)]
        found, mixes = newton.copy(), less(0, plastic[0])
        for own, gain, *told in zip(self.islands, self._gains(at, newton), *works, strict=True):
            s = restitution_share(*told)
            for i in own:
                mixed = impulse[i] + s * (newton[i] - impulse[i])
                found[i] = [select(both(mixes, gain), a, b) for a, b in zip(mixed, newton[i], strict=True)]
        return found

    def _beyond(self, q: Array, end: Stepped, h: Any) -> Any:
        """1 where a joint or a tendon is beyond its range at the end of the step, or would be by the velocity alone;
        else 0."""
        axes, taut = self.all_blocks.limited, self.all_blocks.taut
        places = [((end.q[a.q], q[a.q] + h * end.v[a.v]), (a.lower, a.upper)) for a in axes]
        if taut:
            m = Mechanism(traced_tree(self.model, {}))
            lengths, rows = tendon_lengths(m, q, taut)
            ends = zip(tendon_lengths(m, end.q, taut)[0], lengths + h * (rows @ end.v), strict=True)
            places += [(own, tendon.limits) for own, tendon in zip(ends, taut, strict=True)]
        found: Any = 0
        for own, (lower, upper) in places:
            for place in own:
                found = select(less(place, lower), 1, found)
                found = select(less(upper, place), 1, found)
        return found


def _lower_restitution(problem: ContactProblem, lift: Array, plastic: Array) -> ContactProblem:
    """The problem without restitution where ``plastic`` (1,) is positive."""
    g = problem.g.copy()
    g[:, 0] = [select(less(0, plastic[0]), x - up, x) for x, up in zip(g[:, 0], lift, strict=True)]
    return problem._replace(g=g)
