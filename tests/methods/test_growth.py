"""Linear growth: the reference costs the same per body whatever their number, in time and in memory.

``python -m benchmarks.growth`` goes on to 10⁵ bodies.
"""

import sys
from statistics import median

import numpy as np
import pytest
from benchmarks.growth import forward_dynamics, peak_bytes, seconds

import whippletree as wt
from methods.closeness import EPS


@pytest.mark.slow
def test_time_per_body_is_constant_within_a_factor_of_two(record_property):
    """CPU time, so that other processes do not count; rounds of all three lengths, so that a slow minute hits all."""
    runs = {n: forward_dynamics(n)[1] for n in (100, 1000, 10_000)}
    assert max(runs) > 5 * sys.getrecursionlimit()
    rounds = [{n: seconds(run, max(1, 1000 // n)) / n for n, run in runs.items()} for _ in range(3)]
    cost = {n: median(one[n] for one in rounds) for n in runs}
    told = ", ".join(f"{n} bodies {1e6 * cost[n]:.0f} µs" for n in runs)
    record_property("note", f"reference forward dynamics, CPU time per body: {told}")
    assert max(cost.values()) < 2 * min(cost.values())


@pytest.mark.slow
def test_memory_per_body_is_constant():
    cost = {n: peak_bytes(forward_dynamics(n)[1]) / n for n in (100, 1000)}
    assert max(cost.values()) < 1.25 * min(cost.values())


PARENTS = {
    "chain": lambda k: k - 1,
    "star": lambda k: -1,
    "comb": lambda k: k - 1 if k % 2 else k - 2,  # a long spine with a tooth on every body
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", PARENTS)
def test_no_shape_of_tree_needs_recursion(shape):
    n = 2 * sys.getrecursionlimit()
    builder = wt.Builder(shape, gravity=(0, -9.81, 0))
    for k in range(n):
        parent = PARENTS[shape](k)
        builder.body(f"b{k}", 1.0, (0.0005, 0, 0), (0, 1e-7, 1e-7))
        builder.joint(f"j{k}", "revolute", f"b{parent}" if parent >= 0 else "world", f"b{k}", position=(0.001, 0, 0))
    ref = wt.reference(builder.build())
    q, v, tau = np.random.default_rng(0).uniform(-0.01, 0.01, (3, n))
    a = ref.forward_dynamics(q, v, tau)
    scale = np.abs(tau).max() + np.abs(ref.bias(q, v)).max()
    assert np.abs(ref.inverse_dynamics(q, v, a) - tau).max() < 8 * EPS * scale
