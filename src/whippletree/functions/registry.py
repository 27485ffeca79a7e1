"""How a function is entered into the catalogue, and what it means for one model.

A function's parameters after the mechanism are its inputs, by the names in ``SHAPES``; parameters in ``NAMES`` are
names that are given before the numbers (``dyn.jacobian("tool")(q)``); :func:`function` states the shapes of its
outputs. ``t`` and ``active`` are inputs of those models only that need them: :func:`find` with a model leaves them out
elsewhere.

Functions with several results return named tuples: ``dyn.dagger(q).M_dagger`` and ``M_dagger, A_dagger, Lambda_dagger =
dyn.dagger(q)`` are the same thing. The reference and the compiled functions return the same types.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.long_systems.node_rows import is_long
from whippletree.constraints.prescribed_joints import task_rows
from whippletree.constraints.reactions import reaction_names
from whippletree.constraints.route_choice import loops_over_clusters
from whippletree.errors import NameLookupError, UnsupportedError
from whippletree.model import Model
from whippletree.tree.mechanism import Margin, Mechanism

Size: TypeAlias = int | str
Shape: TypeAlias = tuple[Size, ...]
Attitude: TypeAlias = Literal["refuses", "tree", "honours", "needs"]
"""Attitudes of a function to constraints: refuses models that have them, is a function of the tree alone (a mass
matrix, a pose), honours every one of them, or is about them and needs some."""

Linear: TypeAlias = bool | Literal["determinate", "few contacts"]
"""Whether code grows with the number of bodies only: yes, no, where statics determines all reactions, so that no matrix
of all joints has to share them out, or where there are few contacts."""

SHAPES: dict[str, Shape] = {
    "q": ("nq",),
    "v": ("nv",),
    "a": ("nv",),
    "tau": ("nv",),
    "given": ("nv",),
    "b": ("nv",),
    "d": ("nv",),
    "r": ("nq",),
    "wrench": (6,),
    "wrenches": ("bodies", 6),
    "f": ("rows",),
    "restitution": (),
    "weights": ("rows",),
    "costs": ("nv",),
    "metric": ("nv", "nv"),
    "contact_costs": ("contact_rows",),
    "touching": ("contacts",),
    "reaction_weights": ("reactions", 6),
    "h": (),
    "ctrl": ("actuators",),
    "act": ("activations",),
    "t": (),
    "active": ("switches",),
}
"""Shape of every input, by its name; the named sizes are the model's (:func:`sizes`)."""

UNITS = {
    "q": "rad or m; quaternions w, x, y, z",
    "v": "rad/s or m/s",
    "a": "rad/s² or m/s²",
    "tau": "N m or N",
    "wrench": "N m and N, in the frame's axes",
    "wrenches": "N m and N, on each body, in its axes and about its origin",
    "f": "N or N m, of the constraint rows",
    "costs": "of the squares of motors' forces: 1/(N m)² or 1/N², all positive",
    "metric": "of products of motors' forces: 1/(N m)², 1/N² or 1/(N² m), positive definite",
    "contact_costs": "of the squares of contact forces, 1/N², normal and two tangents of each, all positive",
    "touching": "1 for contacts that carry, 0 for others",
    "ctrl": "commands, in the units of each actuator",
    "act": "activations, in the units of the commands that they follow",
    "h": "s",
    "t": "s",
    "active": "1 for on, 0 for off, one per switchable constraint",
}

SEE_ELEMENTS = ("passive_forces", "potential_energy")
"""Functions that know of tendons and fluids, which index the tree: with these they are always unrolled."""

NAMES = ("frame", "joints", "task")
OPTIONAL = ("t", "active")
"""Inputs that only some constraints need; always the last ones. ``act`` is one that only some actuators need."""


