"""Scenes of separate mechanisms: every kind is compiled once, whatever its numbers, and placed."""

from __future__ import annotations

import numpy as np
import pytest

import whippletree as wt
from whippletree import functions
from whippletree.compiler.frontend.placed_mechanisms import is_placeable, placed_program
from whippletree.compiler.program import every_block
from whippletree.compiler.program.interpret import interpret
from whippletree.constraints.clusters.separate_mechanisms import by_kind, separate_mechanisms
from whippletree.errors import SingularSystemError
from whippletree.functions.differentiate import derived_function


def add_four_bar(builder: wt.Builder, name: str, scale: float, at: tuple[float, float, float]) -> None:
    """A four-bar of another size at another place, closed by a pin."""
    one = wt.mechanisms.four_bar()
    for body in one.bodies:
        builder.body(f"{body.name} {name}", scale * body.mass, scale * body.center, scale**3 * body.inertia)
    for joint, part in zip(one.joints, one.q_slices, strict=True):
        parent = "world" if joint.parent == "world" else f"{joint.parent} {name}"
        place = scale * joint.pose[:3, 3] + (np.array(at) if parent == "world" else 0)
        start = float(one.home.q[part][0])
        builder.joint(f"{joint.name} {name}", joint.kind, parent, f"{joint.child} {name}", position=place, start=start)
    for frame in one.frames:
        builder.frame(f"{frame.name} {name}", f"{frame.body} {name}", position=scale * frame.pose[:3, 3])
    for c in one.constraints:
        builder.constraint(f"{c.name} {name}", c.kind, *(f"{own} {name}" for own in c.on), **c.parameters)


def scene(four_bars: int, others: bool = True) -> wt.Model:
    """Four-bars of different sizes, with free bodies among them and a pendulum whose joints have springs."""
    builder = wt.Builder("scene", (0, -9.81, 0))
    for k in range(four_bars):
        add_four_bar(builder, f"of {k}", 1 + k / 4, (k, 0, 0))
        if others and k < 2:
            builder.body(f"box {k}", 1 + k, (0.1, 0.2, k), (0.3 + k, 0.2 + k, 0.4 + k))
            builder.joint(f"float {k}", "free", "world", f"box {k}", position=(0, k, 0))
    if others:
        builder.body("rod", 1.0, (0.5, 0, 0), (0.01, 0.1, 0.1)).body("tip", 0.5, (0.2, 0, 0), (0.01, 0.02, 0.02))
        builder.joint("hip", "revolute", "world", "rod", axis=(0, 0, 1), stiffness=3.0, damping=0.2)
        builder.joint("knee", "spherical", "rod", "tip", position=(1, 0, 0))
    return builder.build()


MIXED, LOOPED = scene(3), scene(2, others=False)


def arguments(model: wt.Model, function: functions.Function) -> dict[str, np.ndarray]:
    """A state near the closed one, and numbers of usual sizes for everything else."""
    random = np.random.default_rng(16)
    sizes = functions.sizes(model)
    found = {}
    for name, shape in function.inputs.items():
        size = functions.resolve(shape, sizes)
        if name in ("q", "r"):
            found[name] = wt.reference(model).integrate(model.home.q, 0.1 * random.normal(size=model.nv))
        else:
            found[name] = random.uniform(0.2, 1.0, size=size)
    return found


def assert_outputs_agree(found, expected) -> None:
    expected = expected if isinstance(expected, tuple) else (expected,)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11 * max(1.0, np.abs(other).max(initial=0)))


@pytest.mark.parametrize("name", [name for name, entry in functions.CATALOGUE.items() if is_placeable(entry)])
def test_every_function_that_is_placed_equals_the_reference(name):
    entry = functions.CATALOGUE[name]
    model = LOOPED if entry.constraints == "needs" else MIXED
    function = functions.find(name, model)
    given = arguments(model, function)
    program = placed_program(model, function)
    assert program is not None
    found = interpret(program, given)
    outputs = [found[b.name] for b in program.of_role("output") if b.name != "status"]
    assert_outputs_agree(outputs, getattr(wt.reference(model), name)(*given.values()))


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_derivatives_along_directions_are_placed(kind):
    function = derived_function(kind, functions.find("forward_dynamics", LOOPED))
    given = arguments(LOOPED, function)
    program = placed_program(LOOPED, function)
    found = interpret(program, given)
    outputs = [found[b.name] for b in program.of_role("output") if b.name != "status"]
    assert_outputs_agree(outputs, getattr(wt.reference(LOOPED), kind)("forward_dynamics")(*given.values()))


def test_machine_code_of_a_scene_and_of_batches_equals_the_reference():
    function = functions.find("forward_dynamics_derivatives", MIXED)
    q, v, tau = arguments(MIXED, function).values()
    expected = wt.reference(MIXED).forward_dynamics_derivatives(q, v, tau)
    compiled = wt.compile(MIXED).forward_dynamics_derivatives
    assert_outputs_agree(compiled(q, v, tau), expected)
    for found, one in zip(compiled(np.stack([q] * 9), v, tau), expected, strict=True):
        assert_outputs_agree(found, tuple([one] * 9))


def test_mechanisms_of_one_kind_are_written_once_whatever_their_numbers():
    kinds = [len(own) for own in by_kind(separate_mechanisms(MIXED))]
    assert sorted(kinds) == [1, 2, 3]
    programs = [
        placed_program(model, functions.find("forward_dynamics_derivatives", model))
        for model in (LOOPED, scene(12, others=False))
    ]
    few, many = (sum(block.code.operations for block in every_block(program.body)) for program in programs)
    assert few == many


def test_mechanisms_that_a_constraint_ties_are_one():
    builder = wt.Builder("tied", (0, -9.81, 0))
    for k in range(2):
        add_four_bar(builder, f"of {k}", 1, (k, 0, 0))
    builder.constraint("gear", "gear", "crank of 0", "crank of 1", ratios=[2, -1])
    assert separate_mechanisms(builder.build()) == ()


def test_a_mechanism_without_an_answer_is_named_and_leaves_no_number():
    # a rod that weighs nothing, beside others that have answers
    builder = wt.Builder("scene", (0, -9.81, 0))
    for k in range(14):
        inertia = (0.1, 0.1, 0.1) if k != 7 else (0, 0, 0)
        builder.body(f"rod {k}", 1.0 if k != 7 else 0, (0.5, 0, 0), inertia)
        builder.joint(f"pin {k}", "revolute", "world", f"rod {k}", position=(k, 0, 0))
    model = builder.build()
    q = np.zeros(model.nq)
    compiled = wt.compile(model)
    with pytest.raises(SingularSystemError, match="'rod 7' about joint 'pin 7'"):
        compiled.mass_matrix_inverse(q)
    program = placed_program(model, functions.find("mass_matrix_inverse", model))
    found = interpret(program, {"q": q})
    assert found["status"] == 8
    assert np.all(np.isnan(found["inverse"]))
