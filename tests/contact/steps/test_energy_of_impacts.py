"""Newton's restitution with friction: no more of it than adds no energy, in every kind of step."""

import dataclasses

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.restitution_share import islands_of, may_gain, restitution_share
from whippletree.contact.time_step import ContactBlocks
from whippletree.simulation.time_stepping import impulse_step

CORNERS = [(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]


def cube(kind, friction, restitution, count=1):
    builder = wt.Builder("cube").geometry("floor", "world", "half_space")
    shape = {"vertices": CORNERS} if kind == "mesh" else {"size": (1, 1, 1)}
    for i in range(count):
        builder.body(f"cube {i}", 1.0, inertia=(1 / 6,) * 3).joint(f"cube {i}", "free", "world", f"cube {i}")
        builder.geometry(f"shape {i}", f"cube {i}", kind, **shape)
        builder.contact(f"touch {i}", f"shape {i}", "floor", friction=friction, restitution=restitution)
    return builder.build()


def start(seed):
    rng = np.random.default_rng(seed)
    turn = rng.normal(size=4)
    return np.array([0, 0, 1.0, *turn / np.linalg.norm(turn)]), 2 * rng.normal(size=6)


STRIKING = start(23)
"""By Newton's law alone, impacts of this motion add 25 % of its energy, whatever the step."""


def dropped(model, step=2e-3, q=STRIKING[0], v=STRIKING[1]):
    return wt.simulate(model, q, v, duration=0.6, output_dt=4e-3, method="time_stepping", step=step)


def growth(run):
    energy = (run["kinetic_energy"] + run["potential_energy"]).values
    return (energy.max(axis=0) - energy[0]) / energy[0]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mesh", "box"])
def test_impacts_with_friction_add_no_energy_at_any_step(kind):
    model = cube(kind, 1000.0, 1.0)
    for step in (4e-3, 2e-3, 1e-3, 5e-4):
        run = dropped(model, step)
        assert not run.attrs["failure"]
        assert run.attrs["contact_energy_gained"] < 1e-12
        assert growth(run) < 0.1 * step  # the height that a bounce gains within its step


@pytest.mark.slow
def test_every_kind_of_step_takes_the_same_share(monkeypatch):
    model = cube("box", 1.0, 1.0)
    q, v = STRIKING
    run = dropped(model, 4e-3)
    many = dropped(model, 4e-3, np.stack([q, q]), np.stack([v, 0.9 * v]))
    assert np.array_equal(many["q"].values[:, 0], run["q"].values)
    dyn = wt.compile(model)
    rolled = dyn.contact_rollout(q, v, np.zeros((150, 6)), 4e-3, sweeps=60)
    assert np.maximum(rolled.work, 0).sum() < 1e-12
    until = np.flatnonzero(run["contact_force"].values.any(axis=(1, 2)))[0] + 20
    assert np.allclose(rolled.q[:until], run["q"].values[1 : until + 1], atol=1e-9)
    impulses = None
    for row in run["q"].values[1:]:
        q, v, _, impulses, *_ = dyn.step(q, v, dt=4e-3, impulses=impulses)
        assert np.allclose(q, row, atol=1e-9)
    monkeypatch.setattr(impulse_step, "suits_lists", lambda model: False)
    in_python = dropped(model, 4e-3)
    assert in_python.attrs["path"].startswith("python")
    assert np.allclose(in_python["q"], run["q"], atol=1e-9)
    assert in_python.attrs["contact_energy_gained"] < 1e-12


@pytest.mark.slow
def test_scenes_of_many_bodies_take_it_too():
    count = 13
    q, v = (np.concatenate(parts) for parts in zip(*[start(seed) for seed in range(11, 11 + count)], strict=True))
    q[::7] = 3.0 * np.arange(count)  # side by side
    run = dropped(cube("box", 1.0, 1.0, count), 4e-3, q, v)
    assert "contact_lists_made" in run.attrs
    assert run.attrs["contact_energy_gained"] < 1e-12
    alone = dropped(cube("box", 1.0, 1.0), 4e-3)  # the same as number 12 of them, but for where it is
    place = 7 * (23 - 11)
    assert np.allclose(run["q"].values[:, place + 1 : place + 7], alone["q"].values[:, 1:7], atol=1e-6)


@pytest.mark.parametrize(("friction", "restitution"), [(1000.0, 0.0), (0.5, 0.0), (0.0, 0.5)])
def test_laws_that_cannot_gain_are_left_alone(friction, restitution):
    assert not may_gain(ContactBlocks(cube("box", friction, restitution)))
    assert may_gain(ContactBlocks(cube("box", friction or 1.0, restitution or 1.0)))


@pytest.mark.parametrize(
    ("plastic", "newton", "middle", "share"),
    [
        (-1.0, 1.0, 0.0, 0.5),  # a straight line
        (-3.0, 1.0, -2.0, 3**0.5 / 2),  # 4 s² − 3
        (0.0, 1.0, -0.5, 0.75),  # 4 s² − 3 s: more than nothing
        (0.5, 1.5, 0.75, 0.0),  # forces alone gain, and the bounce only adds to it
        (-1.0, -0.5, -0.9, 1.0),  # nothing is gained
        (2.0, 1.0, 0.0, 1.0),
    ],
)
def test_the_largest_share_that_adds_nothing(plastic, newton, middle, share):
    assert restitution_share(plastic, newton, middle) == pytest.approx(share, abs=1e-15)


def test_cubes_apart_are_islands_and_cubes_that_may_meet_are_one():
    model = cube("box", 1.0, 1.0, 3)
    assert islands_of(ContactBlocks(model)).tolist() == [0] * 8 + [1] * 8 + [2] * 8
    meeting = dataclasses.replace(model.contacts[0], name="meet", second="shape 1")
    together = dataclasses.replace(model, contacts=(*model.contacts, meeting))
    found = islands_of(ContactBlocks(together, alone=True))
    assert set(found[:16]) == set(found[24:]) == {0}
    assert set(found[16:24]) == {1}


def test_contacts_of_different_restitution_may_gain_without_friction():
    model = cube("box", 0.0, 0.5, 2)
    assert not may_gain(ContactBlocks(model))
    first, *others = model.contacts
    mixed = dataclasses.replace(model, contacts=(dataclasses.replace(first, restitution=0.9), *others))
    assert may_gain(ContactBlocks(mixed))