class Evaluation(NamedTuple):
    """The outcome of an evaluation."""

    result: Any
    """As the implementation gives it: one output, or a tuple of them."""
    margins: tuple[Margin, ...]
    """Numbers that must be positive for it to be an answer."""
    remarks: tuple[str, ...]
    """Remarks for the user."""

    @property
    def outputs(self) -> tuple[Any, ...]:
        """The outputs one by one."""
        return self.result if isinstance(self.result, tuple) else (self.result,)


@dataclass(frozen=True)
class Function:
    """An entry of the catalogue."""

    name: str
    names: tuple[str, ...]
    """Kinds of names that it takes before its numbers."""
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    implementation: Callable[..., Any]
    loops: bool
    summary: str
    may_fail: bool = False
    constraints: Attitude = "refuses"
    derivative: Derivative | None = None
    """The entry of which it is a derivative, if it is one; its scalars are then dual or traced."""
    contacts: bool = False
    """Whether it is about contacts and needs some."""
    actuators: bool = False
    """Whether it is about actuators and needs some."""
    linear: Linear = False
    """Whether its code, written out, grows with the number of bodies and not with that of their pairs."""

    @property
    def derived(self) -> bool:
        """Whether it is a derivative of an entry."""
        return self.derivative is not None

    def evaluate(self, m: Mechanism, *arguments: Any) -> Evaluation:
        """The implementation on a mechanism made for it: what it gives, and on what that rests."""
        return Evaluation(self.implementation(m, *arguments), m.margins, m.remarks)

    @property
    def explanation(self) -> str:
        """The text of ``help``: the summary, then inputs and results with their shapes and units."""
        lines = [self.summary, "", "Inputs, with any batch dimensions in front:"]
        for name, shape in self.inputs.items():
            lines.append(f"    {name} {shape_text(shape)}".rstrip() + (f": {UNITS[name]}" if name in UNITS else ""))
        results = ", ".join(f"{name} {shape_text(shape)}".rstrip() for name, shape in self.outputs.items())
        return "\n".join([*lines, f"Returns {results}."])


class Derivative(NamedTuple):
    """What a derived function is."""

    kind: Literal["jvp", "vjp"]
    function: Function
    """The entry that is differentiated."""


CATALOGUE: dict[str, Function] = {}


class Sizes(dict[str, int]):
    """Named sizes of a model; those of its constraints are found out when they are asked for."""

    def __init__(self, model: Model) -> None:
        self.model = model
        count = len(model.bodies)
        super().__init__({"nq": model.nq, "nv": model.nv, "bodies": count, "parameters": 10 * count})
        self["actuators"], self["activations"] = len(model.actuators), len(model.activations)

    def __missing__(self, name: str) -> int:
        if name in ("contacts", "contact_rows"):
            from whippletree.contact.kinematics.contact_set import contact_set

            return len(contact_set(self.model).candidates) * (3 if name == "contact_rows" else 1)
        system = constraint_set(self.model)
        match name:
            case "reactions":
                return len(reaction_names(self.model))
            case "rows":
                return len(system.row_names)
            case "positions":
                return len(system.position_rows)
            case "switches":
                return len(system.switches)
            case "independent":
                return len(system.structure.independent)
            case "freedoms":
                return system.structure.mobility
        raise KeyError(name)


def sizes(model: Model) -> dict[str, int]:
    """The named sizes of a model."""
    return Sizes(model)


def checked_names(entry: Function, names: tuple[Any, ...]) -> tuple[Any, ...]:
    """The names that a function is made for, several of a kind as a tuple; numbers are refused.

    Raises:
        TypeError: with the way to call the function.
    """
    if len(names) == len(entry.names):
        found = tuple(map(_several, entry.names, names))
        if all(isinstance(word, str) for name in found for word in (name if isinstance(name, tuple) else (name,))):
            return found
    words = {"frame": "the name of a frame", "task": "the name of a frame (or several, or rows of them)"}
    kinds = ", ".join(words.get(kind, kind) for kind in entry.names)
    example = f"{entry.name}({', '.join(map(repr, entry.names))})({', '.join(entry.inputs)})"
    raise TypeError(f"{entry.name} takes {kinds} first, and gives a function of numbers: {example}")


