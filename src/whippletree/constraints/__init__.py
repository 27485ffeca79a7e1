"""Constraints: the rows A a + γ = 0, and the block matrix of document 000 that solves for a motion under them.

From what a constraint demands to what it carries:

    kinds                    each kind of constraint as a residual with named rows
    rows                     residual, Jacobian A and bias γ of all rows at a state
    constraint_set           the rows of a model with their names (``wt.constraint_set``)
    kkt                      the block matrix [M Aᵀ; A 0], its dagger terms, every route to them
    redundancy               which rows repeat others, found at generic configurations
    light_loops              whether a loop is so light that the route through M⁻¹ would lose digits
    loop_closure             the iteration that closes loops
    assembly                 ``wt.assemble``, the home state, and loops of rounded drawings repaired
    exploration              generic configurations, and the branches that leave a singular one
    tangent_cone             accelerations at rest on a dead point: the branch of least constraint
    dead_points, motions     branches of the motion where A loses rank; motions that the rows allow, massless ones
    massless_rows            rows that hold a motion without inertia, or let dampers and springs decide it
    massless                 the search for such motions, and their treatment in a model
    routes                   the one factor of a block matrix, and the tolerances of its pivots
    ties, loop_clusters      which rows belong together; loops as nodes of a tree of clusters
    cluster_structure        redundancy found cluster by cluster, equal clusters once
    separate_mechanisms      mechanisms of a scene that nothing ties together
    clustered_mechanism      a mechanism as a tree of clusters: their links and rows
    cluster_members          recursions over the members of one cluster
    embedding                the articulated recursion over clusters, with dagger terms in place of D⁻¹
    cluster_routes           the route that each kind of cluster takes
    singular_clusters        the rank-revealing route for single clusters, where their rows depend on each other
    few_motions              clusters whose rows leave few motions, or none
    cluster_operators        the spatial operators of a tree of clusters (``wt.spatial_operators``)
    body_system              accelerations of bodies, forces of joints and closures: a system as sparse as its graph
    front_elimination        that system factored front by front: ladders, trusses, grids
    long_structure           loops closed and redundant rows found by it, for long mechanisms
    minimal_coordinates      ``wt.embed``
    dynamics                 accelerations and forces under constraints, the route chosen
    node_rows, recursive_dynamics   the same for long trees, by recursion
    constrained_derivatives  of rows, accelerations and constraint forces
    reactions                forces and moments in every joint and closure
    midpoint_step            a step that keeps loops closed
    projectors               the projectors of document 001
    prescribed_joints        hybrid dynamics and operational-space inertia
    prescribed_clusters      hybrid dynamics over a tree of clusters
    forces_of_motion         forces of motors and rows that cause a motion
    failures, diagnosis      why a system is singular, in words; ``wt.diagnose``

The chapter imports ``tree`` and what is below it.
"""
