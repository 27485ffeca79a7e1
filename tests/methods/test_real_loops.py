"""Robots whose loops are in their files: every description of Cassie, and grippers like the Robotiq 2F-85."""

from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt

ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))
CASSIE = ROBOTS / "cassie_description/robots"


@pytest.mark.parametrize(
    ("file", "closures", "redundant", "freedoms"),
    [
        ("cassie_v2.sdf", 4, 2, 12),
        ("cassie.sdf", 16, 8, 10),
        ("cassie_reduced.sdf", 4, 0, 11),
        ("cassie_simple.sdf", 4, 0, 11),
        ("cassie_wo_gearbox_spring.sdf", 4, 2, 13),
    ],
)
def test_cassie_assembles_and_is_diagnosed(file, closures, redundant, freedoms):
    model = wt.load(CASSIE / file)
    assert len(model.constraints) == closures
    ref, home = wt.reference(model), model.home
    assert np.abs(ref.constraint_residual(home.q)).max() < 1e-10
    found = wt.diagnose(model)
    assert found.fine
    assert len(found.redundant) == redundant
    assert found.freedoms == found.mobility == freedoms
    # rounding in the largest file makes rows all but redundant; clearer ones take their place
    assert not found.faint
    rng = np.random.default_rng(0)
    v, tau = ref.project_velocity(home.q, 0.1 * rng.normal(size=model.nv)), rng.normal(size=model.nv)
    a, f = ref.forward_dynamics(home.q, v, tau), ref.constraint_forces(home.q, v, tau)
    left = ref.mass_matrix(home.q) @ a + ref.bias(home.q, v) - tau - ref.constraint_jacobian(home.q).T @ f
    assert np.abs(left).max() < 1e-7


def test_every_file_is_tried():
    assert len(list(CASSIE.glob("*.sdf"))) == 5


@pytest.mark.slow
def test_cassie_falls():
    """The other files do too; compiling them takes longer than a test may. At home some joints are out of range."""
    run = wt.simulate(wt.load(CASSIE / "cassie_reduced.sdf", limits=False), duration=0.05, output_dt=0.01)
    assert run.attrs["failure"] == ""
    assert np.abs(run.constraint_residual.values).max() < 1e-12
    assert np.abs(run.constraint_velocity.values).max() < 1e-10
    assert run.attrs["energy_drift"] < 1e-9


@pytest.mark.slow
def test_limits_that_a_start_in_loops_does_not_keep_are_told():
    model = wt.load(CASSIE / "cassie_reduced.sdf")
    with pytest.warns(wt.LeftOutWarning, match=r"the run leaves the range of .*'left-tarsus-crank-joint' by 0.6"):
        run = wt.simulate(model, duration=0.02, output_dt=0.01)
    assert (run.attrs["method"], run.attrs["failure"]) == ("adaptive", "")


GRIPPER = """<mujoco model="gripper"><compiler angle="radian"/><worldbody><body name="base">
  <inertial pos="0 0 0" mass="0.7" diaginertia="1e-3 1e-3 1e-3"/>{fingers}</body></worldbody>
  <equality>{ties}<joint joint1="right_driver" joint2="left_driver"/></equality></mujoco>"""

FINGER = """<body name="{s}_driver" pos="0 {y} 0.06">
    <inertial pos="0 0 0" mass="0.009" diaginertia="2e-6 2e-6 1e-6"/>
    <joint name="{s}_driver" axis="{axis} 0 0" damping="0.1"/>
    <body name="{s}_coupler" pos="0 {out} 0">
      <inertial pos="0 0 0" mass="0.014" diaginertia="4e-6 3e-6 2e-6"/>
      <joint name="{s}_coupler" axis="{axis} 0 0"/></body></body>
  <body name="{s}_spring_link" pos="0 {near} 0.068">
    <inertial pos="0 0 0.02" mass="0.022" diaginertia="9e-6 8e-6 2e-6"/>
    <joint name="{s}_spring_link" axis="{axis} 0 0" stiffness="0.05" damping="0.001"/>
    <body name="{s}_follower" pos="0 {follow} 0.043">
      <inertial pos="0 0 0.02" mass="0.035" diaginertia="2e-5 1e-5 1e-5"/>
      <joint name="{s}_follower" axis="{axis} 0 0"/></body></body>"""


def gripper(folder):
    """Our own gripper with the structure of the 2F-85: two connects and a joint equality."""
    sides = {"right": 1, "left": -1}
    fingers = "".join(
        FINGER.format(s=s, axis=k, y=k * 0.0306, out=k * 0.0315, near=k * 0.0132, follow=k * 0.04)
        for s, k in sides.items()
    )
    ties = "".join(
        f'<connect body1="{s}_follower" body2="{s}_coupler" anchor="0 {k * 0.0089} -0.051"/>' for s, k in sides.items()
    )
    path = folder / "gripper.xml"
    path.write_text(GRIPPER.format(fingers=fingers, ties=ties))
    return wt.load(path)


def close(model, drivers):
    """Close a gripper under 0.05 N m on one driver; the coupling moves the other."""
    assert [c.kind for c in model.constraints] == ["point", "point", "coupling"]
    found = wt.diagnose(model)
    assert found.freedoms == 3
    assert len(found.redundant) == 2  # a planar finger closed by a spatial point
    torque = np.zeros(model.nv)
    torque[model.slice(drivers[0])] = 0.05
    run = wt.simulate(model, duration=0.1, output_dt=0.005, controller=lambda t, q, v: torque)
    assert run.attrs["failure"] == ""
    assert np.abs(run.constraint_residual.values).max() < 1e-12
    assert np.abs(run.constraint_velocity.values).max() < 1e-9
    left, right = (run.q.values[:, model.q_slice(name)] for name in drivers)
    np.testing.assert_allclose(left, right, atol=1e-12)
    assert abs(left[-1, 0] - left[0, 0]) > 1e-3
    assert run.v.values[1:, model.slice(drivers[0])].min() > 0  # the driver turns with the torque
    return run


@pytest.mark.slow
def test_a_gripper_closes(tmp_path):
    pytest.importorskip("mujoco")
    close(gripper(tmp_path), ("right_driver", "left_driver"))


@pytest.mark.parametrize("file", ["robotiq_2f85.xml", "robotiq_2f85_v2.xml"])
def test_the_robotiq_gripper_closes(file):
    pytest.importorskip("mujoco")
    try:
        wheel = distribution("dm_robotics_moma")
    except PackageNotFoundError:
        pytest.skip("the model of the Robotiq 2F-85 is in the package dm_robotics_moma, which is not installed")
    folder = "dm_robotics/moma/models/vendor/robotiq_beta_robots/mujoco"
    model = wt.load(Path(str(wheel.locate_file(f"{folder}/{file}"))))
    close(model, ("right_driver_joint", "left_driver_joint"))
