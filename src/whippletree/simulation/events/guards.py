"""When a phase ends: functions of the state that are positive as long as its mode holds, and their first zero.

    touchdown   the gap of an open candidate
    lift-off    the normal force of a closed one
    slip        μ fₙ − |fₜ| of one that sticks
    stick       the speed of one that slides, along its direction
                (of a massless foot that trails: what it lacks to grip; and lift-off: how fast it would sink)
    jam         ∂u̇ₙ/∂fₙ of one that slides (Painlevé), in units of its value without friction

A guard that is zero at the start of a phase (a contact that has just parted) is divided by the time since then: what is
left is positive if the phase can begin at all, and its first zero is the next event, however soon that is.

Guards are watched in groups that share what they have to evaluate: gaps cost little, forces a block matrix. All are
looked at together at a few times of a step, or of many steps that machine code has taken in one call; only the group of
one that changes its sign is evaluated further.

Machine code watches guards inside the kernel that takes the steps: of every candidate the gap; and where rows hold, its
normal force, what is left of its friction cone, and its speed along the direction in which it slides. Which of them a
phase watches comes with the call, so a model's code is compiled once, whatever modes its run goes through. Massless
feet that trail and slips that may jam are watched in Python.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree import functions
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.lanes import Lanes
from whippletree.arithmetic.scalars import sqrt
from whippletree.compiler.program import Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.compiler.rollout.collocation.step_watch import WATCHED, may_dip
from whippletree.errors import IntegrationError
from whippletree.simulation.adaptive.collocation import Polynomial, basis_integrals
from whippletree.simulation.events.equations import EventEquations
from whippletree.simulation.events.massless_feet.foot_contact import Footing
from whippletree.simulation.events.painleve import room_to_slide, sliding_inertia
from whippletree.simulation.events.phase import Phase
from whippletree.tree.mechanism import Mechanism

Admits = Callable[[str, float, Array, Array], bool]

TOUCHDOWN, LIFT_OFF, SLIP, STICK, JAM = "touchdown", "lift-off", "slip", "stick", "jam"

WHOLE_STEP = 1e-9
"""Share of its length by which the end of a step may miss that of its polynomial and be that, up to rounding."""

AT_ZERO = 1e-9
"""A guard below this (m, m/s, or this share of the largest force) at the start of a phase counts as zero."""

GUARD_NOISE = 1e-13
"""A change of such a guard below this, in the same units, is rounding."""

JAMMED_GUARD = 1e-9
"""Where the guard of Painlevé's situation is taken as zero."""

ONE_INSTANT = 1e-12
"""Events within this time, s, are one."""

GRAZING_TIME = 1e-10
"""s: how closely the lowest point of a gap that grazes is located. The height there depends on the square of it."""

GRAZED = 1e-15
"""Depth, m, up to which a gap that comes back has only touched zero."""


class Guard(NamedTuple):
    """A quantity of one candidate to watch."""

    kind: str
    contact: int


class Span(NamedTuple):
    """A step, or a part of it."""

    start: float
    end: float
    interpolant: Polynomial


class Group(NamedTuple):
    """Guards that are evaluated together."""

    guards: list[Guard]
    values: Callable[[Array, Array], Array]
    """Values (m, guards) at times (m,) and states (m, nq + nv)."""


