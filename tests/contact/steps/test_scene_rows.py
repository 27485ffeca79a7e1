"""Rows of output of scenes of many bodies: written together, they are what each would be alone."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.simulation.time_stepping import scene_method

H = 2e-3
TURNED = ((0, -1, 0), (1, 0, 0), (0, 0, 1))
OPTIONS = {"method": "time_stepping", "step": H, "tolerance": 1e-6}


def boxes_and_balls():
    """Bodies whose joints are placed and turned, and whose centres of mass are not their origins."""
    builder = wt.Builder("mixed", (0.3, 0, -9.81)).geometry("floor", "world", "half_space")
    random, names = np.random.default_rng(7), ["floor"]
    for k in range(6):
        turn, name = random.normal(size=4), f"part {k}"
        turn /= np.linalg.norm(turn)
        builder.body(name, 1.0 + k, center=(0.01, -0.02, 0.01 * k), inertia=(0.01, 0.012, 0.014))
        start = (0.2 * k, 0.1 * (k % 2), 0.15, *turn)
        builder.joint(name, "free", "world", name, position=(0.1, 0, 0), rotation=TURNED, start=start)
        shape = {"kind": "box", "size": (0.1, 0.1, 0.1)} if k % 2 else {"kind": "sphere", "radius": 0.06}
        builder.geometry(name, name, **shape)
        names.append(name)
    return builder.contact_group("all", names, friction=0.4).build()


def same(one, other):
    assert set(one.variables) == set(other.variables)
    for name in one.variables:
        np.testing.assert_array_equal(one[name].values, other[name].values, err_msg=name)


def test_rows_written_together_are_those_written_one_by_one(monkeypatch):
    model = boxes_and_balls()
    together = wt.simulate(model, duration=0.3, output_dt=H, **OPTIONS)
    monkeypatch.setattr(scene_method, "NUMBERS_AT_ONCE", 1)
    alone = wt.simulate(model, duration=0.3, output_dt=H, **OPTIONS)
    assert float(together.contacts.max()) > 3
    assert (together.contact_force.values[..., 0] > 0).any()
    same(together, alone)


def test_energies_of_rows_are_those_of_the_model():
    model = boxes_and_balls()
    run = wt.simulate(model, duration=0.2, output_dt=0.02, **OPTIONS)
    total = run.kinetic_energy + run.potential_energy
    expected = total - total[0] - run.contact_work - run.joint_work
    np.testing.assert_allclose(run.energy_balance, expected, atol=1e-12 * float(abs(total).max()))


def test_wrenches_of_rows_are_the_forces_of_their_contacts():
    run = wt.simulate(boxes_and_balls(), duration=0.3, output_dt=0.02, **OPTIONS)
    from_world = [k for k, name in enumerate(run.contact.values) if "floor" in str(name)]
    upwards = run.contact_force.values[:, from_world, 0].sum(axis=1)
    lifted = run.contact_wrench.values[:, :, 5].sum(axis=1)
    np.testing.assert_allclose(lifted, upwards, atol=1e-6 * 22 / H)  # the masses of all times the tolerance


def test_an_interrupted_run_shows_the_rows_that_were_found(monkeypatch):
    advance, asked = scene_method.SceneStepping._advance, []

    def impatient(self, row, *rest):
        asked.append(row)
        if row == 4:
            raise KeyboardInterrupt
        return advance(self, row, *rest)

    monkeypatch.setattr(scene_method.SceneStepping, "_advance", impatient)
    with pytest.warns(RuntimeWarning, match="interrupted"):
        run = wt.simulate(boxes_and_balls(), duration=0.2, output_dt=0.02, **OPTIONS)
    np.testing.assert_allclose(run.time, [0, 0.02, 0.04, 0.06, 0.08])


def test_a_run_that_is_taken_up_again_goes_on_as_if_it_had_not_stopped(monkeypatch, tmp_path):
    model, options = boxes_and_balls(), {"duration": 0.2, "output_dt": 0.02, **OPTIONS}
    whole = wt.simulate(model, **options)
    monkeypatch.setattr(scene_method, "NUMBERS_AT_ONCE", 1000)  # a few rows at once
    advance = scene_method.SceneStepping._advance

    def impatient(self, row, *rest):
        if row == 7:
            raise KeyboardInterrupt
        return advance(self, row, *rest)

    with monkeypatch.context() as changed:
        changed.setattr(scene_method.SceneStepping, "_advance", impatient)
        with pytest.warns(RuntimeWarning, match="interrupted"):
            wt.simulate(model, checkpoint=tmp_path / "run", **options)
    taken_up = wt.simulate(model, checkpoint=tmp_path / "run", **options)
    same(whole, taken_up)
    assert taken_up.attrs["steps"] == whole.attrs["steps"]
