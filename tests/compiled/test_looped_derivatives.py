"""Derivatives and matrices from the loops of a function: the reference's numbers, also where nothing is written out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import whippletree as wt
from looped_programs import LOOPING, MODELS, Interpreter, assert_equal, inputs_of
from strategies import make_looped_model, make_motion, models, seeds
from whippletree import mechanisms
from whippletree.arithmetic.scalars import sin
from whippletree.arithmetic.trace import Trace, finish
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend import code_forms
from whippletree.compiler.frontend.code_forms import MATRICES, Request, matrix_entries
from whippletree.compiler.frontend.loops import cluster_loop_program, loop_program
from whippletree.compiler.frontend.loops.elimination_program import elimination_program
from whippletree.compiler.frontend.loops.looped_derivatives import jvp_program, matrix_program, vjp_program
from whippletree.compiler.program import (
    Address,
    Block,
    Buffer,
    Index,
    Lookup,
    Loop,
    Program,
    Switch,
    every_block,
)
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.linearise import linearise, without_stores
from whippletree.compiler.program.moving_numbers import find_moving, rounds_of
from whippletree.functions import find
from whippletree.functions.differentiate import derived_function
from whippletree.model import Model
from whippletree.model.parameters import find_parameter
from whippletree.tree.skeleton import skeleton

SEVERAL = {word: MODELS[word] for word in ("planar chain", "every joint in a chain", "star", "forest of any joints")}
OF_TREES = [name for name in MATRICES if name != "jacobian" and not name.startswith(("constraint", "null"))]
RANDOM = np.random.default_rng(7)


def of_bodies(model: Model, name: str, names: tuple[Any, ...] = ()) -> Program:
    return loop_program(find(name, model), skeleton(model), names=names)


def of_clusters(model: Model, name: str) -> Program:
    return cluster_loop_program(find(name, model), skeleton(model))


def of_fronts(model: Model, name: str) -> Program:
    return elimination_program(find(name, model), skeleton(model))


def derivative(kind: Any, model: Model, name: str, write: Any = of_bodies) -> Program:
    derived = derived_function(kind, find(name, model))
    return (jvp_program if kind == "jvp" else vjp_program)(model, derived, write(model, name))


def matrix(model: Model, name: str, write: Any = of_bodies) -> Program:
    of = MATRICES[name]
    return matrix_program(model, find(name, model), write(model, of.function), of)


def listed(found: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


def seeds_of(function: Any, shapes: dict[str, tuple[int, ...]], count: int) -> list[np.ndarray]:
    """Random directions or adjoints for the last inputs of a derived function."""
    return [RANDOM.normal(size=shapes[name]) for name in list(function.inputs)[count:]]


# --- trees ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("model", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize("name", LOOPING)
def test_derivatives_of_loops_are_those_of_the_reference(name: str, kind: Any, model: Model) -> None:
    from whippletree.compiler.frontend.unrolled import input_shapes

    function = derived_function(kind, find(name, model))
    own = list(inputs_of(model, name, seed=1).values())
    given = [*own, *seeds_of(function, input_shapes(model, function, ()), len(own))]
    found = compile_function(derivative(kind, model, name), threads=1)(*given)
    expected = getattr(wt.reference(model), kind)(name)(*given)
    for one, other in zip(listed(found), listed(expected), strict=True):
        assert_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize("model", SEVERAL.values(), ids=SEVERAL)
@pytest.mark.parametrize("name", OF_TREES)
def test_matrices_from_loops_are_those_of_the_reference(name: str, model: Model) -> None:
    motion = make_motion(model, 3)
    known = {"q": motion.q, "v": motion.v, "tau": motion.tau, "a": motion.a}
    given = [known[word] for word in find(name, model).inputs]
    batch = [np.stack([x] * 9) for x in given]
    function = compile_function(matrix(model, name), threads=1)
    expected = getattr(wt.reference(model), name)(*given)
    for one, many, other in zip(listed(function(*given)), listed(function(*batch)), listed(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9 * max(1.0, float(np.abs(other).max())))
        # the columns of one state side by side, and the states of a batch: the same bits
        assert np.array_equal(many, np.broadcast_to(one, many.shape))


@pytest.mark.slow
@given(models(max_size=8, massless=False), seeds, st.sampled_from(["inverse_dynamics", "kinetic_energy", "momentum"]))
def test_every_slope_that_is_read_has_been_written(model: Model, seed: int, name: str) -> None:
    """The interpreter refuses to read what nobody wrote: no slope is left over from another use of its place."""
    if model.nv == 0:
        return
    own = inputs_of(model, name, seed)
    for kind in ("jvp", "vjp"):
        program = derivative(kind, model, name)
        shapes = {b.name: b.shape for b in program.of_role("input")}
        given = own | {word: RANDOM.normal(size=shape) for word, shape in shapes.items() if word not in own}
        found = Interpreter(program, given).outputs()
        expected = getattr(wt.reference(model), kind)(name)(*given.values())
        for one, other in zip(found, listed(expected), strict=True):
            assert_equal(one, other)


def test_only_what_moves_has_slopes() -> None:
    """M⁻¹ b of a planar chain: a column needs three numbers of a wrench inwards, three of an acceleration outwards."""
    own = of_bodies(mechanisms.chain(9, length=0.7), "mass_matrix_solve")
    found = linearise(own, ["b"])
    stored = [
        max(sum(a.buffer == "slope of passing" for a in block.stores) for block in every_block([loop]))
        for loop in found.derivative
        if not isinstance(loop, Block)
    ]
    assert stored == [3, 3]
    moving = find_moving(own, rounds_of(own, single=True), ["b"])
    assert moving.buffers == {"passing", "record", "x"}
    assert find_moving(own, rounds_of(own, single=False), []).buffers == set()


def test_a_block_without_its_outputs_loads_only_what_it_needs() -> None:
    block = next(b for b in every_block(of_bodies(mechanisms.chain(4), "forward_dynamics").body) if b.loads)
    (kept, *_) = {a.buffer for a in block.stores}
    left = without_stores(block, {a.buffer for a in block.stores} - {kept})
    assert {a.buffer for a in left.stores} == {kept}
    assert without_stores(block, []) is block
    assert not without_stores(block, {a.buffer for a in block.stores}).loads


def test_a_singular_state_has_no_derivative() -> None:
    model = make_massless_tip()
    function = compile_function(matrix(model, "mass_matrix_inverse"), threads=1)
    with pytest.raises(wt.SingularSystemError):
        function(np.zeros(2))
    jvp = compile_function(derivative("jvp", model, "mass_matrix_solve"), threads=1)
    with pytest.warns(RuntimeWarning, match="2 of 2"):
        found = jvp(*np.ones((4, 2, 2)))
    assert np.isnan(found).all()
    assert (jvp.status == 2).all()


def make_massless_tip() -> Model:
    builder = wt.Builder("massless tip")
    builder.body("arm", 1.0, (0.5, 0, 0), (0.1, 0.1, 0.1))
    builder.joint("shoulder", "revolute", "world", "arm", axis=(0, 0, 1))
    builder.body("tip", 0.0, (0, 0, 0), (0, 0, 0))
    builder.joint("elbow", "revolute", "arm", "tip", axis=(0, 0, 1), position=(1, 0, 0))
    return builder.build()


# --- constraints ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3, 8])
def test_derivatives_of_clusters(seed: int) -> None:
    model, motion = make_looped_model(seed, limbs=6)
    ref = wt.reference(model, route="embedding")
    q, v, tau = motion.q, ref.project_velocity(motion.q, motion.v), motion.tau
    directions = RANDOM.normal(size=(3, model.nv))
    adjoint = RANDOM.normal(size=model.nv)
    expected = wt.reference(model).forward_dynamics_derivatives(q, v, tau)
    found = compile_function(matrix(model, "forward_dynamics_derivatives", of_clusters), threads=1)(q, v, tau)
    along = compile_function(derivative("jvp", model, "forward_dynamics", of_clusters), threads=1)
    back = compile_function(derivative("vjp", model, "forward_dynamics", of_clusters), threads=1)
    scale = max(float(np.abs(x).max()) for x in expected)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8 * scale)
    moved = sum(D @ d for D, d in zip(expected, directions, strict=True))
    np.testing.assert_allclose(along(q, v, tau, *directions), moved, atol=1e-7 * scale)
    for one, D in zip(back(q, v, tau, adjoint), expected, strict=True):
        np.testing.assert_allclose(one, D.T @ adjoint, atol=1e-7 * scale)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forward_dynamics_derivatives", "constraint_forces_derivatives"])
def test_derivatives_of_an_elimination(name: str) -> None:
    model = mechanisms.n_four_bar(4)
    dyn = wt.compile(model)
    q, tau = model.home.q, RANDOM.normal(size=model.nv)
    v = dyn.project_velocity(q, RANDOM.normal(size=model.nv))
    expected = getattr(dyn, name)(q, v, tau)
    found = compile_function(matrix(model, name, of_fronts), threads=1)(q, v, tau)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-10 * max(1.0, float(np.abs(other).max())))
    function = name.removesuffix("_derivatives")
    adjoint = RANDOM.normal(size=expected[0].shape[0])
    back = compile_function(derivative("vjp", model, function, of_fronts), threads=1)(q, v, tau, adjoint)
    for one, D in zip(back, expected, strict=True):
        np.testing.assert_allclose(one, D.T @ adjoint, atol=1e-9 * max(1.0, float(np.abs(D).max())))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["constraint_jacobian", "null_projector"])
@pytest.mark.parametrize("write", [of_clusters, of_fronts])
def test_matrices_of_constraints(name: str, write: Any) -> None:
    model = mechanisms.four_bar_chain(3) if write is of_clusters else mechanisms.n_four_bar(3)
    found = compile_function(matrix(model, name, write), threads=1)(model.home.q)
    np.testing.assert_allclose(found, getattr(wt.reference(model), name)(model.home.q), atol=1e-10)


# --- sizes that are never written out ---------------------------------------------------------------------------------


LONG = {
    "chain": lambda: mechanisms.chain(160),
    "tree": lambda: mechanisms.tree(90, seed=2),
    "cells": lambda: mechanisms.four_bar_chain(55),
    "ladder": lambda: mechanisms.n_four_bar(80),
}


@pytest.mark.slow
@pytest.mark.parametrize("make", LONG.values(), ids=LONG)
def test_long_systems_have_derivatives(make: Any) -> None:
    """Whole matrices, products with them and with their transposes agree, and with the function itself nearby."""
    model = make()
    dyn = wt.compile(model, watch="never")
    v, tau, adjoint = 0.3 * RANDOM.normal(size=(3, model.nv))
    q = dyn.integrate(model.home.q, v if not model.constraints else 0 * v)
    v = dyn.project_velocity(q, v) if model.constraints else v
    d = RANDOM.normal(size=(3, model.nv))
    matrices = dyn.forward_dynamics_derivatives(q, v, tau)
    along = dyn.jvp("forward_dynamics")(q, v, tau, *d)
    scale = float(np.abs(along).max())
    np.testing.assert_allclose(sum(D @ x for D, x in zip(matrices, d, strict=True)), along, atol=1e-10 * scale)
    for D, bar in zip(matrices, dyn.vjp("forward_dynamics")(q, v, tau, adjoint), strict=True):
        np.testing.assert_allclose(D.T @ adjoint, bar, atol=1e-9 * float(np.abs(D).max()))
    h = 1e-6

    def nearby(s: float) -> Any:
        return dyn.forward_dynamics(dyn.integrate(q, s * d[0]), v + s * d[1], tau + s * d[2])

    np.testing.assert_allclose((nearby(h) - nearby(-h)) / (2 * h), along, atol=1e-4 * scale)


@pytest.mark.slow
def test_long_systems_have_matrices() -> None:
    model = mechanisms.tree(110, seed=4)
    dyn, ref = wt.compile(model), wt.reference(model)
    motion = make_motion(model, 1)
    M = dyn.mass_matrix(motion.q)
    np.testing.assert_allclose(M, ref.mass_matrix(motion.q), atol=1e-10 * float(np.abs(M).max()))
    frame = model.bodies[-1].name
    np.testing.assert_allclose(dyn.jacobian(frame)(motion.q), ref.jacobian(frame)(motion.q), atol=1e-10)
    chain = mechanisms.chain(200)
    q = 0.1 * RANDOM.normal(size=200)
    dyn = wt.compile(chain)
    # rods of equal mass: M is badly conditioned, the product with its inverse shows what is left
    inverse = dyn.mass_matrix_inverse(q)
    assert np.abs(inverse @ dyn.mass_matrix(q) - np.eye(200)).max() < 1e-7
    assert np.abs(inverse - inverse.T).max() < 1e-12 * np.abs(inverse).max()


@pytest.mark.slow
def test_a_slope_of_a_long_chain_by_a_complex_step() -> None:
    model = mechanisms.chain(160)
    q, v, tau, *d = 0.3 * RANDOM.normal(size=(6, 160))
    x = [y + 1e-30j * e for y, e in zip((q, v, tau), d, strict=True)]
    expected = wt.reference(model).forward_dynamics(*x).imag / 1e-30
    found = wt.compile(model).jvp("forward_dynamics")(q, v, tau, *d)
    np.testing.assert_allclose(found, expected, atol=1e-9 * float(np.abs(expected).max()))


@pytest.mark.parametrize("name", ["pose", "twist", "jacobian_bias", "jacobian"])
@pytest.mark.parametrize("frame", ["tip", "world"])
def test_frames_at_the_end_of_a_long_path(name: str, frame: str) -> None:
    model = mechanisms.chain(70)
    q, v = RANDOM.normal(size=(2, 70))
    given = (q, v) if name in ("twist", "jacobian_bias") else (q,)
    found = getattr(wt.compile(model), name)(frame)(*given)
    np.testing.assert_allclose(found, getattr(wt.reference(model), name)(frame)(*given), atol=1e-9)


def test_which_form_is_taken() -> None:
    def short(model: Model, name: str, *names: Any) -> bool:
        return Request(model, find(name, model), names).is_short

    assert matrix_entries(mechanisms.chain(31)) == 31 * 32 // 2
    assert matrix_entries(mechanisms.humanoid()) < code_forms.UNROLL_ENTRIES_UP_TO
    assert short(mechanisms.chain(31), "mass_matrix")
    assert not short(mechanisms.chain(32), "mass_matrix")
    assert short(mechanisms.four_bar_chain(8), "forward_dynamics_derivatives")
    assert not short(mechanisms.four_bar_chain(9), "forward_dynamics_derivatives")
    assert short(mechanisms.four_bar_chain(9), "mass_matrix")
    assert short(mechanisms.n_four_bar(20), "forward_dynamics_derivatives")
    assert not short(mechanisms.n_four_bar(30), "forward_dynamics_derivatives")
    ladder = mechanisms.n_four_bar(30)
    chosen = Request(ladder, find("forward_dynamics_derivatives", ladder), route="schur")
    # a route that was chosen is kept
    assert chosen.source is None
    assert chosen.is_short
    # mechanisms of one kind are written out once, those of many kinds are long together
    scene = wt.Builder("pendulums")
    for k in range(60):
        scene.body(f"rod {k}", 1.0, (0, 0, -0.5), (0.1, 0.1, 0.1))
        scene.joint(f"hinge {k}", "revolute", "world", f"rod {k}", axis=(0, 1, 0), position=(k, 0, 0))
    pendulums = scene.build()
    request = Request(pendulums, find("mass_matrix", pendulums))
    assert request.is_short_for([mechanisms.chain(30)])
    assert not request.is_short_for([mechanisms.chain(30), mechanisms.chain(10)])
    # a short path in a large tree is written out
    assert short(mechanisms.chain(70), "pose", "rod_3")
    assert not short(mechanisms.chain(70), "pose", "tip")


# --- what programs in general ask of a tape and of lanes --------------------------------------------------------------


def _cubes_and_products(pitch: int | None) -> Program:
    """y_i = x_i³ · sin x_i · (i + 1) by two blocks in each round of a loop, the second one of two cases."""

    def at(buffer: str, *indices: Any) -> Address:
        return Address(buffer, tuple(Index(i) if isinstance(i, str) else Index(None, i) for i in indices))

    def block(function: Any, loads: tuple[Address, ...], store: Address) -> Block:
        trace = Trace()
        return Block(finish(trace, [function(*trace.inputs(len(loads)))]), loads, (store,))

    cube = block(lambda x: x * x * x, (at("x", "i"),), at("a", "i", 0))
    cases = tuple(
        (block(lambda a, x, k=k: a * sin(x) * (k + 1), (at("a", "i", 0), at("x", "i")), at("y", "i")),)
        for k in range(2)
    )
    look = Lookup("case", at("which", "i"))
    return Program(
        "cubes",
        (
            Buffer("x", "input", (2,)),
            Buffer("which", "index", (2,), np.array([0, 1]), integer=True),
            Buffer("a", "work", (2, 3), pitch=pitch),
            Buffer("y", "output", (2,)),
        ),
        (Loop("i", 2, (look, cube, Switch("case", cases))),),
    )


@pytest.mark.parametrize("lanes", [0, 2])
@pytest.mark.parametrize("pitch", [None, 1])
def test_blocks_of_a_round_have_places_of_their_own_on_the_tape(lanes: int, pitch: int | None) -> None:
    """Rows that lie within each other, by their pitch, do so with several slopes side by side, too."""
    own = _cubes_and_products(pitch)
    found = linearise(own, ["x"], lanes=lanes)
    beside = (lanes,) if lanes else ()
    more = (Buffer("slope of x", "input", (2, *beside)), Buffer("slope of y", "output", (2, *beside)))
    program = Program("slopes", (*own.buffers, *found.buffers, *more), (*found.values, *found.derivative))
    x = np.array([0.7, -1.3])
    along = np.array([[1.0, 0.5], [0.25, -2.0]])[:, : lanes or 1].reshape(2, *beside)
    slopes = interpret(program, {"x": x, "slope of x": along})["slope of y"]
    expected = (3 * x**2 * np.sin(x) + x**3 * np.cos(x)) * [1, 2]
    np.testing.assert_allclose(slopes, (expected * along.T).T, rtol=1e-14)


# --- open parameters --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["chain", "cells"])
def test_derivatives_with_open_parameters_are_loops_too(word: str) -> None:
    """Masses, inertias and places of joints as inputs: slopes along them, adjoints of them, matrices beside them."""
    model = mechanisms.chain(52) if word == "chain" else mechanisms.four_bar_chain(9)
    opened = [f"bodies.{model.bodies[3].name}.mass", f"bodies.{model.bodies[5].name}.inertia"]
    opened.append(f"joints.{model.joints[4].name}.position")
    values = [1.01 * np.asarray(find_parameter(model, path).value) + 0.01 for path in opened]
    dyn, whole = wt.compile(model, parameters=opened), Request(model, find("forward_dynamics", model), (), (*opened,))
    assert replace(whole, function=find("forward_dynamics_derivatives", model)).source is not None
    q, state = model.home.q, [0.1 * RANDOM.normal(size=model.nv) for _ in range(2)]
    along = [RANDOM.normal(size=np.shape(x)) for x in (*[state[0]] * 3, *values)]

    def accelerations(step: float) -> np.ndarray:
        moved = [x + step * d for x, d in zip((*state, *values), along[1:], strict=True)]
        return dyn.forward_dynamics(dyn.integrate(q, step * along[0], *values), *moved)

    slope = dyn.jvp("forward_dynamics")(q, *state, *along, *values)
    differences = (accelerations(1e-6) - accelerations(-1e-6)) / 2e-6
    np.testing.assert_allclose(slope, differences, rtol=1e-6, atol=1e-6 * np.abs(slope).max())
    bar = RANDOM.normal(size=model.nv)
    gradients = dyn.vjp("forward_dynamics")(q, *state, bar, *values)
    power = sum(np.sum(one * other) for one, other in zip(gradients, along, strict=True))
    assert power == pytest.approx(bar @ slope, rel=1e-9)
    matrices = dyn.forward_dynamics_derivatives(q, *state, *values)
    still = dyn.jvp("forward_dynamics")(q, *state, *along[:3], *[np.zeros_like(x) for x in values], *values)
    np.testing.assert_allclose(
        sum(m @ d for m, d in zip(matrices, along[:3], strict=True)), still, atol=1e-10 * np.abs(still).max()
    )
