"""Functions of long systems that are made of others which are loops: the reference's numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import whippletree as wt
from long_mechanisms import floating_ladder, grid
from looped_programs import MODELS
from strategies import make_looped_model, make_motion
from whippletree import mechanisms
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend.code_forms import COMPOSED, FEELS_GRAVITY, Request, catalogue_program
from whippletree.compiler.frontend.loops.composed_functions import WRITERS, composed_program, program_with_gravity
from whippletree.compiler.program import every_block
from whippletree.functions import CATALOGUE, find
from whippletree.functions.registry import for_names
from whippletree.model import Constraint, Frame, Model, State
from whippletree.model.parameters import find_parameter, with_parameters

RANDOM = np.random.default_rng(11)
TREES = {word: MODELS[word] for word in ("planar chain", "every joint in a chain", "forest of any joints")}
OF_TREES = (
    "operational_inertia_inverse",
    "force_sensitivity",
    "regressor",
    "condition_number",
    "equilibrated_condition_number",
    "pivot_ratios",
    "diagonal_ratio",
)
OTHERS = ("operational_inertia", "regressor", "joint_reactions", "joint_reactions_with_weights")
OF_LOOPS = [name for name in COMPOSED if name not in OTHERS and "condition" not in name and "pivot" not in name]


def massless_cells() -> Model:
    """Four-bars whose couplers have no mass."""
    return mechanisms.four_bar_chain(3, masses=(1.0, 0.0, 1.0))


def pinned_chain() -> Model:
    """Rods so many that the rows of their two pins are swept over, and not factored."""
    chain = mechanisms.chain(54, length=1 / 54)
    q = np.full(54, 0.02)
    names = [chain.bodies[k].name for k in (26, 53)]
    frames = [Frame(f"nail {name}", "world", wt.reference(chain).pose(name)(q)) for name in names]
    pins = [Constraint(f"pin {name}", "pin", (f"nail {name}", name)) for name in names]
    model = replace(chain, frames=(*chain.frames, *frames), constraints=tuple(pins))
    return replace(model, start=State(q, np.zeros(54)))


LOOPS = {
    "cells": lambda: mechanisms.four_bar_chain(3),
    "massless couplers": massless_cells,
    "ladder": lambda: mechanisms.n_four_bar(3),
    "grid": lambda: grid(2, 2),
    "ladder with a massless rung": lambda: floating_ladder(3, massless=(1,)),
    "pinned chain": pinned_chain,
    "random clusters": lambda: make_looped_model(3, limbs=4)[0],
}


def request_of(model: Model, name: str, names: tuple[Any, ...] = (), parameters: tuple[str, ...] = ()) -> Request:
    return Request(model, for_names(find(name, model), model, names), names, parameters)


def inputs_of(model: Model, function: Any, q: Any) -> list[Any]:
    known = {"q": q, "b": np.linspace(0.5, 1.0, model.nv), "wrench": RANDOM.normal(size=6)}
    if model.constraints:
        known["weights"] = RANDOM.uniform(0.5, 2.0, len(wt.constraint_set(model).row_names))
    return [known.get(word, RANDOM.normal(size=model.nv)) for word in function.inputs]


def task_of(model: Model, function: Any) -> tuple[Any, ...]:
    last, middle = model.bodies[-1].name, model.bodies[len(model.bodies) // 2].name
    return {(): (), ("frame",): (middle,), ("task",): ((last, f"{middle}.y"),)}[function.names]


def assert_same(model: Model, name: str, names: tuple[Any, ...], q: Any, tolerance: float) -> None:
    """One state and a batch of it, with the same bits, and the reference's numbers."""
    request = request_of(model, name, names)
    given = inputs_of(model, request.function, q)
    function = compile_function(composed_program(request), threads=1)
    reference = getattr(wt.reference(model, watch="never"), name)
    expected = (reference(*names) if names else reference)(*given)
    found, many = function(*given), function(*[np.stack([x] * 9) for x in given])
    for one, all_of_them, other in zip(*map(listed, (found, many, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=tolerance * max(1.0, float(np.abs(other).max())))
        assert np.array_equal(all_of_them, np.broadcast_to(one, all_of_them.shape))


def listed(found: Any) -> list[Any]:
    return [np.asarray(x, dtype=float) for x in (found if isinstance(found, tuple) else (found,))]


def test_every_composed_function_is_written() -> None:
    assert COMPOSED.keys() == WRITERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_TREES)
@pytest.mark.parametrize("model", TREES.values(), ids=TREES)
def test_functions_of_trees(name: str, model: Model) -> None:
    assert_same(model, name, task_of(model, find(name, model)), make_motion(model, 3).q, 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_LOOPS)
@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_functions_of_loops(name: str, make: Any) -> None:
    model = make()
    request = request_of(model, name, task_of(model, find(name, model)))
    if request.is_looped or (name == "force_sensitivity" and make is pinned_chain):
        return  # a loop itself; and accelerations that are nothing but rounding, in both
    assert request.composed_of is not None
    if name == "delassus" and any(body.mass == 0 for body in model.bodies):  # M⁻¹ does not exist
        with pytest.raises(wt.SingularSystemError):
            compile_function(composed_program(request), threads=1)(model.home.q)
        return
    assert_same(model, name, request.names, model.home.q, 1e-9)


def test_inertia_of_a_task_that_nothing_moves_here() -> None:
    """A stretched chain cannot move along itself: NaN, and a status that says so; a bent one can."""
    model = mechanisms.chain(52)
    function = compile_function(composed_program(request_of(model, "operational_inertia", (("tip.x", "tip.y"),))))
    bent = 0.1 * RANDOM.normal(size=52)
    expected = wt.reference(model).operational_inertia(("tip.x", "tip.y"))(bent)
    np.testing.assert_allclose(function(bent), expected, rtol=1e-9)
    with pytest.raises(wt.SingularSystemError):
        function(np.zeros(52))


def test_a_task_that_nothing_ever_moves_is_refused_by_name() -> None:
    model = mechanisms.chain(160)
    with pytest.raises(wt.UnsupportedError, match="inertia is infinite in some direction"):
        wt.compile(model).operational_inertia("world")(np.zeros(160))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dagger", "regressor"])
def test_open_parameters(name: str) -> None:
    model = mechanisms.four_bar_chain(3)
    paths = (f"bodies.{model.bodies[4].name}.mass", f"joints.{model.joints[2].name}.position")
    values = [1.1 * np.asarray(find_parameter(model, path).value) for path in paths]
    request = request_of(model, name, (), paths)
    given = [*inputs_of(model, request.function, model.home.q), *values]
    found = compile_function(composed_program(request), threads=1)(*given)
    expected = getattr(wt.reference(model, parameters=paths), name)(*given)
    for one, other in zip(listed(found), listed(expected), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9 * float(np.abs(other).max()))


@pytest.mark.slow
def test_sizes_that_are_never_written_out() -> None:
    """The blocks of an inverse, at 165 bodies: M M† + Aᵀ A† = 1 and A A†ᵀ = 1."""
    model = mechanisms.four_bar_chain(55)
    dyn, q = wt.compile(model), model.home.q
    M, A = dyn.mass_matrix(q), dyn.constraint_jacobian(q)[list(wt.constraint_set(model).structure.independent)]
    M_dagger, A_dagger, Lambda = dyn.dagger(q)
    assert np.abs(M @ M_dagger + A.T @ A_dagger - np.eye(165)).max() < 1e-6
    assert np.abs(A @ A_dagger.T - np.eye(len(A))).max() < 1e-9
    assert np.abs(M @ A_dagger.T + A.T @ Lambda).max() < 1e-6 * np.abs(Lambda).max()
    chain = mechanisms.chain(160)
    dyn, (q, v, a) = wt.compile(chain), 0.1 * RANDOM.normal(size=(3, 160))
    known = np.concatenate([inertial_numbers(body) for body in chain.bodies])
    torque = dyn.inverse_dynamics(q, v, a)
    np.testing.assert_allclose(dyn.regressor(q, v, a) @ known, torque, atol=1e-9 * np.abs(torque).max())


def inertial_numbers(body: Any) -> np.ndarray:
    """The ten inertial parameters of a body, about and in its frame."""
    c = np.asarray(body.center, dtype=float)
    inertia = np.asarray(body.inertia, dtype=float) + body.mass * (c @ c * np.eye(3) - np.outer(c, c))
    xx, xy, xz, yy, yz, zz = inertia[np.triu_indices(3)]
    return np.array([body.mass, *(body.mass * c), xx, xy, yy, xz, yz, zz], dtype=float)


# --- open gravity -----------------------------------------------------------------------------------------------------

HEAVY = {
    "tree": lambda: mechanisms.tree(14, seed=3),
    "cells": lambda: mechanisms.four_bar_chain(3),
    "ladder": lambda: mechanisms.n_four_bar(76),
}
WITH_GRAVITY = [*FEELS_GRAVITY, "mass_matrix", "integrate", "project_velocity", "passive_forces"]


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_GRAVITY)
@pytest.mark.parametrize("make", HEAVY.values(), ids=HEAVY)
def test_open_gravity(name: str, make: Any) -> None:
    """Weights as joint forces: the numbers of a model that has this gravity."""
    model, g = make(), np.array([0.3, -0.5, -9.0])
    if CATALOGUE[name].constraints == "needs" and not model.constraints:
        return
    request = request_of(model, name, task_of(model, find(name, model)), ("gravity",))
    still = request.without_gravity
    assert still is not None
    known = {"wrench": RANDOM.normal(size=6), "h": 0.1, "q": model.home.q}
    given = [known.get(word, 0.1 * RANDOM.normal(size=model.nv)) for word in request.function.inputs]
    found = compile_function(program_with_gravity(request, still), threads=1)(*given, g)
    expected = getattr(wt.reference(with_parameters(model, {"gravity": g})), name)
    for one, other in zip(
        listed(found), listed((expected(*request.names) if request.names else expected)(*given)), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-10 * max(1.0, float(np.abs(other).max())))


