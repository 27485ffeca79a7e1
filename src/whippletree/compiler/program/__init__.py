"""Kernel programs: what a back end has to emit, and nothing about how.

program         statements and buffers; the table of buffer roles
shared_outputs  loops that write a number which an output holds in many places
folding         limbs that are alike compiled once, as a loop over them
folding_plan    which values of the limbs correspond, when each is computed, and with which sign
store_or_recompute   which values a later loop loads from an earlier one, and which it computes again: a minimum cut
moving_numbers  which numbers depend on which inputs, from the addresses of all rounds
linearise       the derivative of a program along directions, and its transpose
work_space      named buffers of a program under construction
traced_blocks   straight-line blocks from generic functions, and loops from those that iterate
check           every address proved to lie in its buffer before any code exists
interpret       the meaning of a program, in plain Python: the oracle of the back ends
"""

from whippletree.compiler.program.program import (
    SHARES,
    Address,
    Block,
    Buffer,
    Call,
    Collect,
    Dimension,
    Each,
    If,
    Index,
    Lookup,
    Loop,
    Others,
    PerLane,
    Program,
    Register,
    Statement,
    Switch,
    Until,
    bodies,
    buffers_of_single_lanes,
    calls_of,
    every_address,
    every_block,
    every_statement,
    map_addresses,
    map_blocks,
    map_statements,
    tables_of,
)
from whippletree.compiler.program.shared_outputs import straight_program

__all__ = [
    "SHARES",
    "Address",
    "Block",
    "Buffer",
    "Call",
    "Collect",
    "Dimension",
    "Each",
    "If",
    "Index",
    "Lookup",
    "Loop",
    "Others",
    "PerLane",
    "Program",
    "Register",
    "Statement",
    "Switch",
    "Until",
    "bodies",
    "buffers_of_single_lanes",
    "calls_of",
    "every_address",
    "every_block",
    "every_statement",
    "map_addresses",
    "map_blocks",
    "map_statements",
    "straight_program",
    "tables_of",
]
