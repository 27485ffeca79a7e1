"""The walking cycle of the simplest walker: Garcia et al., The simplest walking model, J. Biomech. Eng. 120 (1998)."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import whippletree as wt


@pytest.mark.slow
def test_the_walking_cycle_has_the_eigenvalues_of_its_return_map():
    """The monodromy of the period-one gait, through a heel strike, against differences of the paper's equations."""
    slope, gait = 0.009, np.array([0.200310900544, -0.199832473005])

    def rates(t, y):
        theta, rate, phi, phi_rate = y
        lean = theta - slope
        return [rate, np.sin(lean), phi_rate, np.sin(lean) + np.sin(phi) * (rate**2 - np.cos(lean))]

    def heel_strike(t, y):
        return y[2] - 2 * y[0]

    heel_strike.terminal, heel_strike.direction = True, 1

    def step(x):
        start = [x[0], x[1], 2 * x[0], x[1] * (1 - np.cos(2 * x[0]))]
        tight = {"rtol": 1e-12, "atol": 1e-13, "method": "DOP853"}
        half = solve_ivp(rates, (0, 1.5), start, **tight).y[:, -1]  # the foot scuffs at first
        theta, rate, *_ = solve_ivp(rates, (1.5, 9), half, events=heel_strike, **tight).y_events[0][0]
        return np.array([-theta, np.cos(2 * theta) * rate])

    h = 1e-4 * np.eye(2)
    returned = np.array([(8 * (step(gait + e) - step(gait - e)) - step(gait + 2 * e) + step(gait - 2 * e)) for e in h])
    expected = np.linalg.eigvals(returned.T / 12e-4)
    model = wt.mechanisms.simplest_walker()

    def in_front(name, t, q, v):
        own, other = (q[2], q[3]) if name.startswith("stance") else (q[3], q[2])
        return own > other

    walking = {"admits": in_front, "method": "events", "rtol": 1e-11, "atol": 1e-12}
    dyn = wt.compile(model)
    run = wt.simulate(model, duration=7.8, compiled=dyn, saltation=False, output_dt=0.5, **walking)
    first, second = sorted(set(run.attrs["event_times"]))
    q, v = run["q"].values[1], run["v"].values[1]
    cycle = wt.simulate(
        model, q, v, duration=second - first, compiled=dyn, sensitivity=True, output_dt=9.0, project=True, **walking
    )
    swap = np.eye(8)[[0, 1, 3, 2, 4, 5, 7, 6]]  # the legs change their parts
    values = np.linalg.eigvals(swap @ cycle["sensitivity"].values[-1])
    complex_pair = values[np.abs(values.imag) > 0.1]
    assert np.allclose(np.sort_complex(complex_pair), np.sort_complex(expected), atol=2e-5)
    # the rest: a change along the motion, one along the slope, and changes that the contact does not allow
    assert np.sum(np.abs(values - 1) < 1e-4) == 2
    assert np.sum(np.abs(values) < 1e-6) == 4
