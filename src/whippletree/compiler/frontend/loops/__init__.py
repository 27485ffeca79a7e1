"""Loops over bodies: the generic algorithms as kernel programs whose size does not grow with the system.

The path from an algorithm to a program:

    body_types           bodies sorted into types that share code, and the table of constants
    edge_pattern         which numbers really cross the edges of the tree
    recorder             :class:`Looped`, the sweeper that traces every step once per type
    looped_program       the program, and the slots where its numbers live
    looped_functions     functions of the table, with blocks computed once between the loops
    looped_clusters      functions that honour constraints, as loops over clusters
    looped_derivatives   derivatives and matrices of looped functions, column by column
    composed_functions   functions that combine several looped functions
    matrix_loops         rows, products and inverses of dense matrices inside a program
    condition_loops      eigenvalues of such matrices, as far as condition numbers need them
    hand_traced          blocks that load their numbers from addresses computed by hand
    element_numbers      the numbers of bodies and closures that an elimination needs, each stored once
    front_loops          the fronts of an elimination, in loops
    front_kinds          which fronts are alike, so that one piece of straight-line code serves them
    straight_fronts      that straight-line code
    demand_rows          rows of constraints, from the loaded numbers of bodies and joints
    elimination_program  functions of ladders and grids, as loops over bodies, closures and fronts
"""

from whippletree.compiler.frontend.loops.looped_clusters import cluster_loop_program
from whippletree.compiler.frontend.loops.looped_functions import loop_program, work_size
from whippletree.compiler.frontend.loops.looped_program import assemble
from whippletree.compiler.frontend.loops.recorder import Looped

__all__ = ["Looped", "assemble", "cluster_loop_program", "loop_program", "work_size"]
