"""Bodies that slide in space, and what every run of them must show."""

from __future__ import annotations

import numpy as np

import whippletree as wt

EVENTS = {"method": "events", "saltation": False}
G = 9.81
TRIPOD = np.array([[0.3, 0.1], [-0.2, 0.25], [-0.1, -0.3]])
TABLE = np.array([[0.4, 0.3], [-0.4, 0.3], [-0.4, -0.3], [0.4, -0.3]])


def sled(feet=TRIPOD, height=0.0, friction=0.4, mass=2.0, inertia=0.08):
    """A plate on feet whose centre of mass is ``height`` above the ground: at 0 the feet's loads are constant."""
    builder = wt.Builder("sled").geometry("ground", "world", "half_space")
    builder.body("plate", mass, inertia=(0.05, 0.05, inertia))
    builder.joint("free", "free", "world", "plate", start=(0, 0, height, 1, 0, 0, 0))
    for n, (x, y) in enumerate(feet):
        builder.geometry(f"foot {n}", "plate", "point", position=(x, y, -height))
        builder.contact(f"foot {n} on ground", f"foot {n}", "ground", friction=friction)
    return builder.build()


def energy(run):
    return (run["kinetic_energy"] + run["potential_energy"]).values


def tilted(model, rotation, height):
    angle = np.linalg.norm(rotation)
    q = model.home.q.copy()
    q[2] += height
    q[3:7] = [np.cos(angle / 2), *(np.sin(angle / 2) * np.array(rotation) / angle)]
    return q


def assert_lawful(run):
    """No reason to stop, no energy gained, no force outside its cone, nothing inside the ground."""
    assert run.attrs["failure"] == ""
    assert np.diff(energy(run)).max() < 1e-9
    assert float(run["cone_violation"].max()) < 1e-9
    assert float(run["contact_gap"].min()) > -1e-9
