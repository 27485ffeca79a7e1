"""Six-dimensional vectors and the joints that they describe: angular part first, in the body's own axes.

    vectors   cross products, poses X_AB (the block weights φ of document 002), rigid inertias, rotations
    joints    the kinds of joints: pose, motion subspace, bias, integration and difference
    modal     bodies with modes: their inertia, and the transforms to their parent and their frames

The chapter imports ``arithmetic`` and ``errors``.
"""

from whippletree.spatial.vectors import (
    Hinge,
    Pose,
    RigidInertia,
    add_cross,
    add_cross_force,
    add_cross_motion,
    congruence,
    cross,
    cross_force,
    cross_motion,
    inertia_blocks,
    join,
    quaternion_product,
    quaternion_rotation,
    rotation_about,
    rotation_quaternion,
    skew,
    symmetric,
)

__all__ = [
    "Hinge",
    "Pose",
    "RigidInertia",
    "add_cross",
    "add_cross_force",
    "add_cross_motion",
    "congruence",
    "cross",
    "cross_force",
    "cross_motion",
    "inertia_blocks",
    "join",
    "quaternion_product",
    "quaternion_rotation",
    "rotation_about",
    "rotation_quaternion",
    "skew",
    "symmetric",
]
