"""Treatment of a massless motion that no constraint carries: refuse, hold, or relax.

Document 000 (assumption A6) removes such a motion from the system and treats it by itself, for example by holding
it. That is a modelling choice: the limit of a small mass exists too, and differs (a light pendulum swings fast; a
held one does not swing). So it is never done unless asked.

Where springs and dampers act on the motion, the limit of a small mass is a first-order equation, or with springs alone
an equilibrium (:mod:`whippletree.constraints.massless_rows`): ``relax``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.arithmetic.linalg import null_spaces
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.massless_rows import Support, directions
from whippletree.constraints.redundancy import independent_rows
from whippletree.constraints.singular.exploration import generic_configurations
from whippletree.constraints.singular.motions import FreeDirection, echelon
from whippletree.errors import NameLookupError, UnsupportedError
from whippletree.model import Constraint, Joint, Model, require_model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

CHOICES = ("refuse", "hold", "relax")

RESISTANCE_TOLERANCE = 1e-10
"""Share of the largest (square root of a) damping or stiffness below which a motion counts as not resisted."""

LASTING_TOLERANCE = 1e-8
"""Share below which a motion counts as not resisted where configurations are compared."""


def with_massless(model: Model, massless: str) -> Model:
    """The model with its unsupported massless motions dealt with.

    Args:
        massless: ``"refuse"`` leaves the model as it is, and evaluating it raises SingularSystemError. ``"hold"`` adds
            a constraint of kind ``hold`` for one joint of each such motion (the one that moves most), named
            ``"hold <joint>"``, or ``"hold <joint>[k]"`` for one of its freedoms. ``"relax"`` adds constraints of kind
            ``relax`` (dampers decide the velocity) and ``rest`` (springs alone decide the position).

    Raises:
        UnsupportedError: where neither damper nor spring acts on a motion that is to be relaxed.
    """
    require_model(model, "compile or reference")
    if massless not in CHOICES:
        raise NameLookupError("choice of massless", massless, CHOICES)
    if massless == "refuse":
        return model
    from whippletree.constraints.diagnosis import (
        massless_everywhere,
    )  # few ask for it, and everyone imports this module

    motions = massless_everywhere(model)
    if not motions:
        return model
    added = _hold_motions(model, motions) if massless == "hold" else _relax_motions(model, motions)
    return replace(model, constraints=(*model.constraints, *added))


def _hold_motions(model: Model, motions: list[FreeDirection]) -> list[Constraint]:
    """A ``hold`` for the velocity that moves most in each motion."""
    held: dict[str, Constraint] = {}
    for motion in motions:
        velocity = int(np.argmax(np.abs(motion.direction)))
        joint, number = _owner(model, velocity)
        name = f"hold {_velocity_name(model, velocity)}"
        component = {} if joint.type.nv == 1 else {"component": number}
        held[name] = Constraint(name, "hold", (joint.name,), {"massless": True, **component})
    return list(held.values())


def _relax_motions(model: Model, motions: list[FreeDirection]) -> list[Constraint]:
    """The equations of motions that dampers or springs decide: those that move, and those at rest."""
    system = constraint_set(model)
    if system.switches:
        raise UnsupportedError(
            f'model {model.name!r}: massless="relax" with switchable constraints ({", ".join(system.switches)}): '
            f"which motions are massless and free would change with them. Give the parts mass, or fix the switches."
        )
    Z = np.array([motion.direction for motion in motions]).T
    pivots = _pivots(Z)
    support = Support(tuple(pivots), *_other_rows(model, len(pivots)))
    Z = Z / Z[pivots, range(len(pivots))]
    undamped = _unresisted_motions(Z, _per_velocity(model, "damping"))
    _require_springs(model, Z @ undamped)
    _require_lasting(model, support, undamped)
    resting = _pivots(undamped)
    damped = np.delete(np.eye(len(pivots)), resting, axis=1)
    names = [_velocity_name(model, j) for j in pivots]
    moving = [k for k in range(len(pivots)) if k not in resting]
    kinds = [("relax", damped, moving), ("rest", undamped, resting)]
    return [
        Constraint(
            kind,
            kind,
            tuple(dict.fromkeys(_owner(model, int(j))[0].name for j in np.flatnonzero(np.any(Z @ T, axis=1)))),
            {"support": support, "motions": _whole(T), "rows": tuple(names[k] for k in own)},
        )
        for kind, T, own in kinds
        if own
    ]


def _whole(T: Array) -> Array:
    """Whole numbers as integers, so that exact scalars stay exact."""
    return np.array([[int(x) if x == int(x) else float(x) for x in row] for row in T], dtype=object)


def _pivots(Z: Array) -> list[int]:
    """For each column an entry that no other one has, its largest."""
    found = []
    for k in range(Z.shape[1]):
        alone = np.all(np.delete(Z, k, axis=1) == 0, axis=1)
        found.append(int(np.argmax(np.where(alone, np.abs(Z[:, k]), -1.0))))
    return found


def _unresisted_motions(Z: Array, resistance: Array) -> Array:
    """Combinations (z, k) of the motions Z (nv, z) that none of these dampers (or springs) resists, in echelon form."""
    felt = np.sqrt(resistance)[:, None] * Z
    size = np.sqrt(resistance.max(initial=0.0)) * np.linalg.norm(Z)
    return echelon(null_spaces(felt, RESISTANCE_TOLERANCE, size).right.T).T


def _require_springs(model: Model, Z: Array) -> None:
    """Motions that no damper decides must be decided by springs."""
    loose = Z @ _unresisted_motions(Z, _per_velocity(model, "stiffness"))
    if loose.shape[1]:
        motion = FreeDirection(loose[:, 0] / np.linalg.norm(loose[:, 0]), 0.0)
        raise UnsupportedError(
            f"model {model.name!r}: the massless motion of {motion.words(model)} has neither damper nor spring, so "
            f'nothing decides it: give one of its joints damping or stiffness, hold it (massless="hold"), or give '
            f"a body mass"
        )


def _require_lasting(model: Model, support: Support, undamped: Array) -> None:
    """Motions that no damper resists must not meet one elsewhere: rows cannot change their level."""
    damping = np.sqrt(_per_velocity(model, "damping"))[:, None]
    m, system = Mechanism(skeleton(model)), constraint_set(model)
    for q in generic_configurations(system):
        state = q.astype(object)
        links = m.still(state)
        A = system.rows(m, links, state, None, 0).jacobian()
        Z = directions(m, links, A, support).astype(float)
        if (
            np.abs(damping * Z @ undamped).max(initial=0.0)
            > LASTING_TOLERANCE * np.abs(damping).max() * np.abs(Z).max()
        ):
            raise UnsupportedError(
                f"model {model.name!r}: a massless motion is damped at some configurations and not at others, so that "
                f"its equation is now of first order, now an equilibrium: give its joints dampers, or its bodies mass"
            )


def _other_rows(model: Model, pivots: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Independent rows of the model's own constraints, and ρ for them and for the pivots: powers of two, so exact.

    A massless motion moves no compliant row either. Of these, which are factored whatever they are, some may repeat
    others, or feel no joint.
    """
    system = constraint_set(model)
    structure = system.structure
    rows = dict(zip(structure.independent, structure.squares, strict=True))
    soft = [i for i in rows if system.compliance[i]]
    if soft:
        m, q = Mechanism(skeleton(model)), structure.configuration.astype(object)
        firm = [i for i in rows if i not in soft]
        needed = independent_rows(system.matrix(m, m.still(q), q), [*firm, *soft])
        rows = {i: square for i, square in rows.items() if i in firm or i in needed}
    mass = sum(float(body.mass) for body in model.bodies) / max(model.nv, 1)
    unit = 2.0 ** round(np.log2(mass)) if mass > 0 else 1.0
    scales = [unit * 2.0 ** -round(np.log2(square)) for square in rows.values()]
    return tuple(rows), (*scales, *[unit] * pivots)


def _per_velocity(model: Model, word: str) -> Array:
    """A number of the joints for every velocity (nv,)."""
    values = np.zeros(model.nv)
    for joint, part, kind in zip(model.joints, model.v_slices, model.joint_types, strict=True):
        if word == "damping" or kind.nq == kind.nv:
            values[part] = float(getattr(joint, word))
    return values


def _owner(model: Model, velocity: int) -> tuple[Joint, int]:
    """The joint of a velocity, and the velocity's number in it."""
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        if part.start <= velocity < part.stop:
            return joint, velocity - part.start
    raise IndexError(velocity)


def _velocity_name(model: Model, velocity: int) -> str:
    joint, number = _owner(model, velocity)
    return joint.name if joint.type.nv == 1 else f"{joint.name}[{number}]"
