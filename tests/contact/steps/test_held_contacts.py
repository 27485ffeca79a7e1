"""A contact whose normal velocity constraints take whole: nothing moves it apart, and nothing is thrown about."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.rollout.contact_lists.contact_list_recursion import suits_recursion
from whippletree.contact.time_step import RELAXATION_SPEED, ContactBlocks
from whippletree.simulation.time_stepping import impulse_step
from whippletree.simulation.time_stepping.scene_method import is_scene


def pinned_chain(seed, overlap, links=6):
    """A chain in space, the last link but one pinned to a nail; a ball about the pin reaches into the ground."""
    rng = np.random.default_rng(seed)
    builder, parent = wt.Builder("pinned", (0, 0, -9.81)), "world"
    for k in range(links):
        builder.body(f"link {k}", rng.uniform(0.5, 2), center=(0.1, 0.01, 0), inertia=tuple(rng.uniform(0.01, 0.02, 3)))
        axis = rng.normal(size=3)
        place = (0.2, *(0.1 * rng.normal(size=2))) if k else (0, 0, 0)
        own = {"lower": 0.05, "upper": 2.0} if k == links - 1 else {}  # 0.05 beyond its range, which is moved back
        builder.joint(
            f"joint {k}", "revolute", parent, f"link {k}", axis=axis / np.linalg.norm(axis), position=place, **own
        )
        parent = f"link {k}"
    held = f"link {links - 2}"
    builder.frame("hook", held, position=(0.2, 0, 0))
    model = builder.build()
    nail = wt.compile(model).pose("hook")(model.home.q)[:3, 3]
    builder.frame("nail", "world", position=nail).constraint("pin", "point", "hook", "nail")
    if overlap is None:
        return builder.build()
    builder.geometry("ground", "world", "half_space", position=(0, 0, nail[2] - 0.05 + overlap))
    builder.geometry("ball", held, "sphere", radius=0.05, position=(0.2, 0, 0))
    return builder.contact("touch", "ball", "ground").build()


def stepped(model, runs=None):
    start = None if runs is None else np.tile(model.home.q, (runs, 1))
    run = wt.simulate(model, start, duration=0.05, step=1e-3, output_dt=1e-3, method="time_stepping")
    assert run.attrs["unconverged_steps"] == 0
    return run if runs is None else wt.single_run(run, 0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:simulate. at the start")
@pytest.mark.parametrize("route", ["kernel", "python", "batch"])
@pytest.mark.parametrize("overlap", [1e-3, 1e-9])
def test_a_contact_that_a_pin_holds_moves_nothing(route, overlap, monkeypatch):
    """Without friction it does nothing: the motion is that without the contact."""
    free, model = pinned_chain(1, None), pinned_chain(1, overlap)
    if route == "python":
        monkeypatch.setattr(impulse_step, "suits_lists", lambda model: False)
    runs = 2 if route == "batch" else None
    run, alone = stepped(model, runs), stepped(free, runs)
    # batches close loops once a step
    assert np.abs(run.constraint_residual.values).max() <= (1e-6 if route == "batch" else 1e-12)
    assert run.q.values == pytest.approx(alone.q.values, abs=1e-5)
    assert run.contact_gap.values == pytest.approx(-overlap, abs=1e-6 if route == "batch" else 1e-12)


def test_shapes_that_a_pin_holds_together_are_told_of_as_such():
    with pytest.warns(RuntimeWarning, match="o motion of the model moves these shapes apart"):
        wt.simulate(pinned_chain(1, 2e-3), duration=1e-3, step=1e-3, method="time_stepping")


def folded_arm(angle, along, radius, off=0.0, balls=0):
    """A turret on a box that is turned by an angle, and an arm that begins in line with its axis: shoulder and wrist
    are in the box, and about its axis nothing takes them out; ``off``: by how much the shoulder is not on it, m;
    ``balls``: so many lie on the ground beside it."""
    c, s = np.cos(angle), np.sin(angle)
    turned = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1.0]])
    b = wt.Builder("folded arm").geometry("base", "world", "box", size=(0.1, 0.1, 0.3), rotation=turned)
    for name, kind, parent, axis, height in (
        ("turret", "yaw", "world", (0, 0, 1), 0.1),
        ("arm", "pitch", "turret", (s, c, 0), 0.05),
    ):
        b.body(name, 1.0, inertia=(0.01, 0.01, 0.01))
        b.joint(kind, "revolute", parent, name, axis=axis, position=(0, 0, height))
    b.geometry("shoulder", "turret", "sphere", radius=radius, position=(off * c, off * s, -0.02))
    b.geometry("wrist", "arm", "sphere", radius=0.03, position=(0, 0, along))
    b.contact("wrist in base", "wrist", "base", friction=0.5)
    b.contact("shoulder in base", "shoulder", "base", friction=0.5)
    if balls:
        b.geometry("ground", "world", "half_space", position=(0, 0, -1))
    for k in range(balls):
        b.body(f"ball {k}", 1.0, inertia=(0.01, 0.01, 0.01))
        b.joint(f"free {k}", "free", "world", f"ball {k}", position=(k, 3, -0.95))
        b.geometry(f"shell {k}", f"ball {k}", "sphere", radius=0.05)
        b.contact(f"ball {k} on ground", f"shell {k}", "ground", friction=0.5)
    return b.build()


@pytest.mark.parametrize(("angle", "along", "radius"), [(0.3, -0.02, 0.04), (1.1, -0.1, 0.02)])
def test_an_arm_that_begins_in_its_base_is_not_thrown_about(angle, along, radius):
    """The normal of the shoulder passes the axis by rounding alone, and an overlap divided by that turned the turret by
    1e15 rad in one step. What does move apart, the wrist of the second arm, goes at RELAXATION_SPEED all the same."""
    model = folded_arm(angle, along, radius)
    dyn, h = wt.compile(model), 2e-3
    before = np.asarray(dyn.contact_list_touches(model.home.q))[:, 0]
    found = dyn.step(model.home.q, np.zeros(2), dt=h)
    assert abs(found.q[0]) < 1e-12
    assert abs(found.q[1]) < 0.05
    after = np.asarray(dyn.contact_list_touches(found.q))[:, 0]
    np.testing.assert_allclose(after[1], before[1], rtol=0, atol=1e-12)
    moved, freed = after[0] - before[0], RELAXATION_SPEED * h if along < -0.05 else 0.0
    assert freed - 1e-8 < moved < 2 * freed + 1e-8  # it turns, and so comes somewhat farther than along a line


ROUTES = {"kernel": 0, "python": 0, "recursion": 6, "scene": 60}


def takes_route(model, route):
    if route == "recursion":
        return suits_recursion(model, ContactBlocks(model, servos=True, alone=True))
    return is_scene(model) == (route == "scene")


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("off", [0.0, 1e-15, 1e-11, 1e-7, 1e-4])
def test_nor_is_one_whose_base_passes_the_axis_by_little(route, off, monkeypatch):
    """As normals of meshes in single precision do: it would take 2e-3 m / off, in rad, to move the shoulder apart."""
    model, h = folded_arm(0.3, -0.1, 0.02, off=off, balls=ROUTES[route]), 2e-3
    assert takes_route(model, route)
    if route == "python":
        monkeypatch.setattr(impulse_step, "suits_lists", lambda model: False)
    with pytest.warns(RuntimeWarning, match="at the start"):
        run = wt.simulate(model, duration=5 * h, step=h, output_dt=h, method="time_stepping")
    assert np.abs(run.q.values[:, :2]).max() < 0.5
    # the wrist moves apart, 5 h of the 0.03 m that it is in the base or more
    assert run.contact_gap.values[-1, 0] - run.contact_gap.values[0, 0] > 4.9 * RELAXATION_SPEED * h


@pytest.mark.parametrize("route", ["kernel", "python"])
def test_nor_is_one_that_is_jammed(route, monkeypatch):
    """Between a floor and a ceiling, on joints 1e-4 m apart: only some 60 rad of both, against each other, would do."""
    b = wt.Builder("jammed", (0, 0, 0)).geometry("floor", "world", "half_space", position=(0, 0, 0.005))
    b.geometry("ceiling", "world", "half_space", position=(0, 0, -0.005), rotation=np.diag([1.0, -1.0, -1.0]))
    b.body("crank", 1.0, inertia=(0.01, 0.01, 0.01)).joint("first", "revolute", "world", "crank", axis=(0, 1, 0))
    b.body("arm", 1.0, inertia=(0.01, 0.01, 0.01))
    b.joint("second", "revolute", "crank", "arm", axis=(0, 1, 0), position=(-1e-4, 0, 0))
    for name, place, other in (("near", 0.1, "floor"), ("far", 0.2, "ceiling")):
        b.geometry(name, "arm", "sphere", radius=0.01, position=(place, 0, 0))
        b.contact(name, name, other, friction=0.0)
    model, h = b.build(), 2e-3
    if route == "python":
        monkeypatch.setattr(impulse_step, "suits_lists", lambda model: False)
    with pytest.warns(RuntimeWarning, match="at the start"):
        run = wt.simulate(model, duration=5 * h, step=h, output_dt=h, method="time_stepping")
    assert np.abs(np.diff(run.q.values, axis=0)).max() <= 1
