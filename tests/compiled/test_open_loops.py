"""Open parameters in loops over bodies and clusters: numbers that each state has for itself, against the reference."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

import whippletree as wt
from looped_programs import LOOPING, Interpreter, inputs_of
from strategies import make_looped_model, make_model, make_parents
from whippletree.compiler.frontend.loops import cluster_loop_program, loop_program
from whippletree.functions import find
from whippletree.model.parameters import BODY_FIELDS, JOINT_FIELDS, find_parameter
from whippletree.tree.skeleton import skeleton

KINDS = ("revolute", "prismatic", "helical", "spherical", "universal", "free", "cylindrical", "planar")
FUNCTIONS = sorted(name for name in LOOPING if not find(name).names)


def random_model(seed):
    rng = Random(seed)
    parents = make_parents(9, seed)
    model = make_model(parents, [rng.choice(KINDS) for _ in parents], seed)
    joints = [replace(j, stiffness=2.0, damping=0.5) if j.kind == "revolute" else j for j in model.joints]
    return replace(model, joints=tuple(joints))


def random_openings(model, seed, share=0.5):
    """Paths of some numbers of half of the bodies and joints, and values beside those that the model has."""
    rng, paths = Random(f"open {seed}"), []
    for body, joint in zip(model.bodies, model.joints, strict=True):
        if rng.random() < share:
            paths += [f"bodies.{body.name}.{word}" for word in BODY_FIELDS if rng.random() < 0.5]
        if rng.random() < share:
            words = [word for word in JOINT_FIELDS if word != "pitch" or joint.kind == "helical"]
            if joint.kind not in ("revolute", "prismatic", "helical"):
                words = ["position"]
            paths += [f"joints.{joint.name}.{rng.choice(words)}"]
    own = np.random.default_rng(seed)
    values = {}
    for path in paths:
        value = find_parameter(model, path).value
        values[path] = np.asarray(value * own.uniform(1.0, 1.5, value.shape) + own.uniform(0.01, 0.1))
    return values


def require_the_reference(model, name, program, seed, opened, error):
    inputs = inputs_of(model, name, seed)
    found = Interpreter(program, inputs | opened).outputs()
    expected = getattr(wt.reference(model, parameters=list(opened)), name)(*inputs.values(), *opened.values())
    for own, other in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=False):
        other = np.asarray(other, dtype=float)
        assert np.abs(own - other).max(initial=0) <= error * max(1.0, np.abs(other).max(initial=0))


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_trees_with_random_openings(seed, name):
    model = random_model(seed)
    opened = random_openings(model, seed)
    assert len(opened) > 3
    program = loop_program(find(name, model), skeleton(model), parameters=list(opened))
    require_the_reference(model, name, program, seed, opened, 1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forward_dynamics", "constraint_forces", "project_velocity", "closing_step"])
@pytest.mark.parametrize("seed", [1, 3, 5])
def test_clusters_of_loops_with_open_bodies(seed, name):
    """Masses, centres and inertias; places of joints would open the loops."""
    model, motion = make_looped_model(seed, limbs=4)
    opened = {path: x for path, x in random_openings(model, seed).items() if path.startswith("bodies")}
    assert opened
    program = cluster_loop_program(find(name, model), skeleton(model), parameters=list(opened))
    inputs = {"q": motion.q, "v": motion.v, "tau": motion.tau}
    inputs = {word: inputs[word] for word in find(name, model).inputs}
    found = Interpreter(program, inputs | opened).outputs()[0]
    reference = wt.reference(model, route="embedding", parameters=list(opened))
    expected = np.asarray(getattr(reference, name)(*inputs.values(), *opened.values()), dtype=float)
    assert np.abs(found - expected).max(initial=0) < 1e-8 * max(1.0, np.abs(expected).max(initial=0))


def test_values_of_a_batch_are_those_of_models_compiled_for_each():
    """200 rods, of which every tenth has an open mass: one compilation, and each state has numbers of its own."""
    model = wt.mechanisms.chain(200)
    names = [body.name for body in model.bodies[::10]]
    paths = [f"bodies.{name}.mass" for name in names]
    q, v, tau = np.full(200, 0.01), np.linspace(-1, 1, 200), np.zeros(200)
    masses = np.random.default_rng(0).uniform(0.5, 2.0, (3, len(names)))
    found = wt.compile(model, parameters=paths).forward_dynamics(q, v, tau, *masses.T)
    for row, own in zip(found, masses, strict=True):
        heavy = dict(zip(names, own, strict=True))
        bodies = tuple(replace(b, mass=heavy.get(b.name, b.mass)) for b in model.bodies)
        expected = wt.compile(replace(model, bodies=bodies)).forward_dynamics(q, v, tau)
        assert np.abs(row - expected).max() < 1e-9 * np.abs(expected).max()


def test_a_mass_of_nothing_is_told_by_the_status():
    """As where code is written out: one state of a batch is singular because of its own number."""
    for size in (3, 160):
        model = wt.mechanisms.chain(size)
        last = model.bodies[-1].name
        dyn = wt.compile(model, parameters=[f"bodies.{last}.mass", f"bodies.{last}.inertia"])
        zero = np.zeros(size)
        inertia = np.array([[1.0, 1, 1, 0, 0, 0], [0.0] * 6])
        with pytest.warns(RuntimeWarning, match="1 of 2"):
            a = dyn.forward_dynamics(zero, zero, zero, np.array([1.0, 0.0]), inertia)
        assert np.isfinite(a[0]).all()
        assert np.isnan(a[1]).all()
        assert dyn.forward_dynamics.status.tolist() == [0, size]


def test_more_open_parameters_than_a_ufunc_has_places():
    model = wt.mechanisms.chain(70)
    dyn = wt.compile(model, parameters=[f"bodies.{body.name}.mass" for body in model.bodies])
    zero = np.zeros(70)
    with pytest.raises(
        wt.UnsupportedError, match=r"forward_dynamics: 73 inputs and 2 outputs are more than a ufunc of"
    ):
        dyn.forward_dynamics(zero, zero, zero, *np.ones(70))
