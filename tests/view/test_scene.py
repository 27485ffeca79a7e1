"""What is drawn is where it is: poses, forces, contact points, sticks, cameras, shapes, against independent answers."""

import numpy as np
import pytest
import xarray

import whippletree as wt
from whippletree.view import solids, sticks
from whippletree.view.overlays import constraint_wrenches, contact_forces
from whippletree.view.pose_series import Moves
from whippletree.view.scene import scene

CLOSED = ["four_bar", "crank_slider", "andrews", "n_four_bar", "peaucellier", "stewart_platform", "delta_robot"]


def states(model, count=4, seed=0):
    """Configurations near home, on the constraints."""
    rng = np.random.default_rng(seed)
    ref = wt.reference(model)
    q = [model.home.q]
    for _ in range(count - 1):
        step = 0.05 * rng.standard_normal(model.nv)
        moved = ref.integrate(q[-1], step)
        q.append(wt.assemble(model, moved) if model.constraints else moved)
    return np.array(q)


@pytest.mark.parametrize("seed", range(3))
def test_poses_are_those_of_the_reference(seed):
    model = wt.mechanisms.tree(9, seed=seed)
    q = states(model, seed=seed)
    moves = Moves(model, np.arange(float(len(q))), q)
    for body in model.bodies:
        expected = np.array([wt.reference(model).pose(body.name)(row) for row in q])
        np.testing.assert_allclose(moves.body(body.name), expected, atol=1e-13)


class Recorded(dict):
    """As much of a run as the forces need."""


def welded_arms():
    """Two arms of ball joints and hinges that hold each other by a weld, and a wheel that rolls beside them."""
    builder = wt.Builder("welded arms")
    for side in ("left", "right"):
        builder.body(f"{side} upper", 1.0, (0.2, 0, 0), (0.01, 0.02, 0.02))
        builder.body(f"{side} fore", 1.0, (0.2, 0, 0), (0.01, 0.02, 0.02))
        builder.joint(
            f"{side} shoulder", "spherical", "world", f"{side} upper", position=(0.4 * (side == "right"), 0, 0)
        )
        builder.joint(
            f"{side} elbow", "revolute", f"{side} upper", f"{side} fore", position=(0.3, 0, 0), axis=(0, 1, 0)
        )
        builder.frame(f"{side} hand", f"{side} fore", position=(0.3, 0.1, 0))
    builder.body("wheel", 1.0, (0, 0, 0), (0.01, 0.01, 0.02)).joint(
        "rolls", "free", "world", "wheel", position=(0, 0, 0.3)
    )
    return (
        builder.constraint("grip", "weld", "left hand", "right hand")
        .constraint("road", "rolling", "world", "wheel", radius=0.3)
        .build()
    )


@pytest.mark.parametrize("name", [*CLOSED, "welded arms"])
def test_wrenches_do_the_work_of_the_constraint_forces(name):
    """Aᵀ f = Σ J₂ᵀ W − J₁ᵀ W: the wrench W on the second frame, its reaction on the first."""
    model = welded_arms() if name == "welded arms" else getattr(wt.mechanisms, name)()
    q = states(model, count=2)
    ref = wt.reference(model)
    f = np.random.default_rng(1).standard_normal((2, len(wt.constraint_set(model).row_names)))
    redundant = list(wt.constraint_set(model).structure.redundant)
    f[:, redundant] = 0.0
    moves = Moves(model, np.zeros(2), q)
    found = constraint_wrenches(model, moves, Recorded(constraint_forces=f))
    for i in range(2):
        work = np.zeros(model.nv)
        for constraint in model.constraints:
            point, (moment, force) = found[constraint.name][0][i], found[constraint.name][1][i].reshape(2, 3)
            for sign, frame in ((-1, constraint.on[0]), (1, constraint.on[1])):
                if frame == "world":
                    continue
                # rows are the frame's own: turn them into the world
                X, J = ref.pose(frame)(q[i]), ref.jacobian(frame)(q[i])
                there = moment + np.cross(point - X[:3, 3], force)
                work += sign * (X[:3, :3] @ J[:3]).T @ there + sign * (X[:3, :3] @ J[3:]).T @ force
        np.testing.assert_allclose(work, ref.constraint_jacobian(q[i]).T @ f[i], atol=1e-11)


def test_a_rolling_disc_touches_the_plane_below_its_centre():
    model = wt.mechanisms.rolling_disc(radius=0.3, tilt=0.4)
    shown = scene(model)
    (mark,) = [item for item in shown.items if item.layer == "contact points"]
    point = shown.tracks[mark.track].poses[0, :3, 3]
    assert abs(point[2]) < 1e-12
    assert np.linalg.norm(point - model.home.q[:3]) == pytest.approx(0.3)


def test_contacts_that_touch_are_marked_and_others_are_not():
    model = wt.mechanisms.bouncing_ball(height=1.0)
    assert "contact points" not in scene(model).layers
    lying = model.home.q.copy()
    lying[-1] -= wt.reference(model).contact_gaps(model.home.q)[0]
    shown = scene(model, q=lying)
    assert "contact points" in shown.layers


