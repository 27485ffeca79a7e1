"""The one table of functions: everything that a user can evaluate, each with a single generic implementation.

``wt.reference``, ``wt.compile`` and ``wt.symbolic`` read this table; none of them knows a function by name.

    registry               the table; inputs, outputs, shapes and units of an entry; types of results
    tree_functions         functions of the tree: kinematics, inertia, dynamics, derivatives, energies, actuators, and
                           how well the mass matrix is conditioned
    constraint_functions   functions of the rows: residuals, forces, dagger terms, impacts, steps; reactions of joints
    contact_functions      functions of the contact candidates: gaps, points, axes, rows
    differentiate          derivatives of any entry along a direction, and pulled back
    lost_digits            the check of direct calls for digits lost to rounding
    reference              ``wt.reference``: the table on plain NumPy
    stubs, reference_table   the table as type checkers see it, generated

The chapter imports ``contact``, ``accuracy``, ``constraints``, ``tree`` and what is below them.
"""

from whippletree.functions import constraint_functions, contact_functions, tree_functions
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
    "constraint_functions",
    "contact_functions",
    "find",
    "function",
    "inputs_for",
    "resolve",
    "sizes",
    "tree_functions",
]
