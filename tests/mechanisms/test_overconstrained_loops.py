"""Loops of four to six hinges that by counting could not move, and do: Bennett, Goldberg, Bricard, Schatz, Sarrus.

Their mobility is in their lengths and angles, so rows are redundant that no look at the graph would find. Each loop is
cut at its last hinge: 5 rows against n − 1 velocities leave one freedom and 7 − n rows too many.
"""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt

QUARTER = np.pi / 2


def about_x(a):
    c, s = np.cos(a), np.sin(a)
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def about_z(a):
    c, s = np.cos(a), np.sin(a)
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def loop(lengths, twists, angles):
    """Hinges about z; link k leads along x to the next one, whose axis is turned about x. The last link is fixed."""
    b = wt.Builder("loop")
    parent, position, rotation = "world", np.zeros(3), np.eye(3)
    for k, (length, twist, angle) in enumerate(zip(lengths[:-1], twists, angles, strict=False)):
        b.body(f"link {k}", 1.0, (length / 2, 0, 0), (0.01, 0.1, 0.1))
        b.joint(f"hinge {k}", "revolute", parent, f"link {k}", position=position, rotation=rotation, start=angle)
        parent, position, rotation = f"link {k}", np.array([length, 0, 0]), about_x(twist)
    b.frame("tip", parent, position=position, rotation=rotation)
    R = about_x(-twists[-1])
    b.frame("ground", "world", position=R @ np.array([-lengths[-1], 0, 0]), rotation=R @ about_z(-angles[-1]))
    return b.constraint("close", "hinge", "ground", "tip").build()


def bennett(a=1.0, b=1.4, twist=0.7, angle=1.1):
    """sin α / a = sin β / b, and tan ½θ₁ tan ½θ₂ = sin ½(β + α) / sin ½(β − α)."""
    other = np.arcsin(b / a * np.sin(twist))
    ratio = np.sin((other + twist) / 2) / np.sin((other - twist) / 2)
    second = 2 * np.arctan(ratio / np.tan(angle / 2))
    return loop((a, b, a, b), (twist, other, twist, other), (angle, second, -angle, -second)), ratio


def goldberg():
    """Two of Bennett's loops with a common link, which is taken out."""
    a, b, c, twist = 1.0, 1.2, 0.7, 0.6
    to_b, to_c = (np.arcsin(x / a * np.sin(twist)) for x in (b, c))
    lengths, twists = (b, a + c, b, c, a), (to_b, twist + to_c, to_b, to_c, twist)
    return loop(lengths, twists, (3.3545, 1.4897, 3.0755, -0.2129, 0.0))


def sarrus():
    """Two elbows in planes across each other carry a table straight up."""
    b = wt.Builder("Sarrus")
    for k, R in enumerate((np.eye(3), about_z(QUARTER))):
        for part in ("lower", "upper"):
            b.body(f"{part} {k}", 0.5, (0, 0, 0.25), (0.01, 0.01, 0.001))
        foot = R @ np.array([0.5, 0, 0])
        b.joint(f"a{k}", "revolute", "world", f"lower {k}", position=foot, rotation=R, axis=(0, 1, 0), start=0.6)
        b.joint(f"b{k}", "revolute", f"lower {k}", f"upper {k}", position=(0, 0, 0.5), axis=(0, 1, 0), start=-1.2)
    b.body("table", 2.0, inertia=(0.1, 0.1, 0.2))
    b.joint("c0", "revolute", "upper 0", "table", position=(0, 0, 0.5), axis=(0, 1, 0), start=0.6)
    b.frame("side", "table", position=(-0.5, 0.5, 0), rotation=about_z(QUARTER))
    return (
        b.frame("end", "upper 1", position=(0, 0, 0.5))
        .constraint("close", "hinge", "end", "side", axis=(0, 1, 0))
        .build()
    )


LOOPS = {
    "Bennett": lambda: bennett()[0],
    "Goldberg": goldberg,
    "Bricard": lambda: loop((1.0,) * 6, (QUARTER, -QUARTER) * 3, (0.3, 0.2) * 3),
    "Schatz": lambda: loop((0, 1, 1, 1, 0, 3**0.5), (*(QUARTER,) * 5, 0), (-0.128, 2.604, 0.434, 4.217, -1.788, 0)),
    "Sarrus": sarrus,
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LOOPS)
def test_they_move_and_keep_their_energy(name):
    model = LOOPS[name]()
    found = wt.diagnose(model)
    assert (found.freedoms, len(found.redundant), found.fine) == (1, 6 - model.nv, True)
    v = wt.reference(model).project_velocity(model.home.q, np.linspace(1, -0.5, model.nv))
    run = wt.simulate(model, model.home.q, v, duration=0.6)
    assert run.attrs["failure"] == ""
    assert np.abs(run.constraint_residual.values).max() < 1e-11
    energy = (run.kinetic_energy + run.potential_energy).values
    np.testing.assert_allclose(energy, energy[0], atol=1e-8)
    assert np.ptp(run.q.values, axis=0).max() > 0.1


def test_bennetts_angles_keep_their_law():
    model, ratio = bennett()
    run = wt.simulate(model, duration=1.0)
    first, second, third = run.q.values.T
    sines, cosines = (f(first / 2) * f(second / 2) for f in (np.sin, np.cos))
    np.testing.assert_allclose(sines, ratio * cosines, atol=1e-9)
    np.testing.assert_allclose(third, -first, atol=1e-9)


def test_the_table_of_sarrus_goes_straight_up_and_stays_level():
    model = sarrus()
    run = wt.simulate(model, duration=0.3)
    pose = wt.compile(model).pose("table")(run.q.values)
    level = pose.copy()
    level[:, :3, :3], level[:, :2, 3] = np.eye(3), pose[0, :2, 3]
    np.testing.assert_allclose(pose, level, atol=1e-10)
    assert np.ptp(pose[:, 2, 3]) > 0.1
