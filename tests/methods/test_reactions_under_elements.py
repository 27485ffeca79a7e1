"""Reactions under tendons, fluids, held-up weight and their actuators: Newton and Euler for every body by itself.

The forces of elements are worked out here from the poses of points alone, and nothing but sums over the wrenches on
each body is compared: reactions + elements + weight = rate of momentum.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import whippletree as wt
from methods.test_reactions import ends, rate_of_momentum, shifted
from strategies import make_motion
from whippletree.tree.element_forces import element_wrenches
from whippletree.tree.mechanism import Mechanism

WIND = (0.4, -0.3, 0.2)
TENDONS = {
    # frames, and stiffness, rest, damping
    "across": (("wall", "carriage eye"), (30.0, 0.2, 1.0)),
    "stay": (("post eye", "arm eye"), (20.0, 0.1, 2.0)),
    "inside": (("arm eye", "plate eye"), (40.0, 0.05, 1.0)),
    "thrice": (("wall", "arm eye", "ball eye"), (10.0, 0.3, 0.5)),
}


def rig(*, loop: bool = False) -> wt.Model:
    """A post welded to the ground, a slider on it, an arm with a plate welded to it, a ball that is free, and more."""
    builder = wt.Builder("rig", (0.3, -0.2, -9.81))
    parts = {"post": 3.0, "carriage": 2.0, "arm": 1.5, "plate": 0.5, "ball": 0.7}
    for k, (name, mass) in enumerate(parts.items()):
        builder.body(name, mass, center=(0.1, 0.05 * k, -0.1), inertia=(0.03, 0.04, 0.05))
        builder.frame(f"{name} eye", name, position=(0.3, 0.1 - 0.1 * k, 0.2))
    builder.frame("wall", "world", position=(0.2, 1.0, 0.6))
    builder.joint("foot", "weld", "world", "post", position=(0.1, 0, 0.3))
    builder.joint("slide", "prismatic", "post", "carriage", axis=(1, 0, 0), stiffness=5.0)
    builder.joint("elbow", "revolute", "carriage", "arm", axis=(0, 1, 0), position=(0.4, 0, 0.1), rotor_inertia=0.2)
    builder.joint("clamp", "weld", "arm", "plate", position=(0.2, 0.1, 0))
    builder.joint("float", "free", "world", "ball")
    for name, (frames, (stiffness, rest, damping)) in TENDONS.items():
        builder.tendon(name, *frames, stiffness=stiffness, rest=rest, damping=damping)
    builder.tendon("sum", joints={"slide": 2.0, "elbow": -1.0}, stiffness=7.0)
    for name in ("arm", "post"):
        builder.fluid_box(f"air of {name}", name, size=(0.2, 0.3, 0.4), density=1.2, viscosity=0.1, wind=WIND)
    builder.lift("balloon", "plate", share=0.6)
    builder.actuator("winch", tendon="stay", gear=-2.0).actuator(
        "jet", frame="plate eye", gear=(0, 0.1, 0, 3.0, 0, 1.0)
    )
    if loop:
        builder.constraint("tie", "point", "ball eye", "plate eye")
    return builder.build()


def point(ref, frame, q, v):
    """Position and velocity of a frame's origin in the world."""
    pose = ref.pose(frame)(q)
    return pose[:3, 3], pose[:3, :3] @ ref.twist(frame)(q, v)[3:]


def tendon_state(ref, frames, q, v):
    """Length, its rate, and the directions of the pieces."""
    points = [point(ref, frame, q, v) for frame in frames]
    length, rate, directions = 0.0, 0.0, []
    for (p, u), (r, w) in pairwise(points):
        d = (r - p) / np.linalg.norm(r - p)
        length, rate = length + np.linalg.norm(r - p), rate + d @ (w - u)
        directions.append(d)
    return length, rate, directions


