"""States that a model carries: home, where its joints start, and key frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from whippletree.errors import ModelError
from whippletree.model.closing_joints import Opened, closing_coordinates, start_of_turned
from whippletree.model.faults import number_faults
from whippletree.model.frozen import count_in_words, frozen_array
from whippletree.model.model import KeyFrame, Model, State
from whippletree.model.unit_axes import UNIT_ROUNDING


def with_start(model: Model, starts: Mapping[str, Any], joints: Sequence[str], opened: Opened) -> Model:
    """The model with its home state: neutral, but for the coordinates of joints that ``starts`` gives, and closed where
    joints were opened.

    ``joints``: names of all that were declared, of which some may have been cut.

    Raises:
        ModelError: with every fault found, by name.
    """
    if not starts and not opened.parted:
        return model
    q = model.neutral.q.copy()
    faults = []
    kept = {joint.name for joint in model.joints}
    for name, value in starts.items():
        if name not in kept and name in joints:
            continue  # its coordinate is gone with the cut
        part = model.q_slice(name)
        value = start_of_turned(opened.turned[name], value) if name in opened.turned else value
        found = number_faults(f"joint {name!r}: start", value)
        if np.shape(value) not in ((), (part.stop - part.start,)):
            found.append(f"joint {name!r}: start has shape {np.shape(value)}, expected ({part.stop - part.start},)")
        if not found:
            q[part] = value
        faults += found
    for joint, part, kind in zip(model.joints, model.q_slices, model.joint_types, strict=True):
        if kind.nq == kind.nv:
            continue
        turn = q[part.stop - 4 : part.stop]
        square = float(turn @ turn)
        if square == 0:
            faults.append(f"joint {joint.name!r}: start has a quaternion of zeros: no turn is 1, 0, 0, 0")
        elif abs(square - 1) > UNIT_ROUNDING:
            turn /= np.sqrt(square)
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    for name in opened.parted.keys() - starts.keys():
        q[model.q_slice(name)] = closing_coordinates(model, q, name)
    q.setflags(write=False)
    return replace(model, start=State(q, np.zeros(model.nv)))


def with_key_frames(model: Model, key_frames: Sequence[tuple[str, Any, Any, Any, Any]]) -> Model:
    """The model with key frames: name, q, v, commands and activations of each; None stands for home, rest and 0.

    Raises:
        ModelError: with every fault found, by name.
    """
    if not key_frames:
        return model
    faults, found = [], []
    for name, *given in key_frames:
        counts = model.nv, len(model.actuators), len(model.activations)
        usual = (model.start or model.neutral).q, *(np.zeros(count) for count in counts)
        numbers = [u if x is None else x for u, x in zip(usual, given, strict=True)]
        for word, x, u in zip(("q", "v", "commands", "act"), numbers, usual, strict=True):
            wrong = number_faults(f"key frame {name!r}: {word}", x)
            if not wrong and np.size(x) != len(u):
                wrong = [f"key frame {name!r}: {word} has {count_in_words(np.size(x))}, expected {len(u)}"]
            faults += wrong
        if not faults:
            found.append(KeyFrame(name, *[frozen_array(x, (len(u),)) for x, u in zip(numbers, usual, strict=True)]))
    if faults:
        raise ModelError(f"model {model.name!r}", faults)
    return replace(model, key_frames=tuple(found))
