"""Whole roll-outs as one program: many time steps of many states without returning to Python.

rollout           ``dyn.rollout``: trees and constrained systems, with controllers
rollout_steps     one step of each integrator
rollout_blocks    the blocks that roll-outs share
long_rollouts     roll-outs of large models, as loops over bodies, clusters or fronts
activation_steps  activations of actuators, step by step
collocation       steps of the adaptive method, many in one call
contact_rollout   ``dyn.contact_rollout``: steps with contacts, every candidate written out
contact_sweeps    its sweeps over contacts, coloured so that neighbours do not disturb each other
contact_lists     steps of a mechanism over lists of what touches, solved to a tolerance
scenes            steps of a scene of many free bodies, of any number and with lists as inputs
single_step       ``dyn.step``: one step under commands, and its derivatives
step_space        what the parts of a step share: model, blocks, motors, buffers
step_bounces      restitution in both kinds of steps, as much of it as adds no energy
contact_kinds     gaps and rows as loops over pairs of one kind
motion_space      motions that a tree can have: six numbers, or three in a plane
planar_contacts   contacts that stay in the plane of all motions
dense_solve       linear systems of the size of the velocities
"""
