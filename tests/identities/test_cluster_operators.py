"""The identities of 002 on trees of clusters: with dagger terms, and with minimal coordinates as on any tree."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from strategies import make_looped_model
from whippletree.constraints.clusters.cluster_operators import ClusteredOperators
from whippletree.errors import SingularSystemError, UnsupportedError
from whippletree.graph import identity
from whippletree.tree.operators import SpatialOperators

EPS = np.finfo(float).eps


def chain() -> tuple[wt.Model, np.ndarray, np.ndarray]:
    """Two four-bar cells with a massless coupler in each, moving."""
    model = wt.mechanisms.four_bar_chain(2)
    q = model.home.q
    v = wt.reference(model).project_velocity(q, np.linspace(0.3, -0.5, model.nv))
    return model, q, v


def looped(seed: int, massless: bool) -> tuple[wt.Model, np.ndarray, np.ndarray]:
    model, motion = make_looped_model(seed, massless=massless)
    return model, np.asarray(motion.q, dtype=float), np.asarray(motion.v, dtype=float)


def near(found, expected, scale=1.0):
    found, expected = (
        np.asarray(x if isinstance(x, np.ndarray) else x.dense(), dtype=float) for x in (found, expected)
    )
    size = max(1.0, np.abs(expected).max(initial=0)) * scale
    np.testing.assert_allclose(found, expected, rtol=0, atol=2**12 * EPS * size)


@pytest.mark.slow
@given(st.integers(0, 2**16), st.booleans())
def test_the_dagger_terms_are_those_of_the_whole_block_matrix(seed, massless):
    """M† = (1 − HψK)* D† (1 − HψK), Ω = φ* H* M† H φ, ψ⁻¹ = φ⁻¹ + K H, and forward dynamics, against 000's matrix."""
    model, q, v = looped(seed, massless)
    op = wt.spatial_operators(model, q, v)
    assert isinstance(op, ClusteredOperators)
    ref = wt.reference(model, route="block")
    M_dagger, _, _ = ref.dagger(q)
    order = np.ix_(op.order, op.order)
    scale = np.linalg.norm(M_dagger) * np.linalg.norm(ref.mass_matrix(q))
    near(op.mass_matrix_dagger, M_dagger[order], scale)
    near(op.Omega, (op.phi.T @ op.H.T @ op.mass_matrix_dagger @ op.H @ op.phi).explicit(), scale)
    inverse = identity(op.E_phi.rows) - op.E_phi + op.K @ op.H
    near((op.psi.explicit() @ inverse).explicit(), identity(op.E_phi.rows), scale)
    C = op.C.dense().astype(float)
    rigid = np.diag(C) == 0
    near((op.A @ op.mass_matrix_dagger).dense()[rigid], 0 * op.A.dense()[rigid], scale)
    tau = np.linspace(-1.0, 2.0, model.nv)
    a = ref.forward_dynamics(q, v, tau)
    near(op.scatter(op.forward_dynamics(op.gather(tau))), a, scale)
    f = op.constraint_forces(op.gather(tau))
    near(op.A @ op.forward_dynamics(op.gather(tau)) + C @ f + op.gamma, np.zeros(len(op.gamma)), scale)
    expected = ref.constraint_jacobian(q).T @ ref.constraint_forces(q, v, tau)
    near(op.A.T @ f, op.gather(expected), scale)


