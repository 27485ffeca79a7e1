"""Derivatives of whole runs with contact, compared with differences of whole runs."""

import numpy as np

import whippletree as wt

TIGHT = {"method": "events", "rtol": 1e-11, "atol": 1e-12}
STEP = 1e-6


def ends(dyn, q, v, duration, **settings):
    run = wt.simulate(
        dyn.model, q, v, duration=duration, compiled=dyn, output_dt=duration, saltation=False, project=True,
        **TIGHT, **settings,
    )  # fmt: skip
    assert run.attrs["failure"] == ""
    return run


def compared(model, duration, events, q0=None, v0=None, only=None, **settings):
    """Φ of a run along two random changes of the start that its first mode allows, and the same by differences.

    ``only``: numbers of the velocities, and of their coordinates, that are changed; default all.
    """
    dyn = wt.compile(model)
    n = model.nv
    q = np.array(model.home.q if q0 is None else q0, dtype=float)
    v = np.array(model.home.v if v0 is None else v0, dtype=float)
    run = wt.simulate(
        dyn.model, q, v, duration=duration, compiled=dyn, output_dt=duration, sensitivity=True, **TIGHT, **settings
    )
    assert run.attrs["contact_event_kinds"] == events
    assert not any(run.attrs["saltation_missing"])
    flow, last = run["sensitivity"].values, run["q"].values[-1]
    rng = np.random.default_rng(0)
    kept = np.isin(np.tile(np.arange(n), 2), np.arange(n) if only is None else only)
    for _ in range(2):
        change = flow[0] @ (kept * rng.normal(size=2 * n))
        change /= np.abs(change).max()
        found = []
        for share in (-2, -1, 1, 2):
            d = share * STEP * change
            other = ends(dyn, np.asarray(dyn.integrate(q, d[:n])), v + d[n:], duration, **settings)
            assert other.attrs["event_names"] == run.attrs["event_names"]
            found.append(np.concatenate([dyn.difference(last, other["q"].values[-1]), other["v"].values[-1]]))
        measured = (found[0] - 8 * found[1] + 8 * found[2] - found[3]) / (12 * STEP)
        assert np.allclose(flow[-1] @ change, measured, atol=1e-7 * np.abs(measured).max())
    return run
