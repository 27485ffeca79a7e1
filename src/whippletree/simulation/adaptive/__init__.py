"""Adaptive integration on the constraint manifold.

collocation       Gauss collocation: nodes, weights, the fixed-point iteration
newton            stiff steps: Newton's method on the collocation
integrator        steps with error control, dense output, events of users
strides           steps that were tried and accepted, and calls that take many of them
compiled_steps    steps by machine code, many in one call
called_steps      those of larger models, by one program for all that calls their functions
adaptive_method   the method of ``wt.simulate``
"""
