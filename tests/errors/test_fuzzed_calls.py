"""Calls with anything for arguments: an answer, or an error that names the function, and none of NumPy's."""

import warnings

import numpy as np
import pytest

import whippletree as wt
from strange_arguments import argument, target

CALLS = 400
"""Of each function, with a fixed seed; more of them look for new errors."""


def require_named(name, call):
    """Run a call; its error, if any, must be one of the library's or begin with the name."""
    try:
        call()
    except wt.WhippletreeError:
        pass
    except (TypeError, ValueError) as error:
        if not str(error).startswith(name):
            pytest.fail(f"{type(error).__name__}: {error}")


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


CHAIN, LINKAGE = wt.mechanisms.chain(2), wt.mechanisms.four_bar()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "name", "names"),
    [
        (CHAIN, "forward_dynamics", ()),
        (CHAIN, "mass_matrix", ()),
        (CHAIN, "integrate", ()),
        (CHAIN, "difference", ()),
        (CHAIN, "hybrid_dynamics", (["joint 1"],)),
        (LINKAGE, "forward_dynamics", ()),
        (LINKAGE, "constraint_forces_least_norm", ()),
        (LINKAGE, "center_of_mass", ()),
    ],
    ids=lambda x: getattr(x, "name", None),
)
def test_functions(model, name, names):
    if names:
        names = ([model.joints[0].name],)
    rng = np.random.default_rng(5)
    fast, plain = (getattr(kind(model), name) for kind in (wt.compile, wt.reference))
    if names:
        fast, plain = fast(*names), plain(*names)
    shapes = list(plain.shapes.values())
    for _ in range(CALLS):
        inputs = [argument(rng, shape) for shape in shapes]
        require_named(name, lambda inputs=inputs: plain(*inputs))
        out = target(rng, [b.shape for b in fast._results], inputs)
        require_named(name, lambda inputs=inputs, out=out: fast(*inputs, out=out))


def test_roll_outs():
    rng = np.random.default_rng(6)
    opened, closed = wt.compile(CHAIN, threads=1, parameters=["gravity"]), wt.compile(LINKAGE, threads=1)
    for _ in range(CALLS):
        dyn, shapes = ((opened, [(3,)]), (closed, []))[rng.integers(2)]
        nv, steps = dyn.model.nv, int(rng.integers(0, 4))
        inputs = [argument(rng, shape) for shape in [(nv,), (nv,), (steps, nv), (), *shapes]]
        inputs = inputs[: 4 + rng.integers(3)] + [1.0] * int(rng.integers(2))
        options = {}
        if rng.random() < 0.3:
            options["method"] = ["rk4", "semi_implicit_euler", "zz", 3, None, ["rk4"]][rng.integers(6)]
        if rng.random() < 0.1:
            options["iterations"] = [0, -1, "a", 2.5, None][rng.integers(5)]
        require_named("rollout", lambda dyn=dyn, inputs=inputs, options=options: dyn.rollout(*inputs, **options))


def test_roll_outs_with_contact():
    rng = np.random.default_rng(7)
    model = wt.mechanisms.quadruped()
    dyn = wt.compile(model, threads=1)
    made = dyn.contact_rollout(model.home.q, np.zeros(model.nv), np.zeros((2, model.nv)), 1e-3, sweeps=1)
    for _ in range(CALLS // 4):
        inputs = [argument(rng, shape) for shape in [(model.nq,), (model.nv,), (2, model.nv), ()]]
        options = {"sweeps": [1, 1, 1, 0, -1, "a", 2.5, None, True][rng.integers(9)]}
        if rng.random() < 0.3:
            options["out"] = [made, tuple(made), 1.0, "a", (1, 2), (), [np.empty(3)], (1,) * 6][rng.integers(8)]
        if rng.random() < 0.2:
            options["impulses"] = argument(rng, (3, 3))
        require_named("contact_rollout", lambda i=inputs, o=options: dyn.contact_rollout(*i, **o))


# ---- whole messages ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [wt.compile, wt.reference])
def test_masked_arrays(kind):
    f = kind(CHAIN).forward_dynamics
    q = np.ma.masked_array([0.1, 0.2], mask=[False, True])
    with pytest.raises(wt.ScalarError) as raised:
        f(np.zeros(2), q, np.zeros(2))
    assert str(raised.value) == (
        "forward_dynamics: v is a masked array without a value at (1,); a state needs all of its numbers. Fill it "
        "(v.filled(np.nan) gives NaN for such states), or leave those states out."
    )
    for batch in ((), (3, 1)):
        full = np.ma.masked_array(np.ones((*batch, 2)))
        np.testing.assert_array_equal(f(full, full, np.zeros(2)), f(full.data, full.data, np.zeros(2)))


def test_numbers_without_end():
    with pytest.raises(wt.ScalarError, match=r"q holds object values, a whole number beyond 1\.8e\+308 among them"):
        wt.compile(CHAIN).mass_matrix([10**400, 0])
    with pytest.raises(wt.ScalarError, match=r"forward_dynamics: q \(int\), .* do not work together: int too large"):
        wt.reference(CHAIN).forward_dynamics([10**400, 0], np.zeros(2), np.zeros(2))


@pytest.mark.parametrize("kind", [wt.compile, wt.reference])
def test_joints_in_any_collection(kind):
    functions = kind(CHAIN)
    first = CHAIN.joints[0].name
    wanted = functions.hybrid_dynamics((first,))(*np.ones((3, 2)))
    for joints in ([first], first, np.array([first]), {first}, iter([first])):
        np.testing.assert_array_equal(functions.hybrid_dynamics(joints)(*np.ones((3, 2))), wanted)
    functions.jvp("hybrid_dynamics", [first])
    for wrong in (3, [3], None, np.zeros(2)):
        with pytest.raises(TypeError, match=r"^hybrid_dynamics takes joints first, and gives a function of numbers"):
            functions.hybrid_dynamics(wrong)
    with pytest.raises(wt.NameLookupError, match="there is no joint 'nothing'"):
        functions.hybrid_dynamics(["nothing"])(*np.ones((3, 2)))
