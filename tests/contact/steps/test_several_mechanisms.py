"""Several mechanisms in one scene: does each step as it does alone, and are those that meet stepped right?"""

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.rollout.contact_lists.contact_list_parts import MOST_PARTS, has_parts, trees_of_velocities
from whippletree.compiler.rollout.contact_lists.contact_list_rows import DenseRows, NarrowRows, rows_of_blocks
from whippletree.compiler.rollout.contact_lists.contact_list_trees import MOST_WRITTEN_VELOCITIES
from whippletree.compiler.rollout.step_space import Driven, StepSpace
from whippletree.simulation.time_stepping import impulse_step
from whippletree.tree.skeleton import skeleton

STEP = 2e-3
RUN = {"method": "time_stepping", "step": STEP, "tolerance": 1e-10}
FEW, MANY = 3, 6


def crawlers(places, meet=False):
    """Trunks with two hinged legs, which end in balls over the ground, at these places along x.

    ``meet``: trunks may touch those of their neighbours.
    """
    scene = wt.Builder("crawlers").geometry("ground", "world", "half_space")
    for k, x in enumerate(places):
        trunk = f"trunk {k}"
        scene.body(trunk, 2.0 + 0.3 * k, inertia=(0.02, 0.03, 0.04))
        scene.joint(f"free {k}", "free", "world", trunk, start=(x, 0, 0.36, 1, 0, 0, 0))
        scene.geometry(f"{trunk} shape", trunk, "sphere", radius=0.12)
        for side in (1, -1):
            leg = f"leg {k} {side}"
            scene.body(leg, 0.5, center=(0, 0, -0.1), inertia=(0.002, 0.002, 0.001))
            joint = {"axis": (1, 0.3 * side, 0), "position": (0, 0.1 * side, 0), "damping": 0.05, "start": 0.3 * side}
            scene.joint(leg, "revolute", trunk, leg, lower=-0.5, upper=0.5, **joint)
            scene.geometry(f"{leg} foot", leg, "sphere", position=(0, 0, -0.3), radius=0.05)
            scene.contact(f"{leg} down", f"{leg} foot", "ground", friction=0.6)
        scene.contact(f"{trunk} down", f"{trunk} shape", "ground", friction=0.6)
        if meet and k:
            scene.contact(f"bump {k}", f"trunk {k - 1} shape", f"{trunk} shape", friction=0.3)
    return scene.build()


def first_of(scene, q):
    """Coordinates of the first mechanism, of those of all."""
    own = [part for joint, part in zip(scene.joints, scene.q_slices, strict=True) if " 0" in joint.name]
    return np.concatenate([q[..., part] for part in own], axis=-1)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_each_steps_as_it_does_alone(count):
    places = np.arange(count) * 2.0
    scene = crawlers(places)
    assert (scene.nv <= MOST_WRITTEN_VELOCITIES) == (count == FEW)  # written out, and in loops over nodes
    together = wt.simulate(scene, duration=0.5, output_dt=0.1, **RUN)
    assert together.attrs["path"] == "compiled"
    assert together.attrs["unconverged_steps"] == 0
    assert np.any(together["contact_force"].values)
    alone = wt.simulate(crawlers(places[:1]), duration=0.5, output_dt=0.1, **RUN)
    assert np.allclose(first_of(scene, together.q.values), alone.q.values, rtol=0, atol=1e-7)


@pytest.mark.parametrize("count", [FEW, MANY])
def test_those_that_meet_are_stepped_as_by_the_reference_path(count, monkeypatch):
    scene = crawlers(np.arange(count) * 0.26, meet=True)
    v = np.zeros(scene.nv)
    for k, part in enumerate(p for j, p in zip(scene.joints, scene.v_slices, strict=True) if j.name.startswith("free")):
        v[part.start + 3] = 0.5 * (-1) ** k  # towards each other
    run = wt.simulate(scene, v0=v, duration=0.1, output_dt=0.05, **RUN)
    monkeypatch.setattr(impulse_step, "suits_lists", lambda model: False)
    other = wt.simulate(scene, v0=v, duration=0.1, output_dt=0.05, **RUN)
    assert run.attrs["path"] == "compiled"
    assert other.attrs["path"].startswith("python")
    assert np.allclose(run.q, other.q, rtol=0, atol=1e-8)
    assert np.allclose(run.v, other.v, rtol=0, atol=1e-6)


def test_pairs_that_meet_and_others_apart_are_stepped_as_by_the_reference_path(monkeypatch):
    """Trunks are in parts of two, which move on and meet others: what is apart changes within the run."""
    scene = crawlers([0.0, 0.26, 2.0, 2.26, 2.7, 2.96], meet=True)
    v = np.zeros(scene.nv)
    for speed, joint in zip(
        (0.5, -0.5, 0.5, -0.5, -2.5, -2.5), (j for j in scene.joints if j.type.nv == 6), strict=True
    ):
        v[scene.slice(joint.name).start + 3] = speed
    run = wt.simulate(scene, v0=v, duration=0.16, output_dt=STEP, **RUN)
    bumps = run.contact_force.sel(contact=[name for name in run.contact.values if "bump" in name]).values[..., 0] > 0
    assert bumps.any(axis=0).tolist() == [True, False, True, True, True]
    assert not bumps[: len(bumps) // 3, 3].any()
    monkeypatch.setattr(impulse_step, "suits_lists", lambda model: False)
    other = wt.simulate(scene, v0=v, duration=0.16, output_dt=STEP, **RUN)
    assert np.allclose(run.q, other.q, rtol=0, atol=1e-8)
    assert np.allclose(run.v, other.v, rtol=0, atol=1e-6)


def test_parts_are_told_apart_where_each_block_moves_one_tree_or_two():
    trees = trees_of_velocities(skeleton(crawlers([0.0, 1.0])))
    assert trees == [0] * 8 + [1] * 8
    assert has_parts(trees, [[0, 1], [8], [7, 9]])
    assert not has_parts(trees, [[0], []])  # what moves nothing has no part
    assert not has_parts([0] * 8, [[0], [1]])
    assert not has_parts([0, 1, 2], [[0, 1, 2]])
    assert not has_parts([*range(MOST_PARTS + 1)], [[0], [1]])


def test_rows_are_narrow_where_that_is_much_less_than_all():
    space = StepSpace(crawlers([0.0]), Driven())
    assert type(rows_of_blocks(space, 16, [[0, 1, 2], [9]])) is NarrowRows
    other = StepSpace(crawlers([0.0]), Driven())
    assert type(rows_of_blocks(other, 4, [[0, 1, 2], [3]])) is DenseRows
