"""Common interface of all ways of stepping through time: a task in, chunks of output out.

A method is a generator of :class:`Chunk`. Between two chunks a run can be shown, stored, interrupted and taken up
again: a chunk's ``memo`` holds all that the method needs to go on, so that a run that was resumed and one that never
stopped give the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.kinematics.joint_contacts import limited_axes, rubbing_axes
from whippletree.errors import NameLookupError
from whippletree.model import Model
from whippletree.model.input_checks import is_text
from whippletree.simulation.adaptive.user_events import Event
from whippletree.simulation.motion import Motion
from whippletree.simulation.sparse_rows import SparseRows
from whippletree.tree.mechanism import Mechanism

Memo: TypeAlias = dict[str, Array]
"""Named arrays of plain numbers or texts (0-dimensional ones too), so that any file format can keep them."""

PREVIEW = "preview "
"""Beginning of the names of arrays in a memo that are output already, but not yet handed out."""

DEFAULT_ROWS = 200
"""Rows of output where no spacing is asked for."""

MOST_TIME_STEPS = 1e10
"""Steps beyond which a request is taken for a mistake."""


@dataclass(frozen=True, eq=False)
class Task:
    """A model in motion, where it starts, and when its state is wanted."""

    motion: Motion
    start: Array
    """(nq + nv,), on the constraint manifold; (runs, nq + nv) for a batch. Activations follow where the motion
    remembers them."""
    times: Array
    """When output is wanted, s, ascending; the first is the start."""
    rtol: float
    atol: float
    events: tuple[Event, ...] = ()
    tolerance: Callable[[Motion, Array], float] | None = None
    """The relative tolerance that a state on the way allows, (nq + nv,); None where it is ``rtol`` everywhere."""

    @property
    def follow_tolerance(self) -> Callable[[Array], float] | None:
        """The tolerance of this task's motion."""
        return None if self.tolerance is None else partial(self.tolerance, self.motion)

    def samples(self) -> list[tuple[float, Array, Array]]:
        """States (t, q, v) at which a traced controller is compared with itself in Python."""
        end = float(self.times[-1])
        q, v = self.motion.split(np.atleast_2d(self.start)[0])
        pushed = self.motion.dyn.integrate(q, np.linspace(0.1, 0.3, len(v)))
        return [(0.0, q, v), (end / 3, pushed, v + 0.5), (end, q, v - 0.25)]


@dataclass(frozen=True, eq=False)
class Chunk:
    """Output that is finished: rows at some of the output times."""

    times: Array
    """(k,); k may be 0."""
    states: Array
    """(k, nq + nv), or (k, runs, nq + nv)."""
    memo: Memo
    """Memory that the method needs to go on from here."""
    events: tuple[tuple[str, float], ...] = ()
    """Findings on the way, (name, time)."""
    variables: Mapping[str, Array | SparseRows] = field(default_factory=dict)
    """Further output of the method, (k, …) each, as its ``variables`` describe."""


def preview(memo: Memo) -> Chunk | None:
    """The output that a memo holds, if it does."""
    held = {name.removeprefix(PREVIEW): array for name, array in memo.items() if name.startswith(PREVIEW)}
    if not held:
        return None
    times, states = held.pop("times"), held.pop("states")
    return Chunk(times, states, memo, variables=held)


class Variable(NamedTuple):
    """Description of an output for its reader."""

    dimensions: tuple[str, ...]
    """Beside time."""
    title: str
    units: str
    names: tuple[str, ...] = ()


