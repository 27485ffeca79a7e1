"""Machine code inside CasADi: the same numbers and the same sparse Jacobians as its own symbols have."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

import whippletree as wt

casadi = pytest.importorskip("casadi")
pytestmark = pytest.mark.skipif(not (shutil.which("cc") or shutil.which("gcc")), reason="there is no C compiler")

BARS = wt.mechanisms.four_bar(lengths=(2.0, 0.7, 1.9, 1.5))


def hopper() -> wt.Model:
    builder = wt.Builder("hopper", gravity=(0, 0, -9.81)).geometry("ground", "world", "half_space")
    builder.body("foot", 0.5).geometry("sole", "foot", "point").body("trunk", 4.0)
    builder.joint("up", "prismatic", "world", "foot", axis=(0, 0, 1))
    builder.joint("leg", "prismatic", "foot", "trunk", axis=(0, 0, 1), start=0.5)
    return builder.contact("sole on ground", "sole", "ground", friction=0.8).build()


CASES = {
    "constrained dynamics": (BARS, ("forward_dynamics",), {}, (BARS.home.q, [0.3, -0.2, 0.5], [1.0, 2.0, -1.0])),
    "minimal coordinates": (BARS, ("embedded_dynamics", "crank"), {}, (BARS.home.q, [0.7], [1.0, 2.0, -1.0])),
    "a matrix": (BARS, ("mass_matrix",), {}, (BARS.home.q,)),
    "a frame": (BARS, ("jacobian", "coupler end"), {}, (BARS.home.q,)),
    "a contact step": (hopper(), ("contact_step",), {"sweeps": 2}, ([0.001, 0.4], [-1.0, 0.3], [0.0, 3.0], 0.01)),
}


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("case", CASES)
def test_machine_code_agrees_with_symbols(case, tmp_path):
    model, words, options, given = CASES[case]
    f = wt.control.external(model, *words, folder=tmp_path, **options)
    g = wt.control.external(model, *words, machine_code=False, **options)
    assert f.name_in() == g.name_in()
    assert f.name_out() == g.name_out()
    for a, b in zip(as_tuple(f(*given)), as_tuple(g(*given)), strict=True):
        assert a.sparsity() == b.sparsity()
        assert np.allclose(a.full(), b.full(), rtol=1e-12, atol=1e-12)
    nothing = [casadi.DM.zeros(*f.size_out(k)) for k in range(f.n_out())]
    for a, b in zip(as_tuple(f.jacobian()(*given, *nothing)), as_tuple(g.jacobian()(*given, *nothing)), strict=True):
        assert a.nnz() == b.nnz()
        assert a.shape == b.shape
        assert np.allclose(a.full(), b.full(), rtol=1e-9, atol=1e-9)


def test_numbers_are_those_of_the_compiled_functions(tmp_path):
    model, words, options, given = CASES["a contact step"]
    q, v, impulses = wt.control.external(model, *words, folder=tmp_path, **options)(*given)
    step = wt.compile(model).step(np.array(given[0]), np.array(given[1]), tau=np.array(given[2]), dt=given[3])
    assert np.allclose(q.full().ravel(), step.q)
    assert np.allclose(v.full().ravel(), step.v)
    assert impulses[0, 0] > 0
    model, words, options, given = CASES["minimal coordinates"]
    speed, rate = wt.control.external(model, *words, machine_code=False)(*given)
    assert np.abs(wt.compile(model).constraint_jacobian(BARS.home.q) @ speed.full()).max() < 1e-12
    a = wt.compile(model).forward_dynamics(BARS.home.q, speed.full().ravel(), given[2])
    assert np.isclose(rate.full().item(), a[0])


def test_ipopt_calls_it(tmp_path):
    f = wt.control.external(BARS, "gravity", folder=tmp_path)
    q = casadi.MX.sym("q", 3)
    options = {"print_time": False, "ipopt": {"print_level": 0, "sb": "yes", "hessian_approximation": "limited-memory"}}
    solver = casadi.nlpsol("s", "ipopt", {"x": q, "f": casadi.sumsqr(f(q))}, options)
    found = solver(x0=[0.3, 0.2, 0.1])
    assert solver.stats()["success"]
    assert float(found["f"]) < 1e-8


def test_bad_input(monkeypatch):
    with pytest.raises(wt.NameLookupError, match="forward_dynamic"):
        wt.control.external(BARS, "forward_dynamic")
    with pytest.raises(wt.NameLookupError, match="crnk"):
        wt.control.external(BARS, "embedded_dynamics", "crnk")
    with pytest.raises(wt.UnsupportedError, match=r"has 1 freedoms, and joints .* have 2"):
        wt.control.external(BARS, "embedded_dynamics", "crank", "rocker")
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(wt.UnsupportedError, match="there is no C compiler"):
        wt.control.external(BARS, "gravity")