class Guards:
    """The guards of a phase."""

    def __init__(self, phase: Phase, admits: Admits | None = None, stopped: float = 0.0) -> None:
        """``stopped``: speed, m/s, below which a slip that turns has stopped."""
        self.phase, self.admits, self.stopped = phase, admits, stopped
        feet = {i: Footing(phase.scene, phase.mode, i, phase.time, phase.state) for i in phase.weightless}
        self.groups = [group for group in self._group(feet) if group.guards]
        self.guards = [guard for group in self.groups for guard in group.guards]
        self._ahead: dict[tuple[float, float], tuple[Array, Array]] = {}
        """Times and values of steps that were looked at with others, by their start and end."""
        self._group_of = [(group, n) for group in self.groups for n in range(len(group.guards))]
        self.first = self.values(np.array([phase.time]), phase.state[None])[0]
        units = self._units(feet)
        self.zero = np.abs(self.first) <= AT_ZERO * units
        self.noise = GUARD_NOISE * units
        # a contact that parts with a speed is known to, however early
        u = phase.scene.contact_velocity(*phase.scene.motion.split(phase.state))[:, 0]
        self.parting = np.array([u[i] if kind == TOUCHDOWN and u[i] > AT_ZERO else 0.0 for kind, i in self.guards])

    # --- what is watched ----------------------------------------------------------------------------------------------

    def _group(self, feet: dict[int, Footing]) -> list[Group]:
        phase, mode = self.phase, self.phase.mode
        slipping = [i for i in mode.sliding if phase.friction[i]]
        heavy = [i for i in slipping if i not in phase.weightless and i in phase.normals]
        lifting: list[int] = []
        if phase.reference is not None and phase.slips:
            lifting = [i for i in phase.normals if 3 * i in phase.acting_rows]
        elif not phase.hyperstatic:
            lifting = [i for i in phase.normals if i not in phase.trailing]
        gripping = [] if phase.hyperstatic else [i for i in mode.sticking if np.isfinite(phase.friction[i])]
        opened = [i for i in range(len(mode.status)) if i not in mode.closed]
        return [
            Group(_each(TOUCHDOWN, opened), lambda t, y: self._gaps(t, y, opened)),
            Group(_each(STICK, slipping), lambda t, y: self._slips(y, slipping)),
            Group(_each(LIFT_OFF, lifting) + _each(SLIP, gripping), lambda t, y: self._forces(t, y, lifting, gripping)),
            self._jams(heavy),
            *(Group([Guard(STICK, i), Guard(LIFT_OFF, i)], feet[i].trailing) for i in phase.trailing),
        ]

    def _jams(self, sliding: list[int]) -> Group:
        """Where loads are unique, what their block matrix leaves for all; else every contact by itself."""
        phase = self.phase
        if phase.hyperstatic:
            return Group(_each(JAM, sliding), lambda t, y: sliding_inertia(phase, t, y, sliding) - JAMMED_GUARD)
        return Group(_each(JAM, sliding[:1]), lambda t, y: room_to_slide(phase, t, y)[:, None] - JAMMED_GUARD)

    def values(self, t: Array, y: Array) -> Array:
        """(m, guards)"""
        return np.concatenate([np.zeros((len(t), 0)), *(group.values(t, y) for group in self.groups)], axis=1)

    def _gaps(self, t: Array, y: Array, contacts: list[int]) -> Array:
        gaps = self.phase.scene.gaps(self.phase.scene.motion.split(y)[0])[:, contacts]
        if np.isnan(gaps).any():
            when, which = np.argwhere(np.isnan(gaps))[0]
            name = self.phase.scene.contacts.names[contacts[which]]
            raise IntegrationError(
                f"the run stopped before t = {t[when]:.9g} s: the gap of contact {name!r} is not a number there: a "
                f"terrain whose height ends, or a computation that was interrupted",
                float(t[when]),
            )
        return gaps

    def _slips(self, y: Array, contacts: list[int]) -> Array:
        u = self.phase.scene.contact_velocity(*self.phase.scene.motion.split(y))[:, contacts, 1:]
        along = np.einsum("mkj,kj->mk", u, self.phase.heading[contacts])
        turns = np.array([3 * i + 2 in self.phase.moving_rows for i in contacts])
        return np.asarray(np.where(turns, np.minimum(along, np.hypot(u[..., 0], u[..., 1]) - self.stopped), along))

    def _forces(self, t: Array, y: Array, lifting: list[int], gripping: list[int]) -> Array:
        f = self.phase.loads(t, y).contacts
        left = self.phase.friction[gripping] * f[:, gripping, 0] - np.hypot(f[:, gripping, 1], f[:, gripping, 2])
        return np.concatenate([f[:, lifting, 0], left], axis=1)

    def _units(self, feet: dict[int, Footing]) -> Array:
        """Unit of each guard (guards,): 1 m or 1 m/s, 1 N or the largest force."""
        largest = 1.0
        if any(kind in (LIFT_OFF, SLIP) for kind, _ in self.guards):
            largest = max(1.0, float(np.abs(self.phase.start_loads.contacts).max(initial=0.0)))
        # the rounding of a spring's force is that of its length
        loading = {i: foot.loading(self.phase.time, self.phase.state) for i, foot in feet.items()}
        units = {TOUCHDOWN: 1.0, STICK: 1.0, JAM: 0.0}
        return np.array([units[k] if k in units else max(largest, loading.get(i, 0.0)) for k, i in self.guards])

    # --- the first zero -----------------------------------------------------------------------------------------------

    def look_ahead(self, spans: list[Span]) -> None:
        """Evaluate the guards of steps that follow each other, before the zeros of each are asked for.

        Steps after an event may lead to where no guard has a value: then each is looked at when its turn comes.
        """
        try:
            self._ahead = self._sample(spans) if self.guards else {}
        except IntegrationError:
            self._ahead = {}

    def _sample(self, spans: list[Span]) -> dict[tuple[float, float], tuple[Array, Array]]:
        """Times (m,) and values (m, guards) of each, by its start and end."""
        # in the first step of a phase, its start is known
        samples = [_samples(span, 0 if span.start > self.phase.time else 1) for span in spans]
        times, states = (np.concatenate(parts) for parts in zip(*samples, strict=True))
        parts = np.split(self._guard_values(times, states), np.cumsum([len(own) for own, _ in samples])[:-1])
        return {(span.start, span.end): (own, part) for span, (own, _), part in zip(spans, samples, parts, strict=True)}

    def first_zero(self, span: Span) -> tuple[float, list[Guard]] | None:
        """The earliest end of the phase in a step, with all guards that end it then."""
        if not self.guards:
            return None
        start, end, interpolant = span
        key = start, end
        times, values = self._ahead[key] if key in self._ahead else self._sample([span])[key]
        gaps = np.array([kind == TOUCHDOWN for kind, _ in self.guards]) & ~self.zero
        dips = gaps & may_graze(times, values) if gaps.any() else np.zeros(values.shape, dtype=bool)
        found: list[tuple[float, Guard]] = []
        earliest = end
        for g in np.flatnonzero(np.any((values <= 0) | dips, axis=0)).tolist():
            time = self._root(g, times, values[:, g], dips[:, g], interpolant, earliest + ONE_INSTANT)
            if time is not None:
                found.append((time, self.guards[g]))
                earliest = min(earliest, time)
        fired = [guard for time, guard in found if time <= earliest + ONE_INSTANT]
        return (earliest, fired) if fired else None

    def _root(
        self, g: int, times: Array, values: Array, dips: Array, interpolant: Polynomial, latest: float
    ) -> float | None:
        """The first zero of a guard, if it is not after ``latest``."""
        from scipy.optimize import brentq

        start = self.phase.time
        value = self._function(g, interpolant)
        # in the first step of the phase its start is known, and may be all that there is before the zero
        at_start = float((self.parting if self.zero[g] else self.first)[g])
        before = (start, at_start) if at_start > 0 and interpolant.start == start else None
        for n, (t, x) in enumerate(zip(times.tolist(), values.tolist(), strict=True)):
            if np.isnan(x):
                continue  # too early to tell
            if before is not None and before[0] > latest:
                return None
            if x <= 0 and self.zero[g] and before is None and times[0] > start:
                before = self._just_after(t, value)
                if before is None and self._counts(g, start, interpolant):
                    # a hop below rounding: it is over when that can be told, and what follows is clear then
                    return float(brentq(lambda s: value(s) * (s - start) + self.noise[g], start, t, rtol=1e-15))
            low = self._lowest(times[n - 1], times[n + 1], value) if dips[n] else t if x <= 0 else None
            if low is not None and n + 1 < len(times) and self._grazes(g, low, interpolant):
                continue
            if low is not None and before is not None and before[1] > 0:
                at = zero_between(before[0], low, value)
                if self._counts(g, at, interpolant):
                    return at
            before = (t, x)
        return None

    def _grazes(self, g: int, t: float, interpolant: Polynomial) -> bool:
        """Whether a gap does not fall below zero but for rounding, as that of a point of the rim on which a disc rolls:
        judged with the closed contacts closed, for the interpolant leaves them by its error."""
        kind, i = self.guards[g]
        if kind != TOUCHDOWN:
            return False
        q, _ = self.phase.scene.motion.split(self.phase.project(t, interpolant(t)))
        return bool(self.phase.scene.gaps(q)[i] > -GRAZED)

    def _just_after(self, t: float, value: Callable[[float], float]) -> tuple[float, float] | None:
        """A time between the start of the phase and t at which the guard is positive."""
        start = self.phase.time
        for share in (1e-2, 1e-4, 1e-6):
            early = start + share * (t - start)
            if early > start and value(early) > 0:
                return early, value(early)
        return None

    def _lowest(self, low: float, high: float, value: Callable[[float], float]) -> float | None:
        """A time at which a gap that grazes is below zero."""
        from scipy.optimize import minimize_scalar

        found = minimize_scalar(value, bounds=(low, high), method="bounded", options={"xatol": GRAZING_TIME})
        return float(found.x) if found.fun <= 0 else None

    def _counts(self, g: int, t: float, interpolant: Polynomial) -> bool:
        """Whether a touchdown is admitted; other guards always count."""
        kind, i = self.guards[g]
        if kind != TOUCHDOWN or self.admits is None:
            return True
        q, v = self.phase.scene.motion.split(interpolant(t))
        return bool(self.admits(self.phase.scene.contacts.names[i], t, q, v))

    def _function(self, g: int, interpolant: Polynomial) -> Callable[[float], float]:
        """One guard along a step, as :meth:`_deflate`."""
        (group, n), start, first = self._group_of[g], self.phase.time, float(self.first[g])
        zero, parting = bool(self.zero[g]), float(self.parting[g])

        def value(t: float) -> float:
            if zero and t <= start:
                return parting
            x = float(group.values(np.array([t]), interpolant(t)[None])[0, n])
            return (x - first) / (t - start) if zero else x

        return value

    def _deflate(self, times: Array, y: Array) -> Array:
        """The guards (m, guards); those that are zero at the start as their mean rate since then."""
        values = self.values(times, y)
        if not self.zero.any():
            return values
        since = (times - self.phase.time)[:, None]
        mean = (values - self.first) / np.where(since > 0, since, 1.0)
        return np.where(self.zero, np.where(since > 0, mean, self.parting), values)

    def _guard_values(self, times: Array, y: Array) -> Array:
        """All guards (m, guards), NaN where it is too early to tell."""
        values = self._deflate(times, y)
        if not self.zero.any():
            return values
        since = (times - self.phase.time)[:, None]
        return np.where(self.zero & (np.abs(values) * since < self.noise), np.nan, values)


