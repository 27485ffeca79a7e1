"""The description of a mechanism: frozen data with names, and no algorithm.

    model               bodies, joints, frames, constraints, geometry, contacts, actuators, and the Model of them
    activations         actuators with a memory, and muscles
    force_elements      tendons, drag of a fluid, held-up weight
    frozen              parts that cannot be changed, only replaced
    builder             ``wt.Builder``: a model written line by line
    closing_joints      joints that close loops: which are cut, and which constraints replace them
    named_states        home, where joints start, and key frames
    unit_axes           axes of joints at unit length
    faults              what is wrong with a description, all of it at once
    contact_pairs       ``wt.on_ground``, ``wt.with_contacts``: which shapes may touch
    moving_bodies       ``wt.with_motion``: bodies whose motion is an input
    constraint_syntax   the kinds of constraints and the words that each understands
    flexible_body       the data of a body with modes
    sensors             what a model measures
    parameters          numbers of a model by path, ``bodies.rod.mass``, to be left open or replaced
    input_checks        shapes and kinds of the arrays that users pass

The chapter imports ``spatial``, ``graph`` and ``arithmetic``; only the start state of a model with loops asks
``constraints`` to assemble it.
"""

from whippletree.model.activations import Activation, Muscle
from whippletree.model.model import (
    EARTH_GRAVITY,
    WORLD,
    Actuator,
    Body,
    Constraint,
    Contact,
    ContactGroup,
    Frame,
    Geometry,
    Joint,
    KeyFrame,
    Model,
    State,
    Vector,
    require_model,
)

__all__ = [
    "EARTH_GRAVITY",
    "WORLD",
    "Activation",
    "Actuator",
    "Body",
    "Constraint",
    "Contact",
    "ContactGroup",
    "Frame",
    "Geometry",
    "Joint",
    "KeyFrame",
    "Model",
    "Muscle",
    "State",
    "Vector",
    "require_model",
]
