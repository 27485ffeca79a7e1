"""Loops of rounded drawings: found open, told, and closed by moving their frames; the mechanism moves as it should."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.io.rotations import about
from whippletree.model.frozen import frozen_array


def drawn(model: wt.Model, rounding: float) -> wt.Model:
    """The model with all its joints and frames misplaced by up to ``rounding`` m and rad."""
    random = np.random.default_rng(0)

    def misplaced(pose: np.ndarray) -> np.ndarray:
        X, axis = np.array(pose, dtype=float), random.normal(size=3)
        X[:3, 3] += random.uniform(-1, 1, 3) * rounding
        X[:3, :3] = X[:3, :3] @ about(axis / np.linalg.norm(axis), random.uniform(0, rounding))
        return frozen_array(X, (4, 4))

    joints = tuple(replace(joint, pose=misplaced(joint.pose)) for joint in model.joints)
    return replace(model, joints=joints, frames=tuple(replace(f, pose=misplaced(f.pose)) for f in model.frames))


def closed_by(model: wt.Model, kind: str) -> wt.Model:
    """A planar linkage whose pin is a hinge in space, or six rows."""
    numbers = {"axis": (0, 0, 1)} if kind == "hinge" else {}
    pins = (replace(c, kind=kind, parameters=numbers) if c.kind == "pin" else c for c in model.constraints)
    return replace(model, constraints=tuple(pins))


@pytest.mark.slow
@pytest.mark.parametrize("make", [wt.mechanisms.four_bar, wt.mechanisms.crank_slider])
def test_a_rounded_linkage_is_closed_and_moves(make) -> None:
    exact = closed_by(make(), "hinge")
    model = drawn(exact, 1e-5)
    with pytest.raises(
        wt.AssemblyError, match=r"(?s)'pin' .* stays open.*repair='frames'\) moves the closing frames"
    ) as e:
        wt.assemble(model)
    assert 1e-7 < max(map(abs, e.value.residuals.values())) < 1e-4
    found = wt.assemble(model, repair="frames")
    way, turn = found.moved["pin"]
    assert 0 < way < 5e-5
    assert 0 < turn < 5e-5
    assert set(found.left_out) == {"pin.tilt_u", "pin.tilt_v", "pin.z"}
    assert f"repaired: {found.report}" in found.model.source
    assert wt.diagnose(found.model).freedoms == wt.diagnose(exact).freedoms == 1
    np.testing.assert_array_equal(found.model.home.q, found.q)
    run, meant = (wt.simulate(m, duration=0.5, progress=False) for m in (found.model, exact))
    assert run.attrs["max_residual"] < 1e-12
    np.testing.assert_allclose(run.q[-1], meant.q[-1], atol=1e-4)


@pytest.mark.parametrize("rounding", [1e-8, 1e-7, 1e-6, 1e-5])
def test_every_row_that_only_rounding_tells_apart_is_left_out(rounding: float) -> None:
    """Peaucellier's linkage has nine such rows, of any sine; one that stays would hold it still."""
    found = wt.assemble(drawn(closed_by(wt.mechanisms.peaucellier(), "hinge"), rounding), repair="frames")
    assert len(found.left_out) == 9
    assert wt.diagnose(found.model).freedoms == 1


def test_six_rows_between_spherical_and_universal_joints() -> None:
    """Two legs with a spherical and a universal joint each, tied by six rows."""
    builder = wt.Builder("legs")
    for side, x in (("left", -0.3), ("right", 0.3)):
        builder.body(f"{side} leg", 1.0, (0, 0, 0.2), (0.01, 0.01, 0.001)).body(
            f"{side} plate", 0.5, (0, 0, 0), (0.01, 0.01, 0.01)
        )
        builder.joint(f"{side} hip", "spherical", "world", f"{side} leg", position=(x, 0, 0))
        builder.joint(f"{side} knee", "universal", f"{side} leg", f"{side} plate", position=(0, 0, 0.5), axis=(1, 0, 0))
        builder.frame(f"{side} rim", f"{side} plate", position=(-x, 0, 0.1))
    model = drawn(builder.constraint("weld", "weld", "left rim", "right rim").build(), 1e-5)
    found = wt.assemble(model, repair="frames")
    residual = wt.reference(found.model).constraint_residual(found.q)
    assert np.abs(np.asarray(residual, dtype=float)).max() < 1e-11


def test_a_loop_that_is_far_open_is_not_repaired() -> None:
    model = wt.mechanisms.four_bar()
    far = tuple(
        replace(f, pose=frozen_array(f.pose + np.array([[0, 0, 0, 9]] + [[0] * 4] * 3), (4, 4)))
        for f in model.frames[:1]
    )
    with pytest.raises(wt.AssemblyError, match="stays open") as caught:
        wt.assemble(replace(model, frames=(*far, *model.frames[1:])), repair="frames")
    assert "rounding" not in str(caught.value)
    with pytest.raises(wt.UnsupportedError, match="repair is 'all', expected None or 'frames'"):
        wt.assemble(model, repair="all")


@pytest.mark.parametrize("tilt", [2e-3, 5e-3, 0.02, 0.5])
def test_rows_are_told_apart_whatever_the_axes_of_their_frames(tilt: float) -> None:
    """Six rows of a planar loop in axes of which the first is all but in the plane: its own row is small, and rounded.

    Taken first, a row of 5e-3 that is wrong by 1e-5 makes the next one look independent by 2e-3, and the linkage stiff.
    """
    turn = about(np.array([0.0, 1.0, 0.0]), -tilt) @ about(np.array([1.0, 0.0, 0.0]), 0.7)
    builder = wt.Builder("four bars, the coupler cut", gravity=(0, -9.81, 0))
    for side, x, knee in (("left", 0.0, (0.1, 0.4, 0.0)), ("right", 0.8, (0.1, 0.6, 0.0))):
        for part in ("arm", "half"):
            builder.body(f"{side} {part}", 1.0, (0.1, 0.1, 0.0), (0.02, 0.02, 0.03))
        builder.joint(f"{side} foot", "revolute", "world", f"{side} arm", position=(x, 0, 0), axis=(0, 0, 1))
        builder.joint(f"{side} knee", "revolute", f"{side} arm", f"{side} half", position=knee, axis=(0, 0, 1))
        cut = np.array([0.5, 0.5, 0.0]) - (x, 0, 0) - knee
        builder.frame(f"{side} cut", f"{side} half", position=cut, rotation=turn)
    exact = builder.constraint("weld", "weld", "left cut", "right cut").build()
    found = wt.assemble(drawn(exact, 1e-5), repair="frames")
    assert wt.diagnose(found.model).freedoms == wt.diagnose(exact).freedoms == 1
    assert len(found.left_out) == 3