def zero_between(above: float, below: float, value: Callable[[float], float]) -> float:
    """The zero of a guard between two samples of a step, of which the first was positive and the second was not.

    A sample that stands within rounding of zero may have the other sign when it is computed alone, as that of a corner
    that slides along the rim of a face, and is a candidate at some times only: then the zero is at that sample.
    """
    from scipy.optimize import brentq

    if below <= above or value(below) > 0:
        return below
    return float(brentq(value, above, below, xtol=1e-300, rtol=1e-15)) if value(above) > 0 else above


def may_graze(times: Array, values: Array) -> Array:
    """Where gaps (m, g) at times (m,) are positive, and yet may be zero between a sample and its neighbours: (m, g)."""
    dips = np.zeros(values.shape, dtype=bool)
    if len(times) > 2:
        with np.errstate(divide="ignore", invalid="ignore"):  # samples of a step below rounding are at one time
            spacing = times[1:, None] - times[:-1, None]
            slopes = (values[1:] - values[:-1]) / spacing
            if not (slopes[1:] > slopes[:-1]).any():
                return dips  # a body in free fall: no gap bends upwards
            back, ahead = spacing[:-1], spacing[1:]
            three = Lanes(values[:-2]), Lanes(values[1:-1]), Lanes(values[2:])
            dips[1:-1] = may_dip(*three, Lanes(back), Lanes(ahead)).values
    return dips


