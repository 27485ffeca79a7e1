"""Adaptive integration on the constraint manifold.

collocation       Gauss collocation: nodes, weights, the fixed-point iteration
newton            stiff steps: Newton's method on the collocation
integrator        steps with error control, dense output, events of users
compiled_step     steps by machine code
adaptive_method   the method of ``wt.simulate``
"""
