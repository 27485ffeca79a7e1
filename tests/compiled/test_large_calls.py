"""Large calls are run in pieces: no bit depends on how they are cut, and every state is computed once."""

import numpy as np
import pytest

import whippletree as wt
from whippletree.compiler.cpu import threads
from whippletree.compiler.named_function import ANSWERED_IN_PYTHON


@pytest.mark.parametrize("batch", [(), (1,), (7,), (64,), (1003,), (3, 50), (50, 3), (2, 1, 9, 5), (30, 30, 30)])
@pytest.mark.parametrize("most", [1, 8, 100])
@pytest.mark.parametrize("multiple", [1, 4, 8])
def test_pieces_cover_a_batch_once(batch, most, multiple):
    covered = np.zeros(batch, dtype=int)
    regions = list(threads.split(tuple(slice(0, n) for n in batch), most, multiple))
    for region in regions:
        covered[(*region, ...)] += 1
    assert (covered == 1).all()
    largest = max(covered[(*region, ...)].size for region in regions)
    assert largest <= max(2 * most, 2 * multiple * covered.size / max(batch, default=1))


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(threads, "LONG_CALL", 50_000)


@pytest.fixture(scope="module")
def model():
    return wt.mechanisms.chain(4)


@pytest.mark.parametrize("threads", [1, 3])
def test_no_bit_depends_on_the_pieces(small_pieces, model, threads):
    cut, whole = wt.compile(model, threads=threads), wt.compile(model, threads=1)
    rng = np.random.default_rng(0)
    q, v, tau = rng.normal(size=(3, 40, 25, 4))
    inputs = [(q, v, tau), (q[:, :1], v[0], tau[0, 0]), (q.tolist(), v, tau), (q[::-1, :, ::-1], v, tau.astype("f4"))]
    for given in inputs:
        wanted = [
            whole.forward_dynamics(*one) for one in zip(*[np.broadcast_to(x, q.shape) for x in given], strict=True)
        ]
        np.testing.assert_array_equal(cut.forward_dynamics(*given), wanted)
    target = np.empty((40, 4, 25)).swapaxes(1, 2)
    assert cut.forward_dynamics(q, v, tau, out=target) is target
    np.testing.assert_array_equal(target, whole.forward_dynamics.ufunc(q, v, tau))
    cut.forward_dynamics(q, v, tau, out=q)
    np.testing.assert_array_equal(q, target)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch", [(), (11,), (2, 9)])
def test_roll_outs_in_pieces(small_pieces, model, threads, batch):
    cut, whole = wt.compile(model, threads=threads), wt.compile(model, threads=1)
    q0 = np.random.default_rng(0).normal(size=(*batch, 4))
    found = cut.rollout(q0, np.zeros(4), np.zeros((300, 4)), 1e-3, method="rk4")
    assert np.shape(cut.rollout.status) == batch
    if batch:
        assert cut.rollout.steps.tolist() == np.full(batch, 300).tolist()
    for index in np.ndindex(*batch):
        one = whole.rollout(q0[index], np.zeros(4), np.zeros((300, 4)), 1e-3, method="rk4")
        np.testing.assert_array_equal(found[0][index], one[0])


def test_singular_states_are_found_in_every_piece(small_pieces):
    linkage = wt.mechanisms.four_bar()
    dyn = wt.compile(linkage, threads=2)
    q = np.tile(linkage.home.q, (2000, 1))
    q[::7] = 0  # all bars in line
    with pytest.warns(RuntimeWarning, match=r"no answer for 286 of 2000 states"):
        a = dyn.forward_dynamics(q, np.zeros(3), np.zeros(3))
    singular = np.arange(2000) % 7 == 0
    assert np.array_equal(dyn.forward_dynamics.status, np.where(singular, ANSWERED_IN_PYTHON, 0))
    answer = wt.reference(linkage).forward_dynamics(q[0], *np.zeros((2, 3)))
    np.testing.assert_array_equal(a[singular], np.tile(answer, (286, 1)))
    assert np.array_equal(a[~singular], np.tile(a[1], (1714, 1)))


def test_wrong_inputs_are_refused_as_in_small_calls(small_pieces, model):
    f = wt.compile(model, threads=1).forward_dynamics
    q = np.zeros((5000, 4))
    with pytest.raises(wt.ShapeError, match=r"^forward_dynamics: tau has shape \(5,\)"):
        f(q, q, np.zeros(5))
    with pytest.raises(wt.ScalarError, match="complex128 values"):
        f(q, q, q * 1j)
    with pytest.raises(wt.ShapeError, match=r"^forward_dynamics: out has shape \(4999, 4\)"):
        f(q, q, q, out=np.zeros((4999, 4)))


def test_small_batches_take_the_short_way(model, monkeypatch):
    """Calls of fewer states than a second thread pays for are not looked at closely, whatever each state's size."""
    dyn = wt.compile(model, threads=2)
    q, still = np.zeros((2, 4)), np.zeros(4)
    dyn.forward_dynamics(q, still, still)
    run, seen = threads.LargeCalls.run, []
    monkeypatch.setattr(threads.LargeCalls, "run", lambda self, *given: seen.append(given[2]) or run(self, *given))
    fewest = dyn.forward_dynamics._large.fewest
    for states in (2, fewest // 4, fewest - 1):
        dyn.forward_dynamics(np.zeros((states, 4)), still, still)
    assert seen == []
    dyn.forward_dynamics(np.zeros((fewest, 4)), still, still)
    dyn.forward_dynamics(np.zeros((2, 1, 4)), np.zeros((3, 4)), still)
    assert seen == [(fewest,), (2, 3)]
