"""Impulses of a step over lists: those of large models begin as zeros, and only what acts is written."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.work_space import write_zeros
from whippletree.compiler.rollout.contact_lists import contact_list_results
from whippletree.compiler.rollout.contact_lists.contact_list_step import contact_lists_program
from whippletree.contact.time_step import ContactBlocks
from whippletree.files.cache import CodeCache

TOLERANCE, STEPS = 1e-7, 30


@pytest.fixture(scope="module")
def scene():
    """Blocks of every kind: balls that roll and spin, a stop, dry friction, servos within their range and at its end;
    its arguments, in which one ball falls and another one lies."""
    b = wt.Builder("all kinds").geometry("floor", "world", "half_space")
    for name in ("falls", "lies", "flies"):
        b.body(name, 1.0, inertia=(0.004, 0.004, 0.004)).joint(name, "free", "world", name)
        b.geometry(f"{name}.ball", name, "sphere", radius=0.1)
        b.contact(f"{name} on floor", f"{name}.ball", "floor", friction=0.5, torsional=0.01, rolling=0.02)
    for k, reach in enumerate((50.0, 0.01)):
        b.body(f"arm{k}", 1.0, center=(0.1, 0, 0), inertia=(0.01, 0.01, 0.01))
        ends = {"lower": -0.05 if k else -2.0, "upper": 0.05 if k else 2.0}
        b.joint(f"hinge{k}", "revolute", "world", f"arm{k}", axis=(0, 1, 0), friction=0.02, **ends)
        b.actuator(f"servo{k}", f"hinge{k}", gain=(30, 0, 0), bias=(0, -30, -1), force_range=(-reach, reach))
    model = b.build()
    q, v = np.array(model.home.q, dtype=float), np.zeros(model.nv)
    q[2], q[9], q[16] = 0.11, 0.1, 2.0
    v[:3], v[6:9] = (3.0, 1.0, 5.0), (0.0, 2.0, 4.0)
    blocks = ContactBlocks(model, alone=True).count
    drives = np.zeros((STEPS, model.nv)), np.full((STEPS, 2), 0.3)
    return model, [q, v, np.zeros((blocks, 3)), *drives, np.full(STEPS, 2e-3), TOLERANCE, np.inf]


@pytest.fixture(scope="module")
def both_programs(scene):
    """The program that copies all impulses, and the one that writes only some."""
    with pytest.MonkeyPatch.context() as patch:
        found = []
        for fewest in (10**9, 1):
            patch.setattr(contact_list_results, "FEWEST_SPARSE", fewest)
            found.append(contact_lists_program(scene[0]))
    assert [program.buffer("impulses").zeroed for program in found] == [False, True]
    return found


def test_impulses_are_the_same_whether_all_are_copied_or_only_some_are_written(scene, both_programs):
    _, given = scene
    full, sparse = (compile_function(program, threads=1, cache=CodeCache(None)) for program in both_programs)
    expected, found = full(*given), sparse(*given)
    *found, pressing = found
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    acts = np.abs(expected[2]).max(axis=(0, 2)) > 0
    assert acts.any()
    assert not acts.all()
    assert (pressing[acts] == 1).all()
    assert 0 in pressing  # that of the ball that flies
    batch = [np.stack([x, x]) if isinstance(x, np.ndarray) else x for x in given]
    batch[1][1] *= 0.5
    *several, _ = sparse(*batch)
    for a, b in zip(several, full(*batch), strict=True):
        np.testing.assert_array_equal(a, b)


def test_memory_that_is_given_for_impulses_is_cleared_first(scene, both_programs):
    _, given = scene
    sparse = compile_function(both_programs[1], threads=1, cache=CodeCache(None))
    expected = sparse(*given)
    out = tuple(np.full_like(x, 7.0) for x in expected)
    sparse(*given, out=out)
    for a, b in zip(out, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    # also where it is that of the impulses with which the steps begin
    start = [*given[:2], out[2][-1], *given[3:]]
    wanted = sparse(*[x.copy() if isinstance(x, np.ndarray) else x for x in start])
    found = sparse(*start, out=out)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_target_without_cleared_memory_writes_the_zeros_itself(scene, both_programs):
    _, given = scene
    given = [x[:3] if isinstance(x, np.ndarray) and len(x) == STEPS else x for x in given]
    program = write_zeros(both_programs[1])
    assert not any(b.zeroed for b in program.buffers)
    inputs = {b.name: x for b, x in zip(program.of_role("input"), given, strict=True)}
    found, expected = interpret(program, inputs), interpret(both_programs[0], inputs)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.parametrize("runs", [1, 2])
def test_runs_report_the_same_whether_all_impulses_are_copied_or_only_some_are_written(scene, runs, monkeypatch):
    model, (q, v, *_) = scene
    starts = {"q0": q, "v0": v} if runs == 1 else {"q0": np.stack([q, q]), "v0": np.stack([v, 0.5 * v])}
    found = []
    for fewest in (10**9, 1):
        monkeypatch.setattr(contact_list_results, "FEWEST_SPARSE", fewest)
        own = replace(model, name=f"from {fewest} on")
        times = {"duration": 0.08, "step": 2e-3, "output_dt": 0.01}
        found.append(wt.simulate(own, **starts, ctrl=[0.3, 0.3], method="time_stepping", **times))
    expected, sparse = found
    for name in expected.variables:
        np.testing.assert_array_equal(sparse[name].values, expected[name].values, err_msg=name)
    forces, moments = sparse.contact_force.values, sparse.contact_moment.values
    assert np.any(forces[..., 1:, 1, :])
    assert np.any(moments[..., 1:, 1, :])
    assert not np.any(forces[..., 2, :])


@pytest.mark.slow
def test_what_leaves_joins_late_or_begins_inside_is_listed_alike(monkeypatch):
    """Crates and balls with moments, thrown at each other; some begin deep in the floor."""
    b = wt.Builder("thrown").geometry("floor", "world", "half_space")
    names = [f"{shape} {k}" for shape in ("box", "sphere") for k in range(2)]
    for name in names:
        size = {"size": (0.2, 0.16, 0.12)} if "box" in name else {"radius": 0.1}
        b.body(name, 1.0, inertia=(0.004, 0.005, 0.006)).joint(name, "free", "world", name)
        b.geometry(f"{name} shape", name, name.split()[0], **size)
        moments = {} if "box" in name else {"torsional": 0.01, "rolling": 0.02}
        b.contact(f"{name} down", f"{name} shape", "floor", friction=0.5, restitution=0.3, **moments)
    for one, other in itertools.combinations(names, 2):
        b.contact(f"{one} on {other}", f"{one} shape", f"{other} shape", friction=0.4)
    model, random, steps = b.build(), np.random.default_rng(0), 150
    q = np.tile(np.array(model.home.q, dtype=float), (3, 1))
    for k, part in enumerate(model.q_slices):
        q[:, part.start : part.start + 3] = random.normal(scale=0.05, size=(3, 3)) + np.array(
            [0.25 * k, 0, 0.12 - 0.03 * k]
        )
    v = random.normal(size=(3, model.nv)) * ([5, 5, 5, 2, 2, 2] * len(names))
    blocks = ContactBlocks(model, alone=True).count
    rest = np.zeros((3, blocks, 3)), np.zeros((3, steps, model.nv)), np.full((3, steps), 5e-3), TOLERANCE, np.inf
    found = []
    for fewest in (10**9, 1):
        monkeypatch.setattr(contact_list_results, "FEWEST_SPARSE", fewest)
        function = compile_function(contact_lists_program(model), threads=1, cache=CodeCache(None))
        alone = [function(*[x[0] if isinstance(x, np.ndarray) else x for x in (q, v, *rest)])]
        found.append((alone[0][:9], function(q, v, *rest)[:9]))
    for expected, own in zip(*found, strict=True):
        for a, b in zip(own, expected, strict=True):
            np.testing.assert_array_equal(a, b)
    pressing = np.any(found[0][1][2], axis=-1)
    assert np.any(pressing[:, 1:] & ~pressing[:, :-1], axis=(0, 1)).sum() > 10
    assert np.any(~pressing[:, 1:] & pressing[:, :-1], axis=(0, 1)).sum() > 10
