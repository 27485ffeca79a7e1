"""Lists of what is near, by the kernel that makes them, beside every pair compared with every other one."""

import numpy as np
import pytest

import whippletree as wt
from scene_poses import poses_of_geometries, with_world
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.rollout.scenes.scene_lists import INPUTS, scene_lists_program
from whippletree.contact.kinematics.scene_layout import SceneLayout, scene_layout
from whippletree.simulation.time_stepping import near_lists
from whippletree.simulation.time_stepping.near_lists import ListMaker

TURNED = ((0, -1, 0), (1, 0, 0), (0, 0, 1))


def crowd(count, spread, seed=1, away=0.0):
    """Balls of different sizes, some on one body, some in two groups, some with contacts of their own; a fixed ball, a
    floor, a tilted wall, one that a body carries and a shell around them."""
    random, width = np.random.default_rng(seed), 0.06 * np.cbrt(count)
    builder = wt.Builder("crowd").geometry("floor", "world", "half_space")
    tilted = np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0]])  # its normal is x
    builder.geometry("wall", "world", "half_space", position=(-width, 0, 0), rotation=tilted)
    builder.geometry("post", "world", "sphere", radius=0.2, position=(0.1, 0.2, width))
    builder.geometry("shell", "world", "cavity", radius=1.2 * width, position=(0, 0, width))
    names = []
    for k in range(count):
        radius = 0.1 * np.exp(-spread * random.uniform())
        builder.body(f"b{k}", 1.0, inertia=(0.01, 0.01, 0.01))
        turn = random.normal(size=4)
        x, y, z = random.uniform(-width, width, 3)
        start = (x + away, y, z + width, *(turn / np.linalg.norm(turn)))
        builder.joint(f"b{k}", "free", "world", f"b{k}", position=(0.1, 0, 0), rotation=TURNED, start=start)
        for j in range(1 + (k % 5 == 0)):
            names.append(f"s{k}.{j}")
            builder.geometry(names[-1], f"b{k}", "sphere", radius=radius, position=(0.02 * j, 0.01, 0))
    builder.geometry("lid", "b0", "half_space", position=(0, 0, -0.3))
    cut = len(names) // 2
    builder.contact_group("all", ["floor", "post", *names[: cut + 5]], friction=0.5, margin=0.01)
    builder.contact_group("more", ["wall", "lid", "shell", *names[cut:]], friction=0.3, restitution=0.2)
    builder.contact("own", names[3], "floor", friction=0.9)
    builder.contact("pair", names[cut + 9], names[2], friction=0.8, margin=0.03)
    builder.contact("within", names[0], names[7], friction=0.7)
    layout = scene_layout(builder.build())
    assert isinstance(layout, SceneLayout)
    return layout


def every_near_pair(layout, q, thickness, world, grain):
    """Coefficients of all pairs that are near, by names."""
    poses, count = poses_of_geometries(layout, q), len(layout.bodies) - 1
    skin = thickness[layout.nodes].copy()
    for k in layout.walls:
        skin[k] = world[0] * np.sqrt(1 + world[1] * (poses[k, :, 2] @ grain) ** 2)
    values = {}
    for group in layout.model.contact_groups:
        own = group.geometries
        for i, one in enumerate(own):
            for other in own[i + 1 :]:
                values.setdefault(frozenset((one, other)), (group.friction, group.restitution, group.margin))
    for contact in layout.model.contacts:
        values[frozenset((contact.first, contact.second))] = (contact.friction, contact.restitution, contact.margin)
    found, numbers = {}, {name: k for k, name in enumerate(layout.names)}
    for pair, own in values.items():
        a, b = sorted((numbers[name] for name in pair), key=lambda k: not np.isfinite(layout.radii[k]))
        flat = [not np.isfinite(layout.radii[k]) for k in (a, b)]
        if layout.nodes[a] == layout.nodes[b] or all(flat):
            continue
        if layout.names[b] == "shell":
            gap = layout.shapes[b].radius - np.linalg.norm(poses[a, :, 3] - poses[b, :, 3]) - layout.radii[a]
        elif flat[1]:
            gap = (poses[a, :, 3] - poses[b, :, 3]) @ poses[b, :, 2] - layout.radii[a]
        else:
            gap = np.linalg.norm(poses[a, :, 3] - poses[b, :, 3]) - layout.radii[a] - layout.radii[b]
        if gap <= skin[a] + skin[b] + own[2] and not (layout.nodes[a] == count and layout.nodes[b] == count):
            found[pair] = own
    return found


def skins(layout, seed=2):
    random = np.random.default_rng(seed)
    thickness = random.uniform(0.005, 0.05, len(layout.bodies))
    direction = random.normal(size=3)
    return thickness, (0.02, 3.0), direction / np.linalg.norm(direction)


