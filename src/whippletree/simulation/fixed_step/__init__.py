"""Steps of one length: explicit Runge-Kutta, semi-implicit Euler, implicit midpoint.

fixed_step_method   the method of ``wt.simulate``, on compiled roll-outs
in_python           the same steps where nothing is compiled
free_bodies         steps of first order that carry free bodies along straight lines
"""
