"""Absurd models, states and settings of contact: each gets a named error with its cause, or a rule that is stated."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import whippletree as wt

SPHERE = ("sphere", {"radius": 0.1})
STILL = (0, 0, 0.5, 1, 0, 0, 0)


def ball(shape=SPHERE, ground=("half_space", {}), start=STILL, mass=1.0, **contact):
    """A body over the ground."""
    builder = wt.Builder("ball").body("body", mass, inertia=(0.01, 0.01, 0.01))
    builder.joint("free", "free", "world", "body", start=start)
    builder.geometry("ground", "world", ground[0], **ground[1]).geometry("shape", "body", shape[0], **shape[1])
    return builder.contact("touch", "shape", "ground", **contact).build()


def run(model=None, q0=None, v0=None, **settings):
    model = ball() if model is None else model
    defaults = {"duration": 0.02, "method": "time_stepping", "output_dt": 0.01, "progress": False}
    return wt.simulate(model, q0, v0, **(defaults | settings))


def rolled(dt=1e-3, sweeps=5):
    model = ball()
    return wt.compile(model).contact_rollout(model.home.q, np.zeros(6), np.zeros((2, 6)), dt, sweeps=sweeps)


def arm():
    return wt.mechanisms.double_pendulum()


REFUSED = {
    # coefficients
    "friction below 0": (lambda: ball(friction=-1), "'touch': friction is -1"),
    "friction without end": (lambda: ball(friction=np.inf), "friction is inf"),
    "friction that is no number": (lambda: ball(friction=np.nan), "friction is nan"),
    "friction in words": (lambda: ball(friction="0.5"), "friction is '0.5'"),
    "restitution above 1": (lambda: ball(restitution=2), "restitution is 2, expected a number from 0 to 1"),
    "restitution that is no number": (lambda: ball(restitution=np.nan), "restitution is nan"),
    # shapes
    "a cylinder of no length": (lambda: run(ball(("cylinder", {"radius": 0.1, "length": 0}))), "above 0 in m, got 0"),
    "a ball of no radius": (lambda: run(ball(("sphere", {}))), "a sphere needs radius"),
    "a plane as its own kind": (
        lambda: run(ball(("plane", {}))),
        "kind 'plane' cannot touch; .*'plane' is 'half_space' here",
    ),
    "a mesh in one plane": (lambda: run(ball(("mesh", {"vertices": np.eye(4, 3) * [1, 1, 0]}))), "one plane"),
    "a mesh of words": (lambda: run(ball(("mesh", {"vertices": "abc"}))), "vertices"),
    "a mesh of three corners": (lambda: run(ball(("mesh", {"vertices": np.eye(3)}))), "n at least 4"),
    "a mesh that is not there": (lambda: run(ball(("mesh", {"path": "nowhere.stl"}))), "no file 'nowhere.stl'"),
    "a terrain that is a number": (lambda: run(ball(ground=("terrain", {"height": 3.0}))), "a terrain needs height"),
    "a terrain that branches": (
        lambda: run(ball(ground=("terrain", {"height": lambda x, y: 0.1 if x > 0 else 0.0}))),
        "cannot be differentiated",
    ),
    # declarations
    "nothing that could touch": (lambda: wt.on_ground(arm()), "name frames"),
    "an empty list": (lambda: wt.on_ground(ball(), geometries=[]), "neither geometries nor frames"),
    "a misspelt geometry": (lambda: wt.on_ground(ball(), geometries=["shap"]), "Did you mean 'shape'"),
    "ground twice": (lambda: wt.on_ground(ball()), "'ground' is there already"),
    "a height in words": (lambda: wt.on_ground(arm(), frames=["lower"], height="a"), "height is 'a'"),
    "a normal of zeros": (lambda: wt.on_ground(arm(), frames=["lower"], normal=(0, 0, 0)), "no direction"),
    "one name to exclude": (lambda: wt.with_contacts(ball(), exclude=["shape"]), "expected pairs of names"),
    "a misspelt exclusion": (lambda: wt.with_contacts(ball(), exclude=[("shape", "grund")]), "Did you mean 'ground'"),
    # methods
    "a method without contact": (lambda: run(method="adaptive"), "has contacts, which method 'adaptive' does not see"),
    "another one": (lambda: run(method="rk4"), "contacts=()"),
    "a law that is not there": (lambda: run(method="events", impact_law="bouncy"), "there is no impact law 'bouncy'"),
    "a misspelt option": (lambda: run(stepp=1e-3), "method 'time_stepping'.*Did you mean 'step'"),
    # steps
    "a step of zero": (lambda: run(step=0), "step is 0"),
    "a step without end": (lambda: run(step=np.inf), "step is inf"),
    "a step in words": (lambda: run(step="short"), "step is 'short'"),
    "a step that takes for ever": (lambda: run(step=1e-300), "2e\\+298 steps"),
    "a tolerance of zero": (lambda: run(tolerance=0), "tolerance is 0"),
    "half a sweep": (lambda: run(sweeps=2.5), "sweeps is 2.5"),
    "a roll-out of no step": (lambda: rolled(dt=0.0), "dt is 0.0"),
    "a roll-out backwards": (lambda: rolled(dt=-1e-3), "dt is -0.001"),
    "a roll-out without sweeps": (lambda: rolled(sweeps=0), "sweeps is 0"),
    # states
    "a state that is no number": (lambda: run(q0=[np.nan] * 7), "q0 holds nan"),
    "a speed without end": (lambda: run(v0=[0, 0, 0, 0, 0, -np.inf]), "v0 holds -inf"),
    "a speed whose energy overflows": (lambda: run(v0=[0, 0, 0, 0, 0, -1e200]), "energy of the start state"),
    "a quaternion of zeros": (lambda: run(q0=[0, 0, 1, 0, 0, 0, 0]), "quaternion of zeros at joint 'free'"),
    "deep in the ground, by events": (lambda: run(q0=[0, 0, -0.3, 1, 0, 0, 0], method="events"), "'touch' by 0.4 m"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_its_cause(case):
    ask, cause = REFUSED[case]
    with pytest.raises((wt.WhippletreeError, ValueError), match=cause):
        ask()


ALLOWED = {
    "friction beyond measure": lambda: run(ball(friction=1e300), duration=0.5, output_dt=0.1),
    "one step per row": lambda: run(step=10.0),
    "the same pair twice": lambda: run(doubled(), duration=0.5, output_dt=0.1),
    "very fast": lambda: run(v0=[0, 0, 0, 0, 0, -1e6]),
    "no contacts": lambda: run(arm()),
    "events without contacts": lambda: run(arm(), method="events"),
    "no runs": lambda: run(q0=np.zeros((0, 7)), v0=np.zeros((0, 6))),
    "a flat ellipsoid": lambda: run(ball(("ellipsoid", {"radii": (0.1, 0.1, 1e-12)})), duration=0.5, output_dt=0.1),
}


def doubled():
    builder = wt.Builder("doubled").body("body", 1.0, inertia=(0.01, 0.01, 0.01))
    builder.joint("free", "free", "world", "body", start=STILL).geometry("ground", "world", "half_space")
    builder.geometry("shape", "body", "sphere", radius=0.1)
    return builder.contact("one", "shape", "ground").contact("other", "shape", "ground").build()


@pytest.mark.slow
@pytest.mark.parametrize("case", ALLOWED)
def test_odd_but_allowed_leaves_no_nan(case):
    found = ALLOWED[case]()
    assert not found.attrs["failure"]
    assert all(np.isfinite(part).all() for name, part in found.data_vars.items() if part.dtype.kind == "f")


def test_an_overlap_at_the_start_is_told_by_name_and_undone():
    """Of joints too: robots at q = 0 are often beyond the limits of their knees."""
    with pytest.warns(RuntimeWarning, match="at the start 'touch' overlaps by 0.4 m"):
        sunk = run(q0=[0, 0, -0.3, 1, 0, 0, 0], duration=0.5)
    assert sunk.q.values[-1, 2] == pytest.approx(0.1)
    bent = wt.Builder("bent").body("leg", 1.0, center=(0, 0, -0.3), inertia=(0.03, 0.03, 0.001))
    bent.joint("knee", "revolute", "world", "leg", axis=(0, 1, 0), lower=-1.0, upper=-0.5)
    with pytest.warns(RuntimeWarning, match="'limit knee' overlaps by 0.5 m or rad"):
        run(bent.build())


@pytest.mark.slow(every=True)
@pytest.mark.parametrize("runs", [1, 3])
def test_a_scene_that_blows_up_says_so_and_not_that_its_controller_did(runs):
    def damper(t, q, v):
        """Too stiff by far for a milligram and steps of a millisecond."""
        return [0, 0, 0, 0, 0, -v[5]]

    q0, v0 = np.tile(STILL, (runs, 1)), np.tile([0, 0, 0, 0, 0, 1e-6], (runs, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        start = (q0[0], v0[0]) if runs == 1 else (q0, v0)
        found = run(ball(mass=1e-6), *start, controller=damper, duration=0.5)
    why = [found.attrs["failure"]] if runs == 1 else found.failure.values
    assert all("no longer finite" in str(text) and "controller" in str(text) for text in why)


@pytest.mark.parametrize("inertia", [(0, 0, 0), (0.01, 0.01, 0)])
def test_a_free_body_that_has_no_inertia_against_turning_is_named(inertia):
    """It was an error of NumPy's in time steps of free bodies."""
    builder = wt.Builder("points").geometry("floor", "world", "half_space").body("point", 1.0, inertia=inertia)
    builder.joint("fly", "free", "world", "point", start=(0, 0, 0.5, 1, 0, 0, 0)).geometry(
        "skin", "point", "sphere", radius=0.1
    )
    model = builder.contact_group("all", ["floor", "skin"], friction=0.3).build()
    with pytest.raises(wt.SingularSystemError, match="the motion of 'point' about joint 'fly' has no inertia"):
        wt.simulate(model, duration=0.1, method="time_stepping")