@pytest.mark.parametrize("count", [16, 60])
@pytest.mark.parametrize("spread", [0.0, 0.6, 3.0, 9.0])
@pytest.mark.parametrize("away", [0.0, 1e7])
def test_the_pairs_that_are_near_are_those_of_every_pair_compared(count, spread, away):
    layout = crowd(count, spread, away=away)
    q, given = with_world(layout.model.home.q), skins(layout)
    near = ListMaker(layout, 0.01).near(q, *given)
    told = {}
    for (_, first, second, _), *values in zip(near.table, near.friction, near.restitution, near.margins, strict=True):
        pair = frozenset((layout.names[first], layout.names[second]))
        assert pair not in told
        told[pair] = tuple(values)
    assert told == every_near_pair(layout, q, *given)
    assert len(told) >= 10


def test_pairs_are_named_as_their_kinds_want_them_and_candidates_follow_each_other():
    layout = crowd(40, 1.0)
    near = ListMaker(layout, 0.01).near(with_world(layout.model.home.q), *skins(layout))
    kind, first, second, start = near.table.T
    np.testing.assert_array_equal(kind, layout.kind_numbers[layout.class_of[first], layout.class_of[second]])
    slots = np.array([kind.slots for kind in layout.kinds])[kind]
    np.testing.assert_array_equal(start, np.cumsum(slots) - slots)
    bodies = np.minimum(near.node[:, :2], len(layout.bodies) - 1)
    np.testing.assert_array_equal(bodies, np.column_stack([layout.nodes[first], layout.nodes[second]]))


def test_room_is_made_for_any_number_of_pairs():
    layout = crowd(40, 1.0)
    q, given = with_world(layout.model.home.q), skins(layout)
    roomy = ListMaker(layout, 0.01).near(q, *given)
    narrow = ListMaker(layout, 0.01)
    narrow._room = np.arange(2.0)
    for one, other in zip(roomy, narrow.near(q, *given), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_machine_code_does_what_the_program_says():
    layout = crowd(20, 1.5)
    q, given = with_world(layout.model.home.q), skins(layout)
    maker, calls = ListMaker(layout, 0.01), []
    kernel = maker._kernel

    def listen(*arguments):
        calls.append(arguments)
        return kernel(*arguments)

    maker._kernel = listen
    near = maker.near(q, *given)
    told = interpret(scene_lists_program(), dict(zip(INPUTS, calls[-1], strict=True)))
    made = int(told["told"][0])
    for name, own in zip(("pairs", "node", "friction", "restitution", "margins"), near, strict=False):
        np.testing.assert_array_equal(told[name][:made], own)


def test_turns_keep_the_order_of_pairs_that_share_a_body(monkeypatch):
    """Pairs that nearly touch come first. In a turn none share a body but the world; of two that do, the higher one
    comes first; turns begin anew after so many pairs."""
    layout = crowd(60, 0.3)
    q, given = with_world(layout.model.home.q), skins(layout)
    heights = poses_of_geometries(layout, q)[:, :, 3] @ np.asarray(layout.model.gravity, dtype=float)
    heights[~np.isfinite(layout.radii)] = 0.0
    orders = []
    for at_once in (1, 40, 1000):
        monkeypatch.setattr(near_lists, "PAIRS_AT_ONCE", at_once)
        near = ListMaker(layout, 0.02).near(q, *given)
        orders.append([tuple(row) for row in near.table[:, 1:3]])
        depth = heights[near.table[:, 1]] + heights[near.table[:, 2]]
        sides = [set(layout.nodes[row].tolist()) - {len(layout.bodies) - 1} for row in near.table[:, 1:3]]
        worlds = near.node[near.node >= len(layout.bodies) - 1] - (len(layout.bodies) - 1)
        assert set(worlds.tolist()) == set(range(near_lists.WORLDS))  # all of them in turns
        # one pair at a time: plain order of depths; where that falls, those begin that do not nearly touch
        slack = 1e-5 * np.ptp(depth)  # as far as two digits tell
        if at_once == 1:
            falls = np.flatnonzero(np.diff(depth) < -slack)
            assert len(falls) == 1
            touching = int(falls[0]) + 1
        assert (np.diff(depth[touching:]) >= -slack).all()
        for late in range(touching):
            for early in range(late):
                assert depth[early] <= depth[late] + slack or not sides[early] & sides[late]
        for block in range(0, touching, at_once):
            assert set(orders[-1][block : block + at_once]) == set(orders[0][block : block + at_once])
    assert orders[0] != orders[1] != orders[2]