def test_a_rollout_with_open_gravity() -> None:
    model, g = mechanisms.chain(160), np.array([0.0, -3.0, 1.0])
    opened, closed = wt.compile(model, parameters=["gravity"]), wt.compile(with_parameters(model, {"gravity": g}))
    q, nothing = np.full(160, 0.01), np.zeros((3, 160))
    found = opened.rollout(q, nothing[0], nothing, 1e-3, g, method="rk4")
    for one, other in zip(found, closed.rollout(q, nothing[0], nothing, 1e-3, method="rk4"), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12 * max(1.0, float(np.abs(other).max())))


def test_which_form_is_taken() -> None:
    def short(model: Model, name: str) -> bool:
        names = task_of(model, find(name, model))
        return request_of(model, name, names).is_short

    assert short(mechanisms.four_bar_chain(8), "dagger")
    assert not short(mechanisms.four_bar_chain(9), "dagger")
    assert short(mechanisms.chain(150), "operational_inertia_inverse")
    assert not short(mechanisms.chain(151), "operational_inertia_inverse")
    assert short(mechanisms.chain(31), "regressor")
    assert not short(mechanisms.chain(32), "regressor")
    soft = wt.mechanisms.four_bar_chain(9)
    assert request_of(soft, "dagger").composed_of is not None
    # what is exported or runs on a GPU is written out
    assert Request(soft, find("dagger", soft), exported=True).composed_of is None
    assert Request(soft, find("dagger", soft), on_cpu=False).composed_of is None


