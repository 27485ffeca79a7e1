"""Whole roll-outs as one program: many time steps of many states without returning to Python.

rollout           ``dyn.rollout``: trees and constrained systems, with controllers
rollout_steps     one step of each integrator
rollout_blocks    the blocks that roll-outs share
long_trees        roll-outs of long trees, as loops over bodies
contact_rollout   ``dyn.contact_rollout``: steps with contacts
single_step       ``dyn.step``: one step under commands
contact_sweeps    sweeps over contacts, coloured so that neighbours do not disturb each other
"""
