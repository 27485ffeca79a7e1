"""Motion in time: the adaptive integrator on the constraint manifold, and ``wt.simulate`` on top of it."""
