"""What to do about a massless motion that no constraint carries: refuse, hold, or relax.

Document 000 (assumption A6) removes such a motion from the system and treats it by itself, for example by holding
it. That is a modelling choice: the limit of a small mass exists too, and differs (a light pendulum swings fast; a
held one does not swing). So it is never done unless asked.
"""

from __future__ import annotations

from dataclasses import replace

from whippletree.errors import NameLookupError, UnsupportedError
from whippletree.model import Constraint, Model

CHOICES = ("refuse", "hold", "relax")


def with_massless(model: Model, massless: str) -> Model:
    """The model with its unsupported massless motions dealt with.

    Args:
        massless: ``"refuse"`` leaves the model as it is, and evaluating it raises SingularSystemError; ``"hold"``
        adds a
            constraint of kind ``hold`` for one joint of each such motion (the one that moves most), named
            ``"hold <joint>"``; ``"relax"`` is not available yet.

    Raises:
        UnsupportedError: for ``"relax"``, and where a joint of several freedoms would have to be held.
    """
    if massless not in CHOICES:
        raise NameLookupError("choice of massless", massless, CHOICES)
    if massless == "relax":
        raise UnsupportedError(
            'massless="relax": first-order equations of massless parts with springs and dampers are not integrated '
            'yet; hold the part (massless="hold") or give it mass'
        )
    if massless == "refuse":
        return model
    from whippletree.diagnosis import massless_everywhere  # few ask for it, and everyone imports this module

    held: dict[str, Constraint] = {}
    for motion in massless_everywhere(model):
        joint = motion.joints(model)[0]
        if model.joint_types[model.joint_index(joint)].nv != 1:
            raise UnsupportedError(
                f"model {model.name!r}: the massless motion of {motion.words(model)} belongs to a joint of several "
                f"freedoms, which cannot be held as a whole: give its body mass"
            )
        held[joint] = Constraint(f"hold {joint}", "hold", (joint,))
    return replace(model, constraints=(*model.constraints, *held.values())) if held else model
