"""Actuators of many tendons are loops over tables: the same forces as those of the executable theory, and of MuJoCo."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.frontend import tendon_loops
from whippletree.compiler.frontend.tendon_loops import looped_actuators
from whippletree.compiler.program import every_block
from whippletree.compiler.rollout.contact_lists import contact_list_trees
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.contact.servos import Servos

ROUTES = (
    '<site site="a{k}"/><site site="b{k}"/>',
    '<site site="a{k}"/><geom geom="ball"/><site site="c{k}"/>',
    '<site site="a{k}"/><geom geom="ball" sidesite="side"/><site site="c{k}"/>',
    '<site site="a{k}"/><geom geom="rod" sidesite="within"/><site site="c{k}"/>',
    '<site site="a{k}"/><geom geom="rod" sidesite="far"/><site site="b{k}"/>',
    '<site site="a{k}"/><site site="b{k}"/><pulley divisor="2"/>'
    '<site site="b{k}"/><geom geom="rod"/><site site="c{k}"/>',
    '<site site="b{k}"/><site site="beside{k}"/>',
)
"""Straight; round a sphere; on one side of it; through a cylinder; on a side that another body decides; pulleys; a
tendon whose ends are on one body."""


def legs(pairs: int = 2, drives: str = "muscle") -> str:
    """Two links over a floor, with ``pairs`` tendons of each route."""
    sites = {"world": "", "upper": "", "lower": ""}
    tendons, actuators = "", ""
    for k in range(pairs):
        x = 0.02 * k
        sites["world"] += f'<site name="a{k}" pos="{x} 0.05 1.2"/>'
        sites["upper"] += f'<site name="b{k}" pos="{0.06 + x} 0.01 -0.1"/><site name="beside{k}" pos="{x} 0 -0.3"/>'
        sites["lower"] += f'<site name="c{k}" pos="{-0.05 + x} 0.02 -0.15"/>'
        for i, route in enumerate(ROUTES):
            name = f"t{k}{i}"
            tendons += f'<spatial name="{name}">{route.format(k=k)}</spatial>'
            law = f'<muscle name="{name}" tendon="{name}" lengthrange="0.1 1.{i}" force="{20 + i}"/>'
            if drives != "muscle" and i % 2:
                law = f'<general name="{name}" tendon="{name}" gear="{1 + i}" gainprm="3 0 0" biastype="affine" '
                law += f'biasprm="0.5 -{2 + k} -0.1" forcerange="-5 4"/>'
            actuators += law
    return f"""<mujoco><compiler angle="radian"/><option timestep="0.002"/><worldbody>
      <geom type="plane" size="2 2 0.1"/>{sites["world"]}
      <body name="upper" pos="0 0 1.1"><joint name="hip" type="ball"/>
        <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03"/>{sites["upper"]}
        <geom name="ball" type="sphere" size="0.05" pos="0.02 0.03 -0.35" contype="0" conaffinity="0" mass="0.1"/>
        <site name="side" pos="0.02 0.2 -0.35"/><site name="within" pos="0.01 0.03 -0.42"/>
        <body name="lower" pos="0 0 -0.42"><joint name="knee" axis="0 1 0" range="-2 2" limited="true"/>
          <geom type="capsule" fromto="0 0 0 0 0 -0.4" size="0.03"/>{sites["lower"]}
          <site name="far" pos="0.3 0.1 0"/></body>
        <geom name="rod" type="cylinder" size="0.04 0.1" pos="0.01 0.03 -0.42" euler="1.5 0.1 0" contype="0"
              conaffinity="0" mass="0.1"/></body>
      </worldbody><tendon>{tendons}</tendon><actuator>{actuators}</actuator></mujoco>"""


def loaded(folder: Path, text: str) -> wt.Model:
    path = folder / "legs.xml"
    path.write_text(text)
    return wt.load(path)


@pytest.mark.parametrize("drives", ["muscle", "both"])
def test_forces_are_those_of_the_reference_and_of_mujoco(tmp_path: Path, drives: str) -> None:
    text, rng = legs(drives=drives), np.random.default_rng(0)
    model, peer = loaded(tmp_path, text), mujoco.MjModel.from_xml_string(text)
    assert len(looped_actuators(model)) == len(model.actuators) == peer.nu
    dyn, ref, data = wt.compile(model), wt.reference(model), mujoco.MjData(peer)
    for _ in range(5):
        mujoco.mj_resetData(peer, data)
        mujoco.mj_integratePos(peer, data.qpos, rng.normal(size=peer.nv), 0.5)
        data.qvel[:], data.ctrl[:] = rng.normal(size=peer.nv), rng.uniform(size=peer.nu)
        data.act[:] = rng.uniform(size=peer.na)
        mujoco.mj_forward(peer, data)
        state = data.qpos.copy(), data.qvel.copy(), data.ctrl.copy(), data.act.copy()
        found = dyn.actuator_forces(*state)
        size = np.abs(data.qfrc_actuator).max()
        assert found == pytest.approx(np.asarray(ref.actuator_forces(*state), dtype=float), abs=1e-13 * size)
        assert found == pytest.approx(data.qfrc_actuator, abs=1e-7 * size)  # its corner in a cylinder is so good


def operations(model: wt.Model) -> int:
    program = contact_lists_program(model)
    return sum(len(block.code.nodes) for block in every_block(program.body))


@pytest.mark.slow
@pytest.mark.parametrize("looped_tree", [False, True])
def test_steps_are_those_with_every_tendon_written_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, looped_tree: bool
) -> None:
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")
    runs, model = [], loaded(tmp_path, legs())
    for most_tendons, most_velocities in ((8, 3 if looped_tree else 40), (1000, 40)):
        monkeypatch.setattr(tendon_loops, "MOST_WRITTEN_TENDONS", most_tendons)
        monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", most_velocities)
        model = loaded(tmp_path, legs())
        assert contact_list_trees.is_written(model, Servos(model)) == (most_velocities == 40)
        assert bool(looped_actuators(model)) == (most_tendons == 8)
        runs.append(wt.simulate(model, ctrl=np.ones(14), duration=0.1, progress=False))
    ours, theirs = runs
    assert ours.attrs["path"] == theirs.attrs["path"] == "compiled"
    assert ours.q.values == pytest.approx(theirs.q.values, abs=1e-11)
    assert np.ptp(ours.q.values, axis=0).max() > 0.1


def test_code_does_not_grow_with_the_tendons(tmp_path: Path) -> None:
    few, many = (loaded(tmp_path, legs(pairs)) for pairs in (2, 5))
    assert len(many.actuators) - len(few.actuators) == 3 * len(ROUTES)
    assert operations(many) == operations(few)
