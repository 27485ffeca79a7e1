"""Adaptive integration on the constraint manifold.

collocation       Gauss collocation: nodes, weights, the fixed-point iteration
newton            stiff steps: Newton's method on the collocation
motion_pieces     what an integration yields, step by step, and what it costs
user_events       events that a user asks for
integrator        steps with error control and dense output
rounding_in_steps what rounding leaves of steps
held_tolerance    the tolerance of the next step: as asked, or as rounding leaves it
strides           steps that were tried and accepted, and calls that take many of them
compiled_steps    steps by machine code, many in one call
called_steps      those of larger models, by one program for all that calls their functions
adaptive_method   the method of ``wt.simulate``
"""
