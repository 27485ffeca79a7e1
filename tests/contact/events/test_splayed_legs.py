"""Bent legs that splay on rough ground, by events: feet that jam, and that jam each other."""

import numpy as np
import pytest

import whippletree as wt


def splayed(legs, friction):
    """A trunk on sprung legs of two links that point away from it."""
    builder = wt.Builder("splayed").geometry("ground", "world", "half_space")
    builder.body("trunk", 5.0, inertia=(0.1, 0.1, 0.15)).joint(
        "free", "free", "world", "trunk", start=(0, 0, 0.35, 1, 0, 0, 0)
    )
    for k in range(legs):
        c, s = np.cos(2 * np.pi * k / legs), np.sin(2 * np.pi * k / legs)
        builder.body(f"thigh {k}", 0.5, (0.1, 0, 0), (1e-3, 3e-3, 3e-3))
        builder.body(f"shank {k}", 0.3, (0.12, 0, 0), (5e-4, 2e-3, 2e-3))
        hip = {"position": (0.15 * c, 0.15 * s, 0), "rotation": ((c, -s, 0), (s, c, 0), (0, 0, 1)), "stiffness": 60.0}
        across = {"axis": (0, 1, 0), "damping": 0.3}
        builder.joint(f"hip {k}", "revolute", "trunk", f"thigh {k}", start=0.3, rest=0.3, **hip, **across)
        knee = {"position": (0.2, 0, 0), "start": 0.6, "rest": 0.6, "stiffness": 40.0}
        builder.joint(f"knee {k}", "revolute", f"thigh {k}", f"shank {k}", **knee, **across)
        builder.geometry(f"foot {k}", f"shank {k}", "sphere", position=(0.25, 0, 0), radius=0.02)
        builder.contact(f"step {k}", f"foot {k}", "ground", friction=friction)
    return builder.build()


def thrown(model, duration, seed):
    """A run from a random velocity of the trunk."""
    v0 = np.zeros(model.nv)
    v0[:6] = 0.5 * np.random.default_rng(seed).standard_normal(6)
    return wt.simulate(model, v0=v0, duration=duration, method="events", saltation=False)


@pytest.mark.slow
def test_three_legs_land_without_growing_tolerances():
    run = thrown(splayed(3, 1.5), 0.25, seed=3)
    assert run.attrs["failure"] == ""
    assert "impact without collision" in run.attrs["contact_event_kinds"]
    assert run.attrs["speed_tolerance"] == 1e-9
    assert run.attrs["acceleration_share"] == 0
    assert run.cone_violation.max() < 1e-12
    assert run.contact_gap.min() > -1e-12
    energy = (run.kinetic_energy + run.potential_energy).values
    assert np.diff(energy).max() < 1e-9


@pytest.mark.slow
def test_four_feet_near_rest():
    """One slips slowly, three stick, and internal forces of the nearly stiff legs hide which: sweeps creep there."""
    run = thrown(splayed(4, 1.0), 0.42, seed=4)
    assert run.attrs["failure"] == ""
    assert run.attrs["speed_tolerance"] == 1e-9