class Method(ABC):
    """A way of stepping through time; a subclass states the ``options`` that ``wt.simulate`` may pass to it."""

    options: ClassVar[tuple[str, ...]] = ()
    batches: ClassVar[bool] = False
    """Whether many start states run together; otherwise they run one after the other."""
    opens: ClassVar[bool] = False
    """Whether runs of different designs run together, too."""
    touches: ClassVar[bool] = False
    """Whether it sees contacts."""
    obeys_laws: ClassVar[bool] = False
    """Whether its impacts follow the laws that contacts name."""
    looks_for_events: ClassVar[bool] = False
    """Whether it looks for the events that a user asks for."""
    tolerances: ClassVar[bool] = True
    """Whether ``rtol`` and ``atol`` mean anything to it."""
    remembers: ClassVar[str] = "never"
    """When activations of actuators are part of its states, behind q and v: ``"always"``, where commands depend on the
    ``"state"``, or ``"never"``: then they must be known as functions of time."""
    instants: ClassVar[bool] = True
    """Whether its own accelerations and constraint forces belong to moments, and not to the steps that lead there."""
    counters: ClassVar[tuple[str, ...]] = ()
    """Attributes that count what a run costs: numbers, or dataclasses of numbers."""
    sequences: ClassVar[tuple[str, ...]] = ()
    """Names of its account that tell a run's own story: in a batch each is a list with one entry per run."""
    failures: Mapping[int, str] = MappingProxyType({})
    """Runs of a batch that have failed, and why. A single run that fails raises instead."""

    def __init__(self, task: Task) -> None:
        self.task = task

    @classmethod
    def form_for(cls, model: Model, alone: bool, asked: Collection[str] = ()) -> type[Method]:
        """The form of this method that suits a model; ``alone``: one start state, not a batch; ``asked``: names of the
        options that are given, some of which only one form may know."""
        return cls

    @classmethod
    def all_options(cls) -> tuple[str, ...]:
        """Options of this method in any of its forms."""
        return cls.options

    @classmethod
    def spacing(cls, duration: float, options: Mapping[str, Any]) -> float:
        """Spacing of the output where none is asked for, s: 200 rows."""
        return duration / DEFAULT_ROWS

    @property
    def variables(self) -> dict[str, Variable]:
        """Variables of its chunks beside the states; a variable of every run (``a``, say) may be replaced."""
        return {}

    @abstractmethod
    def chunks(self, memo: Memo | None = None) -> Iterator[Chunk]:
        """Output from the start, or from where a memo was taken, to the last output time.

        Raises:
            IntegrationError: if the motion cannot be followed any further.
        """

    def unfinished_chunk(self) -> Chunk | None:
        """Results that an interrupted run can show beside the chunks that it has handed out."""
        return None

    def tally(self) -> dict[str, Any]:
        """Counts and notes so far, of plain values as JSON has them; kept with a memo."""
        counted = {name: _plain(getattr(self, name)) for name in self.counters}
        return counted | {"failures": {str(run): why for run, why in self.failures.items()}}

    def take_over(self, tally: Mapping[str, Any]) -> None:
        """Count on from an earlier tally, so that a resumed run has the account of one that never stopped."""
        for name in self.counters:
            if is_dataclass(getattr(self, name)):
                for field_name, value in tally[name].items():
                    setattr(getattr(self, name), field_name, value)
            else:
                setattr(self, name, tally[name])
        self.failures = {int(run): why for run, why in tally["failures"].items()}

    @abstractmethod
    def account(self) -> dict[str, Any]:
        """Costs and events of the run: attributes of the result."""


