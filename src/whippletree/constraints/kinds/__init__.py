"""The kinds of constraints, each a residual with named rows.

demand        what a constraint asks for, as data: checked, and with rows left out by name
joint_kinds   on joint coordinates: couplings, gears, prescribed motions, held and relaxed massless motions
frame_kinds   between frames: points, hinges, welds, distances, curves, rolling; and the table of all kinds
"""

from whippletree.constraints.kinds.frame_kinds import KINDS

__all__ = ["KINDS"]