@cache
def _sampled_basis(count: int) -> Array:
    """Additions of the coefficients of a polynomial to its states at :data:`WATCHED`."""
    return basis_integrals(WATCHED, count)


def _samples(span: Span, first: int) -> tuple[Array, Array]:
    """Times (m,) and states (m, n) of a step at :data:`WATCHED`, from the ``first`` on."""
    start, end, polynomial = span
    shares = WATCHED[first:]
    if abs((end - start) / polynomial.length - 1) > WHOLE_STEP:
        times = start + (end - start) * shares
        return times, polynomial.states(times)
    basis = _sampled_basis(len(polynomial.coefficients))[first:]
    return start + (end - start) * shares, polynomial.origin + polynomial.length * (basis @ polynomial.coefficients)


def _each(kind: str, contacts: Sequence[int]) -> list[Guard]:
    return [Guard(kind, i) for i in contacts]


# --- by machine code, inside the kernel that takes the steps ----------------------------------------------------------


MOST_WATCHED = 32
"""Candidates up to which guards are part of the kernel: their code is unrolled."""

NOT_WATCHED = -1e300
"""Less than any guard."""


class CompiledGuards:
    """Guards of a scene's modes: of those in which nothing touches, or of those whose rows hold."""

    def __init__(self, scene: EventEquations, held: bool) -> None:
        self.scene, self.needs_rates = scene, held
        self.kinds = (TOUCHDOWN, LIFT_OFF, SLIP, STICK) if held else (TOUCHDOWN,)
        # one jam stands for all contacts of a mode
        self.gaps, self.count = scene.count, len(self.kinds) * scene.count + (1 if held else 0)

    @staticmethod
    def possible(scene: EventEquations) -> bool:
        """Whether there are any, and few enough."""
        return 0 < scene.count <= MOST_WATCHED

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells the guards of a scene apart."""
        return ("guards", self.needs_rates, self.scene.count, self.scene.touching)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """The directions of slips."""
        return {"heading": (self.scene.count, 2)} if self.needs_rates else {}

    @cached_property
    def basis(self) -> Array:
        """Additions of the coefficients of a step's polynomial to its states at the times of the watch."""
        return basis_integrals(WATCHED)

    def watch_arguments(self, guards: Guards) -> tuple[Array, ...] | None:
        """Arguments of a call about a phase's guards; None where Python has to look at some of them."""
        phase, k = guards.phase, self.scene.count
        yields = bool(np.any(self.scene.compliance))
        if any((kind == JAM and yields) or i in phase.trailing for kind, i in guards.guards):
            return None
        offset, least, grazing = np.zeros(self.count), np.full(self.count, NOT_WATCHED), np.zeros(k)
        for g, (kind, i) in enumerate(guards.guards):
            place = self.count - 1 if kind == JAM else self.kinds.index(kind) * k + i
            zero = bool(guards.zero[g])
            # one that is zero at the start must leave that by more than rounding
            offset[place] = guards.first[g] if zero else 0.0
            least[place] = -guards.noise[g] / 2 if zero else guards.noise[g]
            grazing[i] = 1.0 if kind == TOUCHDOWN and not zero else grazing[i]
        return offset, least, grazing, *((phase.heading,) if self.needs_rates else ())

    def statements(self, space: WorkSpace) -> list[Statement]:
        """From the state X at a point, and the forces there, to the guards."""
        scene, at = self.scene, space.at
        nq = scene.model.nq

        def evaluate(X: Array, *rest: Array) -> list[Any]:
            q, v = X[:nq], X[nq:]
            gaps = self._gaps(q)
            if not rest:
                return [gaps]
            force, room, heading = rest
            own = zeros(3 * scene.count)
            own[scene.compiled.moving] = force[len(force) - len(scene.compiled.moving) :]
            own = own.reshape(-1, 3)
            normal = [f[0] + pressed for f, pressed in zip(own, scene.pressed, strict=True)]
            friction = np.where(np.isfinite(scene.contacts.friction), scene.contacts.friction, 0.0)
            held = [sqrt(f[1] * f[1] + f[2] * f[2]) for f in own]
            left = [mu * n - t for mu, n, t in zip(friction, normal, held, strict=True)]
            u = self._contact_velocity(q, v)
            along = [u[i, 1] * heading[i, 0] + u[i, 2] * heading[i, 1] for i in range(scene.count)]
            return [[*gaps, *normal, *left, *along, room - JAMMED_GUARD]]

        of_rates = [*space.each(["force", "room"], "point"), at("heading")] if self.needs_rates else []
        reads = [at("X", "point"), *of_rates]
        return [traced_block(evaluate, reads, [at("guards")])]

    def _gaps(self, q: Array) -> list[Any]:
        scene = self.scene
        own = list(self._call("contact_gaps", q=q)) if scene.touching else []
        return [*own, *(scene.joints.gaps(q) if scene.joints.candidates else [])]

    def _contact_velocity(self, q: Array, v: Array) -> Array:
        scene = self.scene
        own = list(self._call("contact_velocity", q=q, v=v)) if scene.touching else []
        rows = scene.joints.rows.astype(object)
        return np.array([*own, *(rows @ v if len(rows) else [])], dtype=object).reshape(-1, 3)

    def _call(self, name: str, **state: Any) -> Any:
        function = functions.find(name, self.scene.model)
        return function.implementation(Mechanism.of(self.scene.model), *[state[word] for word in function.inputs])