@pytest.mark.slow
@given(st.integers(0, 2**16))
def test_every_identity_of_trees_holds_in_minimal_coordinates(seed):
    """H_S = X* H: mass matrix by four roads, its inverse, the Riccati and Lyapunov equations, forward dynamics."""
    model, q, v = looped(seed, massless=False)
    model = replace(model, constraints=tuple(c for c in model.constraints if not c.parameters.get("compliance")))
    if not model.constraints:
        return
    op = wt.spatial_operators(model, q, v)
    small = op.minimal
    X = op.X.dense()
    near(op.A.dense() @ X, np.zeros((len(op.gamma), X.shape[1])), np.abs(X).max())
    M = small.mass_matrix.dense()
    near(M, X.T @ op.mass_matrix.dense() @ X, np.abs(X).max() ** 2)
    scale = np.linalg.cond(M)
    near(small.mass_matrix_decomposition, M, scale)
    near(small.mass_matrix_innovations, M, scale)
    near(small.mass_matrix_inverse.dense() @ M, np.eye(len(M)), scale)
    np.testing.assert_allclose(float(small.determinant), np.linalg.det(M), rtol=1e-9 * scale)
    E, R, P = small.E_phi.dense(), small.R.dense(), small.P.dense()
    near(R, small.M.dense() + E @ R @ E.T, np.abs(R).max())
    near(P, small.M.dense() + small.E_psi.dense() @ P @ E.T, np.abs(P).max() * scale)
    near(op.mass_matrix_dagger.dense(), X @ small.mass_matrix_inverse.dense() @ X.T, scale)
    tau = op.gather(np.linspace(-1.0, 2.0, model.nv))
    y_rate = small.forward_dynamics(op.minimal_forces(tau))
    near(op.X @ y_rate + op.beta, op.forward_dynamics(tau), scale * np.abs(X).max())
    near(small.inverse_dynamics(y_rate), op.minimal_forces(tau), scale)


def test_the_aggregated_operators_are_the_trees():
    """Without its closures a tree of clusters is the tree: V, f and the mass matrix in the nodes' order."""
    model, q, v = chain()
    op = wt.spatial_operators(model, q, v)
    assert list(op.condensed.groups) == ["loop of pin_1", "loop of pin_2"]
    near(op.mass_matrix, wt.reference(model).mass_matrix(q)[np.ix_(op.order, op.order)])
    places = [model.body_index(body) for body in op.bodies]
    near(op.velocities(op.gather(v)).reshape(-1, 6), op.tree.velocities(v).reshape(-1, 6)[places])
    near(op.accelerations(op.gather(v)).reshape(-1, 6), op.tree.accelerations(v).reshape(-1, 6)[places])
    near(op.inverse_dynamics(op.gather(v)), op.gather(op.tree.inverse_dynamics(v)))


def test_the_innovations_factorisation_of_the_tree_does_not_hold_with_loops():
    model, q, v = chain()
    op = wt.spatial_operators(model, q, v)
    for name in ("mass_matrix_innovations", "determinant"):
        with pytest.raises(UnsupportedError, match="minimal"):
            getattr(op, name)
    wrong = op.innovations_factor @ op.D @ op.innovations_factor.T
    assert np.abs((wrong.dense() - op.mass_matrix.dense()).astype(float)).max() > 1e-3
    SpatialOperators.mass_matrix_innovations.fget(op.minimal)  # and does in minimal coordinates


def test_it_runs_on_fractions():
    """A rational parallelogram: M† to the last digit."""
    half = Fraction(1, 2)
    builder = wt.Builder("parallelogram", (0, -10, 0))
    for name in ("left", "right", "top"):
        builder.body(name, Fraction(3, 2), (half, 0, 0), (half, half, half))
    builder.joint("a", "prismatic", "world", "left", axis=(1, 0, 0))
    builder.joint("b", "prismatic", "left", "top", axis=(0, 1, 0))
    builder.joint("c", "prismatic", "world", "right", axis=(0, 1, 0))
    model = builder.constraint("tie", "point_on_plane", "top", "right", normal=(0, 1, 0)).build()
    q = np.array([Fraction(1, 3), Fraction(2, 5), Fraction(2, 5)], dtype=object)
    op = wt.spatial_operators(model, q)
    M, A = op.mass_matrix.dense(), op.A.dense()
    found = op.mass_matrix_dagger.dense()
    assert all(isinstance(x, (int, Fraction)) for x in found.flat)
    assert (A @ found == 0).all()
    assert (found @ M @ found == found).all()


def test_rows_that_depend_on_each_other_are_named():
    """A parallelogram in line: its two rows are one."""
    model = wt.mechanisms.four_bar(lengths=(1.0, 0.5, 1.0, 0.5))
    op = wt.spatial_operators(model, [0.0, 0.0, 0.0])
    assert np.linalg.matrix_rank(op.A.dense().astype(float)) == 1
    with pytest.raises(SingularSystemError, match=r"block matrix of 'loop of .*' is singular here"):
        op.forward_dynamics(np.zeros(model.nv))
