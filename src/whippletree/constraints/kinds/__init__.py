"""The kinds of constraints, each a residual with named rows.

demand            what a constraint asks for, as data: checked, and with rows left out by name
constraint_kinds  the table of all kinds: on joint coordinates (couplings, gears, prescribed motions, held and relaxed
                  massless motions) and between frames (points, hinges, welds, distances, curves, rolling)
"""

from whippletree.constraints.kinds.constraint_kinds import KINDS

__all__ = ["KINDS"]
