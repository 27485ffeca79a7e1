"""Beams as chains of rigid links with springs between them: what the library can do without modes, to compare with."""

from __future__ import annotations

from whippletree.errors import ModelError
from whippletree.model.builder import Builder


def lumped_chain(
    builder: Builder,
    name: str,
    parent: str,
    *,
    length: float,
    bending_stiffness: float,
    mass_per_length: float,
    links: int = 10,
    damping: float = 0.0,
    clamped: bool = True,
    polar_inertia: float = 0.0,
) -> Builder:
    """Hang a beam along x on a body, bending about z, as ``links`` rigid rods with hinges and springs between them.

    Rods are l = L / links long with half a rod at both ends, so that hinges sit in the middle of the pieces that they
    bend: k = EI / l. The rods are ``NAME 0`` … ``NAME links``, the hinges ``NAME hinge 1`` …, and the frame ``NAME
    tip`` is at the end. Frequencies converge with the square of l.

    Args:
        builder: which the parts are added to.
        name, parent: of the beam, and of the body that its root is fixed to.
        length, bending_stiffness, mass_per_length: L, EI, ρA; m, N m², kg/m.
        links: how many hinges.
        damping: of every hinge, N m s/rad.
        clamped: whether the first half rod is welded to the parent; else it hangs on a hinge ``NAME root``.
        polar_inertia: ρIₚ, kg m, for motions about x.
    """
    if links < 1:
        raise ModelError("lumped_chain", [f"links is {links}, expected 1 or more"])
    piece = length / links
    before = parent
    for k in range(links + 1):
        size = piece / 2 if k in (0, links) else piece
        mass, own = mass_per_length * size, f"{name} {k}"
        about = mass * size**2 / 12
        builder.body(own, mass, center=(size / 2, 0, 0), inertia=(polar_inertia * size, about, about))
        if k == 0:
            kind = "weld" if clamped else "revolute"
            builder.joint(f"{name} root", kind, parent, own, axis=(0, 0, 1))
        else:
            at = piece / 2 if k == 1 else piece
            builder.joint(
                f"{name} hinge {k}", "revolute", before, own, position=(at, 0, 0), axis=(0, 0, 1),
                stiffness=bending_stiffness / piece, damping=damping,
            )  # fmt: skip
        before = own
    return builder.frame(f"{name} tip", before, position=(piece / 2, 0, 0))
