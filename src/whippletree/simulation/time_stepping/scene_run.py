"""A scene of many free bodies in motion: steps in machine code between two lists of what is near.

The lists (:mod:`~whippletree.simulation.time_stepping.pair_lists`) serve until a body has travelled as far as its skin
is thick. The kernel watches it, and hands a step back that would go too far
(:mod:`whippletree.compiler.rollout.scenes.scene_step`); then new lists are made, from where the bodies are.
Impulses are remembered by the names of their pairs, so that each solution begins with the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.compiler.cpu.cpu_function import CompiledFunction, compile_function
from whippletree.compiler.rollout.scenes.scene_step import ACCOUNT, scene_program
from whippletree.compiler.rollout.scenes.scene_trends import UNKNOWN_TRENDS
from whippletree.contact.kinematics.scene_layout import BODY, SceneLayout
from whippletree.simulation.time_stepping.mechanism_rows import JointForces, MechanismRows, MechanismState
from whippletree.simulation.time_stepping.pair_lists import MOST_SLOTS, PairListing, PairLists
from whippletree.simulation.time_stepping.scene_skins import THINNEST, SkinRule, Skins
from whippletree.simulation.time_stepping.sleeping import STEPS_OF_WATCH, Islands, watched_islands, woken_islands

CONTACTS_OF_CALL = 4e6
"""Contacts times steps of one call of the kernel, about 0.1 s of a scene at rest."""

EDGES_OF_BODY, MOST_EDGES = 16, 2**15
"""Room for edges of the graph of bodies that touch, where Newton's method eliminates it, for each body and at most:
twice the pairs, those that come with the elimination included. A hundred balls that lie in a box have 3.7 a body, a
wall of a hundred bricks 7.8. 300 bytes each."""

UPDATES_AT_ONCE = 2e6
"""Contacts times sweeps, about 0.1 s, after which a call of the kernel begins no further step, so that Ctrl-C is
answered. Where a single step may take that many, the call can be interrupted: it has a thread of its own, which costs
0.5 ms, a fifteenth of the time of a hundred balls that settle, for their lists last for five steps."""


SOME_MORE, CANDIDATES_OF_CONTACT = 1.5, 8
"""Contacts that are expected, as a multiple of those that carried an impulse in the step before; and candidates to each
contact at least. Of heaps and walls of boxes, five to seven candidates in lists are one contact."""

STEPS_OF_THICK = 100
"""Steps after which, and before which, new lists are considered for bodies that have come to rest: those that were made
while they moved hold twice as many pairs as touch, each of which costs in every step."""


NONE, NO_MOMENTS, NO_TRENDS = np.zeros(0), np.zeros((0, 3)), np.zeros((0, 4))


class Warm(NamedTuple):
    """Start of the next steps: impulses of the last one by candidate, and what its lists were made from."""

    keys: Array
    """Candidates, ascending, (n,)."""
    impulses: Array
    """N s, (n, 3)."""
    anchor: Array
    """Coordinates at which the lists were made, (bodies + 1, 7); (0, 7) where there are none."""
    budget: Array
    """How far each body and the world may go from there, m, (bodies + 1,)."""
    grain: Array
    """Grain of the world's skin, (3,)."""
    together: float
    """:attr:`~whippletree.simulation.time_stepping.scene_skins.Skins.together`."""
    travel: Array
    """How far they have gone, m, (bodies + 1,)."""
    quiet: Array
    """How long each body has been slow, s, (bodies,); ∞ for those asleep."""
    calm: Array
    """Residual at which a step has nothing to do, m/s, ()."""
    allowance: Array
    """How deep the bodies and the world may overlap, m, (bodies + 1,): as deep as they do where nothing is known."""
    of_joints: Array
    """Impulses of limits and dry friction of the mechanism's joints, of the stops of its tendons and of its servos with
    a range, N s or N m s, (rows,); none where it has none."""
    moments: Array
    """Moments of the candidates against spinning and rolling, about their axes, N m s, (n, 3); (0, 3) where nothing
    resists."""
    trends: Array
    """Changes of the impulses from step to step, N s, and how far the last one pushed, (n, 4); (0, 4) in scenes that
    have no trends."""
    foresight: Array
    """How far trends are to be trusted: :data:`~whippletree.compiler.rollout.scenes.scene_trends.FORESIGHT`."""

    @staticmethod
    def cold() -> Warm:
        """Nothing is known."""
        return Warm(
            keys=np.zeros(0, dtype=np.int64),
            impulses=np.zeros((0, 3)),
            anchor=np.zeros((0, 7)),
            budget=np.zeros(0),
            grain=np.zeros(3),
            together=1.0,
            travel=np.zeros(0),
            quiet=np.zeros(0),
            calm=np.array(np.inf),
            allowance=np.zeros(0),
            of_joints=np.zeros(0),
            moments=np.zeros((0, 3)),
            trends=NO_TRENDS,
            foresight=UNKNOWN_TRENDS,
        )