def reach(shown, body):
    """Lowest and highest corner of a body's items in its own axes."""
    vertices = [
        item.mesh.vertices for item in shown.items if item.name == body and item.layer in ("bodies", "massless links")
    ]
    everything = np.concatenate(vertices)
    return everything.min(axis=0), everything.max(axis=0)


def test_a_uniform_rod_reaches_its_end_from_inertia_alone():
    builder = wt.Builder("rod").body("bar", 2.0, (0.35, 0, 0), wt.mechanisms.rod_inertia(2.0, 0.7))
    model = builder.joint("hinge", "revolute", "world", "bar").build()
    (points,) = sticks.ports(model)
    np.testing.assert_allclose(points, [[0, 0, 0], [0.7, 0, 0]], atol=1e-15)
    low, high = reach(scene(model), "bar")
    thick = high[1]
    np.testing.assert_allclose([low[0], high[0]], [-thick, 0.7 + thick], atol=1e-12)


def test_half_extents_of_a_box_from_its_inertia():
    a, b, c, m = 0.3, 0.2, 0.7, 1.5
    moments = m / 3 * np.array([b * b + c * c, a * a + c * c, a * a + b * b])  # half lengths a, b, c
    body = wt.Builder("x").body("b", m, inertia=moments).joint("j", "free", "world", "b").build().bodies[0]
    np.testing.assert_allclose([sticks.half_extent(body, d) for d in np.eye(3)], [a, b, c], rtol=1e-14)


def test_massless_links_have_their_own_layer_and_colour(crank):
    model, _ = crank
    items = [item for item in scene(model).items if item.layer == "massless links"]
    assert {item.name for item in items} == {"connecting rod"}
    gaps = np.diff(np.unique(np.concatenate([item.mesh.vertices[:, 0] for item in items]).round(9)))
    assert (gaps > 0.05).sum() >= 8  # dashes