def _several(kind: str, name: Any) -> Any:
    """Joints, or the rows of a task, in any collection, or a single one, as a tuple; the name of a frame as it is."""
    if kind == "frame":
        return name
    if isinstance(name, str):
        return (name,)
    return tuple(name) if isinstance(name, Iterable) else name


def for_names(entry: Function, model: Model, names: tuple[Any, ...]) -> Function:
    """The entry with the size ``task`` filled in, which is that of the names and not of the model."""
    if "task" not in entry.names:
        return entry
    rows = task_rows(Mechanism.of(model), names[entry.names.index("task")])
    known = {"task": sum(len(own) for _, own in rows)}
    inputs, outputs = (
        {name: tuple(known.get(d, d) if isinstance(d, str) else d for d in shape) for name, shape in shapes.items()}
        for shapes in (entry.inputs, entry.outputs)
    )
    return replace(entry, inputs=inputs, outputs=outputs)


def shape_text(shape: Shape) -> str:
    """(nv, nv) as people write it; nothing for a single number."""
    return f"({', '.join(map(str, shape))}{',' * (len(shape) == 1)})" if shape else ""


def resolve(shape: Shape, known: dict[str, int]) -> tuple[int, ...]:
    """A shape with its named sizes filled in."""
    return tuple(known[d] if isinstance(d, str) else d for d in shape)


def find(name: str, model: Model | None = None) -> Function:
    """An entry by name; with a model, as that model has it: its own inputs, and its constraints honoured or refused.

    Raises:
        NameLookupError: if there is no such function.
        UnsupportedError: if the function cannot honour the model's constraints, or needs some and there are none.
    """
    if name not in CATALOGUE:
        raise NameLookupError("function", name, CATALOGUE)
    entry = CATALOGUE[name]
    return entry if model is None else _specialise(entry, model)


def inputs_for(entry: Function, model: Model) -> dict[str, Shape]:
    """The inputs that a function has for a model: ``t`` and ``active`` only where its constraints need them, ``act``
    only where actuators have activations."""
    needed = {"t": False, "active": False, "act": bool(model.activations)}
    if model.constraints and any(word in entry.inputs for word in OPTIONAL):
        system = constraint_set(model)
        needed |= {"t": system.timed, "active": bool(system.switches)}
    return {name: shape for name, shape in entry.inputs.items() if needed.get(name, True)}


def _specialise(entry: Function, model: Model) -> Function:
    if model.constraints and entry.constraints == "refuses":
        names = ", ".join(repr(c.name) for c in model.constraints[:5])
        raise UnsupportedError(
            f"{entry.name}: model {model.name!r} has {len(model.constraints)} constraints ({names}), which this "
            f"function cannot honour: use model.tree for the tree without them"
        )
    if entry.constraints == "needs" and not model.constraints:
        raise UnsupportedError(
            f"{entry.name}: model {model.name!r} has no constraints, and this function is about them: add one with "
            f"Builder.constraint, or close a loop with a joint"
        )
    if entry.contacts:
        _check_contacts(entry, model)
    if entry.actuators and not model.actuators:
        raise UnsupportedError(f"{entry.name}: model {model.name!r} has no actuators: Builder.actuator adds them")
    if ("activations",) in entry.outputs.values() and not model.activations:
        raise UnsupportedError(
            f"{entry.name}: no actuator of model {model.name!r} has an activation: Builder.actuator gives it one with "
            f"activation=wt.Activation(...)"
        )
    inputs = inputs_for(entry, model)
    if model.is_flexible and entry.loops:
        entry = replace(entry, loops=False)  # loops over bodies carry six numbers from one to the next
    if model.elements and entry.loops and entry.name in SEE_ELEMENTS:
        entry = replace(entry, loops=False, linear=True)
    if len(inputs) == len(entry.inputs) and not model.constraints:
        return entry
    own = tuple(inputs)
    count = len(entry.names)

    def implementation(m: Mechanism, *arguments: Any) -> Any:
        numbers = dict(zip(own, arguments[count:], strict=True))
        return entry.implementation(m, *arguments[:count], **numbers)

    # the tree's own recursions run as loops over bodies, and constraints of long systems, which are sweeps too; joints
    # that are named have a place in the sweeps over clusters only
    def swept() -> bool:
        return not entry.names and not loops_over_clusters(model, None) and is_long(model)

    free = not model.constraints or entry.constraints == "tree"
    loops = entry.loops and (free or swept())
    return replace(entry, inputs=inputs, implementation=implementation, loops=loops)


