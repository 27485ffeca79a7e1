"""Reactions while simulating: labelled by joint, the same as the function gives, in tables and figures."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt


@pytest.mark.slow
def test_a_run_holds_reactions_on_request():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    assert "joint_reactions" not in wt.simulate(model, duration=0.1)
    run = wt.simulate(model, duration=0.5, reactions=True)
    assert run.joint_reactions.dims == ("time", "reaction", "component")
    assert list(run.reaction.values) == list(wt.reaction_names(model))
    found, determined = wt.compile(model).joint_reactions(run.q.values, run.v.values, run.tau.values)
    assert np.array_equal(run.joint_reactions.values, found)
    assert np.array_equal(run.reactions_determined.values, determined)
    pin = run.joint_reactions.sel(reaction="pin", component=["force_x", "force_y"])
    assert pin.shape == (len(run.time), 2)
    table = run.joint_reactions.to_dataframe()
    assert table.loc[(0.0, "crank", "force_x"), "joint_reactions"] == found[0, 0, 3]


def test_reactions_of_springs_and_controllers_are_those_of_the_whole_joint_force():
    builder = wt.Builder("spring", (0, -9.81, 0)).body("a", 1.0, center=(0.5, 0, 0), inertia=(0.01, 0.1, 0.1))
    model = builder.joint("j", "revolute", "world", "a", stiffness=50.0, damping=1.0, start=0.1).build()
    run = wt.simulate(model, duration=0.3, controller=lambda t, q, v: -3.0 * v, reactions=True)
    moment = run.joint_reactions.sel(reaction="j", component="moment_z").values
    assert np.allclose(moment, run.tau.values[:, 0], atol=1e-10)


def test_many_runs_and_dead_points():
    model = wt.mechanisms.n_four_bar(1)
    run = wt.simulate(model, v0=np.outer([1.0, 2.0], model.home.v), duration=0.2, reactions=True)
    assert run.joint_reactions.dims == ("time", "run", "reaction", "component")
    assert np.isfinite(run.joint_reactions.values).all()
    # through the dead point, all rods in line
    through = wt.simulate(model, model.home.q, 6 * model.home.v, duration=0.6, reactions=True)
    assert np.isfinite(through.joint_reactions.values).all()


def test_a_figure_of_reactions():
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    run = wt.simulate(model, duration=0.3, reactions=True)
    axes = wt.plot(run, "reactions").axes[0]
    curves = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(curves) == list(wt.reaction_names(model))
    forces = run.joint_reactions.sel(reaction="pin").values[:, 3:]
    assert np.allclose(curves["pin"], np.linalg.norm(forces, axis=1))
    one = wt.plot(run, "reactions", names=["crank"], component="force_x").axes[0]
    assert one.get_ylabel() == "N"
    assert np.array_equal(one.lines[0].get_ydata(), run.joint_reactions.values[:, 0, 3])
    with pytest.raises(wt.NameLookupError, match="component 'torque'"):
        wt.plot(run, "reactions", component="torque")
    with pytest.raises(wt.UnsupportedError, match="reactions=True"):
        wt.plot(wt.simulate(model, duration=0.1), "reactions")


def test_open_components_are_marked_in_figures():
    from dataclasses import replace

    model = wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8))
    model = replace(model, constraints=(replace(model.constraints[0], kind="hinge"),))
    run = wt.simulate(model, duration=0.1, reactions=True)
    labels = [line.get_label() for line in wt.plot(run, "reactions", component="moment").axes[0].lines]
    assert labels == [f"{name} (shared)" for name in wt.reaction_names(model)]
