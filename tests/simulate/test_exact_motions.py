"""Motions that are known to all digits, beside which integrators are measured (``benchmarks.exact_motions``)."""

import numpy as np
import pytest
from benchmarks.exact_motions import n_four_bar_state, top_state
from benchmarks.work_precision import spinning_top

import whippletree as wt


def last_state(model, q, v, duration):
    run = wt.simulate(model, q, v, duration=duration, rtol=1e-10, atol=1e-12, output_dt=duration)
    return np.concatenate([run.q.values[-1], run.v.values[-1]])


@pytest.mark.parametrize(("n", "duration"), [(2, 0.7), (2, 0.9), (4, 0.7)])
def test_n_four_bar_follows_its_elliptic_functions(n, duration):
    """To and through the configuration with all rods in line, at 0.71 s."""
    model = wt.mechanisms.n_four_bar(n)
    exact = n_four_bar_state(n, duration)
    assert last_state(model, model.home.q, model.home.v, duration) == pytest.approx(exact, abs=1e-10)


@pytest.mark.slow
def test_top_follows_lagrange():
    top = spinning_top()
    exact = top_state(1.0)
    assert last_state(top, top.home.q, np.array([0.0, 0.0, 200.0]), 1.0) == pytest.approx(exact, abs=1e-10)