class _HeldLists(NamedTuple):
    """Lists, and what they were made from."""

    lists: PairLists
    anchor: Array
    islands: Islands


class _SceneInMotion(NamedTuple):
    """A scene between two calls of the kernel, the world as its last body."""

    q: Array
    """(bodies + 1, 7)"""
    v: Array
    """(bodies + 1, 6)"""
    travel: Array
    """How far each has gone since the lists were made, m, (bodies + 1,)."""
    impulses: Array
    """Impulses of the candidates in the lists, N s, (candidates, 3)."""
    moments: Array
    """Theirs against spinning and rolling, N m s, (candidates, 3)."""
    trends: Array
    """How those impulses change from step to step, N s, and the last pushes, (candidates, 4)."""
    held: _HeldLists
    warm: Warm
    mechanism: MechanismState


class _KernelCall(NamedTuple):
    """Results of one call of :func:`~whippletree.compiler.rollout.scenes.scene_step.scene_program`, in its order."""

    q: Array
    v: Array
    travel: Array
    impulses: Array
    gaps: Array
    account: Array
    a: Array
    kick: Array
    calm: Any
    steps: Any
    ended: Any
    """1 where all steps were made, 0 where the call has taken long enough, −1 where a body went too far for the lists,
    −2 for a state that is not finite."""
    allowance: Array
    ends: Array
    mechanism_q: Array = NONE
    mechanism_v: Array = NONE
    mechanism_a: Array = NONE
    mechanism_poses: Array = NONE
    of_joints: Array = NONE
    moments: Array = NO_MOMENTS
    trends: Array = NO_TRENDS
    foresight: Array = UNKNOWN_TRENDS

    @staticmethod
    def of(results: Sequence[Any], layout: SceneLayout) -> _KernelCall:
        """From what the kernel returned."""
        last = ("moments",) if layout.has_moments else ("trends", "foresight") if layout.has_trends else ()
        own = len(results) - len(last)
        return _KernelCall(*results[:own])._replace(**dict(zip(last, results[own:], strict=True)))

    def with_one_world(self, worlds: int) -> _KernelCall:
        """Results without the other worlds; the deepest overlap of each is that of the one."""
        rows = {name: getattr(self, name)[: 1 - worlds] for name in ("q", "v", "travel", "a", "kick", "allowance")}
        rows["allowance"][-1] = self.allowance[-worlds:].max()
        return self._replace(**rows)

    @property
    def finite(self) -> bool:
        return bool(self.ended > -2)

    @property
    def outrun(self) -> bool:
        """Whether a body went too far for the lists."""
        return bool(self.ended == -1)


class StepsTaken(NamedTuple):
    """Results of some steps."""

    q: Array
    v: Array
    warm: Warm
    a: Array
    """Mean accelerations of the last step, (nv,)."""
    kick: Array
    """Change of velocities by contacts in the last step: (ω, centre of mass) of each free body in the world, (n, 6)."""
    gaps: Array
    """Gaps of the candidates in the lists at the end, m."""
    account: Array
    """One row for each step, see :data:`ROWS`."""
    finite: bool
    """Whether all steps were made; if not, the state was no longer finite after these."""
    keys: Array
    """The candidates in the lists."""
    act: Array = NONE
    """Activations of actuators, (activations,), where the run keeps them."""