def _check_contacts(entry: Function, model: Model) -> None:
    if not model.touches:
        raise UnsupportedError(
            f"{entry.name}: model {model.name!r} has no contacts: declare some with Builder.contact, with_contacts or "
            f"on_ground"
        )
    # the first call of a model without contacts does not wait for their geometry
    from whippletree.contact.kinematics.contact_set import contact_set, no_closed_form

    unwritten = [pair for pair in contact_set(model).pairs if pair.touching is None]
    if unwritten:
        raise UnsupportedError(f"{entry.name}: {no_closed_form(unwritten[0])}")


def function(
    *,
    loops: bool = False,
    may_fail: bool = False,
    constraints: Attitude = "refuses",
    contacts: bool = False,
    actuators: bool = False,
    linear: Linear = False,
    **outputs: Shape,
) -> Callable[..., Any]:
    """Enter a function into the catalogue."""

    def enter(implementation: Callable[..., Any]) -> Callable[..., Any]:
        parameters = list(inspect.signature(implementation).parameters)[1:]
        CATALOGUE[implementation.__name__] = Function(
            implementation.__name__,
            tuple(p for p in parameters if p in NAMES),
            {p: SHAPES[p] for p in parameters if p not in NAMES},
            outputs,
            implementation,
            loops,
            inspect.getdoc(implementation) or "",
            may_fail,
            constraints,
            contacts=contacts,
            actuators=actuators,
            linear=linear,
        )
        return implementation

    return enter


# --- results: named tuples, one type for each function that returns several arrays ------------------------------------


def result_type(function: str, fields: Sequence[str]) -> type[tuple[Any, ...]] | None:
    """The type of a function's results; None where it has one only, or names that Python has no place for.

    Args:
        function: its name, such as ``forward_dynamics_derivatives``.
        fields: names of the results, in order. Gradients by open parameters have paths for names: plain tuples.
    """
    if len(fields) < 2 or not all(field.isidentifier() for field in fields):
        return None
    return _make_named_tuple(function, tuple(fields))


@cache
def _make_named_tuple(function: str, fields: tuple[str, ...]) -> type[tuple[Any, ...]]:
    base = namedtuple(type_name(function), fields)  # type: ignore[misc]  # its fields are known from the table only

    def __reduce__(self: tuple[Any, ...]) -> tuple[Any, ...]:
        # a type that is made while the program runs has no module in which pickle could find it
        return unpickle_results, (function, fields, tuple(self))

    doc = f"Results of ``{function}``: {', '.join(fields)}."
    return type(type_name(function), (base,), {"__slots__": (), "__doc__": doc, "__reduce__": __reduce__})


def unpickle_results(function: str, fields: tuple[str, ...], values: Iterable[Any]) -> tuple[Any, ...]:
    """Results that were pickled or copied."""
    return _make_named_tuple(function, fields)(*values)


def type_name(function: str) -> str:
    """``forward_dynamics_derivatives`` as the name of a type: ``ForwardDynamicsDerivatives``."""
    return "".join(word.capitalize() for word in function.split("_"))
