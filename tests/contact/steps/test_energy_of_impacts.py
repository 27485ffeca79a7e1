"""Energy that impacts add under Newton's restitution with friction: summed up, and told."""

import warnings

import numpy as np
import pytest

import whippletree as wt

CORNERS = [(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)]
Q = np.array([0, 0, 1.0, -0.34079861683160045, -0.09135351304263678, 0.8699026256857795, 0.34464512218428894])
V = np.array(
    [
        -1.6413972945846467,
        -0.005203264171931977,
        -0.6234637409883934,
        0.14863152325202633,
        -1.608187784186389,
        0.2417718768768513,
    ]
)


def cube(kind, friction, restitution):
    builder = wt.Builder("cube").body("cube", 1.0, inertia=(1 / 6,) * 3).joint("cube", "free", "world", "cube")
    shape = {"vertices": CORNERS} if kind == "mesh" else {"size": (1, 1, 1)}
    builder.geometry("floor", "world", "half_space").geometry("shape", "cube", kind, **shape)
    return builder.contact("touch", "shape", "floor", friction=friction, restitution=restitution).build()


def dropped(model):
    return wt.simulate(model, Q, V, duration=0.6, output_dt=2e-3, method="time_stepping", step=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mesh", "box"])
def test_energy_gained_in_an_impact_with_friction_is_told(kind):
    with pytest.warns(RuntimeWarning, match=r"impacts have added 0\.0\d+ J, 0\.8% of .*'touch'.*method='events'"):
        run = dropped(cube(kind, 1000.0, 1.0))
    work = np.diff(run["contact_work"].values)
    assert run.attrs["contact_energy_gained"] == pytest.approx(work[work > 0].sum(), rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize(("friction", "restitution"), [(1000.0, 0.0), (0.5, 0.0), (0.0, 0.5)])
def test_nothing_is_told_where_impacts_only_take(friction, restitution):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = dropped(cube("box", friction, restitution))
    assert run.attrs["contact_energy_gained"] < 1e-3  # J: of the first order in the step
