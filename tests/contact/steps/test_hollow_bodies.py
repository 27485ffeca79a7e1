"""Bodies that are not convex, by their pieces: trays and cups hold a ball, a ring lets a peg through, a bracket hangs.

What is known in closed form holds to the distance between the mesh and its pieces, as the decomposition tells it.
"""

import numpy as np
import pytest

import whippletree as wt
from mesh_solids import BRACKET, CUP, RING, TRAY, cell_mesh, turned_mesh
from whippletree.contact.geometry.convex_pieces import convex_pieces

BALL = 0.02


def mesh(solid):
    vertices, faces = cell_mesh(*solid)
    return {"vertices": vertices, "faces": faces}


def departure(solid):
    """m: how far the pieces of a solid depart from it."""
    distance = convex_pieces("mesh", *cell_mesh(*solid), 0.02).distance
    assert distance < 1e-4
    return distance


def ball_over(kind, numbers, start, *, radius=BALL, friction=0.5):
    """A ball that falls onto something of the world."""
    builder = wt.Builder("scene").geometry("thing", "world", kind, **numbers)
    builder.body("ball", 0.1, inertia=[0.4 * 0.1 * radius**2] * 3).geometry("ball", "ball", "sphere", radius=radius)
    builder.joint("ball", "free", "world", "ball", start=(*start, 1, 0, 0, 0))
    return builder.contact("rest", "ball", "thing", friction=friction).build()


@pytest.mark.slow
def test_a_ball_rests_in_a_tray_and_not_on_its_lid():
    lidded = ball_over("mesh", mesh(TRAY), (0.031, -0.047, 0.15))
    for model, height in ((lidded, 0.06), (wt.decompose(lidded), 0.01)):
        run = wt.simulate(model, duration=0.4, output_dt=0.1, method="time_stepping")
        assert run.q.values[-1, 2] == pytest.approx(height + BALL, abs=departure(TRAY))
        assert run.penetration.values.max() < 1e-9
        assert run.attrs["unconverged_steps"] == 0
        assert run.attrs["path"] == "compiled"


@pytest.mark.slow
def test_a_ball_rolls_over_the_seams_of_a_floor_as_over_a_plane():
    """Pieces of one floor are one floor: no step is felt where one piece ends and the next begins."""
    tray = wt.decompose(ball_over("mesh", mesh(TRAY), (0.0, 0.0, 0.01 + BALL)))
    plane = ball_over("half_space", {"position": (0, 0, 0.01)}, (0.0, 0.0, 0.01 + BALL))
    v = np.array([0, 0, 0, 0.11, 0.07, 0])
    runs = [wt.simulate(model, v0=v, duration=0.5, output_dt=0.1, method="time_stepping") for model in (tray, plane)]
    # a floor that is off by d over the width w of a piece slopes by d / w
    away = departure(TRAY) * (1 + 9.81 * 0.5**2 / 2 / 0.09)
    assert np.abs(runs[0].q.values[:, :3] - runs[1].q.values[:, :3]).max() < away


@pytest.mark.slow
def test_a_ball_comes_to_rest_in_a_tray_by_events():
    model = wt.decompose(ball_over("mesh", mesh(TRAY), (0.031, -0.047, 0.05)))
    run = wt.simulate(model, duration=0.1, output_dt=0.05, method="events")
    touchdown = np.sqrt(2 * (0.05 - 0.01 - BALL) / 9.81)
    assert run.attrs["event_times"][0] == pytest.approx(touchdown, abs=departure(TRAY) / (9.81 * touchdown))
    assert run.q.values[-1, 2] == pytest.approx(0.01 + BALL, abs=departure(TRAY))


@pytest.mark.slow
def test_a_ball_rests_in_a_cup():
    vertices, faces = turned_mesh(CUP, 8)
    model = wt.decompose(ball_over("mesh", {"vertices": vertices, "faces": faces}, (0.004, 0, 0.2)))
    run = wt.simulate(model, duration=0.6, output_dt=0.1, method="time_stepping")
    tolerance = 0.02 * 0.1  # of pieces, m
    assert run.q.values[-1, 2] == pytest.approx(0.01 + BALL, abs=tolerance)
    assert run.penetration.values.max() < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "numbers"),
    [
        ("cylinder", {"radius": 0.025, "length": 0.08}),
        ("capsule", {"radius": 0.025, "length": 0.08}),
        ("box", {"size": (0.05, 0.05, 0.1)}),
    ],
)
def test_a_peg_falls_through_a_ring(kind, numbers):
    """As if nothing were there, but by its hull the ring stops it; steps fall g h t / 2 behind."""
    builder = wt.Builder("scene").geometry("ring", "world", "mesh", **mesh(RING))
    builder.body("peg", 0.1, inertia=(1e-4, 1e-4, 5e-5)).geometry("peg", "peg", kind, **numbers)
    builder.joint("peg", "free", "world", "peg", start=(0.002, -0.003, 0.12, 1, 0, 0, 0))
    closed = builder.contact("touch", "peg", "ring", friction=0.3).build()
    stopped, through = (
        wt.simulate(model, duration=0.25, output_dt=0.05, method="time_stepping")
        for model in (closed, wt.decompose(closed))
    )
    assert stopped.q.values[-1, 2] > 0.04
    assert through.q.values[-1, 2] == pytest.approx(0.12 - 9.81 * 0.25 * (0.25 + 1e-3) / 2, abs=1e-9)
    assert np.abs(through.contact_force.values).max() == 0


