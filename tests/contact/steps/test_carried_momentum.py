"""Long trees in a plane carry the momenta of their bodies from step to step: no step gains energy, however long."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.rollout.contact_lists import contact_list_trees
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.contact.time_step import ContactBlocks
from whippletree.files.cache import CodeCache

LINKS, LENGTH = 44, 0.05


def chain(links=LINKS, **of_joint):
    """Links in a row above a floor that they do not reach, without gravity."""
    b = _above_a_floor("chain")
    before = "world"
    for k in range(links):
        before = _add_link(b, k, before, **of_joint)
    return b.build()


def ring(links=LINKS):
    """A closed ring of links that floats."""
    b = _above_a_floor("ring")
    radius, turn = LENGTH / (2 * np.sin(np.pi / links)), 2 * np.pi / links
    b.body("carrier").joint("x", "prismatic", "world", "carrier", axis=(1, 0, 0), position=(0, 0, radius))
    b.body("lift").joint("z", "prismatic", "carrier", "lift", axis=(0, 0, 1))
    before = "lift"
    for k in range(links):
        before = _add_link(b, k, before, start=turn if k else turn / 2)
    b.frame("tip", before, position=(LENGTH, 0, 0)).frame("start", "link 0")
    return b.constraint("closed", "custom", "tip", "start", residual=_apart, rows=("x", "z")).build()


def _apart(X, Y):
    return [X[0, 3] - Y[0, 3], X[2, 3] - Y[2, 3]]


def _above_a_floor(name):
    return wt.Builder(name, gravity=(0, 0, 0)).geometry("floor", "world", "half_space", position=(0, 0, -100))


def _add_link(b, k, before, **of_joint):
    name = f"link {k}"
    b.body(name, 0.02, (LENGTH / 2, 0, 0), (1e-6, 4e-6, 4e-6))
    place = (LENGTH if k else 0, 0, 0)
    b.joint(name, "revolute", before, name, axis=(0, 1, 0), position=place, **of_joint)
    b.geometry(name, name, "sphere", radius=0.01).contact(name, name, "floor")
    return name


def steps(model, v, h, count, function=None):
    """Coordinates and velocities (count + 1, …) along some steps of the kernel, from home."""
    q, blocks = np.asarray(model.home.q, dtype=float), ContactBlocks(model, alone=True).count
    function = function or wt.compile(model).contact_steps
    found = function(q, v, np.zeros((blocks, 3)), np.zeros((count, model.nv)), np.full(count, h), 1e-9, np.inf)
    return [np.concatenate([a[None], b]) for a, b in zip((q, v), found[:2], strict=True)]


def thrown(model, speed):
    """Links that turn one way and the other, as far as loops permit it."""
    absolute = speed * np.random.default_rng(1).choice([-1.0, 1.0], size=LINKS)
    v = np.concatenate([np.zeros(model.nv - LINKS), np.diff(absolute, prepend=0.0)])
    return wt.compile(model).project_velocity(model.home.q, v) if model.constraints else v


@pytest.mark.slow
@pytest.mark.parametrize(("make", "speeds"), [(chain, (10.0, 60.0, 1000.0)), (ring, (10.0, 60.0))])
def test_no_step_gains_energy_however_far_it_goes(make, speeds):
    model = make()
    dyn = wt.compile(model)
    for speed in speeds:  # up to two radians in a step
        q, v = steps(model, thrown(model, speed), 2e-3, 40)
        K = dyn.kinetic_energy(q, v)
        assert np.isfinite(K).all()
        assert (np.diff(K) <= 1e-9 * K[0]).all()
        if speed == 10.0:  # what steps resolve keeps its energy
            assert K[-1] > 0.9 * K[0]


@pytest.mark.slow
def test_a_ring_that_turns_keeps_its_speed():
    """Bodies that only go straight on would lose (ω h)² / 2 of their speed in every step: 18 % of it here."""
    model = ring()
    v = np.zeros(model.nv)
    turn, h, count = 10.0, 2e-3, 1000
    # all links turn alike, about the middle of the ring
    v[2] = turn
    radius = LENGTH / (2 * np.sin(np.pi / LINKS))
    v[0], v[1] = turn * radius, 0.0
    dyn = wt.compile(model)
    v = dyn.project_velocity(model.home.q, v)
    q, found = steps(model, v, h, count)
    K = dyn.kinetic_energy(q, found)
    np.testing.assert_allclose(K[-1], K[0], rtol=count * (turn * h) ** 4)
    assert np.abs(dyn.constraint_residual(q)).max() < 1e-12


@pytest.mark.slow
def test_the_motion_is_that_of_a_tree_that_is_written_out(monkeypatch):
    """Rotors and dampers included: half the step, half the difference."""
    model = chain(12, damping=1e-4, rotor_inertia=2e-6)
    v = 20 * np.random.default_rng(2).normal(size=model.nv) / np.arange(1, 13)
    apart = []
    for h in (1e-3, 5e-4):
        found = []
        for most in (1000, 0):
            monkeypatch.setattr(contact_list_trees, "MOST_WRITTEN_VELOCITIES", most)
            function = compile_function(contact_lists_program(model), width=1, threads=1, cache=CodeCache(None))
            found.append(steps(model, v, h, round(0.02 / h), function.ufunc)[0][-1])
        apart.append(np.abs(found[0] - found[1]).max())
    assert 0 < apart[1] < 0.6 * apart[0] < 0.6 * 0.1
