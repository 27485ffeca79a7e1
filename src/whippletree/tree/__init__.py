"""Dynamics of trees: every recursion of document 002, written once on scatter and gather, for any scalar.

The theory first, then the recursions in the order in which they build on each other:

    operators        spatial operators as matrices: one equation of 002 per line
    sweeps           scatter and gather: the only place that indexes bodies
    skeleton         the moving parts of a model: welds lumped, axes along z
    links            the data of each body that the dynamics needs, at one state
    mechanism        a model ready for the recursions
    kinematics       poses, Jacobians and twists of frames
    inverse          joint forces of a motion: Newton–Euler, and by composite inertias
    inertia          mass matrix and its diagonal, M⁻¹ b, M⁻¹, operational-space inertia
    forward          accelerations under forces: the articulated recursion; with some joints prescribed (hybrid)
    element_forces   joint forces, and wrenches on bodies, of tendons, fluids and held-up weight
    wrapping         tendons around spheres and cylinders: where the shortest path touches them
    actuation        actuators and muscles: activations that follow commands, and joint forces
    momentum         energies, momentum, centre of mass, regressor
    moments          mass, its first and second moments, and how fast they change
    reduced_inertia  the mechanics of a tree whose joints and bodies are simplified where that changes nothing
    tangents         how forces and frames answer to small displacements of q and v
    derivatives      of inverse and forward dynamics, of trees with flexible bodies too
    steps            one time step of an explicit integrator

The chapter imports ``model``, ``spatial``, ``graph`` and ``arithmetic``.
"""