def test_what_is_linear_is_written_out_for_longer() -> None:
    """Reactions without redundant rows, and few contacts: up to 500 bodies; else up to 150."""
    chain = mechanisms.chain(160)
    assert request_of(chain, "joint_reactions").is_short
    assert request_of(mechanisms.four_bar_chain(60), "joint_reactions").is_short
    assert not request_of(mechanisms.chain(501), "joint_reactions").is_short
    held = replace(chain, constraints=tuple(Constraint(f"hold {k}", "weld", ("world", "tip")) for k in range(2)))
    assert not request_of(held, "joint_reactions").is_short
    rope = wt.on_ground(chain, frames=["tip"], friction=0.5)
    assert request_of(rope, "contact_gaps").is_short
    names = [body.name for body in chain.bodies]
    assert not request_of(wt.on_ground(chain, frames=names, friction=0.5), "contact_gaps").is_short
    q = 0.05 * RANDOM.normal(size=160)
    found = wt.compile(rope).contact_gaps(q)
    np.testing.assert_allclose(found, wt.reference(rope).contact_gaps(q), atol=1e-10)
    rest = np.zeros(160)
    found = wt.compile(chain).joint_reactions(q, rest, rest)
    for one, other in zip(found, wt.reference(chain).joint_reactions(q, rest, rest), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8 * float(np.abs(other).max()))


