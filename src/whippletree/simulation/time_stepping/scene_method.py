"""Time stepping of a scene of many free bodies as a method of ``wt.simulate``: heaps, walls, boxes full of balls.

The steps are those of :mod:`~whippletree.simulation.time_stepping.stepping_method`, to the same tolerance, whole ones
in machine code (:mod:`~whippletree.simulation.time_stepping.scene_run`) whatever the number of bodies and contacts. A
step that the solver does not bring to the tolerance within its ``effort`` is taken as it is, counted, and its residual
told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.geometry.box_pairs import NOWHERE
from whippletree.contact.kinematics.contact_set import ContactSet, contact_set_of_steps
from whippletree.contact.kinematics.scene_layout import SceneLayout, Unsuited, scene_layout
from whippletree.errors import UnsupportedError, warn_caller
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.simulation.adaptive.integrator import IntegrationError
from whippletree.simulation.method import Chunk, Memo, Method, Task, Variable, positive
from whippletree.simulation.output.dataset import velocities
from whippletree.simulation.time_stepping.impulse_step import COMPILED
from whippletree.simulation.time_stepping.scene_run import MOST_SLOTS, ROWS, SteppedScene, StepsTaken, Warm, rotations
from whippletree.simulation.time_stepping.stepping_method import (
    DEFAULT_STEP,
    LOST,
    OVERLAP_WORTH_TELLING,
    RESIDUAL_TOLERANCE,
    RESIDUAL_WORTH_TELLING,
    TimeStepping,
    overlapping_start,
)

EFFORT = 4000
"""Sweeps of a step at most, by default; the first steps of a wall of 300 bricks need 2000 for 1e-7 m/s."""

SCENE_OVERLAP = 1e-9
"""m: overlap that the end of a step may leave."""

NAMED_UP_TO = 10_000
"""Pairs up to which every contact has a gap and a force by name in the result; of more, only what they do to bodies."""

FEW_BODIES = 12
"""Bodies with contacts in closed forms that are stepped as any mechanism is: code for each pair of forty balls took a
minute and a half to compile."""

UNEQUAL_MASSES = 1e3
"""Ratio of two masses from which on a warning about unsolved steps names it as their cause."""

SUMS = ("contact_work", "friction_work", "joint_work", "correction_work")
WORST = ("residual_impulse", "residual_velocity", "cone_violation")


def is_scene(model: Model) -> bool:
    """Whether a model is stepped as a scene of many free bodies.

    It is where it has groups, pairs that have a form for lists only, or many bodies. A list of contacts in closed forms
    or of solids of a few bodies is left to the other ways, whose solvers end at the tolerance, whatever that costs.
    """
    if not model.touches:
        return False
    layout = scene_layout(model)
    if isinstance(layout, Unsuited):
        return False
    if model.contact_groups or len(layout.bodies) - 1 > FEW_BODIES:
        return True
    return not any(kind.of_solids for kind in layout.kinds) and not all(kind.written for kind in layout.kinds)


def require_scene(model: Model, alone: bool, options: Sequence[str]) -> None:
    """Refuse these options, which only scenes of free bodies know, where there is no such scene.

    Raises:
        UnsupportedError: with the reason.
    """
    layout = scene_layout(model)
    reason = layout.reason if isinstance(layout, Unsuited) else None if alone else "there are several start states"
    if reason is not None:
        raise UnsupportedError(
            f"simulate: {' and '.join(options)} can be asked for where one scene is run whose bodies all move freely. "
            f"That is not so of model {model.name!r}: {reason}. Leave it out"
        )


class SceneStepping(TimeStepping):
    """One scene of many free bodies."""

    options: ClassVar[tuple[str, ...]] = (*TimeStepping.options, "effort", "sleep")
    counters: ClassVar[tuple[str, ...]] = (*TimeStepping.counters, "lists_made", "overlap", "overlapping")

    def __init__(
        self,
        task: Task,
        step: float = DEFAULT_STEP,
        tolerance: float = RESIDUAL_TOLERANCE,
        sweeps: int = 1,
        effort: int = EFFORT,
        sleep: float | None = None,
    ) -> None:
        """See :class:`TimeStepping`; ``effort``: sweeps of one step at most, however large its residual is then;
        ``sleep``: m/s, speed below which islands at rest are held still until something comes near, None for never."""
        Method.__init__(self, task)
        self.longest, self.tolerance = positive("step", step), positive("tolerance", tolerance)
        if not (isinstance(effort, int | np.integer) and effort >= 1):
            raise ValueError(f"simulate: effort is {effort!r}, expected a whole number of sweeps of at least 1")
        layout = scene_layout(task.motion.model)
        assert isinstance(layout, SceneLayout)
        self.layout = layout
        self.sleep = None if sleep is None else positive("sleep", sleep)
        if sleep is not None and task.motion.controller is not None:
            raise ValueError(
                "simulate: sleep is given together with a controller, whose forces nobody would feel who is asleep: "
                "leave out sleep"
            )
        self.effort = int(effort)
        self.scene = SteppedScene(layout, self.tolerance, SCENE_OVERLAP, self.effort, self.sleep)
        self.steps, self.unconverged, self.at_rounding, self.worst, self.lists_made = 0, 0, 0, 0.0, 0
        self.halved = 0  # as a step of other mechanisms may be: free bodies need none
        self.gained, self.overlap, self.overlapping = 0.0, 0.0, 0
        self._named = _pair_count(layout) <= NAMED_UP_TO
        self._start_energy = self._energy(task.start)
        if not np.isfinite(self._start_energy):
            raise ValueError("simulate: the energy of the start state is not finite: its velocities are too large")
        self._warn_of_overlap()

    def _warn_of_overlap(self) -> None:
        """Tell of overlaps at the start, the deepest first."""
        keys, gaps = self.scene.gaps(self.task.motion.split(self.task.start)[0])
        names = self.layout.names
        told: dict[str, str] = {}
        for place in np.argsort(gaps, kind="stable"):
            if not gaps[place] < -OVERLAP_WORTH_TELLING:
                break
            first, second = divmod(int(keys[place]) // MOST_SLOTS, len(names))
            pair = f"{names[first]!r} and {names[second]!r} overlap by"
            told.setdefault(pair, f"{pair} {-gaps[place]:.3g} m")
        if told:
            warn_caller(overlapping_start(list(told.values())), RuntimeWarning)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        bodies = tuple(joint.child for joint in self.layout.model.joints if joint.kind == "free")
        wrench = "moment about its centre of mass and force of all contacts on a body, in the axes of the world"
        found = {
            "a": Variable(
                ("velocity",), "mean accelerations of a step", "rad/s² or m/s²", tuple(velocities(self.layout.model))
            ),
            "contact_wrench": Variable(("moving_body", "wrench"), wrench, "N m or N", bodies),
            "contacts": Variable((), "contacts that could matter in the last step", "1"),
            "asleep": Variable((), "bodies that are held still (sleep=)", "1"),
            "residual_impulse": Variable((), "largest natural map since the last output", "N s"),
            "residual_velocity": Variable((), "largest natural map since the last output", "m/s"),
            "cone_violation": Variable((), "largest violation of a friction cone since the last output", "N s"),
            "unconverged": Variable((), "steps since the last output whose residual exceeds the tolerance", "1"),
            "sweeps": Variable((), "sweeps since the last output", "1"),
            "penetration": Variable((), "largest overlap of contacts", "m"),
            "contact_work": Variable((), "work of contacts since the start", "J"),
            "friction_work": Variable((), "the part of it that friction did", "J"),
            "joint_work": Variable((), "work of motors since the start", "J"),
            "correction_work": Variable((), "energy that moving overlaps apart has added since the start", "J"),
            "energy_balance": Variable((), "energy less work and start energy: the error of the steps", "J"),
        }
        if self._named:
            names = tuple(contact_set_of_steps(self.layout.model).names)
            force = "contact forces: normal, tangents 1 and 2"
            found["contact_gap"] = Variable(("contact",), "gaps; infinite where they are large", "m", names)
            found["contact_force"] = Variable(("contact", "direction"), force, "N", names)
        return found

    # ---- rows of output ------------------------------------------------------------------------------------------

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        times, y = self.task.times, self.task.start
        warm, first = Warm.cold(), 1
        work = dict.fromkeys(SUMS, 0.0)
        if memo is None:
            trial = self._advance(0, y, warm, 1)
            yield self._row(0, y, warm, trial, work, counts=False)
        else:
            y, first = memo["state"], int(memo["row"]) + 1
            keys, impulses, anchor = memo["keys"], memo["impulses"].reshape(-1, 3), memo["anchor"].reshape(-1, 7)
            warm = Warm(keys.astype(np.int64), impulses, anchor, *(memo[name] for name in Warm._fields[3:]))
            work = {word: float(memo[word]) for word in SUMS}
        for row in range(first, len(times)):
            told = self._advance(row - 1, y, warm, None)
            y, warm = np.concatenate([told.q, told.v]), told.warm
            work = {word: work[word] + float(told.account[:, ROWS[word]].sum()) for word in SUMS}
            self._count(told)
            if not told.finite:
                reached = float(times[row - 1])
                raise IntegrationError(f"the stepping stopped before t = {times[row]:.9g} s: {LOST}", reached)
            yield self._row(row, y, warm, told, work)
        self._warn_of_unsolved_steps()

    def _advance(self, row: int, y: Array, warm: Warm, most: int | None) -> StepsTaken:  # type: ignore[override]
        """Steps from one row of output to the next, or fewer.

        A controller is asked before every step.
        """
        h, count = self._division(row)
        count = count if most is None else most
        t, motion = float(self.task.times[row]), self.task.motion
        q, v = motion.split(y)
        if motion.controller is None:
            return self.scene.advance(q, v, warm, np.zeros(len(v)), np.full(count, h))
        parts: list[StepsTaken] = []
        for k in range(count):
            tau = motion.forces(np.array([t + k * h]), q[None], v[None])[0]
            parts.append(self.scene.advance(q, v, warm, tau, np.array([h])))
            q, v, warm = parts[-1].q, parts[-1].v, parts[-1].warm
            if not parts[-1].finite:
                break
        return parts[-1]._replace(account=np.concatenate([part.account for part in parts]))

    def _warn_of_unsolved_steps(self) -> None:
        """Tell, at the end of a run, of steps whose impulses are far from the laws of contact."""
        if self.worst < max(RESIDUAL_WORTH_TELLING, self.tolerance):
            return
        masses = 1 / self.layout.bodies[:-1, 0]
        ratio = float(masses.max() / masses.min())
        cause = f" Masses differ by a factor of {ratio:.2g}: sweeps creep where much rests on little." * (
            ratio > UNEQUAL_MASSES
        )
        warn_caller(
            f"simulate: {self.unconverged} of {self.steps} steps were left above the tolerance of {self.tolerance:g} "
            f"m/s, at a residual of {self.worst:.3g} m/s at worst: their sweeps ended before bodies obeyed the laws of "
            f"friction and contact (residual_velocity, unconverged).{cause} Take shorter steps (step="
            f"{self.longest:g}), more sweeps (effort={self.effort})" + ", or masses that differ less" * bool(cause),
            RuntimeWarning,
        )

    def _count(self, told: StepsTaken) -> None:
        residual = told.account[:, ROWS["residual_velocity"]]
        self.steps += len(residual)
        self.unconverged += int((residual > self.tolerance).sum())
        self.gained += float(np.maximum(told.account[:, ROWS["contact_work"]], 0.0).sum())
        self.worst = max(self.worst, float(residual.max(initial=0.0)))
        overlap = told.account[:, ROWS["overlap"]]
        self.overlap = max(self.overlap, float(overlap.max(initial=0.0)))
        self.overlapping += int((overlap > SCENE_OVERLAP).sum())
        self.lists_made = self.scene.rebuilds

    def _row(
        self, row: int, y: Array, warm: Warm, told: StepsTaken, work: Mapping[str, float], counts: bool = True
    ) -> Chunk:
        """A row of output; the first one tells accelerations and forces of a step that is taken back."""
        h, _ = self._division(max(row - 1, 0))
        q = self.task.motion.split(y)[0]
        gaps = told.gaps if counts else self.scene.gaps(q)[1]
        account = told.account if counts else told.account[:0]
        values: dict[str, Any] = {
            "a": told.a,
            "contact_wrench": self._wrenches(q, told.kick, h),
            "contacts": account[-1:, ROWS["contacts"]].sum(),
            "asleep": np.isinf(warm.quiet).sum(),
            "unconverged": (account[:, ROWS["residual_velocity"]] > self.tolerance).sum(),
            "sweeps": account[:, ROWS["sweeps"]].sum(),
            "penetration": max(0.0, -float(gaps.min(initial=0.0))),
            "energy_balance": self._energy(y) - self._start_energy - work["contact_work"] - work["joint_work"],
            **{word: account[:, ROWS[word]].max(initial=0.0) for word in WORST},
            **work,
        }
        if self._named:
            values |= self._by_name(told, gaps if counts else None, q, h)
        own = {name: np.asarray(values[name], dtype=float)[None] for name in self.variables}
        memo = {"row": np.array(row), "state": y, **warm._asdict()}
        memo |= {word: np.array(x) for word, x in work.items()}
        return Chunk(self.task.times[row : row + 1], y[None], memo, variables=own)

    def _by_name(self, told: StepsTaken, gaps: Array | None, q: Array, h: float) -> dict[str, Array]:
        """Gaps and forces of contacts that have names; those that are far away, or not in use, have an infinite gap."""
        keys, gaps = (told.keys, gaps) if gaps is not None else self.scene.gaps(q)
        names = _named_candidates(self.layout.model)
        every, forces = np.full(names.count, np.inf), np.zeros((names.count, 3))
        every[names.places(keys)[0]] = np.where(gaps < NOWHERE / 2, gaps, np.inf)
        places, swapped = names.places(told.warm.keys)
        # seen from the other shape, the normal and the second tangent are reversed, and so is the force
        forces[places] = told.warm.impulses / h * np.where(swapped[:, None], [1.0, -1.0, 1.0], 1.0)
        return {"contact_gap": every, "contact_force": forces}

    def _wrenches(self, q: Array, kick: Array, h: float) -> Array:
        """M Δv / h of each body: what contacts did to it in the last step, (bodies, 6)."""
        R = self.layout.placements[:-1, :9].reshape(-1, 3, 3) @ rotations(q.reshape(-1, 7)[:, 3:])
        local = np.einsum("nji,nj->ni", R, kick[:, :3])
        moment = np.einsum("nij,nj->ni", R, np.einsum("nij,nj->ni", self._inertias, local))
        return np.concatenate([moment, kick[:, 3:] / self.layout.bodies[:-1, :1]], axis=1) / h

    @cached_property
    def _inertias(self) -> Array:
        a, b, c, d, e, f = self.layout.bodies[:-1, 7:13].T
        return np.moveaxis(np.array([[a, b, c], [b, d, e], [c, e, f]]), -1, 0)

    def _energy(self, y: Array) -> Array:
        """Kinetic and potential energy, J, as ``kinetic_energy`` and ``potential_energy`` have it."""
        q, v = (x.reshape(-1, n) for x, n in zip(self.task.motion.split(y), (7, 6), strict=True))
        mass, centre = 1 / self.layout.bodies[:-1, 0], self.layout.bodies[:-1, 13:16]
        with np.errstate(over="ignore", invalid="ignore"):
            u = v[:, 3:] + np.cross(v[:, :3], centre)
            turning = np.einsum("ni,nij,nj->", v[:, :3], self._inertias, v[:, :3])
            R, p = self.layout.placements[:-1, :9].reshape(-1, 3, 3), self.layout.placements[:-1, 9:]
            at = np.einsum("nij,nj->ni", rotations(q[:, 3:]), centre) + q[:, :3]
            height = (np.einsum("nij,nj->ni", R, at) + p) @ self.scene.gravity
            return np.asarray(((mass * (u * u).sum(axis=1)).sum() + turning) / 2 - mass @ height)

    def account(self) -> dict[str, Any]:
        return {
            "step": self.longest,
            "steps": self.steps,
            "unconverged_steps": self.unconverged,
            "steps_at_rounding": self.at_rounding,
            "halved_steps": self.halved,
            "largest_residual_velocity": self.worst,
            "contact_tolerance": self.tolerance,
            "contact_lists_made": self.lists_made,
            "sleep": "never" if self.sleep is None else self.sleep,
            "path": COMPILED,
            "contact_energy_gained": self.gained,
            "largest_overlap": self.overlap,
            "overlapping_steps": self.overlapping,
        }


def _pair_count(layout: SceneLayout) -> int:
    """How many contacts a scene has, at most."""
    in_groups = (len(g.bounded) * (len(g.bounded) - 1 + 2 * len(g.unbounded)) // 2 for g in layout.groups)
    return len(layout.declared.first) + sum(in_groups)


class _NamedCandidates:
    """Where the candidates of the lists are among those that have names."""

    def __init__(self, layout: SceneLayout, contacts: ContactSet) -> None:
        number = {name: k for k, name in enumerate(layout.names)}
        sides = np.array([[number[p.contact.first], number[p.contact.second]] for p in contacts.pairs]).reshape(-1, 2)
        first = np.cumsum([0, *[pair.slots for pair in contacts.pairs]])
        keys = sides.min(axis=1) * len(number) + sides.max(axis=1)
        order = np.argsort(keys, kind="stable")
        self.count = int(first[-1])
        self._geometries, self._keys, self._first, self._leading = (
            len(number),
            keys[order],
            first[order],
            sides[order, 0],
        )

    def places(self, keys: Array) -> tuple[Array, Array]:
        """Numbers of candidates, and whether their shapes are named the other way round."""
        pair, slot = np.divmod(keys, MOST_SLOTS)
        a, b = np.divmod(pair, self._geometries)
        at = np.searchsorted(self._keys, np.minimum(a, b) * self._geometries + np.maximum(a, b))
        return self._first[at] + slot, self._leading[at] != a


@found_once
def _named_candidates(model: Model) -> _NamedCandidates:
    layout = scene_layout(model)
    assert isinstance(layout, SceneLayout)
    return _NamedCandidates(layout, contact_set_of_steps(model))
