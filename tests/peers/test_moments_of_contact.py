"""Torsional and rolling friction of MuJoCo (``condim`` 4 and 6, elliptic cones) against ours.

At rest its soft contacts come to ours as they stiffen. At the bound of the cone they need not: its convex cone lifts
what slips, be it by spinning, so that the ball hops a little; rates agree to a few percent.
"""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt

G, RADIUS, TORSIONAL, ROLLING = 9.81, 0.1, 0.01, 0.002
SETTLED = 0.3
"""s after which MuJoCo's ball has come to rest in its soft floor."""


HOPPING = 0.02
"""Share of what friction takes in MuJoCo by which it differs from that of a ball that stays on its floor."""


def text(condim: int, softness: float, slope: float = 0.0) -> str:
    law = f'condim="{condim}" friction=".8 {TORSIONAL} {ROLLING}" solref="{softness} 1"'
    return f"""<mujoco>
      <option timestep="{softness / 4}" cone="elliptic" gravity="{G * np.sin(slope)} 0 {-G * np.cos(slope)}"/>
      <worldbody><geom type="plane" size="9 9 1" {law}/><body pos="0 0 {RADIUS}"><freejoint/>
        <inertial pos="0 0 0" mass="2" diaginertia=".008 .008 .008"/><geom size="{RADIUS}" {law}/>
      </body></worldbody></mujoco>"""


def theirs(xml: str, velocity: list[float], duration: float) -> np.ndarray:
    """Velocities at the end: linear, in the axes of the world, then angular, in those of the body."""
    compiled = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(compiled)
    for _ in range(round(SETTLED / compiled.opt.timestep)):
        mujoco.mj_step(compiled, data)
    data.qvel[:] = velocity
    for _ in range(round(duration / compiled.opt.timestep)):
        mujoco.mj_step(compiled, data)
    return data.qvel.copy()


def ours(tmp_path: Path, xml: str, velocity: list[float], duration: float) -> np.ndarray:
    """The angular velocities at the end, in the axes of the body."""
    (tmp_path / "ball.xml").write_text(xml)
    with pytest.warns(wt.LeftOutWarning, match="softness"):
        model = wt.load(tmp_path / "ball.xml")
    v0 = [*velocity[3:], *velocity[:3]]
    return wt.simulate(model, v0=v0, duration=duration).v.values[-1, :3]


def test_a_spinning_ball_slows_down_alike(tmp_path: Path) -> None:
    xml = text(4, 0.01)
    mine, other = ours(tmp_path, xml, [0, 0, 0, 0, 0, 5.0], 0.1), theirs(xml, [0, 0, 0, 0, 0, 5.0], 0.1)
    taken = TORSIONAL * 2.0 * G / 0.008 * 0.1
    assert mine[2] == pytest.approx(5.0 - taken, abs=1e-9)
    assert other[5] == pytest.approx(mine[2], abs=HOPPING * taken)


def test_a_rolling_ball_slows_down_alike(tmp_path: Path) -> None:
    xml, start = text(6, 0.005), [1.0, 0, 0, 0, 10.0, 0]
    mine, other = ours(tmp_path, xml, start, 0.25), theirs(xml, start, 0.25)
    taken = 5 / 7 * G * ROLLING / RADIUS * 0.25
    assert mine[1] * RADIUS == pytest.approx(1 - taken, abs=1e-9)
    assert other[0] == pytest.approx(mine[1] * RADIUS, abs=HOPPING * taken)


def test_a_ball_on_a_slope_creeps_the_less_the_stiffer_the_contact_is(tmp_path: Path) -> None:
    slope, still = np.arctan(0.9 * ROLLING / RADIUS), [0.0] * 6
    assert np.abs(ours(tmp_path, text(6, 0.01, slope), still, 0.25)).max() < 1e-12
    speeds = [theirs(text(6, softness, slope), still, 0.25)[0] for softness in (0.01, 0.0025, 0.000625)]
    assert speeds[0] > 1.2 * speeds[1] > 1.4 * speeds[2] > 0