def test_reactions_of_ladders_and_grids_are_made_of_an_elimination() -> None:
    """Where no row is redundant; code then grows with the number of bodies, and not with that of their pairs."""
    for name in ("joint_reactions", "joint_reactions_with_weights"):
        assert request_of(floating_ladder(16), name).composed_of is not None
        assert request_of(mechanisms.four_bar_chain(20), name).composed_of is None
        hinged = request_of(floating_ladder(16, "free", "hinge"), name)
        assert hinged.composed_of is None
        assert not hinged.is_short
    with pytest.raises(wt.UnsupportedError, match=r"shares loads out among redundant rows .* without redundant rows"):
        catalogue_program(hinged)
    lengths = []
    for rungs in (20, 40):
        program = catalogue_program(request_of(floating_ladder(rungs), "joint_reactions"))
        lengths.append(sum(block.code.operations for block in every_block(program.body)))
    assert lengths[1] < 2.1 * lengths[0]


@pytest.mark.slow
@pytest.mark.parametrize("make", [lambda: floating_ladder(18), lambda: grid(6, 6)], ids=["ladder", "grid"])
def test_reactions_of_long_mechanisms_are_those_of_the_block_matrix(make: Any) -> None:
    model = make()
    q, tau = np.asarray(model.home.q, dtype=float), RANDOM.normal(size=model.nv)
    v = wt.reference(model, route="augmented").project_velocity(q, 0.3 * RANDOM.normal(size=model.nv))
    expected, ones = wt.reference(model, route="block").joint_reactions(q, v, tau)
    dyn, weights = wt.compile(model), RANDOM.uniform(0.5, 2.0, size=expected.shape)
    for found, determined in (dyn.joint_reactions(q, v, tau), dyn.joint_reactions_with_weights(q, v, tau, weights)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_array_equal(determined, ones)
        assert np.all(determined == 1)
    many = np.linspace(-1.0, 1.0, 9)[:, None] * v
    together, _ = dyn.joint_reactions(q, many, tau)
    for k in range(9):
        np.testing.assert_array_equal(dyn.joint_reactions(q, many[k], tau)[0], together[k])


@pytest.mark.parametrize("where", [0, 20, 39])
def test_pivots_of_a_motion_without_inertia_are_infinitely_far_apart(where: int) -> None:
    """Prismatic joints at right angles to each other, of which one moves nothing; and with a gramme there."""
    found = {}
    for mass in (0.0, 1e-3):
        b = wt.Builder("stars")
        for k in range(40):
            own = mass if k == where else 1.0 + k
            b.body(f"body {k}", own).joint(f"joint {k}", "prismatic", "world", f"body {k}", axis=(1, 0, 0))
        found[mass] = compile_function(composed_program(request_of(b.build(), "pivot_ratios")), threads=1)(np.zeros(40))
    assert tuple(found[0.0]) == (np.inf, np.inf)
    largest = 39.0 if where == 39 else 40.0
    np.testing.assert_allclose(found[1e-3], largest / 1e-3, rtol=1e-12)


def test_pivots_of_long_chains_are_found_by_loops() -> None:
    request = request_of(mechanisms.chain(40), "pivot_ratios")
    assert not request.is_short
    assert request.composed_of is not None
