"""Kernel programs: what a back end is asked to emit, and nothing about how.

program         statements and buffers; the table of buffer roles
traced_blocks   straight-line blocks from generic functions
check           every address proved to lie in its buffer before any code exists
interpret       the meaning of a program, in plain Python: the oracle of the back ends
"""

from whippletree.compiler.program.program import (
    Address,
    Block,
    Buffer,
    Dimension,
    Index,
    Lookup,
    Loop,
    Program,
    Register,
    Statement,
    Switch,
    every_address,
    every_block,
    straight_program,
    tables_of,
)

__all__ = [
    "Address",
    "Block",
    "Buffer",
    "Dimension",
    "Index",
    "Lookup",
    "Loop",
    "Program",
    "Register",
    "Statement",
    "Switch",
    "every_address",
    "every_block",
    "straight_program",
    "tables_of",
]