@pytest.mark.slow
def test_a_ball_flies_through_a_ring_by_events():
    model = wt.decompose(ball_over("mesh", mesh(RING), (0.002, -0.003, 0.05)))
    run = wt.simulate(model, duration=0.2, output_dt=0.1, method="events")
    assert list(run.attrs["event_names"]) == []
    assert run.q.values[-1, 2] == pytest.approx(0.05 - 9.81 * 0.2**2 / 2, abs=1e-9)


def test_a_bracket_hangs_on_a_rod():
    """The corner of the L up, a rod of radius r in it: its edge rests √2 r above the rod's axis, both arms touch, and
    each bears mg / √2 without friction."""
    radius, mass, s = 0.008, 0.2, np.sqrt(0.5)
    vertices, faces = cell_mesh(*BRACKET)
    arms_down = np.array([[s, -s, 0], [0, 0, 1], [-s, -s, 0]])
    vertices = (vertices - (0.01, 0.01, 0.025)) @ arms_down.T
    centre = arms_down @ np.array([(0.1 * 0.04 - 0.09 * 0.005) / 0.19] * 2 + [0])
    builder = wt.Builder("hook").body("hook", mass, center=centre, inertia=(2e-4, 2e-4, 2e-4))
    builder.joint("hook", "free", "world", "hook", start=(0, 0, np.sqrt(2) * radius + 2e-3, 1, 0, 0, 0))
    builder.geometry("hook", "hook", "mesh", vertices=vertices, faces=faces)
    along_y = np.array([[1, 0, 0], [0, 0, 1], [0, -1, 0]])
    builder.geometry("rod", "world", "cylinder", radius=radius, length=0.2, rotation=along_y)
    model = wt.decompose(builder.contact("hang", "hook", "rod").build())
    run = wt.simulate(model, duration=0.2, output_dt=0.05, method="time_stepping")
    assert len(model.contacts) == 2
    assert run.q.values[-1, 2] == pytest.approx(np.sqrt(2) * radius, abs=1e-7)
    pieces = np.array([name.startswith("hang/1") for name in run.contact_force.attrs["names"]])
    pushes = run.contact_force.values[-1, :, 0]
    assert pushes[pieces].sum() == pytest.approx(mass * 9.81 * s, rel=1e-3)
    assert pushes[~pieces].sum() == pytest.approx(mass * 9.81 * s, rel=1e-3)


@pytest.mark.slow
def test_a_tray_that_stands_on_a_floor_holds_many_balls():
    """A scene of many free bodies: the tray is one of them, and the floor bears them all."""
    builder = wt.Builder("heap").geometry("floor", "world", "half_space")
    builder.body("tray", 1.0, center=(0, 0, 0.02), inertia=(5e-3, 5e-3, 8e-3))
    builder.joint("tray", "free", "world", "tray").geometry("tray", "tray", "mesh", **mesh(TRAY))
    balls = [f"ball {k}" for k in range(13)]
    for k, name in enumerate(balls):
        start = (0.045 * (k % 3 - 1), 0.045 * (k // 3 % 3 - 1), 0.04 + 0.05 * (k // 9), 1, 0, 0, 0)
        builder.body(name, 0.1, inertia=[1.6e-5] * 3).geometry(name, name, "sphere", radius=BALL)
        builder.joint(name, "free", "world", name, start=start)
    model = wt.decompose(builder.contact_group("all", ["floor", "tray", *balls], friction=0.4).build())
    run = wt.simulate(model, duration=0.6, step=2e-3, output_dt=0.1, method="time_stepping", tolerance=1e-5)
    heights = run.q.values[-1].reshape(-1, 7)[:, 2]
    assert abs(heights[0]) < 1e-6
    assert heights[1:].min() > 0.01 + BALL - 1e-6
    assert heights[1:].max() < 0.1
    assert np.abs(run.q.values[-1].reshape(-1, 7)[1:, :2]).max() < 0.09
    assert run.attrs["largest_overlap"] < 1e-6
