"""Many pairs at once on arrays: the same numbers as one by one."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.arithmetic.lanes import Lanes
from whippletree.arithmetic.scalars import atan2, less, select, sqrt
from whippletree.contact.kinematics.large_scenes import snapshot
from whippletree.tree.mechanism import Mechanism


def heap(seed: int) -> wt.Model:
    """Free bodies of every kind over a ground, a terrain and each other, also pairs without a closed form."""
    rng = np.random.default_rng(seed)
    builder = wt.Builder("heap").geometry("ground", "world", "half_space")
    builder.geometry("hills", "world", "terrain", height=lambda x, y: 0.1 * np.sin(x) * np.cos(y) - 1)
    stone = rng.normal(scale=0.1, size=(30, 3))
    kinds = [
        ("sphere", {"radius": 0.1}), ("sphere", {"radius": 0.2}), ("capsule", {"radius": 0.1, "length": 0.3}),
        ("capsule", {"radius": 0.05, "length": 0.4}), ("box", {"size": (0.1, 0.2, 0.3)}), ("point", {}),
        ("box", {"size": (0.3, 0.2, 0.2)}), ("cylinder", {"radius": 0.1, "length": 0.2}), ("mesh", {"vertices": stone}),
        ("ellipsoid", {"radii": (0.1, 0.2, 0.15)}), ("mesh", {"vertices": stone + 0.1}),
    ]  # fmt: skip
    for k, (kind, parameters) in enumerate(kinds):
        builder.body(f"b{k}", 1.0, inertia=(0.1, 0.1, 0.1)).joint(f"j{k}", "free", "world", f"b{k}")
        builder.geometry(f"g{k}", f"b{k}", kind, position=rng.normal(scale=0.1, size=3), **parameters)
        builder.contact(f"{k} on ground", f"g{k}", "ground")
        if kind not in ("ellipsoid", "cylinder"):
            builder.contact(f"{k} on hills", f"g{k}", "hills")
    for a, b in ((0, 1), (0, 2), (3, 1), (2, 3), (4, 0), (5, 4), (6, 1), (7, 0), (4, 6), (7, 8)):
        builder.contact(f"{a} on {b}", f"g{a}", f"g{b}")
    return builder.build()


@pytest.mark.slow
def test_a_snapshot_agrees_with_the_generic_code():
    model = heap(0)
    system, m, ref = wt.contact_set(model), Mechanism.of(model), wt.reference(model)
    rng = np.random.default_rng(1)
    q = ref.integrate(model.neutral.q, rng.normal(scale=0.7, size=model.nv))
    at = snapshot(model, q)
    expected = system.points(m, q.astype(object))
    for found, wanted in zip(at.points, expected, strict=True):
        assert found == pytest.approx(wanted.astype(float), abs=1e-13)
    J = system.jacobian(m, q.astype(object)).astype(float)
    assert at.jacobian(np.arange(len(J) // 3)).toarray() == pytest.approx(J, abs=1e-13)
    some = np.array([17, 3, 40])
    rows = J.reshape(-1, 3, model.nv)[some].reshape(9, model.nv)
    assert at.jacobian(some).toarray() == pytest.approx(rows, abs=1e-13)
    assert at.jacobian(np.arange(0)).shape == (0, model.nv)


def test_lanes_are_scalars():
    x, y = Lanes(np.array([1.0, -4.0])), Lanes(np.array([2.0, 3.0]))
    for found, wanted in (
        ((2 - x) * y / 2 + 1, [2.0, 10.0]),
        (select(less(x, 0), -x, sqrt(y * y)), [2.0, 4.0]),
        (1 / y, [0.5, 1 / 3]),
        (select(~less(x, 0) & less(y, 3), x, 7), [1.0, 7.0]),
        (atan2(y, x), np.arctan2([2.0, 3.0], [1.0, -4.0])),
    ):
        assert found.values == pytest.approx(wanted)
    assert (Dual(x, 1) * y).slope.values == pytest.approx([2.0, 3.0])
    assert (y * Dual(x, 1)).slope.values == pytest.approx([2.0, 3.0])
