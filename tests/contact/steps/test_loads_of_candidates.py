"""Forces and moments of contacts as joint forces: compiled for many states, beside rows worked out in Python."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.contact.kinematics.broad_phase import Neighbourhood
from whippletree.contact.kinematics.contact_set import contact_set_of_steps


def chain(links: int) -> wt.Model:
    """A free body that carries links with joints in turning directions, over a floor and beside each other."""
    builder = wt.Builder("chain").body("base", 2.0, inertia=(0.1, 0.2, 0.3))
    builder.joint("base", "free", "world", "base").geometry("floor", "world", "half_space")
    before = "base"
    for k in range(links):
        name, axis = f"link {k}", ((1, 0, 0), (0, 1, 0), (0, 0.6, 0.8))[k % 3]
        builder.body(name, 1.0, center=(0.1, 0, 0), inertia=(0.01, 0.02, 0.03))
        builder.joint(name, "revolute", before, name, position=(0.3, 0.05, 0), axis=axis)
        builder.geometry(name, name, "ellipsoid", radii=(0.15, 0.05, 0.08), position=(0.15, 0, 0.02))
        builder.contact(f"{name} on floor", name, "floor", friction=0.5, torsional=0.01)
        before = name
    return builder.contact("two links", "link 0", f"link {links - 1}", friction=0.3).build()


@pytest.mark.parametrize("links", [4, pytest.param(40, marks=pytest.mark.slow)])  # written out; loops over nodes
def test_loads_are_those_of_rows_that_are_worked_out_one_by_one(links: int) -> None:
    model, states, rng = chain(links), 3, np.random.default_rng(0)
    contacts = contact_set_of_steps(model)
    q = np.array([model.home.q + np.r_[0, 0, 0.4, rng.normal(scale=0.2, size=model.nq - 3)] for _ in range(states)])
    forces, moments = rng.normal(size=(2, states, len(contacts.candidates), 3))
    dyn, nearby = wt.compile(model), Neighbourhood(contacts)
    found = dyn.contact_list_loads(q, dyn.contact_list_touches(q), forces, moments)
    for own, at, force, moment in zip(found, q, forces, moments, strict=True):
        expected = nearby.joint_forces(at, force) + nearby.joint_forces(at, moment, turning=True)
        assert own == pytest.approx(expected, abs=1e-10 * np.abs(expected).max())
