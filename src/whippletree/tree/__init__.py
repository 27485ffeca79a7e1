"""Dynamics of trees: every recursion of document 002, written once on scatter and gather, for any scalar.

skeleton     the moving parts of a model: welds lumped, axes along z
links        what the dynamics needs to know of each body at one state
kinematics   poses, Jacobians and twists of frames
inverse      joint forces of a motion: Newton–Euler, and by composite inertias
inertia      mass matrix, M⁻¹ b, M⁻¹, operational-space inertia
forward      accelerations under forces: the articulated recursion
hybrid       some joints given forces, others accelerations
momentum     energies, momentum, centre of mass, regressor
moments      mass, its first and second moments, and how fast they change
parts        the same mechanics with simpler joints and less inertia beyond each
tangents     what small displacements of q and v do to forces and frames
derivatives  of inverse and forward dynamics
steps        one time step of an integrator
"""
