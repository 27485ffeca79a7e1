"""jvp and vjp of every function: against differences in fifty digits, against each other, and for open parameters."""

import mpmath
import numpy as np
import pytest
from hypothesis import given

import whippletree as wt
from methods.closeness import close
from strategies import digits, make_model, make_motion, motions
from whippletree import functions
from whippletree.arithmetic.dual_numbers import Dual
from whippletree.model.parameters import find_parameter

TREE = (-1, 0, 0)
KINDS = ("free", "universal", "spherical")
"""Two quaternions and a subspace that turns with q."""

FUNCTIONS = {
    "pose": ("tool",),
    "jacobian": ("tool",),
    "jacobian_bias": ("tool",),
    "twist": ("tool",),
    "integrate": (),
    "difference": (),
    "rate": (),
    "mass_matrix": (),
    "mass_matrix_inverse": (),
    "mass_matrix_solve": (),
    "operational_inertia": ("tool",),
    "operational_inertia_inverse": ("tool",),
    "inverse_dynamics": (),
    "bias": (),
    "gravity": (),
    "forward_dynamics": (),
    "forward_dynamics_with_wrench": ("tool",),
    "hybrid_dynamics": (("j1",),),
    "interbody_forces": (),
    "passive_forces": (),
    "kinetic_energy": (),
    "potential_energy": (),
    "momentum": (),
    "center_of_mass": (),
    "centroidal_momentum_matrix": (),
    "regressor": (),
}
"""Every function of the tree, with names where it takes some."""


def called(ref, name):
    function = getattr(ref, name)
    return function(*FUNCTIONS[name]) if FUNCTIONS[name] else function


def inputs(model, name, number=float):
    """A point for every input of a function, and a direction for each in its tangent space."""
    known = functions.sizes(model)
    points, directions = {}, {}
    for seed, (word, shape) in enumerate(functions.find(name, model).inputs.items()):
        motion = make_motion(model, seed, number=number)
        flat = word in ("q", "r")
        size = functions.resolve(shape, known)[0]
        points[word] = motion.q if flat else np.resize(motion.v, size)
        directions[word] = motion.a if flat else np.resize(motion.tau, size)
    return points, directions


def flat(results):
    results = results if isinstance(results, tuple) else (results,)
    return np.concatenate([np.ravel(np.asarray(y, dtype=object)) for y in results])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jvp_is_a_difference_quotient(name):
    """Central differences with a step of 1e-20: right to the fortieth digit, so to every digit of a float."""
    with mpmath.workdps(60):
        model = make_model(TREE, KINDS, 5, number=digits)
        ref, step = wt.reference(model), mpmath.mpf(10) ** -20
        points, directions = inputs(model, name, digits)

        def moved(h):
            point = {
                word: ref.integrate(x, h * directions[word]) if word in ("q", "r") else x + h * directions[word]
                for word, x in points.items()
            }
            return flat(called(ref, name)(**point))

        quotient = (moved(step) - moved(-step)) / (2 * step)
        slope = flat(ref.jvp(name, *FUNCTIONS[name])(*points.values(), *directions.values()))
        scale = 1 + max(abs(x) for x in quotient)
        assert max(abs(x - y) for x, y in zip(slope, quotient, strict=True)) < 1e-30 * scale


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vjp_is_the_transpose_of_jvp(name):
    """ȳ · (∂y/∂x) ẋ = (∂y/∂x)ᵀ ȳ · ẋ."""
    model = make_model(TREE, KINDS, 5)
    ref = wt.reference(model)
    points, directions = inputs(model, name)
    values = called(ref, name)(**points)
    values = values if isinstance(values, tuple) else (values,)
    seeds = [np.cos(1 + np.arange(np.size(y))).reshape(np.shape(y)) for y in values]
    forward = flat(ref.jvp(name, *FUNCTIONS[name])(*points.values(), *directions.values()))
    back = ref.vjp(name, *FUNCTIONS[name])(*points.values(), *seeds)
    back = back if isinstance(back, tuple) else (back,)
    assert [np.shape(x) for x in back] == [np.shape(d) for d in directions.values()]
    terms = [flat(tuple(seeds)) * forward, flat(back) * np.concatenate([np.ravel(d) for d in directions.values()])]
    close(terms[0].sum(), terms[1].sum(), sum(np.abs(t.astype(float)).sum() for t in terms))


@given(motions(max_size=4, massless=False))
def test_jvp_on_random_trees_is_a_complex_step(case):
    """Along joints with plain coordinates, the imaginary part at i · 1e-30 is the derivative."""
    model, (q, v, a, tau) = case
    flat_joints = np.concatenate([np.full(k.nv, k.nq == k.nv) for k in model.joint_types])
    ref, step = wt.reference(model), 1e-30
    d = np.where(flat_joints, a, 0)
    there = q + 1j * step * ref.rate(q, d)
    slope = np.imag(ref.forward_dynamics(there, v + 1j * step * a, tau + 1j * step * v)) / step
    found = ref.jvp("forward_dynamics")(q, v, tau, d, a, v)
    M = ref.mass_matrix(q)
    close(found, slope, (np.abs(slope).max(initial=0) + 1) * (np.linalg.cond(M) if len(M) else 1))


