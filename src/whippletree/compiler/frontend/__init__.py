"""Functions of the table as kernel programs.

code_forms    which of these forms a function takes for a model
unrolled      one straight-line block: for robots of ordinary size
loops         loops over bodies, whose code does not grow with the system
limbs         parts of a tree that are alike, and how functions change when two of them are exchanged
placed_mechanisms   scenes of separate mechanisms: every kind compiled once
tendon_loops  actuators of many tendons: loops over spots, obstacles, pieces and muscles
node_wrenches   wrenches on the nodes of a tree as joint forces, in loops
flatten       values taken apart into numbers and put together again
controller    a user's controller traced into a program
asked_functions   functions of a model that such a controller asks, as parts of it
fingerprint   a hash of a model's content, its key in the cache
"""
