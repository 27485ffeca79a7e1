"""Where modes come from: ``wt.flexible`` makes the flexible bodies that ``Builder.flexible_body`` takes.

    beams       uniform beams by Euler and Bernoulli or Timoshenko, any ends; bending, stretching, twisting
    integrals   from sampled modes to the integrals over a body's mass

The chapter imports ``model``, ``spatial`` and ``arithmetic``: it makes data and knows no algorithm.
"""

from whippletree.flexible.beams import beam, bending_modes, rod_modes
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame

__all__ = ["FlexibleBody", "FlexibleFrame", "beam", "bending_modes", "rod_modes"]
