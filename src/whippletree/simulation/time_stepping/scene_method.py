"""Time stepping of a scene of many free bodies as a method of ``wt.simulate``: heaps, walls, boxes full of balls.

The steps are those of :mod:`~whippletree.simulation.time_stepping.stepping_method`, to the same tolerance, whole ones
in machine code (:mod:`~whippletree.simulation.time_stepping.scene_run`) whatever the number of bodies and contacts. A
step that the solver does not bring to the tolerance within its ``effort`` is taken as it is and counted, and its
residual is in the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from time import monotonic
from typing import Any, ClassVar, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.compiled import shared_functions
from whippletree.compiler.rollout.contact_lists.contact_list_gaps import tendon_limits
from whippletree.compiler.rollout.contact_lists.contact_list_suitability import MOST_LISTED_VELOCITIES
from whippletree.compiler.rollout.contact_lists.contact_list_trees import is_written, reason_against_loops
from whippletree.contact.geometry.box_pairs import NOWHERE
from whippletree.contact.kinematics.contact_set import ContactSet, contact_set_of_steps
from whippletree.contact.kinematics.joint_contacts import limited_axes, nearer_ends_of_many, rubbing_axes
from whippletree.contact.kinematics.scene_layout import SceneLayout, Unsuited, scene_layout
from whippletree.contact.servos import Servos
from whippletree.errors import IntegrationError, UnsupportedError, warn_caller
from whippletree.model import Model
from whippletree.model.frozen import found_once
from whippletree.simulation.method import Chunk, Memo, Method, Task, Variable, positive
from whippletree.simulation.output.dataset import velocities
from whippletree.simulation.time_stepping.impulse_batch import step_clock
from whippletree.simulation.time_stepping.impulse_step import COMPILED
from whippletree.simulation.time_stepping.motors import Motors
from whippletree.simulation.time_stepping.pair_lists import MOST_SLOTS, rotations
from whippletree.simulation.time_stepping.scene_run import ROWS, SteppedScene, StepsTaken, Warm
from whippletree.simulation.time_stepping.stepping_method import (
    DEFAULT_STEP,
    LOST,
    OVERLAP_WORTH_TELLING,
    RESIDUAL_TOLERANCE,
    RESIDUAL_WORTH_TELLING,
    TimeStepping,
    overlapping_start,
)
from whippletree.tree.skeleton import skeleton

EFFORT = 4000
"""Sweeps of a step at most, by default; the first steps of a wall of 300 bricks need 2000 for 1e-7 m/s."""

SCENE_OVERLAP = 1e-9
"""m: overlap that the end of a step may leave."""

NAMED_UP_TO = 10_000
"""Pairs up to which every contact has a gap and a force by name in the result; of more, only what they do to bodies."""

FEW_BODIES = 12
"""Bodies with contacts in closed forms that are stepped as any mechanism is: code for each pair of forty balls took a
minute and a half to compile."""

FEW_BESIDE_MECHANISM = 8
"""Free bodies beside a mechanism that are stepped with it as one mechanism: a robot and what it handles."""

UNEQUAL_MASSES = 1e3
"""Ratio of two masses from which on a warning about unsolved steps names it as their cause."""

TIME_OF_ROWS, NUMBERS_AT_ONCE = 0.1, 2e6
"""s, and numbers: rows of output are written together, as many as come in that time or hold that many numbers."""

SUMS = ("contact_work", "friction_work", "joint_work", "correction_work")
WORST = ("residual_impulse", "residual_velocity", "cone_violation")


class _Row(NamedTuple):
    """A row of output that is not written yet."""

    number: int
    y: Array
    taken: StepsTaken
    """The steps to it."""
    work: dict[str, float]
    """Since the start, J."""


def is_scene(model: Model) -> bool:
    """Whether a model is stepped as a scene of many free bodies.

    It is where it has groups, pairs that have a form for lists only, or many bodies. A list of contacts in closed forms
    or of solids of a few bodies is left to the other ways, whose solvers end at the tolerance, whatever that costs; and
    so are mechanisms with few bodies beside them, unless they are too many for those.
    """
    if not model.touches:
        return False
    layout = scene_layout(model)
    if isinstance(layout, Unsuited) or _reason_against_tree(layout) is not None:
        return False
    if layout.mechanism is not None:
        return len(layout.free) > FEW_BESIDE_MECHANISM or model.nv > MOST_LISTED_VELOCITIES
    if model.contact_groups or len(layout.bodies) - 1 > FEW_BODIES:
        return True
    return not any(kind.of_solids for kind in layout.kinds) and not all(kind.written for kind in layout.kinds)


def _reason_against_tree(layout: SceneLayout) -> str | None:
    """Why the kernel has no code for the mechanism of a scene; None if it has."""
    if layout.mechanism is None:
        return None
    own = layout.mechanism.model
    servos = Servos(own)
    return None if is_written(own, servos) else reason_against_loops(own, servos)


def require_scene(model: Model, alone: bool, options: Sequence[str]) -> None:
    """Refuse these options, which only scenes of free bodies know, where there is no such scene.

    Raises:
        UnsupportedError: with the reason.
    """
    layout = scene_layout(model)
    reason = layout.reason if isinstance(layout, Unsuited) else _reason_against_tree(layout)
    reason = reason if alone or reason is not None else "there are several start states"
    if reason is None and "sleep" in options and isinstance(layout, SceneLayout) and layout.mechanism is not None:
        reason = "joints hold some of them, whose motors nobody would feel who is asleep"
    if reason is not None:
        words = ("option", "is", "it") if len(options) == 1 else ("options", "are", "them")
        raise UnsupportedError(
            f"simulate: the {words[0]} {' and '.join(options)} {words[1]} for a single scene of free bodies, and model "
            f"{model.name!r} is not run as one: {reason}. Leave {words[2]} out"
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
        self._found: list[_Row] = []
        self._named = _pair_count(layout) <= NAMED_UP_TO
        self._limited, self._rubbing = limited_axes(layout.model), rubbing_axes(layout.model)
        self._taut = [tendon for tendon in layout.model.tendons if tendon.is_limited]
        self._motors = None if layout.mechanism is None else Motors(task.motion)
        if self._motors is not None:
            self._motors.hold(self.longest)  # gains of a controller that steps do not resolve
        self._energies = None if layout.mechanism is None else shared_functions(layout.mechanism.model)
        self._start_energy = self._energy(task.start)
        if not np.isfinite(self._start_energy):
            raise ValueError("simulate: the energy of the start state is not finite: its velocities are too large")
        self._warn_of_overlap()

    def _warn_of_overlap(self) -> None:
        """Tell of overlaps at the start, the deepest first."""
        keys, gaps = self._gaps_of_start
        names = self.layout.names
        depths: dict[str, str] = {}
        for place in np.argsort(gaps, kind="stable"):
            if not gaps[place] < -OVERLAP_WORTH_TELLING:
                break
            first, second = divmod(int(keys[place]) // MOST_SLOTS, len(names))
            pair = f"{names[first]!r} and {names[second]!r} overlap by"
            depths.setdefault(pair, f"{pair} {-gaps[place]:.3g} m")
        if depths:
            warn_caller(overlapping_start(list(depths.values())), RuntimeWarning)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        tree = skeleton(self.layout.model)
        bodies = tuple(tree.joints[k].child for k in self.layout.free)
        wrench = "moment about its centre of mass and force of all contacts on a free body, in the axes of the world"
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
        if self._limited:
            named = tuple(axis.name for axis in self._limited)
            found["limit_force"] = Variable(("limit",), "forces of joint limits", "N m or N", named)
        if self._taut:
            named = tuple(tendon.name for tendon in self._taut)
            found["tendon_limit_force"] = Variable(
                ("taut",), "forces of tendons' limits, positive to lengthen", "N", named
            )
        if self._limited or self._taut:
            found["limit_overshoot"] = Variable((), "largest way of a joint or a tendon beyond its range", "rad or m")
        if self._rubbing:
            named = tuple(axis.name for axis in self._rubbing)
            found["friction_force"] = Variable(("rubbing",), "dry friction of joints", "N m or N", named)
        if self._named:
            names = tuple(contact_set_of_steps(self.layout.model).names)
            force = "contact forces: normal, tangents 1 and 2"
            found["contact_gap"] = Variable(("contact",), "gaps; infinite where they are large", "m", names)
            found["contact_force"] = Variable(("contact", "direction"), force, "N", names)
            if self.layout.has_moments:
                moment = "torsional and rolling friction: about normal, tangents 1 and 2"
                found["contact_moment"] = Variable(("contact", "direction"), moment, "N m", names)
        return found

    # ---- rows of output ------------------------------------------------------------------------------------------

    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        """Rows are written out together: names of thousands of contacts would cost more than the steps to a row."""
        times, y = self.task.times, self.task.start
        warm, first = Warm.cold(), 1
        work = dict.fromkeys(SUMS, 0.0)
        if memo is None:
            self._found = [self._first_row(y, warm, work)]
        else:
            y, first = memo["state"], int(memo["row"]) + 1
            keys, impulses, anchor = memo["keys"], memo["impulses"].reshape(-1, 3), memo["anchor"].reshape(-1, 7)
            rest = {name: memo[name] for name in Warm._fields[3:]}
            rest |= {"moments": memo["moments"].reshape(-1, 3), "trends": memo["trends"].reshape(-1, 4)}
            warm = Warm._make([keys.astype(np.int64), impulses, anchor, *rest.values()])
            work = {word: float(memo[word]) for word in SUMS}
        written = monotonic()
        for row in range(first, len(times)):
            try:
                taken = self._advance(row - 1, y, warm, None)
            except IntegrationError:
                yield from self._write_rows()
                raise
            if not taken.finite:
                yield from self._write_rows()
                self._count(taken)
                reached = float(times[row - 1])
                raise IntegrationError(f"the stepping stopped before t = {times[row]:.9g} s: {LOST}", reached)
            y, warm = np.concatenate([taken.q, taken.v, taken.act]), taken.warm
            work = {word: work[word] + float(taken.account[:, ROWS[word]].sum()) for word in SUMS}
            self._count(taken)
            self._found.append(_Row(row, y, taken, work))
            if monotonic() - written > TIME_OF_ROWS or len(self._found) >= self._rows_at_once:
                yield from self._write_rows()
                written = monotonic()
        yield from self._write_rows()
        self._warn_of_unsolved_steps()

    def unfinished_chunk(self) -> Chunk | None:
        return next(self._write_rows(), None)

    def _first_row(self, y: Array, warm: Warm, work: dict[str, float]) -> _Row:
        """The start, with accelerations and forces of a step that is taken back."""
        trial = self._advance(0, y, warm, 1)
        keys, gaps = self._gaps_of_start
        return _Row(0, y, trial._replace(account=trial.account[:0], keys=keys, gaps=gaps), work)

    @cached_property
    def _gaps_of_start(self) -> tuple[Array, Array]:
        return self.scene.gaps(self.task.motion.split(self.task.start)[0])

    @cached_property
    def _rows_at_once(self) -> int:
        numbers = self.layout.model.nq + sum(len(variable.names) + 1 for variable in self.variables.values())
        return max(1, int(NUMBERS_AT_ONCE / numbers))

    def _advance(self, row: int, y: Array, warm: Warm, most: int | None) -> StepsTaken:  # type: ignore[override]
        """Steps from one row of output to the next, or fewer.

        A controller, and commands by a function, are asked before every step.
        """
        h, count = self._division(row)
        count = count if most is None else most
        t, motion = float(self.task.times[row]), self.task.motion
        q, v = motion.split(y)
        if self._motors is not None and self._motors.steady:
            ctrl, act = self._drives(self._motors.ctrl_over(step_clock(t, h, 0, count)), motion.act(y), h)
            taken = self.scene.advance(q, v, warm, np.zeros(len(v)), np.full(count, h), commands=ctrl)
            return taken._replace(act=act)
        if self._motors is None and motion.controller is None:
            return self.scene.advance(q, v, warm, np.zeros(len(v)), np.full(count, h))
        parts: list[StepsTaken] = []
        act, step = motion.act(y), np.array([h])
        for k in range(count):
            if self._motors is None:
                tau = motion.forces(np.array([t + k * h]), q[None], v[None])[0]
                parts.append(self.scene.advance(q, v, warm, tau, step))
            else:
                tau, asked = self._motors.at(t + k * h, q, v)
                ctrl, act = self._drives(asked[None], act, h)
                taken = self.scene.advance(q, v, warm, tau, step, self._motors.held_dampers(h), ctrl)
                parts.append(taken._replace(act=act))
            q, v, warm = parts[-1].q, parts[-1].v, parts[-1].warm
            if not parts[-1].finite:
                break
        return parts[-1]._replace(account=np.concatenate([part.account for part in parts]))

    def _drives(self, ctrl: Array, act: Array, h: float) -> tuple[Array, Array]:
        """What drives the actuators in steps with these commands (n, actuators), and the activations after them."""
        if not self.task.motion.remembers:
            return ctrl, act
        drives, acts = self.task.motion.dyn.activation_steps(ctrl, act, np.full(len(ctrl), h))
        return drives, acts[-1]

    def _warn_of_unsolved_steps(self) -> None:
        """Tell, at the end of a run, of steps whose impulses are far from the laws of contact."""
        if self.worst < max(RESIDUAL_WORTH_TELLING, self.tolerance):
            return
        masses = 1 / self._free_bodies[:, 0]
        ratio = float(masses.max() / masses.min()) if len(masses) else 1.0
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

    def _count(self, taken: StepsTaken) -> None:
        residual = taken.account[:, ROWS["residual_velocity"]]
        self.steps += len(residual)
        self.unconverged += int((residual > self.tolerance).sum())
        self.gained += float(np.maximum(taken.account[:, ROWS["contact_work"]], 0.0).sum())
        self.worst = max(self.worst, float(residual.max(initial=0.0)))
        overlap = taken.account[:, ROWS["overlap"]]
        self.overlap = max(self.overlap, float(overlap.max(initial=0.0)))
        self.overlapping += int((overlap > SCENE_OVERLAP).sum())
        self.lists_made = self.scene.rebuilds

    def _write_rows(self) -> Iterator[Chunk]:
        """The rows that were found since the last ones were written, if any."""
        rows, self._found = self._found, []
        if not rows:
            return
        y, taken = np.stack([row.y for row in rows]), [row.taken for row in rows]
        h = np.array([self._division(max(row.number - 1, 0))[0] for row in rows])
        work = {word: np.array([row.work[word] for row in rows]) for word in SUMS}
        last, most, sums = (np.zeros((len(rows), len(ROWS))) for _ in range(3))
        for k, own in enumerate(taken):
            if len(own.account):
                last[k], most[k], sums[k] = own.account[-1], own.account.max(axis=0), own.account.sum(axis=0)
        residual = ROWS["residual_velocity"]
        values: dict[str, Any] = {
            "a": [own.a for own in taken],
            "contact_wrench": self._wrenches(y, np.stack([own.kick for own in taken]), h),
            "contacts": last[:, ROWS["contacts"]],
            "asleep": [np.isinf(own.warm.quiet).sum() for own in taken],
            "unconverged": [(own.account[:, residual] > self.tolerance).sum() for own in taken],
            "sweeps": sums[:, ROWS["sweeps"]],
            "penetration": [max(0.0, -float(own.gaps.min(initial=0.0))) for own in taken],
            "energy_balance": self._energy(y) - self._start_energy - work["contact_work"] - work["joint_work"],
            **{word: most[:, ROWS[word]] for word in WORST},
            **work,
        }
        values |= self._of_joints(taken, y, h)
        if self._named:
            values |= self._by_name(taken, h)
        variables = {name: np.asarray(values[name], dtype=float) for name in self.variables}
        first, end = rows[0].number, rows[-1]
        memo = {"row": np.array(end.number), "state": end.y, **end.taken.warm._asdict()}
        memo |= {word: np.array(x) for word, x in end.work.items()}
        yield Chunk(self.task.times[first : end.number + 1], y, memo, variables=variables)

    def _of_joints(self, taken: Sequence[StepsTaken], y: Array, h: Array) -> dict[str, Any]:
        """Forces of limits of joints and tendons and of dry friction, and how far those are beyond their ranges."""
        q = self.task.motion.split(y)[0]
        distances, signs = nearer_ends_of_many(self._limited, q)
        forces = np.stack([own.warm.of_joints for own in taken]) / h[:, None]
        limits = signs.shape[1]
        rubbing = limits + len(self._rubbing)
        found = {"limit_force": forces[:, :limits] * signs, "friction_force": forces[:, limits:rubbing]}
        if self._taut and self._energies is not None:
            own, ways, _ = tendon_limits(self._energies)(q[:, self.scene.mechanism.q])
            found["tendon_limit_force"] = forces[:, rubbing : rubbing + len(self._taut)] * ways
            distances = np.concatenate([distances, own], axis=1)
        return found | {"limit_overshoot": np.maximum(0.0, -distances.min(axis=1, initial=0.0))}

    def _by_name(self, taken: Sequence[StepsTaken], h: Array) -> dict[str, Array]:
        """Gaps and forces of contacts that have names; those that are far away, or not in use, have an infinite gap."""
        names = _named_candidates(self.layout.model)
        every, forces = np.full((len(taken), names.count), np.inf), np.zeros((len(taken), names.count, 3))
        gaps, impulses = (np.concatenate(x) for x in ([t.gaps for t in taken], [t.warm.impulses for t in taken]))
        near, pressing = ([t.keys for t in taken], [t.warm.keys for t in taken])
        at, _ = names.places(np.concatenate(near))
        every[_row_numbers(near), at] = np.where(gaps < NOWHERE / 2, gaps, np.inf)
        at, swapped = names.places(np.concatenate(pressing))
        rows = _row_numbers(pressing)
        # seen from the other shape, the normal and the second tangent are reversed, and so is the force
        forces[rows, at] = impulses / h[rows, None] * np.where(swapped[:, None], [1.0, -1.0, 1.0], 1.0)
        found = {"contact_gap": every, "contact_force": forces}
        if self.layout.has_moments:
            moments = np.zeros_like(forces)
            own = np.concatenate([t.warm.moments for t in taken]) / h[rows, None]
            moments[rows, at] = own * np.where(swapped[:, None], [1.0, -1.0, 1.0], 1.0)
            found["contact_moment"] = moments
        return found

    def _wrenches(self, y: Array, kick: Array, h: Array) -> Array:
        """M Δv / h of each free body: what contacts did to it in the last step of each row, (rows, bodies, 6)."""
        if self.layout.traits.round:
            moment = self._free_bodies[:, 7:8] * kick[:, :, :3]
        else:
            q = self.task.motion.split(y)[0][..., self.layout.free_q]
            R = rotations(q.reshape(-1, 7)[:, 3:]).reshape(len(y), -1, 3, 3)
            if not self.layout.traits.in_world_axes:
                R = self._free_frames[:, :9].reshape(-1, 3, 3) @ R
            moment = np.einsum("knij,knj->kni", R, self._times_inertia(np.einsum("knji,knj->kni", R, kick[:, :, :3])))
        pushed = kick[:, :, 3:] / self._free_bodies[:, :1]
        return np.concatenate([moment, pushed], axis=2) / h[:, None, None]

    @cached_property
    def _free_bodies(self) -> Array:
        """Rows of the free bodies, (bodies, 17)."""
        return self.layout.bodies[self.layout.jointed : -1]

    @cached_property
    def _free_frames(self) -> Array:
        return self.layout.placements[self.layout.jointed : -1]

    def _times_inertia(self, w: Array) -> Array:
        """Inertia times w (..., bodies, 3), in the axes of each free body."""
        if self.layout.traits.round:
            return np.asarray(self._free_bodies[:, 7:8] * w)
        a, b, c, d, e, f = self._free_bodies[:, 7:13].T
        inertias = np.array([[a, b, c], [b, d, e], [c, e, f]]).transpose(2, 0, 1)
        return np.asarray(np.einsum("nij,...nj->...ni", inertias, w))

    def _energy(self, y: Array) -> Array:
        """Kinetic and potential energy, J, of states (..., nq + nv), as ``kinetic_energy`` and ``potential_energy``
        have it."""
        whole_q, whole_v = self.task.motion.split(y)
        # rows side by side in memory, or sums over bodies round by how many rows there are
        q, v = (np.ascontiguousarray(x) for x in (whole_q[..., self.layout.free_q], whole_v[..., self.layout.free_v]))
        mass, centre = 1 / self._free_bodies[:, 0], self._free_bodies[:, 13:16]
        with np.errstate(over="ignore", invalid="ignore"):
            u, at = v[..., 3:], q[..., :3]
            if not self.layout.traits.centred:
                u = u + np.cross(v[..., :3], centre)
                R = rotations(q[..., 3:].reshape(-1, 4)).reshape(*q.shape[:-1], 3, 3)
                at = at + (R @ centre[:, :, None])[..., 0]
            turning = (v[..., :3] * self._times_inertia(v[..., :3])).sum(axis=(-1, -2))
            if not self.layout.traits.in_world_axes:
                R, p = self._free_frames[:, :9].reshape(-1, 3, 3), self._free_frames[:, 9:]
                at = (R @ at[..., None])[..., 0] + p
            moving = (mass * (u * u).sum(axis=-1)).sum(axis=-1)
            # no product of matrices: it would round a row by how many others come with it
            falling = (mass * (at * self.scene.gravity).sum(axis=-1)).sum(axis=-1)
            of_bodies = (moving + turning) / 2 - falling
            return np.asarray(of_bodies + self._mechanism_energy(whole_q, whole_v))

    def _mechanism_energy(self, q: Array, v: Array) -> Any:
        if self._energies is None:
            return 0.0
        own, energies = self.scene.mechanism, self._energies
        return energies.kinetic_energy(q[..., own.q], v[..., own.v]) + energies.potential_energy(q[..., own.q])

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


def _row_numbers(lists: Sequence[Array]) -> Array:
    """To which row of output each entry of such lists, one for every row, belongs."""
    return np.repeat(np.arange(len(lists)), [len(own) for own in lists])


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
