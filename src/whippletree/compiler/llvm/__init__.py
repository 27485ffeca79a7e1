"""From a program to LLVM IR and machine code, for any target.

ir              writing LLVM IR as text
target_memory   how a target reads and writes the buffers of a program
emit            statements: blocks, loops, switches
control_flow    the frames of loops, and of bodies that only some lanes run
lists           lists that a program makes as it runs
rounds_on_rows  rounds of a loop as lanes, each of which works on rows of its own
straight_line   the arithmetic of one block
packs           operations on neighbours in memory as one operation on a vector
copied_results  blocks that only copy, as a list
spill_plan      where values are stored when there are too few registers
sine, atan2, exponential   elementary functions in our own arithmetic, with the same bits everywhere
kernel            a program compiled on first use, or found in the cache; small functions that all kernels share
compile_progress  the line on the terminal that says what is being compiled
jit               LLVM's just-in-time compiler
"""
