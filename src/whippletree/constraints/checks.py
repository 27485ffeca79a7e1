"""Whether a constraint is written as it must be: known words, numbers that are numbers, and two different ends."""

from __future__ import annotations

from numbers import Number
from typing import Any

import numpy as np

from whippletree import constraint_words
from whippletree.errors import did_you_mean
from whippletree.model import Constraint

VECTORS = ("axis", "second_axis", "direction", "normal")
SCALARS = ("length", "radius", "offset", "compliance")
LISTS = ("ratios", "coefficients")


FORMATS = {"mjcf": "MuJoCo", "sdf": "SDF"}
"""First word of kinds that files keep and nobody here evaluates."""


def kind_fault(c: Constraint) -> str:
    """Why a constraint of a kind that is not among the known ones cannot be evaluated, and what to do."""
    if c.kind == "unresolved_coupling":
        cause = f"its file lacks the joint {c.parameters.get('leader')!r} that {', '.join(map(repr, c.on))} mimics"
        return f"{cause}: correct the file, or use model.tree, which has no constraints"
    known = ", ".join(constraint_words.KINDS)
    if name := FORMATS.get(c.kind.partition("_")[0]):
        return f"only {name} knows {c.kind!r}: say the same in a kind that is known ({known}), or use model.tree"
    return f"unknown kind {c.kind!r}; known: {known}{did_you_mean(c.kind, constraint_words.KINDS)}"


def spelling_faults(c: Constraint) -> list[str]:
    """What is wrong with the words and numbers of a constraint, before anything is known of its model."""
    if c.kind not in constraint_words.KINDS:
        return []
    words = constraint_words.parameters_of(c.kind)
    faults = [
        f"kind {c.kind!r} has no parameter {word!r}; known: {', '.join(words)}{did_you_mean(word, words)}"
        for word in c.parameters
        if word not in (*words, *constraint_words.JOINT_DATA)
    ]
    faults += [fault for word, value in c.parameters.items() if (fault := _number_fault(word, value))]
    if not c.on:
        faults.append(f"it names no {constraint_words.KINDS[c.kind].on}")
    if c.kind != "custom" and len(c.on) == 2 and c.on[0] == c.on[1]:
        faults.append(f"it ties {c.on[0]!r} to itself: name two different {constraint_words.KINDS[c.kind].on}")
    return faults


def _number_fault(word: str, value: Any) -> str:
    """What is wrong with a number, or with a list of numbers; empty if nothing is."""
    if value is None or word not in (*VECTORS, *SCALARS, *LISTS):
        return ""
    numbers = list(np.asarray(value, dtype=object).flat)
    if not all(isinstance(x, Number) and not isinstance(x, complex) for x in numbers):
        return f"{word} {value!r} must be numbers"
    if word in VECTORS and len(numbers) != 3:
        return f"{word} {value!r} must have three numbers"
    if word in LISTS and np.ndim(np.asarray(value, dtype=object)) > 1:
        return f"{word} {value!r} must be a list of numbers, without lists inside"
    if word in SCALARS and np.ndim(value) != 0:
        return f"{word} {value!r} must be one number"
    if not numbers:
        return f"{word} must not be empty"
    if not all(np.isfinite(float(x)) for x in numbers):
        return f"{word} {value!r} must be finite"
    return ""
