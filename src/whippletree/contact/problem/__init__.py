"""The contact problem: impulses in their cones, velocities that complement them.

cones                  friction cones and their projections
lorentz                algebra of the cones of interior-point methods, on any scalar
contact_problem        the problem as data, and its solution by sweeps on any scalar
delassus               the matrix that takes impulses to velocities, dense or sparse
independent_parts      islands solved each by itself
cone_newton            Newton's method on the complementarity conditions
interior_point         an interior-point method for the stubborn ones
solver                 sweeps, then Newton, then the interior point
active_set             exact solutions: which contacts stick, slide or open
sliding_combinations   the search over those choices
"""
