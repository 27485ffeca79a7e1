"""Derivatives of impacts against differences of impacts along lines through random data."""

import numpy as np
import pytest

from whippletree.contact.impact.impact import Impact
from whippletree.contact.impact.impact_derivatives import Changes, derivative, impact_derivative
from whippletree.contact.impact.laws import Energetic, Newton, Plastic, Sequential

LAWS = [Plastic(), Newton(), Energetic(), Sequential()]


def random_impact(rng, law, contacts, planar=False, massless=False):
    """An impact with one row that holds, and a change of all its data."""
    n = 3 * contacts + 3
    root, bent = rng.normal(size=(2, n, n))
    M, dM = root @ root.T + n * np.eye(n), bent + bent.T
    J, dJ = rng.normal(size=(2, 3 * contacts, n))
    A, dA = rng.normal(size=(2, 1, n))
    friction = np.zeros(contacts) if isinstance(law, Newton) else rng.uniform(0.1, 1.0, contacts)
    restitution = np.full(contacts, 0.6)
    if planar:
        J[2::3], dJ[2::3] = 0.0, 0.0
    if massless:  # the first contact belongs to parts without mass
        for matrix in (M, dM):
            matrix[:3], matrix[:, :3] = 0.0, 0.0
        J[3:, :3], dJ[3:, :3], A[:, :3], dA[:, :3] = 0.0, 0.0, 0.0, 0.0
        friction[0] = 1e3
    approach = -np.abs(rng.normal(size=3 * contacts))
    v, dv = np.linalg.lstsq(J, approach, rcond=None)[0], rng.normal(size=n)

    def at(s):
        return Impact(M + s * dM, A + s * dA, J + s * dJ, v + s * dv, friction, restitution)

    return at, Changes(dM[None], dA[None], dJ[None], dv[None])


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
@pytest.mark.parametrize("kind", ["single", "planar", "several", "massless"])
def test_against_differences(law, kind):
    rng = np.random.default_rng(7)
    for _ in range(8):
        at, change = random_impact(rng, law, 1 if kind == "single" else 2, kind == "planar", kind == "massless")
        measured = derivative(lambda s, at=at: at(s[0]).resolve(law).v, 1, 1e-5)[:, 0]
        found = impact_derivative(at(0.0), law, change)
        scale = np.abs(measured).max()
        assert np.allclose(found.v, at(0.0).resolve(law).v, atol=1e-13)
        assert np.allclose(found.dv[0], measured, atol=1e-8 * scale)
        assert found.error < 1e-8
        assert found.error == 0 or law.name in ("energetic", "sequential")


def test_the_projector_of_document_000():
    """All contacts stick: v⁺ = v − A†ᵀ A v, whose derivative along v is the projector itself."""
    rng = np.random.default_rng(3)
    root = rng.normal(size=(6, 6))
    M, J = root @ root.T + np.eye(6), rng.normal(size=(3, 6))
    v = np.linalg.lstsq(J, np.array([-1.0, 0.1, 0.0]), rcond=None)[0]
    impact = Impact(M, np.zeros((0, 6)), J, v, np.array([50.0]), np.zeros(1))
    zeros = np.zeros((6, 6, 6)), np.zeros((6, 0, 6)), np.zeros((6, 3, 6))
    found = impact_derivative(impact, Plastic(), Changes(*zeros, np.eye(6)))
    W = np.linalg.solve(M, J.T)
    assert np.allclose(found.dv.T, np.eye(6) - W @ np.linalg.solve(J @ W, J), atol=1e-12)
