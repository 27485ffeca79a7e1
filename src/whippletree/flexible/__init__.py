"""Where modes come from: ``wt.flexible`` makes the flexible bodies that ``Builder.flexible_body`` takes.

    beams             uniform beams by Euler and Bernoulli or Timoshenko, any ends; bending, stretching, twisting
    integrals         from sampled modes to the integrals over a body's mass
    finite_elements   frames of beams as sparse matrices, and what a body of finite elements is
    reduction         Craig and Bampton: from sparse matrices and interface frames to a few modes

The chapter imports ``model``, ``spatial`` and ``arithmetic``: it makes data and knows no algorithm.
"""

from whippletree.flexible.beams import beam, bending_modes, rod_modes
from whippletree.flexible.finite_elements import NodalModel, Section, frame_of_beams
from whippletree.flexible.reduction import craig_bampton
from whippletree.model.flexible_body import FlexibleBody, FlexibleFrame

__all__ = [
    "FlexibleBody",
    "FlexibleFrame",
    "NodalModel",
    "Section",
    "beam",
    "bending_modes",
    "craig_bampton",
    "frame_of_beams",
    "rod_modes",
]
