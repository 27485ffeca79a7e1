"""Scenes with contact whose outcome is published or follows from a line of mechanics: carried balls, an arch, a disc.

The arch: M. Milankovitch, *Theorie der Druckkurven* (1907), as corrected for finitely many voussoirs with radial
joints; J. Heyman, *The stone skeleton* (1966), for what is assumed: stones neither slide, nor break, nor pull.
"""

import numpy as np
import pytest

import whippletree as wt

G = 9.81

# --- balls on a box that is pulled ------------------------------------------------------------------------------------

BOX, BALL, BALLS, PULL = 10.0, 1.0, 25, 150.0


def carried_balls():
    """SimBenchmark's "rolling": 25 balls on a box; the box slides on the ground (0.4), the balls roll on it (0.8)."""
    b = wt.Builder("rolling").geometry("ground", "world", "half_space")
    size, radius = (2.0, 2.0, 0.1), 0.1
    inertia = tuple(BOX / 12 * (x * x + y * y) for x, y in ((2.0, 0.1), (2.0, 0.1), (2.0, 2.0)))
    b.body("box", BOX, inertia=inertia).joint("box", "free", "world", "box", start=(0, 0, 0.05, 1, 0, 0, 0))
    b.geometry("box", "box", "box", size=size).contact("box on ground", "box", "ground", friction=0.4)
    for k in range(BALLS):
        name, (i, j) = f"ball {k}", divmod(k, 5)
        b.body(name, BALL, inertia=(0.4 * BALL * radius**2,) * 3)
        b.joint(name, "free", "world", name, start=(0.4 * (i - 2), 0.4 * (j - 2), 0.2, 1, 0, 0, 0))
        b.geometry(name, name, "sphere", radius=radius).contact(f"{name} on box", name, "box", friction=0.8)
    return b.build()


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("way", [(1.0, 0.0), (0.5, 3**0.5 / 2)])
def test_balls_roll_on_a_box_that_is_pulled(way):
    """A ball on a plane with acceleration a is carried along at 2/7 a: (M + 2/7 · 25 m) a = F − μ (M + 25 m) g.

    Along a diagonal, where a pyramid instead of a cone gives another answer. Contact forces are constant, so that steps
    of first order have no error.
    """
    model, t = carried_balls(), 0.2
    force = np.zeros(model.nv)
    force[model.slice("box")][3:5] = PULL * np.array(way)
    run = wt.simulate(model, duration=t, step=4e-3, output_dt=t, method="time_stepping", controller=lambda *_: force)
    a = (PULL - 0.4 * (BOX + BALLS * BALL) * G) / (BOX + 2 / 7 * BALLS * BALL)
    assert round(a, 4) == 0.7385  # as printed
    assert round(2 / 7 * a, 3) == 0.211
    v = run.v.values[-1]
    np.testing.assert_allclose(v[model.slice("box")], [0, 0, 0, a * t * way[0], a * t * way[1], 0], atol=1e-5)
    spun = [v[model.slice(f"ball {k}")] for k in range(BALLS)]
    turned = [run.q.values[-1, model.q_slice(f"ball {k}")][3:] for k in range(BALLS)]
    for v_ball, q in zip(spun, turned):
        along = wt.spatial.quaternion_rotation(*q).astype(float) @ v_ball[3:]
        np.testing.assert_allclose(along, [2 / 7 * a * t * way[0], 2 / 7 * a * t * way[1], 0], atol=1e-5)
    assert float(run["penetration"].max()) < 1e-8


# --- the masonry arch -------------------------------------------------------------------------------------------------

STONES, THRESHOLD = 20, 0.1074601