def positive(name: str, value: Any, *, or_zero: bool = False) -> float:
    """The value of an argument that must be a positive, finite number; it may be 0 where that is said.

    Raises:
        ValueError: if it is not.
    """
    try:
        number = np.nan if is_text(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if not (np.isfinite(number) and (number > 0 or (number == 0 and or_zero))):
        cure = ", written without quotes" * is_text(value)
        raise ValueError(f"simulate: {name} is {value!r}, expected a positive, finite number{cure}")
    return number


def step_length(step: Any, duration: float) -> float:
    """The length of a step that was asked for, s.

    Raises:
        ValueError: if it is no positive number, or so short that the run would not end.
    """
    length = positive("step", step)
    if duration / length > MOST_TIME_STEPS:
        raise ValueError(
            f"simulate: a step of {step!r} s takes {duration / length:.3g} steps, more than {MOST_TIME_STEPS:g}: "
            f"choose a longer step"
        )
    return length


def whole(name: str, value: Any) -> int:
    """The value of an argument that must be a whole number of at least 1.

    Raises:
        ValueError: if it is not.
    """
    if not (isinstance(value, int | np.integer) and value >= 1):
        raise ValueError(f"simulate: {name} is {value!r}, expected a whole number of at least 1")
    return int(value)


def _plain(value: Any) -> Any:
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value


METHODS = {
    "adaptive": "whippletree.simulation.adaptive.adaptive_method:Adaptive",
    "events": "whippletree.simulation.events.event_method:Events",
    "time_stepping": "whippletree.simulation.time_stepping.stepping_method:TimeStepping",
    "rk4": "whippletree.simulation.fixed_step.fixed_step_method:RungeKutta4",
    "implicit_midpoint": "whippletree.simulation.fixed_step.fixed_step_method:ImplicitMidpoint",
    "semi_implicit_euler": "whippletree.simulation.fixed_step.fixed_step_method:SemiImplicitEuler",
}
"""Names that ``wt.simulate`` accepts, and where the method is."""


PENETRATION = 1e-9
"""m or rad up to which a start state in overlap, or beyond a joint's range, counts as touching for events."""

EVENTS_UP_TO = 16
"""Contacts up to which ``"auto"`` locates every event; beyond, it steps through time."""


def suitable(model: Model, q: Array | None = None) -> str:
    """The name of the method that ``"auto"`` takes, from coordinates q (..., nq), the model's home if None.

    Several bodies that slide in space (the feet of a quadruped) begin and cease to slide, strike and lift tens of times
    at every landing: locating all that costs several times what steps of a millisecond do, and is for those who ask for
    it by name. Without contacts there are still the events of joints: with dry friction they stick and slip, and they
    meet the ends of their ranges. A model that asks for a step, as a file for a time-stepping simulator does, gets it
    where it has anything of that. A start beyond the range of a joint is no event: steps bring a tree back into it,
    while loops, which may not reach it at all, are integrated, and the run tells what it leaves out. Torsional and
    rolling friction, and limits of tendons, are known to steps only.
    """
    meets = model.touches or rubbing_axes(model) or limited_axes(model)
    if (meets and model.time_step is not None) or limited_tendons(model):
        return "time_stepping"
    if not model.touches:
        if _starts_beyond_a_range(model, model.home.q if q is None else q):
            return "adaptive" if model.constraints else "time_stepping"
        return "events" if meets else "adaptive"
    few = not model.contact_groups and len(model.contacts) <= EVENTS_UP_TO
    few = few and not any(contact.has_moments for contact in model.contacts)
    return "events" if few and not _many_slide_in_space(model) else "time_stepping"


def limited_tendons(model: Model) -> list[str]:
    """Names of the tendons whose length has an end."""
    return [tendon.name for tendon in model.tendons if tendon.is_limited]


def _starts_beyond_a_range(model: Model, q: Array) -> bool:
    """Whether a joint is beyond its range by more than events allow, at some coordinates q (..., nq)."""
    return any(np.any(axis.excess(q) > PENETRATION) for axis in limited_axes(model))


def _many_slide_in_space(model: Model) -> bool:
    """Whether candidates with friction on more than one pair of bodies can slide in two directions, judged at home."""
    contacts = contact_set(model)
    if not contacts.closed_form:
        return True
    q = np.asarray(model.home.q, dtype=float).astype(object)
    rows = contacts.jacobian(Mechanism.of(model), q).astype(float).reshape(-1, 3, model.nv)[:, 1:]
    sliding = {
        (candidate.first_body, candidate.second_body)
        for candidate, J, mu in zip(contacts.candidates, rows, contacts.friction, strict=True)
        if mu > 0 and np.linalg.matrix_rank(J) == 2
    }
    return len(sliding) > 1


def find_method(name: str, model: Model) -> type[Method]:
    """A method by name; ``"auto"`` takes the one that suits the model: see :func:`suitable`.

    Raises:
        NameLookupError: if there is no such method.
    """
    name = suitable(model) if name == "auto" else name
    if not isinstance(name, str) or name not in METHODS:
        raise NameLookupError("method", name, ["auto", *METHODS], where="simulate")
    module, _, kind = METHODS[name].partition(":")
    found: type[Method] = getattr(import_module(module), kind)
    return found
