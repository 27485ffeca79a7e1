"""Numbers near the ends of floats and integers, and parameters of the wrong kind: an answer, or a clear error."""

import numpy as np
import pytest

import whippletree as wt

TOML = """whippletree = 1
name = "m"
[[bodies]]
name = "b"
mass = 1.0
inertia = [1.0, 1.0, 1.0]
[[joints]]
name = "j"
kind = "revolute"
parent = "world"
child = "b"
"""


def rod(*, inertia=(1, 1, 1), gravity=(0, 0, -9.81), **joint):
    builder = wt.Builder("m", gravity).body("b", 1.0, (0, 0, 0), inertia)
    return builder.joint("j", "revolute", "world", "b", **joint)


@pytest.mark.parametrize("inertia", [(1e308,) * 3, (1e301,) * 3, np.full((3, 3), 1e308), (10**305,) * 3])
def test_an_inertia_whose_sums_overflow(inertia):
    with pytest.raises(wt.ModelError) as raised:
        rod(inertia=inertia).build()
    assert raised.value.faults == (
        f"body 'b': inertia holds {np.asarray(inertia, dtype=float).max():g}: sums of such numbers are beyond the "
        f"largest float (1.8e308). Use other units, or weld the body",
    )


def test_very_large_and_small_inertias_are_judged_like_others():
    for scale in (1e-300, 1.0, 1e250):
        rod(inertia=(scale, scale, 1.5 * scale)).build()
        with pytest.raises(wt.ModelError, match="triangle inequality"):
            rod(inertia=(scale, scale, 3 * scale)).build()


@pytest.mark.parametrize("size", [1e30, 10**30, 1e300, 1e-300, 10**18, 2**63, 5e-324])
def test_axes_of_any_length(size):
    model = rod(axis=(0, 0, size)).build()
    assert model.joints[0].axis.astype(float).tolist() == [0, 0, 1]


def test_integers_beyond_64_bits():
    model = rod(position=(10**30, 0, 0), gravity=(0, 0, -(10**20))).build()
    assert model.joints[0].pose[0, 3] == 1e30
    assert model.gravity[2] == -1e20
    with pytest.raises(wt.ModelError, match="holds an integer that is too large for a float"):
        rod(position=(10**400, 0, 0)).build()


def test_an_axis_in_a_native_file(tmp_path):
    (tmp_path / "m.toml").write_text(f"{TOML}axis = [0, 0, {10**30}]\n")
    assert wt.load(tmp_path / "m.toml").joints[0].axis.astype(float).tolist() == [0, 0, 1]
    (tmp_path / "m.toml").write_text(f"{TOML}upper = {10**400}\n")
    with pytest.raises(wt.FileError, match=r"line 7: joint 'j': upper holds 1000.*which is not a number"):
        wt.load(tmp_path / "m.toml")


@pytest.mark.parametrize("word", ["kind", "name", "self", "on"])
def test_parameters_of_constraints_may_have_any_name(tmp_path, word):
    table = f'[[constraints]]\nname = "c"\nkind = "gear"\non = ["j"]\nparameters = {{ ratios = [1.0], {word} = "x" }}\n'
    (tmp_path / "m.toml").write_text(TOML + table)
    model = wt.load(tmp_path / "m.toml")
    assert model.constraints[0].parameters[word] == "x"
    with pytest.raises(wt.ModelError, match=f"kind 'gear' has no parameter '{word}'; known: "):
        wt.reference(model).constraint_residual([0.0])


@pytest.mark.parametrize("word", ["kind", "name", "body", "position", "visible", "self"])
def test_parameters_of_shapes_that_belong_beside_them(tmp_path, word):
    table = f'[[geometries]]\nname = "g"\nkind = "sphere"\nbody = "b"\nparameters = {{ radius = 1.0, {word} = "x" }}\n'
    (tmp_path / "m.toml").write_text(TOML + table)
    with pytest.raises(wt.FileError) as raised:
        wt.load(tmp_path / "m.toml")
    assert raised.value.faults == (
        f"line 12: geometry 'g': parameters: {word!r} is not a number of a shape: write it beside parameters",
    )


@pytest.mark.parametrize("ratios", [2, 2.0, (2,), np.array(2.0), np.array([2.0])])
def test_a_gear_of_one_joint_takes_a_number(ratios):
    model = rod().constraint("g", "gear", "j", ratios=ratios, offset=1).build()
    assert wt.reference(model).constraint_residual([0.5]).tolist() == [0.0]


@pytest.mark.parametrize(
    ("kind", "parameters", "fault"),
    [
        ("gear", {"ratios": None}, "a gear needs one ratio per joint, not all zero: got ratios None"),
        ("gear", {"ratios": (1, 2)}, "a gear needs one ratio per joint"),
        ("gear", {"ratios": [[1, 2]]}, "ratios [[1, 2]] must be a list of numbers, without lists inside"),
        (
            "coupling",
            {"coefficients": [[1, 2]]},
            "coefficients [[1, 2]] must be a list of numbers, without lists inside",
        ),
    ],
)
def test_ratios_that_are_none(kind, parameters, fault):
    model = rod().constraint("g", kind, "j", **parameters).build()
    with pytest.raises(wt.ModelError) as raised:
        wt.reference(model).constraint_residual([0.0])
    assert fault in str(raised.value)


def test_quaternions_of_any_length(tmp_path):
    for size in ("1", "1e200", "1e-200"):
        (tmp_path / "r.urdf").write_text(
            f"<robot name='r'><link name='a'/><link name='b'/><joint name='j' type='fixed'><parent link='a'/>"
            f"<child link='b'/><origin quat_xyzw='0 0 {size} 0'/></joint></robot>"
        )
        pose = wt.load(tmp_path / "r.urdf").joints[1].pose
        np.testing.assert_array_equal(pose[:3, :3].astype(float), np.diag([-1, -1, 1]))