@pytest.mark.parametrize(
    ("model", "planar"),
    [
        (wt.mechanisms.four_bar(), True),
        (wt.mechanisms.cart_pole(), True),
        (wt.mechanisms.andrews(), True),
        (wt.mechanisms.knife_edge_sleigh(), True),
        (wt.mechanisms.stewart_platform(), False),
        (wt.mechanisms.tree(4), False),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_planar_mechanisms_are_seen_straight_on(model, planar):
    camera = scene(model).camera
    assert camera.planar == planar
    frame = np.stack([camera.right, camera.up, camera.back])
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(frame) > 0
    if planar:
        up = -np.asarray(model.gravity, dtype=float)
        assert camera.up @ up >= 0
        corners = np.array([[1.0, 2.0, 0.0]])
        if abs(camera.back[2]) > 0.9:
            np.testing.assert_allclose(camera.shown(corners)[0, :2], [1, 2], atol=1e-12)


SOLIDS = {
    "box": (solids.box((1, 2, 3)), 6.0),
    "sphere": (solids.sphere(1.0), 4 / 3 * np.pi),
    "cylinder": (solids.cylinder(1.0, 2.0), 2 * np.pi),
    "capsule": (solids.capsule(1.0, 2.0), 2 * np.pi + 4 / 3 * np.pi),
    "ring": (solids.ring(2.0, 0.5), 2 * np.pi**2 * 2 * 0.25),
    "arrow": (solids.arrow(0.1, 0.3), np.pi * 0.01 * 0.7 + np.pi * 0.09 * 0.3 / 3),
    "hull": (solids.hull(np.array([[x, y, z] for x in (0, 1) for y in (0, 2) for z in (0, 3)], dtype=float)), 6.0),
    "mirrored": (solids.sphere(1.0).moved(np.diag([-1.0, 2.0, 1.0, 1.0])), 8 / 3 * np.pi),
}


@pytest.mark.parametrize("name", SOLIDS)
def test_solids_are_closed_and_look_outwards(name):
    """The volume inside, by the divergence theorem: a hole or a face that looks inwards would miss it."""
    mesh, volume = SOLIDS[name]
    a, b, c = (mesh.vertices[mesh.faces[:, i]] for i in range(3))
    inside = (np.cross(a, b) * c).sum() / 6
    assert 0.93 * volume < inside <= volume * (1 + 1e-12)  # corners lie on the round surface, faces inside
    area = np.cross(b - a, c - a).sum(axis=0)
    np.testing.assert_allclose(area, 0, atol=1e-12 * len(mesh.faces))


@pytest.mark.slow
def test_every_ready_made_mechanism_can_be_drawn():
    for name in wt.mechanisms.__all__:
        if name in ("rod_inertia",):
            continue
        build = getattr(wt.mechanisms, name)
        model = build(4) if name in ("chain", "tree") else build()
        shown = scene(model)
        assert "bodies" in shown.layers or "massless links" in shown.layers, name
        assert np.isfinite(shown.bounds).all(), name
        for item in shown.items:
            assert np.isfinite(item.mesh.vertices).all(), (name, item.name)
            assert item.mesh.faces.max() < len(item.mesh.vertices), (name, item.name)


def test_constraints_that_are_off_or_unknown_are_no_obstacle():
    builder = wt.Builder("two").body("a", 1.0, (1, 0, 0)).joint("j", "revolute", "world", "a")
    builder.constraint("off", "point", "world", "a", active=False).constraint("odd", "mjcf_tendon", "some tendon")
    assert "closures" not in scene(builder.build(), q=[0.0]).layers


def test_a_model_with_nothing_in_it_is_an_empty_scene():
    shown = scene(wt.Builder("nothing").build())
    assert shown.layers in ([], ["frames"])
    assert np.isfinite(shown.bounds).all()


@pytest.mark.parametrize("size", [{}, {"raduis": 0.1}, {"radius": "big"}])
def test_a_ball_without_a_radius_is_left_out_and_told(size):
    builder = wt.Builder("m").body("a", 1.0).joint("j", "free", "world", "a").geometry("ball", "a", "sphere", **size)
    assert "ball: sphere cannot be drawn" in scene(builder.build()).notes


def test_numbers_of_other_kinds_are_drawn_too():
    from fractions import Fraction

    model = wt.mechanisms.double_pendulum(lengths=(Fraction(1, 3), Fraction(2, 3)), masses=(Fraction(1), Fraction(0)))
    assert "massless links" in scene(model).layers


def test_contact_forces_do_the_work_of_the_contact_rows():
    """λ · J v = Σ F · u, u the velocity of the first body's point, for a body that touches the world."""
    model = wt.mechanisms.quadruped()
    ref, contacts = wt.reference(model), wt.contact_set(model)
    rng = np.random.default_rng(2)
    q, v = states(model, count=2)[1], rng.standard_normal(model.nv)
    strength = rng.standard_normal((1, len(contacts.names), 3))
    moves = Moves(model, np.zeros(1), q[None])
    found = contact_forces(model, moves, Recorded(contact_force=strength))
    power = 0.0
    for contact, (point, force) in zip(model.contacts, found.values(), strict=True):
        body = model.geometry(contact.first).body
        X, V = ref.pose(body)(q), ref.twist(body)(q, v)
        velocity = X[:3, :3] @ V[3:] + np.cross(X[:3, :3] @ V[:3], point[0] - X[:3, 3])
        power += velocity @ force[0]
    assert power == pytest.approx(float(strength.reshape(-1) @ ref.contact_velocity(q, v)), rel=1e-12)


def test_forces_of_a_hull_of_many_corners_are_drawn_where_steps_meet_it():
    """Steps have other candidates of such a hull on a plane than the functions of the model."""
    balls = np.random.default_rng(1).normal(size=(4, 20, 3))
    balls /= np.linalg.norm(balls, axis=2, keepdims=True)
    corners = 0.1 * np.vstack([np.zeros(3), np.eye(3)])[:, None] + 0.01 * balls
    corners = corners.reshape(-1, 3) - 0.025  # a blunt tetrahedron: one octant has no corner
    builder = wt.Builder("stone").geometry("floor", "world", "half_space")
    builder.body("stone", 1.0, inertia=(0.004, 0.004, 0.004))
    builder.joint("fly", "free", "world", "stone", start=(0, 0, 0.06, 1, 0, 0, 0))
    model = (
        builder.geometry("hull", "stone", "mesh", vertices=corners).contact("lies", "hull", "floor", friction=1).build()
    )
    run = wt.simulate(model, duration=0.5, method="time_stepping", output_dt=0.5)
    assert run.contact_force.shape[1] != len(wt.contact_set(model).names)
    found = contact_forces(model, Moves(model, run.time.values, run.q.values), run)
    pushes = sum(force[-1] for _, force in found.values())
    np.testing.assert_allclose(pushes, run.contact_force.values[-1, :, 0].sum() * np.array([0, 0, 1.0]), atol=0.5)
    assert all(abs(point[-1, 2]) < 1e-6 for point, force in found.values() if force[-1] @ force[-1] > 1e-6)


def test_arrows_of_contact_forces_have_their_own_layer():
    model = wt.mechanisms.bouncing_ball(height=1.0)
    lying = model.home.q.copy()
    lying[-1] -= wt.reference(model).contact_gaps(model.home.q)[0]
    run = xarray.Dataset(
        {
            "q": (("time", "coordinate"), np.array([model.home.q, lying])),
            "contact_force": (("time", "contact", "axis"), np.array([[[0.0, 0, 0]], [[5.0, 0, 0]]])),
        },
        coords={"time": [0.0, 1.0]},
    )
    shown = scene(model, run)
    (arrow,) = [item for item in shown.items if item.layer == "contact forces"]
    lengths = np.linalg.norm(shown.tracks[arrow.track].poses[:, :3, 2], axis=1)
    assert lengths[0] == 0
    up = shown.tracks[arrow.track].poses[1, :3, 2] / lengths[1]
    np.testing.assert_allclose(up, shown.camera.vertical, atol=1e-12)
