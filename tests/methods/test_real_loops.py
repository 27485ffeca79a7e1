"""Robots whose loops are in their files: Cassie in two descriptions, with 4 and with 16 closures."""

from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt

ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))


@pytest.mark.parametrize(("file", "closures", "redundant"), [("cassie_v2.sdf", 4, 2), ("cassie.sdf", 16, 8)])
def test_cassie_assembles_and_is_diagnosed(file, closures, redundant):
    model = wt.load(ROBOTS / "cassie_description/robots" / file)
    assert len(model.constraints) == closures
    ref, home = wt.reference(model), model.home
    assert np.abs(ref.constraint_residual(home.q)).max() < 1e-10
    found = wt.diagnose(model)
    assert not found.massless
    assert len(found.redundant) == redundant
    assert found.freedoms == found.mobility
    # rounding in the larger file makes two rows all but redundant: said, not decided
    assert len(found.faint) == (2 if closures == 16 else 0)
    rng = np.random.default_rng(0)
    v, tau = ref.project_velocity(home.q, 0.1 * rng.normal(size=model.nv)), rng.normal(size=model.nv)
    a, f = ref.forward_dynamics(home.q, v, tau), ref.constraint_forces(home.q, v, tau)
    left = ref.mass_matrix(home.q) @ a + ref.bias(home.q, v) - tau - ref.constraint_jacobian(home.q).T @ f
    assert np.abs(left).max() < 1e-4