class SteppedScene:
    """The steps of one model."""

    def __init__(
        self, layout: SceneLayout, tolerance: float, overlap: float, effort: int, sleep: float | None = None
    ) -> None:
        """``tolerance``: m/s; ``overlap``: m, how much may be left at the end of a step; ``effort``: sweeps of one;
        ``sleep``: m/s, speed below which islands fall asleep (:mod:`~whippletree.simulation.time_stepping.sleeping`).
        """
        self.layout = layout
        self.tolerance, self.overlap, self.effort, self.sleep = tolerance, overlap, effort, sleep
        self.function = _kernel(layout)
        kernel = self.function.ufunc
        assert kernel is not None
        self.kernel = kernel
        self.count = len(layout.bodies) - 1
        self.gravity = np.asarray(layout.model.gravity, dtype=float)
        self.rule = SkinRule.of_scene(layout)
        self._held: _HeldLists | None = None
        self._gaps_asleep: tuple[Array, Array, Array] | None = None
        self.mechanism = MechanismRows(layout)
        self.listing = PairListing(layout, self.mechanism, self.rule.size)
        self.sweep_bound = float(effort)
        self._edge_room = np.zeros(min(EDGES_OF_BODY * (self.count + 1), MOST_EDGES))

    @property
    def rebuilds(self) -> int:
        """How often lists were made so far."""
        return self.listing.made

    def lists(self, q: Array, skins: Skins) -> PairLists:
        """The pairs that may touch before a body has travelled as far as its skin is thick."""
        return self.listing.lists(q, skins)

    def advance(
        self,
        q: Array,
        v: Array,
        warm: Warm,
        tau: Array,
        dt: Array,
        dampers: Array | None = None,
        commands: Array | None = None,
    ) -> StepsTaken:
        """Steps of lengths dt (n,) from q (nq,) and v (nv,) under constant joint forces tau (nv,).

        ``dampers`` (nv,) act on the joints of a mechanism at the end of each step, beside their own; ``commands``
        (n, actuators) are those of its actuators, zeros by default.
        """
        scene = self._begin(q, v, warm, dt)
        forces = self._beside_world(tau, 6)
        held = np.zeros_like(tau) if dampers is None else dampers
        ctrl = np.zeros((len(dt), self.mechanism.actuators)) if commands is None else commands
        own_forces = JointForces(tau[self.mechanism.v], held[self.mechanism.v], ctrl)
        account: list[Array] = []
        done, last = 0, (np.zeros_like(forces), np.zeros_like(forces), np.zeros_like(own_forces.given))
        while not scene.held.islands.all_asleep:
            lists = scene.held.lists
            steps = np.append(dt[done : done + self._steps_of_call(lists)], 0.0)
            call = self._call(scene, forces, own_forces.of_steps(done, len(steps) - 1), steps)
            made = int(call.steps)
            _add_to_account(account, call.account[:made], call.ends[: made + 1])
            done, last = done + made, (call.a, call.kick, call.mechanism_a) if made else last
            scene, slept = self._after_call(scene, call, float(steps[:made].sum()), dt)
            if slept and done < len(dt):
                continue
            if not call.finite or (done == len(dt) and not call.outrun):
                a, kick, own_a = last
                kick[:-1][scene.held.islands.asleep, 3:] = -dt[-1] * self.gravity
                join, first = self.mechanism.join, self.layout.jointed
                state = (join(scene.q, scene.mechanism.q), join(scene.v, scene.mechanism.v))
                end = (*state, scene.warm, join(a, own_a), kick[first:-1])
                return StepsTaken(*end, call.gaps, _rows(account), call.finite, lists.keys)
            if call.outrun:
                # a step that went too far although the lists were new needs a thicker skin
                fresh = made == 0 and not scene.travel.any()
                skins = self._skins(scene.q, scene.v, scene.warm, dt[done:], lists.skins if fresh else None)
                scene = self._with_new_lists(scene, skins)
            else:
                scene = self._with_thinner_skins(scene, dt[done:])
        return self._still(scene.q, scene.warm, dt, account)

    def _begin(self, q: Array, v: Array, warm: Warm, dt: Array) -> _SceneInMotion:
        """The scene as the last steps have left it, or with new lists where there were none."""
        Q, V = self._beside_world(q, 7), self._beside_world(v, 6)
        mechanism = self.mechanism.state(q, v, warm.of_joints)
        self.mechanism.place(mechanism, Q, V)
        if len(warm.anchor):
            held = self._lists_of(warm)
            pushes = self._recall(warm, held)
            return self._with_thinner_skins(_SceneInMotion(Q, V, warm.travel, *pushes, held, warm, mechanism), dt)
        held = self._new_lists(Q, self._skins(Q, V, warm, dt), np.zeros(self.count))
        warm = warm._replace(allowance=np.full(len(Q), np.inf))
        return _SceneInMotion(Q, V, np.zeros(len(Q)), *self._recall(warm, held), held, warm, mechanism)

    def _steps_of_call(self, lists: PairLists) -> int:
        """How many steps one call of the kernel takes at most."""
        count = max(1, int(CONTACTS_OF_CALL / (1 + len(lists.keys))))
        if self.rule.is_thick(lists.skins):
            count = min(count, STEPS_OF_THICK)
        return count if self.sleep is None else min(count, STEPS_OF_WATCH)

    def _with_thinner_skins(self, scene: _SceneInMotion, dt: Array) -> _SceneInMotion:
        """The scene with lists for its present speed, where those that it has were made for a much higher one."""
        if len(dt) < STEPS_OF_THICK or not self.rule.is_thick(scene.held.lists.skins):
            return scene
        skins = self._skins(scene.q, scene.v, scene.warm, dt)
        return self._with_new_lists(scene, skins) if not self.rule.is_thick(skins) else scene

    def _after_call(
        self, scene: _SceneInMotion, call: _KernelCall, time: float, dt: Array
    ) -> tuple[_SceneInMotion, bool]:
        """The scene after a call of the kernel over some time, and whether an island has fallen asleep: it then has new
        lists, without those who sleep."""
        held = scene.held
        pushes = (call.impulses, call.moments, call.trends)
        warm = self._remember_impulses(held, *pushes, call.travel, scene.warm)
        known = {name: getattr(call, name) for name in ("allowance", "of_joints", "foresight")}
        warm = warm._replace(calm=np.array(call.calm), **known)
        mechanism = MechanismState(call.mechanism_q, call.mechanism_v, call.of_joints)
        self.mechanism.remember(mechanism, call.mechanism_poses, call.q, call.v)
        scene = _SceneInMotion(call.q, call.v, call.travel, *pushes, held, warm, mechanism)
        if self.sleep is None or not call.finite:
            return scene, False
        held, slept = self._watch_islands(held, call.v, time)
        warm = warm._replace(quiet=held.islands.quiet)
        scene = scene._replace(held=held, warm=warm)
        if slept:
            scene.v[:-1][held.islands.asleep] = 0.0
            scene = self._with_new_lists(scene, self._skins(scene.q, scene.v, warm, dt))
            warm = self._remember_impulses(scene.held, *scene[3:6], scene.travel, warm)
            scene = scene._replace(warm=warm)
        return scene, slept

    def _with_new_lists(self, scene: _SceneInMotion, skins: Skins) -> _SceneInMotion:
        """The scene with lists that were made where it is: nobody has travelled yet."""
        held = self._new_lists(scene.q, skins, scene.held.islands.quiet)
        pushes, still = self._recall(scene.warm, held), np.zeros(len(scene.q))
        return _SceneInMotion(scene.q, scene.v, still, *pushes, held, scene.warm, scene.mechanism)

    def _recall(self, warm: Warm, held: _HeldLists) -> tuple[Array, Array, Array]:
        """Impulses, moments and trends of the candidates in some lists, 0 where there were none."""
        keys = held.lists.keys
        impulses = _recall_numbers(warm.keys, warm.impulses, keys)
        moments = _recall_numbers(warm.keys, warm.moments, keys) if self.layout.has_moments else NO_MOMENTS
        return impulses, moments, _recall_numbers(warm.keys, warm.trends, keys) if self.layout.has_trends else NO_TRENDS

    def _still(self, Q: Array, warm: Warm, dt: Array, account: list[Array]) -> StepsTaken:
        """Steps of a scene that is all asleep: nothing happens."""
        rest = np.zeros((len(dt) - sum(len(rows) for rows in account), len(ROWS)))
        nothing, kick = np.zeros(6 * self.count), np.zeros((self.count, 6))
        kick[:, 3:] = -dt[-1] * self.gravity
        q = self.mechanism.join(Q, NONE)
        if self._gaps_asleep is None or not np.array_equal(self._gaps_asleep[0], q):
            self._gaps_asleep = (q, *self.gaps(q))
        _, keys, gaps = self._gaps_asleep
        return StepsTaken(q, nothing, warm, nothing, kick, gaps, _rows([*account, rest]), True, keys)

    def _watch_islands(self, held: _HeldLists, V: Array, time: float) -> tuple[_HeldLists, bool]:
        """These lists, with the new state of the islands, and whether one has fallen asleep."""
        assert self.sleep is not None
        speeds = np.linalg.norm(V[:, 3:], axis=1) + self.layout.reach * np.linalg.norm(V[:, :3], axis=1)
        islands = watched_islands(held.islands, speeds[:-1], self.sleep, time)
        return held._replace(islands=islands), bool((islands.asleep & ~held.islands.asleep).any())

    def _new_lists(self, Q: Array, skins: Skins, quiet: Array) -> _HeldLists:
        """Lists of the pairs of which a body is awake."""
        if self.sleep is None:
            self._held = _HeldLists(self.lists(Q, skins), Q, Islands(np.zeros(0, dtype=int), quiet))
            return self._held
        near = self.listing.near(Q, skins, np.isinf(quiet))
        islands = woken_islands(quiet, near.node[:, 0], near.node[:, 1])
        budget = np.where(np.append(np.isinf(quiet), True), skins.budget[-1], skins.budget)
        lists = self.listing.tables(self.listing.awake(near, islands), skins._replace(budget=budget))
        self._held = _HeldLists(lists, Q, islands)
        return self._held

    def _lists_of(self, warm: Warm) -> _HeldLists:
        """The lists of the last step, made again if it was taken elsewhere."""
        held = self._held
        if held is not None and held.anchor is warm.anchor:
            return held._replace(islands=held.islands._replace(quiet=warm.quiet))
        return self._new_lists(warm.anchor, Skins(warm.budget, warm.grain, warm.together), warm.quiet)

    def _remember_impulses(
        self, held: _HeldLists, impulses: Array, moments: Array, trends: Array, travel: Array, warm: Warm
    ) -> Warm:
        """The impulses that are not zero, those of sleepers included, and what the lists were made from."""
        keys, quiet = held.lists.keys, held.islands.quiet
        some = np.flatnonzero(impulses[:, 0] > 0)
        keys, impulses = keys[some], impulses[some]
        moments = moments[some] if self.layout.has_moments else moments
        trends = trends[some] if self.layout.has_trends else trends
        if held.islands.asleep.any():
            still = np.append(held.islands.asleep, True)[self.layout.nodes]
            first, second = np.divmod(warm.keys // MOST_SLOTS, len(self.layout.names))
            slept = still[first] & still[second]
            keys = np.concatenate([keys, warm.keys[slept]])
            impulses = np.concatenate([impulses, warm.impulses[slept]])
            moments = np.concatenate([moments, warm.moments[slept]]) if self.layout.has_moments else moments
            trends = np.concatenate([trends, warm.trends[slept]]) if self.layout.has_trends else trends
        order = np.argsort(keys, kind="stable")
        moments = moments[order] if self.layout.has_moments else moments
        trends = trends[order] if self.layout.has_trends else trends
        known = (warm.calm, warm.allowance, warm.of_joints, moments, trends, warm.foresight)
        return Warm(keys[order], impulses[order], held.anchor, *held.lists.skins, travel, quiet, *known)

    def gaps(self, q: Array) -> tuple[Array, Array]:
        """Candidates that are near, and their gaps, m."""
        Q, own = self._beside_world(q, 7), self.mechanism.state(q, np.zeros(self.layout.model.nv), NONE)
        nothing = np.zeros((len(Q), 6))
        self.mechanism.place(own, Q, nothing)
        thin = Skins(np.full(len(Q), THINNEST * self.rule.size), np.zeros(3))
        lists = self.lists(Q, thin)
        held = _HeldLists(lists, Q, Islands(np.zeros(0, dtype=int), np.zeros(self.count)))
        unknown = Warm.cold()._replace(allowance=np.full(len(Q), np.inf))
        scene = _SceneInMotion(Q, nothing, np.zeros(len(Q)), *self._recall(unknown, held), held, unknown, own)
        still = JointForces(0 * own.v, 0 * own.v, np.zeros((1, self.mechanism.actuators)))
        return lists.keys, self._call(scene, nothing, still, np.zeros(1)).gaps

    def _beside_world(self, numbers: Array, size: int) -> Array:
        """Coordinates (7 each), velocities or forces (6 each) of all bodies and of the world, which rests at its
        origin; those of the mechanism are none."""
        found = np.zeros((self.count + 1, size))
        found[self.layout.jointed : -1] = numbers[self.layout.free_q if size == 7 else self.layout.free_v]
        if size == 7:
            found[: self.layout.jointed, 3] = found[-1, 3] = 1  # the real part of a quaternion
        return found

    def _call(self, scene: _SceneInMotion, forces: Array, own_forces: JointForces, dt: Array) -> _KernelCall:
        """The kernel's steps of lengths dt (n,) under forces (bodies + 1, 6) and those of the mechanism's joints; the
        last length is 0."""
        layout, lists, bodies = self.layout, scene.held.lists, self.layout.bodies
        if scene.held.islands.asleep.any():
            # as immobile as the world
            bodies = bodies.copy()
            bodies[:-1][scene.held.islands.asleep] *= np.isin(np.arange(BODY), (13, 14, 15))
        at_once = UPDATES_AT_ONCE / _contacts_to_expect(len(lists.keys), len(scene.warm.keys))
        long = self.sweep_bound > at_once
        run: Any = self.function.call_interruptibly if long else self.kernel
        state = (scene.q, scene.v, forces, bodies, layout.placements, layout.swing, scene.travel)
        *of_bodies, budget, allowance = (
            _with_worlds(rows, lists.worlds) for rows in (*state, lists.skins.budget, scene.warm.allowance)
        )
        last = [lists.shares, scene.moments] if layout.has_moments else []
        last += [scene.trends, scene.warm.foresight] if layout.has_trends else []
        call = _KernelCall.of(
            run(
                *(*of_bodies, scene.impulses),
                *(lists.friction, lists.restitution, self.gravity, dt),
                *(self.tolerance, self.overlap, self.sweep_bound, np.inf if long else at_once),
                *(budget, lists.skins.grain, lists.skins.together, scene.warm.calm, allowance, self._edge_room),
                *(lists.node, layout.open, layout.nodes, lists.pairs, lists.margins),
                *self.mechanism.arguments(scene.mechanism, own_forces, lists.of_trees, lists.islands),
                *last,
            ),
            layout,
        )
        return call if lists.worlds == 1 else call.with_one_world(lists.worlds)

    def _skins(self, Q: Array, V: Array, warm: Warm, dt: Array, outrun: Skins | None = None) -> Skins:
        """Skins for the next steps; thicker ones than those that were outrun in a single step."""
        h = float(dt.max(initial=0.0))
        velocities = (self.listing.rotations(Q)[:-1] @ V[:-1, 3:, None])[:, :, 0]
        stopped = outrun is not None
        found = self.rule.skins(velocities, V[:-1, :3], h, falls=not len(warm.keys) and not stopped, stopped=stopped)
        return found if outrun is None else found._replace(budget=np.maximum(found.budget, 2 * outrun.budget))


def _kernel(layout: SceneLayout) -> CompiledFunction:
    found: CompiledFunction | None = layout.__dict__.get("_kernel")
    if found is None:
        program = scene_program(layout.classes, layout.kinds, layout.traits, layout.mechanism, layout.has_moments)
        found = compile_function(program, threads=1)
        layout.__dict__["_kernel"] = found
    return found


def _contacts_to_expect(candidates: int, pressing: int) -> float:
    """Contacts of the next step at most, as far as one can say, from those that carried an impulse in the last one."""
    return max(1.0, min(candidates, max(SOME_MORE * pressing, candidates / CANDIDATES_OF_CONTACT)))


def _with_worlds(rows: Array, worlds: int) -> Array:
    """Rows of all bodies and of the world, and of the world so many times in all."""
    if worlds == 1:
        return rows
    found = np.empty((len(rows) + worlds - 1, *rows.shape[1:]))
    found[: len(rows)], found[len(rows) :] = rows, rows[-1]
    return found


def _recall_numbers(known: Array, numbers: Array, keys: Array) -> Array:
    """Numbers (n, m) of candidates by their keys, 0 for those that are not ``known``, whose keys ascend."""
    found = np.zeros((len(keys), numbers.shape[1]))
    if len(known):
        place = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        same = known[place] == keys
        found[same] = numbers[place[same]]
    return found


ROWS = {name: k for k, name in enumerate((*ACCOUNT, "overlap"))}
"""Columns of the account by name: those of the kernel, and the overlap, m, that a step leaves beyond the start's."""


def _rows(account: list[Array]) -> Array:
    return np.concatenate([np.zeros((0, len(ROWS))), *account])


def _add_to_account(account: list[Array], rows: Array, ends: Array) -> None:
    """Rows of some steps, with what was found at their ends; ``ends`` begins with the end of the step before them."""
    if account and len(account[-1]):
        account[-1][-1, ROWS["correction_work"]] += ends[0, 1]
        account[-1][-1, ROWS["overlap"]] = ends[0, 0]
    elif len(rows):
        ends[1, 1] += ends[0, 1]
    if len(rows):
        rows = np.concatenate([rows, ends[1:, :1]], axis=1)
        rows[:, ROWS["correction_work"]] += ends[1:, 1]
        account.append(rows)
