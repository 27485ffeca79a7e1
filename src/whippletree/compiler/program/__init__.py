"""Kernel programs: what a back end is asked to emit, and nothing about how.

program         statements and buffers; the table of buffer roles
shared_outputs  programs of one block, with loops for numbers that an output holds in many places
folding         limbs that are alike written once, as loops over the parts of a symmetry
folding_plan    which values make rows, when each is computed, and with which sign (equations over two elements)
store_or_recompute   what a later loop loads of an earlier one and what it computes again: a minimum cut
moving_numbers  which numbers depend on which inputs, from the addresses of all rounds
linearise       the derivative of a program along directions, and its transpose
work_space      named buffers of a program that is being written
traced_blocks   straight-line blocks from generic functions, and loops from those that iterate
check           every address proved to lie in its buffer before any code exists
interpret       the meaning of a program, in plain Python: the oracle of the back ends
"""

from whippletree.compiler.program.program import (
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
