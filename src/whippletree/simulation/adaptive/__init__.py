"""Adaptive integration on the constraint manifold.

collocation       Gauss collocation: nodes, weights, the fixed-point iteration
integrator        steps with error control, dense output, events of users
adaptive_method   the method of ``wt.simulate``
"""