# --- open parameters --------------------------------------------------------------------------------------------------

PATHS = (
    "gravity",
    "bodies.b1.mass",
    "bodies.b1.center",
    "bodies.b0.inertia",
    "joints.j1.rotor_inertia",
    "joints.j1.gear_ratio",
    "joints.j1.pitch",
    "joints.j1.position",
    "joints.j1.stiffness",
    "joints.j1.damping",
    "joints.j1.rest",
)


def arm(**changes):
    """Two bodies; keyword arguments replace numbers at a parameter's path, with dots as double underscores."""
    numbers = {
        "gravity": np.array([0.3, -0.2, -9.81]),
        "bodies.b1.mass": 1.25,
        "bodies.b1.center": np.array([0.2, 0.1, -0.3]),
        "bodies.b0.inertia": np.array([0.5, 0.6, 0.7, 0.01, 0.02, 0.03]),
        "joints.j1.rotor_inertia": 0.01,
        "joints.j1.gear_ratio": 9.0,
        "joints.j1.pitch": 0.1,
        "joints.j1.position": np.array([0.5, 0.0, 0.2]),
        "joints.j1.stiffness": 3.0,
        "joints.j1.damping": 0.2,
        "joints.j1.rest": 0.4,
    } | changes
    words = ("rotor_inertia", "gear_ratio", "pitch", "stiffness", "damping", "rest", "position")
    return (
        wt.Builder("arm", gravity=numbers["gravity"])
        .body("b0", 2.0, (0.1, 0.2, 0.3), numbers["bodies.b0.inertia"])
        .body("b1", numbers["bodies.b1.mass"], numbers["bodies.b1.center"], (0.1, 0.12, 0.15))
        .joint("j0", "revolute", "world", "b0", axis=(0, 1, 0))
        .joint(
            "j1", "helical", "b0", "b1", axis=(0, 0.6, 0.8), **{word: numbers[f"joints.j1.{word}"] for word in words}
        )
        .frame("tool", "b1", position=(0.1, 0.1, 0.1))
        .build()
    )


STATE = {"q": [0.3, -1.1], "v": [0.8, -0.4], "a": [1.5, 0.2], "tau": [0.1, -2.0]}
EVALUATED = ("inverse_dynamics", "forward_dynamics", "mass_matrix", "passive_forces", "potential_energy", "momentum")


def state_of(name):
    return {word: np.array(STATE[word]) for word in functions.find(name, arm()).inputs}


@pytest.mark.parametrize("path", PATHS)
def test_an_open_parameter_is_a_rebuilt_model(path):
    own = find_parameter(arm(), path).value
    other = own * 1.25 + 0.125
    opened, rebuilt = wt.reference(arm(), parameters=[path]), wt.reference(arm(**{path: other}))
    changed = False
    for name in EVALUATED:
        ours, theirs = (
            getattr(opened, name)(**state_of(name), **{path: other}),
            getattr(rebuilt, name)(**state_of(name)),
        )
        close(ours, theirs)
        changed |= bool(np.any(ours != getattr(opened, name)(**state_of(name), **{path: own})))
    assert changed


@pytest.mark.parametrize("path", PATHS)
def test_derivatives_by_an_open_parameter(path):
    """Dual numbers in place of a parameter = complex step in place of it."""
    opened = wt.reference(arm(), parameters=[path])
    own = np.asarray(find_parameter(arm(), path).value)
    direction = np.cos(np.arange(own.size)).reshape(own.shape)
    duals = np.empty(own.shape, dtype=object)
    for index in np.ndindex(*own.shape):
        duals[index] = Dual(float(own[index]), float(direction[index]))
    slopes = []
    for name in EVALUATED:
        found = np.asarray(getattr(opened, name)(**state_of(name), **{path: duals}), dtype=object)
        slope = np.array([x.slope if isinstance(x, Dual) else 0 for x in found.flat], dtype=float)
        stepped = getattr(opened, name)(**state_of(name), **{path: own + 1e-30j * direction})
        close(slope, np.ravel(np.imag(stepped)) / 1e-30, 1 + np.abs(slope).max())
        slopes += list(slope)
    assert np.any(np.array(slopes) != 0)


def test_the_derivative_by_a_mass_is_a_column_of_the_regressor():
    """With the centre of mass in the frame's origin, the mass enters nowhere else."""
    model = arm(**{"bodies.b1.center": np.zeros(3)})
    opened = wt.reference(model, parameters=["bodies.b1.mass"])
    q, v, a = (np.array(STATE[word]) for word in ("q", "v", "a"))
    found = opened.inverse_dynamics(q, v, a, Dual(1.25, 1.0))
    slope = np.array([x.slope for x in found])
    close(slope, wt.reference(model).regressor(q, v, a)[:, 10])
