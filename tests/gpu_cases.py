"""What the tests on a GPU share: whether there is one, robots, random inputs, and the comparison of bits."""

import os
from pathlib import Path

import numpy as np

import whippletree as wt
from whippletree.compiler import cuda

try:
    cuda.driver()
    MISSING = ""
except wt.DeviceError as error:
    MISSING = str(error)

ROBOTS = {
    "UR5": ("ur_description/urdf/ur5_robot.urdf", "fixed"),
    "Panda": ("panda_description/urdf/panda.urdf", "fixed"),
    "solo12": ("solo_description/robots/solo12.urdf", "free"),
    "G1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", "free"),
    "Talos": ("talos_data/robots/talos_reduced.urdf", "free"),
}


def robot(name):
    file, base = ROBOTS[name]
    folder = os.environ.get("WHIPPLETREE_ROBOTS")
    if not folder:
        from importlib.metadata import distribution

        folder = distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    return wt.load(Path(str(folder)) / file, base=base).tree


def random_inputs(model, shapes, batch, dtype, seed=0):
    """Random arrays for named inputs; coordinates have unit quaternions."""
    rng = np.random.default_rng(seed)
    found = []
    for name, shape in shapes.items():
        x = rng.uniform(-2, 2, (*batch, *shape))
        if name in ("q", "r"):
            for joint, part in zip(model.joints, model.q_slices, strict=True):
                if joint.kind in ("free", "spherical"):
                    quaternion = x[..., part.stop - 4 : part.stop]
                    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
        found.append(np.abs(x).astype(dtype) if name in ("restitution", "weights", "h") else x.astype(dtype))
    return found


def same_bits(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)
    )