def tendon_pushes(model, ref, frames, tension, q, v):
    """(body, wrench about the world's origin) of a tension, N."""
    *_, directions = tendon_state(ref, frames, q, v)
    for d, first, second in zip(directions, frames, frames[1:]):
        for frame, pull in ((first, tension * d), (second, -tension * d)):
            p, _ = point(ref, frame, q, v)
            yield model.frame(frame).body, np.concatenate([np.cross(p, pull), pull])


def drag(ref, box, q, v):
    """A box's wrench in its body's frame, about the box's centre, which is the body's origin here."""
    R, V = ref.pose(box.body)(q)[:3, :3], ref.twist(box.body)(q, v)
    w, u = V[:3], V[3:] - R.T @ np.array(WIND)
    a, b, c = box.size
    d = (a + b + c) / 3
    spread = np.array([a * (b**4 + c**4), b * (a**4 + c**4), c * (a**4 + b**4)])
    moment = -np.pi * d**3 * box.viscosity * w - box.density / 64 * spread * np.abs(w) * w
    force = -3 * np.pi * d * box.viscosity * u - box.density / 2 * np.array([b * c, a * c, a * b]) * np.abs(u) * u
    return np.concatenate([moment, force])


def element_pushes(model, ref, q, v):
    """(body, wrench about the world's origin) of all elements that act by themselves on bodies."""
    for frames, (stiffness, rest, damping) in TENDONS.values():
        length, rate, _ = tendon_state(ref, frames, q, v)
        yield from tendon_pushes(model, ref, frames, stiffness * (length - rest) + damping * rate, q, v)
    for name in ("arm", "post"):
        box = next(e for e in model.elements if e.name == f"air of {name}")
        yield name, shifted(drag(ref, box, q, v), ref.pose(name)(q))
    plate = model.bodies[model.body_index("plate")]
    pose = ref.pose("plate")(q)
    center, force = pose[:3, :3] @ plate.center.astype(float) + pose[:3, 3], -0.6 * plate.mass * model.gravity
    yield "plate", np.concatenate([np.cross(center, force), force]).astype(float)


def actuator_pushes(model, ref, q, v, ctrl):
    """(body, wrench about the world's origin) of the winch, which shortens its tendon, and of the jet."""
    winch, jet = ctrl
    yield from tendon_pushes(model, ref, TENDONS["stay"][0], 2.0 * winch, q, v)
    yield "plate", shifted(np.array([0, 0.1, 0, 3.0, 0, 1.0]) * jet, ref.pose("plate eye")(q))


def assert_balanced(model, ref, q, v, a, reactions, pushes):
    """Reactions + pushes = rate of momentum − weight, of every body."""
    rest = {body.name: -rate_of_momentum(model, ref, body, q, v, a) for body in model.bodies} | {"world": np.zeros(6)}
    for body, wrench in pushes:
        rest[body] = rest[body] + wrench
    for (first, second, frame), reaction in zip(ends(model), reactions, strict=True):
        wrench = shifted(reaction, ref.pose(frame)(q))
        rest[second], rest[first] = rest[second] + wrench, rest[first] - wrench
    size = max(np.abs(reactions).max(), 1.0)
    for body in model.bodies:
        assert np.abs(rest[body.name]).max() <= 1e-11 * size, (body.name, rest[body.name])


def closed_motion(model, seed):
    """A state that meets the constraints, and joint forces of motors."""
    motion = make_motion(model, seed)
    if not model.constraints:
        return motion.q, motion.v, motion.tau
    q = wt.assemble(model, motion.q)
    return q, wt.reference(model).project_velocity(q, motion.v), motion.tau


@pytest.mark.parametrize("loop", [False, True])
def test_elements_load_the_bodies_that_they_act_on(loop):
    """In the reference and compiled; along the freedoms of a joint the reaction is what elements leave to it."""
    model = rig(loop=loop)
    ref, dyn = wt.reference(model), wt.compile(model)
    for seed in range(3):
        q, v, motors = closed_motion(model, seed)
        tau = motors + ref.passive_forces(q, v)
        a = ref.forward_dynamics(q, v, tau)
        found, _ = ref.joint_reactions(q, v, tau)
        assert_balanced(model, ref, q, v, a, found, element_pushes(model, ref, q, v))
        compiled, _ = dyn.joint_reactions(q, v, tau)
        assert np.allclose(compiled, found, rtol=1e-10, atol=1e-10 * np.abs(found).max())
        if not loop:
            spring, summed = -5.0 * q[0], -7.0 * 2.0 * (2.0 * q[0] - q[1])
            assert np.isclose(found[1, 3], motors[0] + spring + summed)


