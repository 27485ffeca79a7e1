"""Signatures, documentation and types of a model's functions, as ``help``, editors and type checkers see them."""

import copy
import inspect
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree.functions import CATALOGUE
from whippletree.functions.stubs import compiled_stub, reference_stub

SOURCES = Path(wt.__file__).parent
MODEL = wt.mechanisms.double_pendulum()
Q, V, TAU = np.array([0.1, 0.2]), np.array([0.3, -0.4]), np.array([1.0, 2.0])
SIDES = {"reference": wt.reference, "compiled": wt.compile}

PROGRAM = """\
import numpy as np
import whippletree as wt

model = wt.mechanisms.four_bar()
dyn, ref = wt.compile(model), wt.reference(model)
q, v, tau = model.home.q, model.home.v, np.zeros(model.nv)
a: np.ndarray = dyn.forward_dynamics(q, v, tau)
M: np.ndarray = dyn.mass_matrix(q)
c: np.ndarray = dyn.bias(q, v)
g: np.ndarray = ref.gravity(q)
f: np.ndarray = dyn.constraint_forces(q, v, tau=tau)
A: np.ndarray = ref.constraint_jacobian(q)
J: np.ndarray = dyn.jacobian("crank")(q)
M_dagger: np.ndarray = dyn.dagger(q).M_dagger
dq, dv, dtau = dyn.forward_dynamics_derivatives(q, v, tau)
status: int = int(np.sum(dyn.forward_dynamics.status))
ufunc: np.ufunc = dyn.forward_dynamics.ufunc
reveal_type(dyn.inverse_dynamics(q, v, a))
"""

MISTAKES = {
    "dyn.forward_dynamic(q, v, tau)": 'has no attribute "forward_dynamic"',
    "ref.mass_matirx(q)": 'has no attribute "mass_matirx"',
    "dyn.forward_dynamics(q, v)": 'Missing positional argument "tau"',
    "dyn.mass_matrix(x=q)": 'Unexpected keyword argument "x"',
    "dyn.dagger(q).M_daggr": 'has no attribute "M_daggr"',
    "dyn.jacobian(3)(q)": 'expected "str"',
}


@pytest.mark.parametrize("side", SIDES)
def test_signatures_and_documentation_of_every_function(side):
    dyn = SIDES[side](MODEL)
    for name, entry in CATALOGUE.items():
        if entry.names or entry.constraints == "needs" or entry.contacts or "ctrl" in entry.inputs:
            continue
        function = getattr(dyn, name)
        shown = list(inspect.signature(function).parameters)
        own = [word for word in entry.inputs if word not in ("t", "active")]
        assert shown[: len(own)] == own, name
        assert entry.summary.splitlines()[0] in function.__doc__, name


@pytest.mark.parametrize("side", SIDES)
def test_several_results_have_names(side):
    dyn = SIDES[side](MODEL)
    found = dyn.forward_dynamics_derivatives(Q, V, TAU)
    assert type(found).__name__ == "ForwardDynamicsDerivatives"
    assert found._fields == ("dq", "dv", "dtau")
    dq, _, dtau = found
    assert (found.dq is dq, found.dtau is dtau) == (True, True)
    np.testing.assert_allclose(dtau, np.linalg.inv(dyn.mass_matrix(Q)), rtol=1e-12)
    batch = dyn.forward_dynamics_derivatives(np.tile(Q, (3, 1)), V, TAU)
    assert batch.dv.shape == (3, 2, 2)
    again = pickle.loads(pickle.dumps(found))
    assert type(again) is type(found)
    assert all(map(np.array_equal, again, found))
    assert type(copy.deepcopy(found)) is type(found)


def test_reference_and_compiled_functions_return_one_type():
    linkage = wt.mechanisms.four_bar()
    ref, dyn = (side(linkage).dagger(linkage.home.q) for side in SIDES.values())
    assert type(ref) is type(dyn)
    np.testing.assert_allclose(ref.M_dagger, dyn.M_dagger, atol=1e-12)


def test_given_arrays_are_filled_and_returned_with_their_names():
    dyn = wt.compile(MODEL)
    out = tuple(np.empty((2, 2)) for _ in range(3))
    found = dyn.forward_dynamics_derivatives(Q, V, TAU, out=out)
    assert found.dq is out[0]
    assert np.array_equal(found.dv, dyn.forward_dynamics_derivatives(Q, V, TAU).dv)


def test_derivatives_of_functions_have_names_too():
    dyn = wt.compile(MODEL)
    found = dyn.vjp("forward_dynamics")(Q, V, TAU, np.ones(2))
    assert found._fields == ("q_bar", "v_bar", "tau_bar")


@pytest.mark.parametrize(
    ("place", "stub"),
    [("functions/reference_table.pyi", reference_stub), ("compiler/compiled_table.pyi", compiled_stub)],
)
def test_stubs_are_those_of_the_table(place, stub):
    assert (SOURCES / place).read_text(encoding="utf-8") == stub(), "call `make stubs`"


@pytest.mark.slow
def test_type_checkers_see_signatures_and_find_mistakes(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "\n".join(MISTAKES) + "\n")
    options = ["--strict", "--hide-error-context", "--no-error-summary", "--cache-dir", str(tmp_path / "cache")]
    found = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(program)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    lines = [line for line in found.stdout.splitlines() if line.startswith("program.py")]
    good = len(PROGRAM.splitlines())
    errors = {int(line.split(":")[1]): line for line in lines if ": error:" in line}
    assert sorted(errors) == [good + 1 + i for i in range(len(MISTAKES))], found.stdout
    for number, text in zip(sorted(errors), MISTAKES.values(), strict=True):
        assert text in errors[number]
    assert any("ndarray" in line for line in lines if "Revealed type" in line)
