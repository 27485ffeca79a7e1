"""Arrays for the results: wherever they lie, the numbers are those of a call without them, or the call is refused."""

import re
import warnings

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON

LINKAGE, CHAIN = wt.mechanisms.four_bar(), wt.mechanisms.chain(3)
LONG = wt.mechanisms.chain(60)  # loops over bodies: results are written while inputs are still to be read


@pytest.fixture(scope="module")
def linkage():
    return wt.compile(LINKAGE, threads=1)


@pytest.fixture(scope="module")
def chain():
    return wt.compile(CHAIN, threads=1)


@pytest.fixture(scope="module")
def long():
    return wt.compile(LONG, threads=1)


def random(*shape):
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("batch", [(), (1,), (5,), (33,), (2, 3)])
def test_a_result_may_be_an_input(linkage, batch):
    q = random(*batch, 3)
    wanted = linkage.center_of_mass(q)
    for target in (q.copy(), q.copy()[...], q.copy(order="F")):
        assert linkage.center_of_mass(target, out=target) is target
        np.testing.assert_array_equal(target, wanted)
    backwards = q.copy()
    linkage.center_of_mass(backwards, out=backwards[..., ::-1])
    np.testing.assert_array_equal(backwards[..., ::-1], wanted)
    view = q.copy()
    linkage.center_of_mass(view[...], out=view[...])
    np.testing.assert_array_equal(view, wanted)


@pytest.mark.parametrize("batch", [(), (19,)])
@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("name", ["chain", "long"])
def test_any_input_of_any_code(name, which, batch, request):
    dyn = request.getfixturevalue(name)
    inputs = [0.1 * random(*batch, dyn.model.nv) + i for i in range(3)]
    wanted = dyn.forward_dynamics(*inputs)
    dyn.forward_dynamics(*inputs, out=inputs[which])
    np.testing.assert_array_equal(inputs[which], wanted)


def test_several_results(chain):
    state = random(2, 3)
    wanted = chain.forward_dynamics_derivatives(*state, np.ones(3))
    memory = np.zeros((3, 3, 3))
    memory[0, :2] = state
    chain.forward_dynamics_derivatives(memory[0, 0], memory[0, 1], np.ones(3), out=tuple(memory))
    np.testing.assert_array_equal(memory, wanted)
    same = np.zeros((3, 3))
    with pytest.raises(wt.ShapeError, match="out for dq and for dv share memory: each result needs its own"):
        chain.forward_dynamics_derivatives(*state, np.ones(3), out=(same, same, memory[2]))
    columns = np.zeros((3, 9))  # side by side in one piece of memory is not the same place
    chain.forward_dynamics_derivatives(*state, np.ones(3), out=(columns[:, :3], columns[:, 3:6], columns[:, 6:]))
    np.testing.assert_array_equal(columns, np.hstack(wanted))


@pytest.mark.parametrize("inputs", [(np.zeros(3),) * 3, ([0, 0, 0], np.zeros(3, np.float32), (1, 2, 3))])
@pytest.mark.parametrize(
    ("out", "kind", "words"),
    [
        (np.zeros(4), wt.ShapeError, "out has shape (4,), expected (3,)"),
        (np.zeros((2, 4)), wt.ShapeError, "out has shape (2, 4), expected (3,)"),
        (np.zeros(3, int), wt.ScalarError, "out holds int64 values, expected float64"),
        ([0.0] * 3, wt.ScalarError, "out is a list, expected an array of float64"),
        ("a", wt.ScalarError, "out is a str, expected an array of float64"),
        (np.ma.masked_array(np.zeros(4)), wt.ScalarError, "out is a masked array"),
        ((), wt.ShapeError, "out has 0 arrays, expected 1: a"),
        ((np.zeros(3), np.zeros(3)), wt.ShapeError, "out has 2 arrays, expected 1: a"),
    ],
)
def test_a_wrong_place_for_the_result_is_named(chain, inputs, out, kind, words):
    for _ in range(2):
        with pytest.raises(kind, match=f"^forward_dynamics: {re.escape(words)}"):
            chain.forward_dynamics(*inputs, out=out)


def test_a_failed_state_in_a_result_without_its_batch_of_one():
    """NumPy lets a given array do without leading dimensions of size 1."""
    model = wt.mechanisms.n_four_bar(2)
    singular = np.zeros(model.nv)
    impact, out = wt.compile(model).impact, (np.ones(5), np.ones(4))
    for batch in ((), 2):  # code for one state and for several
        impact(np.asarray(model.home.q, dtype=float), singular, np.zeros(batch))
    with pytest.warns(RuntimeWarning, match="depend on each other"):
        impact(singular, singular + 1, np.zeros(1), out=out)
    assert impact.status.tolist() == [ANSWERED_IN_PYTHON]
    np.testing.assert_array_equal(out[0], wt.reference(model).impact(singular, singular + 1, 0.0)[0])


@pytest.mark.parametrize("batch", [(), (3,)])
def test_a_singular_state_may_be_overwritten_by_its_answer(linkage, batch):
    dead = np.zeros((*batch, 3))
    expected = wt.reference(LINKAGE).forward_dynamics(np.zeros(3), np.ones(3), np.zeros(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert linkage.forward_dynamics(dead, np.ones(3), np.zeros(3), out=dead) is dead
    np.testing.assert_array_equal(dead, np.broadcast_to(expected, dead.shape))


def test_contact_impulses_may_be_those_of_the_result_that_is_written():
    """Scenes beyond a joint limit are stepped twice, from inputs that the first results must not have overwritten."""
    b = wt.Builder("ball on a limited slide")
    b.body("slide", mass=1.0, inertia=[1, 1, 1])
    b.joint("rail", "prismatic", parent="world", child="slide", axis=[0, 0, 1], lower=0.0, upper=1.0)
    model = b.build()
    dyn = wt.compile(model, threads=1)
    tau = np.zeros((4, 1))
    first = dyn.contact_rollout(np.array([[0.0], [0.5]]), np.zeros((2, 1)), tau, 0.01)
    last = first.q[:, -1], first.v[:, -1], first.impulses[:, -1]
    q, v, impulses = (x.copy() for x in last)
    wanted = dyn.contact_rollout(q, v, tau, 0.01, impulses=impulses)
    found = dyn.contact_rollout(last[0], last[1], tau, 0.01, impulses=last[2], out=first)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)