@pytest.mark.parametrize("loop", [False, True])
def test_actuators_of_tendons_and_frames_load_the_bodies_that_they_act_on(loop):
    model = rig(loop=loop)
    ref, dyn = wt.reference(model), wt.compile(model)
    q, v, motors = closed_motion(model, 5)
    ctrl = np.array([3.0, -2.0])
    tau = motors + ref.passive_forces(q, v) + ref.actuator_forces(q, v, ctrl)
    a = ref.forward_dynamics(q, v, tau)
    f = ref.constraint_forces(q, v, tau) if loop else np.zeros(0)
    wrenches = dyn.actuator_wrenches(q, v, ctrl)
    assert np.allclose(wrenches, ref.actuator_wrenches(q, v, ctrl), rtol=1e-12, atol=1e-12)
    for functions in (ref, dyn):
        found, _ = functions.joint_reactions_of_motion(q, v, a, f, wrenches)
        pushes = [*element_pushes(model, ref, q, v), *actuator_pushes(model, ref, q, v, ctrl)]
        assert_balanced(model, ref, q, v, a, found, pushes)


def test_a_spring_across_a_slider_is_carried_by_its_guide():
    """50 N across the axis move nothing, and were once missing from the reaction."""
    builder = wt.Builder("guide", (0, 0, 0)).body("block", 1.0, inertia=(1, 1, 1))
    builder.joint("slide", "prismatic", "world", "block", axis=(1, 0, 0)).frame("hook", "world", position=(0, 1.0, 0))
    model = builder.frame("eye", "block").tendon("spring", "hook", "eye", stiffness=100.0, rest=0.5).build()
    found, _ = wt.compile(model).joint_reactions(np.zeros(1), np.zeros(1), np.zeros(1))
    assert np.allclose(found, [[0, 0, 0, 0, -50.0, 0]])


def test_wrapped_and_branched_tendons_push_bodies_as_they_move_them():
    """Σ Jᵀ w is the joint force of the elements, and what acts between bodies adds up to nothing."""
    builder = wt.Builder("wrapped", (0, 0, 0))
    for name, parent in (("a", "world"), ("b", "a"), ("c", "b")):
        builder.body(name, 1.0, inertia=(1, 1, 1)).joint(f"j {name}", "spherical", parent, name, position=(0.5, 0.1, 0))
        builder.frame(f"on {name}", name, position=(0.1, 0.3, 0.05))
    builder.frame("hub", "b", position=(0.1, 0.1, 0))
    builder.tendon("round", "on a", "on c", stiffness=9.0, around=[{"frame": "hub", "kind": "sphere", "radius": 0.15}])
    builder.tendon("split", branches=[("on a", "on b"), ("on b", "on c")], divisors=(2, 3), stiffness=5.0)
    model = builder.build()
    ref, m = wt.reference(model), Mechanism.of(model)
    for seed in range(4):
        q, v, *_ = make_motion(model, seed)
        on = element_wrenches(m, q.astype(object), v.astype(object)).astype(float)
        names = [body.name for body in model.bodies]
        tau = sum(ref.jacobian(name)(q).T @ wrench for name, wrench in zip(names, on))
        assert np.allclose(tau, ref.element_forces(q, v), rtol=1e-11, atol=1e-11)
        total = sum(shifted(wrench, ref.pose(name)(q)) for name, wrench in zip(names, on))
        assert np.abs(on).max() > 1
        assert np.abs(total).max() <= 1e-12 * np.abs(on).max()