def arch(thickness):
    """A semicircle of mean radius 1 m on the ground, of equal stones with radial joints; they touch, and carry nothing
    yet. A stone is a sector of a ring, with a face for the corners of the next one to stand on."""
    b = wt.Builder("arch").geometry("ground", "world", "half_space")
    inner, outer, half, turn = 1 - thickness / 2, 1 + thickness / 2, 0.2, np.pi / STONES
    far = 2 / 3 * (outer**3 - inner**3) / (outer**2 - inner**2) * np.sin(turn / 2) / (turn / 2)
    mass, sides = 2000 * turn * half * (outer**2 - inner**2), (thickness, 2 * half, turn)
    inertia = tuple(mass / 12 * (sum(s * s for s in sides) - own * own) for own in sides)
    low, high = (
        [(r * np.cos(a) - far, y, r * np.sin(a)) for r in (inner, outer) for y in (-half, half)]
        for a in (-turn / 2, turn / 2)
    )
    up = np.array([-np.sin(turn / 2), 0, np.cos(turn / 2)])
    for k in range(STONES):
        name, middle = f"stone {k}", (k + 0.5) * turn
        place = (far * np.cos(middle), 0, far * np.sin(middle))
        b.body(name, mass, inertia=inertia)
        b.joint(name, "free", "world", name, start=(*place, np.cos(middle / 2), 0, -np.sin(middle / 2), 0))
        across = np.column_stack([np.cross((0, 1, 0), up), (0, 1, 0), up])
        b.geometry(name, name, "half_space", position=high[0], rotation=across)
        for i, corner in enumerate(low + high * (k == STONES - 1)):
            b.geometry(f"corner {i} of {name}", name, "point", position=corner)
            below = "ground" if k == 0 or i >= len(low) else f"stone {k - 1}"
            b.contact(f"corner {i} of {name}", f"corner {i} of {name}", below, friction=0.9)
    return b.build()


@pytest.mark.slow
def test_an_arch_stands_or_falls():
    """At a thickness just above the threshold nothing moves; just below, the crown falls, faster and faster."""
    for thickness in (THRESHOLD + 2e-5, THRESHOLD - 2e-5):
        model = arch(thickness)
        run = wt.simulate(model, duration=0.02, step=2e-3, output_dt=0.01, method="time_stepping")
        assert run.attrs["unconverged_steps"] == 0
        speeds = np.abs(run.v.values).max(axis=1)
        if thickness > THRESHOLD:
            assert speeds[-1] < 1e-6
        else:
            assert speeds[1] > 1e-5
            assert speeds[2] == pytest.approx(2 * speeds[1], rel=0.1)
            assert run.v.values[-1, model.slice(f"stone {STONES // 2}")][3:] @ [1, 0, 0] < 0  # inwards, that is down
        assert float(run["penetration"].max()) < 1e-8


# --- Euler's disc -----------------------------------------------------------------------------------------------------


def tilted_disc(radius, tilt):
    """A thin disc on its rim, its lowest point at y = −r cos α."""
    b = wt.Builder("Euler's disc").geometry("ground", "world", "half_space")
    b.body("disc", 0.4, inertia=tuple(0.4 * radius**2 / n for n in (4, 4, 2)))
    start = (0, 0, radius * np.sin(tilt), np.cos(tilt / 2), np.sin(tilt / 2), 0, 0)
    b.joint("disc", "free", "world", "disc", start=start)
    b.geometry("face", "disc", "cylinder", radius=radius, length=4e-3, position=(0, 0, 2e-3))
    return b.contact("rim", "face", "ground", friction=0.9).build()


@pytest.mark.parametrize("tilt", [0.2, 0.5])
def test_eulers_disc_turns_about_a_centre_at_rest(tilt):
    """Ω² = 4 g / (r sin α) keeps the tilt; steps of first order leave it by half as much at half their length.

    (Events, which are of a high order, keep it to 1e-9: tests/contact/events/test_textbook_rolling.py.)
    """
    radius = 0.1
    model, rate = tilted_disc(radius, tilt), np.sqrt(4 * G / (radius * np.sin(tilt)))
    found = []
    for step in (4e-5, 2e-5):
        v0 = [0, rate * np.sin(tilt), 0, 0, 0, 0]
        run = wt.simulate(model, v0=v0, duration=0.2, step=step, method="time_stepping")
        assert run.attrs["unconverged_steps"] == 0
        found.append(np.abs(run.q.values[:, :3] - model.home.q[:3]).max())
    assert found[1] < 5e-5
    assert found[0] == pytest.approx(2 * found[1], rel=0.02)
