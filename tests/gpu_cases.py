"""What the tests on a GPU share: whether there is one, robots, random inputs, and the comparison of bits."""

import os
import warnings
from pathlib import Path

import numpy as np

import whippletree as wt
from whippletree import functions
from whippletree.compiler.cuda import driver
from whippletree.tree.skeleton import skeleton

try:
    driver.driver()
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

POSITIVE = ("restitution", "weights", "costs", "contact_costs", "touching", "h")
"""Inputs that are positive numbers."""


def robot(name):
    file, base = ROBOTS[name]
    folder = os.environ.get("WHIPPLETREE_ROBOTS")
    if not folder:
        from importlib.metadata import distribution

        folder = distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    return wt.load(Path(str(folder)) / file, base=base, actuators=False).tree


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
        if name == "metric":
            x = x @ np.swapaxes(x, -1, -2) + 0.1 * np.eye(x.shape[-1])
        found.append(np.abs(x).astype(dtype) if name in POSITIVE else x.astype(dtype))
    return found


def same_bits(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)
    )


def cases(model):
    """(name, names of frames or joints, shapes of the inputs) of everything in the catalogue that serves the model."""
    tree = skeleton(model)
    frame = max(tree.bodies, key=lambda name: len(tree.path(tree.bodies[name].node)))  # the one that most joints move
    joints = (model.joints[-1].name,)
    known = functions.sizes(model)
    for name, entry in functions.CATALOGUE.items():
        try:
            function = functions.find(name, model)
        except wt.UnsupportedError:
            continue
        names = [joints if kind == "joints" else frame for kind in entry.names]
        shapes = {n: functions.resolve(s, known) for n, s in function.inputs.items()}
        yield name, names, shapes


def evaluate(dyn, name, names, inputs):
    found = getattr(dyn, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random states are not assembled: some of them have no answer
        results = (found(*names) if names else found)(*inputs)
    return results if isinstance(results, tuple) else (results,)


def differences(name, dtype, function):
    """What the GPU's results of one function of a robot differ in from the CPU's, in words; nothing if in nothing."""
    model = robot(name)
    _, names, shapes = next(case for case in cases(model) if case[0] == function)
    inputs = random_inputs(model, shapes, (257,), dtype)
    targets = [wt.compile(model, target=target, dtype=dtype) for target in ("cuda", "cpu")]
    try:
        with np.errstate(all="ignore"):
            for a, b in zip(*[evaluate(dyn, function, names, inputs) for dyn in targets], strict=True):
                same_bits(a, b)
    except (AssertionError, wt.WhippletreeError) as error:
        return str(error)
    return ""
