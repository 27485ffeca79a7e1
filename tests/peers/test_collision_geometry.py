"""Shapes from files where the peers have them: distances of robots' shapes against Pinocchio's and MuJoCo's."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

import whippletree as wt
from whippletree.contact.kinematics.large_scenes import snapshot

ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))
FILES = [
    "a1_description/urdf/a1.urdf",  # boxes, cylinders, spheres
    "panda_description/urdf/panda_collision.urdf",  # cylinders and spheres
    "z1_description/urdf/z1.urdf",  # cylinders and meshes
    "g1_description/urdf/g1_29dof_rev_1_0.urdf",  # meshes, cylinders, spheres
    "ur_description/urdf/ur5_robot.urdf",  # meshes
]


def pairs_of(model: wt.Model, q: np.ndarray, count: int) -> dict[tuple[str, str], float]:
    """The smallest gap of some pairs of shapes, by their names."""
    chosen = np.random.default_rng(3).permutation(len(model.contacts))[:count]
    contacts = [model.contacts[k] for k in chosen]
    own = replace(model, contacts=tuple(contacts))
    names = np.array([c.contact for c in wt.contact_set(own).candidates])
    gaps = snapshot(own, q).points.gap
    return {(c.first, c.second): float(gaps[names == c.name].min()) for c in contacts}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*convex hull of a mesh")
@pytest.mark.parametrize("file", FILES)
def test_shapes_of_urdf_are_where_pinocchio_has_them(file):
    path = ROBOTS / file
    model = wt.with_contacts(wt.load(path))
    rng = np.random.default_rng(0)
    q = wt.reference(model).integrate(model.neutral.q, rng.uniform(-0.6, 0.6, size=model.nv))
    ours = pairs_of(model, q, 12)
    theirs = pin.buildModelFromUrdf(str(path))
    shapes = pin.buildGeomFromUrdf(
        theirs, str(path), pin.GeometryType.COLLISION, package_dirs=[str(ROBOTS.parent.parent)]
    )
    place = np.concatenate([q[model.slice(name)] for name in theirs.names[1:]])
    for shape in shapes.geometryObjects:
        if hasattr(shape.geometry, "buildConvexHull"):
            shape.geometry.buildConvexHull(True, "Qt")
            shape.geometry = shape.geometry.convex
    compared = 0
    for (first, second), gap in ours.items():
        one, other = (shapes.getGeometryId(name.replace("/collision/", "_")) for name in (first, second))
        shapes.removeAllCollisionPairs()
        shapes.addCollisionPair(pin.CollisionPair(one, other))
        data = pin.GeometryData(shapes)
        pin.computeDistances(theirs, theirs.createData(), shapes, data, place)
        distance = data.distanceResults[0].min_distance
        if distance > 0:
            compared += 1
            # nearly parallel faces far apart: the crossing of two edges is off by 2e-4 of the gap
            assert gap == pytest.approx(distance, abs=2e-5, rel=2e-4), (first, second)
    assert compared > 3


MJCF = """<mujoco>
  <default><geom type="capsule" size="0.05"/><default class="fat"><geom size="0.12" rgba="1 0 0 1"/></default></default>
  <asset><mesh name="wedge" scale="0.5 1 2" vertex="0 0 0  0.4 0 0  0 0.4 0  0 0 0.2  0.3 0.3 0.1"/></asset>
  <worldbody>
    <geom name="floor" type="plane" size="1 1 1" pos="0 0 -2"/>
    <body name="a" pos="0 0 0.6"><freejoint/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      <geom name="thin" fromto="-0.3 0 0  0.3 0.1 0.2"/><geom name="fat" class="fat" fromto="0 0 0  0 0.2 0.3"/>
      <geom name="can" type="cylinder" fromto="0 0 0  0.1 -0.3 0" size="0.07"/></body>
    <body name="b" pos="0.5 0 0"><freejoint/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      <geom name="brick" type="box" size="0.1 0.2 0.3" euler="10 20 30"/>
      <geom name="egg" type="ellipsoid" size="0.1 0.15 0.2" pos="0.3 0 0"/>
      <geom name="stone" type="mesh" mesh="wedge" pos="-0.4 0 0.2"/></body>
    <body name="c" pos="-0.7 0.3 0"><freejoint/><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/>
      <geom name="ghost" type="sphere" size="0.2" contype="2" conaffinity="4"/>
      <geom name="seer" type="sphere" size="0.1" contype="4" conaffinity="2" pos="0 0.4 0"/></body>
  </worldbody>
  <contact><exclude body1="a" body2="c"/></contact>
</mujoco>"""


def test_geoms_of_mjcf_are_where_mujoco_has_them(tmp_path):
    """Defaults, fromto, inline meshes with a scale; and the pairs that MuJoCo's filters leave."""
    (tmp_path / "m.xml").write_text(MJCF)
    model = wt.with_contacts(wt.load(tmp_path / "m.xml"))
    theirs = mujoco.MjModel.from_xml_string(MJCF)
    data = mujoco.MjData(theirs)
    allowed = set()
    for i in range(theirs.ngeom):
        for j in range(i + 1, theirs.ngeom):
            one, other = theirs.geom(i), theirs.geom(j)
            bits = (one.contype[0] & other.conaffinity[0]) | (other.contype[0] & one.conaffinity[0])
            bodies = {int(one.bodyid[0]), int(other.bodyid[0])}
            if bits and len(bodies) == 2 and bodies != {theirs.body("a").id, theirs.body("c").id}:
                allowed.add(frozenset((one.name, other.name)))
    assert {frozenset((c.first, c.second)) for c in model.contacts} == allowed
    rng, names = np.random.default_rng(1), np.array([c.contact for c in wt.contact_set(model).candidates])
    compared = 0
    for _ in range(3):
        q = wt.reference(model).integrate(model.home.q, 0.4 * rng.normal(size=model.nv))
        data.qpos[:] = q
        mujoco.mj_forward(theirs, data)
        gaps = snapshot(model, q).points.gap
        for c in model.contacts:
            pair = theirs.geom(c.first).id, theirs.geom(c.second).id
            distance = mujoco.mj_geomDistance(theirs, data, *pair, 5.0, None)
            if distance > 0 and "floor" not in (c.first, c.second):
                compared += 1
                assert gaps[names == c.name].min() == pytest.approx(distance, abs=2e-5), c.name
    assert compared > 15
