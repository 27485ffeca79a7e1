"""Constraints: the rows A a + γ = 0, and the block matrix of document 000 that solves for a motion under them.

From what a constraint demands to what it carries:

    kinds                    each kind of constraint as a residual with named rows
    moving_residuals         how a residual changes as its frames or joints move: slopes, velocities, accelerations
    rows                     residual, Jacobian A and bias γ of all rows at a state
    constraint_set           the rows of a model with their names (``wt.constraint_set``)
    kkt                      the block matrix [M Aᵀ; A 0], its dagger terms, every route to them
    redundancy               which rows repeat others, found at generic configurations
    light_loops              which loops are so light that the route through M⁻¹ would lose digits
    loop_closure             the iteration that closes loops
    assembly                 ``wt.assemble``, the home state, and loops of rounded drawings repaired
    singular                 configurations at which rows depend on each other, and the motions that leave them
    massless_rows            rows that hold a motion without inertia, or let dampers and springs decide it
    massless                 the search for motions without inertia, and their treatment in a model
    routes                   the one factor of a block matrix, and the tolerances of its pivots
    ties                     which joints the constraints tie together
    clusters                 constraint embedding: the bodies of a loop as one node of a tree
    long_systems             long trees by recursion; ladders, trusses and grids by elimination at body level
    route_choice             which route a model calls for, and why; routes that do not fit are refused
    dynamics                 accelerations and forces under constraints, by the chosen route
    constrained_derivatives  of rows, accelerations and constraint forces
    reactions                forces and moments in every joint and closure
    midpoint_step            a step that keeps loops closed
    projectors               the projectors of document 001
    prescribed_joints        hybrid dynamics and operational-space inertia
    forces_of_motion         forces of motors and rows that cause a motion
    failures, diagnosis      why a system is singular, in words; ``wt.diagnose``

The chapter imports ``tree`` and what is below it.
"""
