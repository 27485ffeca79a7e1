"""Where modes come from: ``wt.flexible`` makes the flexible bodies that ``Builder.flexible_body`` takes.

    beams                 uniform beams by Euler and Bernoulli or Timoshenko; as chains of rigid links, to compare with
    nodal_modes           modes at points with masses, as a test or another program gives them: their integrals, damping
    finite_elements       frames of beams as sparse matrices, and what a body of finite elements is
    reduction             Craig and Bampton: from sparse matrices and interface frames to a few modes
    element_files         CalculiX's matrices, Matrix Market, node tables; archives of one flexible body
    standard_input_data   bodies of other programs (SID)

The chapter imports ``model``, ``spatial``, ``files`` and ``arithmetic``: it makes data and knows no algorithm.
"""

from whippletree.flexible.beams import beam, bending_modes, lumped_chain, rod_modes
from whippletree.flexible.element_files import load_body, read_calculix, read_matrix_market, save_body
from whippletree.flexible.finite_elements import NodalModel, Section, frame_of_beams
from whippletree.flexible.nodal_modes import from_modes
from whippletree.flexible.reduction import craig_bampton
from whippletree.flexible.standard_input_data import read_sid
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
    "from_modes",
    "load_body",
    "lumped_chain",
    "read_calculix",
    "read_matrix_market",
    "read_sid",
    "rod_modes",
    "save_body",
]
