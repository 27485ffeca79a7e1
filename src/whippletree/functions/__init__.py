"""The one table of functions: everything that a user can evaluate, each with a single generic implementation.

``wt.reference``, ``wt.compile`` and ``wt.symbolic`` read this table; none of them knows a function by name.

    registry               the table, and what an entry says of inputs, outputs, shapes and units
    tree_functions         functions of the tree: kinematics, inertia, dynamics, derivatives, energies
    accuracy_functions     condition numbers, diagonal and pivot ratios, sensitivity to forces
    constraint_functions   functions of the rows: residuals, forces, dagger terms, impacts, steps
    reaction_functions     what every joint and closure carries
    contact_functions      functions of the contact candidates: gaps, points, axes, rows
    actuator_functions     joint forces of actuators under their commands
    differentiate          derivatives of any entry along a direction, and pulled back
    lost_digits            direct calls watched for digits that rounding costs
    results                named tuples of functions with several results
    reference              ``wt.reference``: the table on plain NumPy
    stubs, reference_table   the table as type checkers see it, generated

The chapter imports ``contact``, ``accuracy``, ``constraints``, ``tree`` and what is below them.
"""

from whippletree.functions import (
    accuracy_functions,
    actuator_functions,
    constraint_functions,
    contact_functions,
    reaction_functions,
    tree_functions,
)
from whippletree.functions.registry import (
    CATALOGUE,
    SHAPES,
    Function,
    Shape,
    find,
    function,
    inputs_for,
    resolve,
    sizes,
)

__all__ = [
    "CATALOGUE",
    "SHAPES",
    "Function",
    "Shape",
    "accuracy_functions",
    "actuator_functions",
    "constraint_functions",
    "contact_functions",
    "find",
    "function",
    "inputs_for",
    "reaction_functions",
    "resolve",
    "sizes",
    "tree_functions",
]
