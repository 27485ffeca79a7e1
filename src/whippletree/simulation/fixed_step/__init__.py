"""Steps of one length: explicit Runge-Kutta, semi-implicit Euler, implicit midpoint.

fixed_step_method   the method of ``wt.simulate``, on compiled roll-outs, and in Python where nothing is compiled
free_bodies         steps of first order that carry free bodies along straight lines
"""
