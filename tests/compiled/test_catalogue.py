"""Every function of the catalogue: machine code against the reference, in both precisions, on models of all sorts."""

from __future__ import annotations

from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from strategies import make_model
from whippletree import functions as catalogue
from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.functions.registry import checked_names, for_names
from whippletree.spatial.joints import KINDS
from whippletree.tree.skeleton import skeleton

ROBOTS = Path(str(distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")))
POSITIVE = ("restitution", "weights", "reaction_weights", "costs", "contact_costs", "touching", "h")

MODELS = {
    "UR5": lambda: wt.load(ROBOTS / "ur_description/urdf/ur5_robot.urdf"),
    "solo12": lambda: wt.load(ROBOTS / "solo_description/robots/solo12.urdf", base="free"),
    "every joint": lambda: make_model((-1, 0, 0, 2, 3, 1, 5, 4, 2), KINDS, seed=7),
    "four-bar": lambda: wt.mechanisms.four_bar(lengths=(1.0, 0.4, 1.2, 0.8), masses=(1.0, 1.0, 0.0)),
    "crank-slider": wt.mechanisms.crank_slider,
}


@cache
def model_of(name):
    return MODELS[name]()


def functions(model):
    """(entry, names before the numbers) of everything that the catalogue offers for a model."""
    tree = skeleton(model)
    frame = max(tree.bodies, key=lambda body: len(tree.path(tree.bodies[body].node)))
    for name in catalogue.CATALOGUE:
        try:
            entry = catalogue.find(name, model)
        except wt.UnsupportedError:
            continue
        given = tuple((model.joints[-1].name,) if kind == "joints" else frame for kind in entry.names)
        names = checked_names(entry, given)
        yield for_names(entry, model, names), names


def inputs_of(model, entry, count, seed=0):
    """Random inputs; closed loops are evaluated near their home, where they can be."""
    rng = np.random.default_rng(seed)
    known = catalogue.sizes(model)
    arrays = []
    for name, shape in entry.inputs.items():
        x = rng.uniform(-1, 1, (count, *catalogue.resolve(shape, known)))
        if name in ("q", "r"):
            x = wt.reference(model.tree).integrate(model.home.q, 0.3 * rng.uniform(-1, 1, (count, model.nv)))
        if name == "metric":
            x = x @ np.swapaxes(x, -1, -2) + 0.1 * np.eye(x.shape[-1])
        arrays.append(np.abs(x) + 0.1 if name in POSITIVE else x)
    return arrays


def evaluated(ref, entry, names, arrays):
    function = getattr(ref, entry.name)
    return as_tuple((function(*names) if names else function)(*arrays))


def as_tuple(found):
    return found if isinstance(found, tuple) else (found,)


def relative_error(found, expected):
    """Largest difference over the largest finite number; infinities and NaN (ratios of a massless link) must be met."""
    differs = (found != expected) & ~(np.isnan(found) & np.isnan(expected))
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    return np.abs(found[differs] - expected[differs]).max(initial=0.0) / (scale or 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_machine_code_equals_the_reference(name):
    model = model_of(name)
    ref = wt.reference(model)
    checked = 0
    for entry, names in functions(model):
        arrays = inputs_of(model, entry, 3)
        try:
            expected = evaluated(ref, entry, names, arrays)
        except (wt.UnsupportedError, wt.SingularSystemError):
            continue  # the operational inertia of a planar frame, the inverse of M with a massless link
        program = unrolled_program(model, entry, names)
        for kind, allowed in (("float64", 1e-9), ("float32", 2e-2)):
            # the least effort: it changes the speed of the code and not one bit of its results
            compiled = compile_function(program, dtype=kind, level=0, threads=1)
            found = compiled(*[x.astype(kind) for x in arrays])
            for a, b in zip(as_tuple(found), expected, strict=True):
                assert a.dtype == kind
                assert relative_error(a.astype(float), b) <= allowed, (entry.name, kind)
        checked += 1
    assert checked >= 25


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["four-bar", "solo12"])
def test_every_width_gives_the_same_bits(name, dtype):
    model = model_of(name)
    for function in ("forward_dynamics", "inverse_dynamics", "mass_matrix"):
        entry = catalogue.find(function, model)
        program = unrolled_program(model, entry)
        arrays = [x.astype(dtype) for x in inputs_of(model, entry, 37)]
        results = {
            width: compile_function(program, dtype=dtype, width=width, threads=1)(*arrays) for width in (1, 2, 4, 8)
        }
        for width, found in results.items():
            assert found.tobytes() == results[1].tobytes(), (function, width)


def test_a_fingerprint_knows_what_functions_depend_on():
    from dataclasses import replace

    from whippletree.compiler.frontend.fingerprint import fingerprint

    model = wt.mechanisms.four_bar()
    assert fingerprint(model) == fingerprint(wt.mechanisms.four_bar())
    assert fingerprint(model) == fingerprint(replace(model, source="a remark"))
    heavier = wt.mechanisms.four_bar(masses=(1.0, 1.0, 1.0 + 1e-15))
    others = [heavier, replace(model, gravity=-model.gravity), replace(model, start=model.neutral), model.tree]
    assert len({fingerprint(m) for m in (model, *others)}) == 5


def test_a_fingerprint_reads_the_mesh_files_of_contacts(tmp_path):
    from whippletree.compiler.frontend.fingerprint import fingerprint

    path = tmp_path / "foot.obj"
    path.write_text("v 0 0 0\n")
    builder = wt.Builder("stone").body("stone", 1.0, inertia=(1.0, 1.0, 1.0)).joint("free", "free", "world", "stone")
    builder.geometry("foot", "stone", "mesh", path=str(path)).geometry("ground", "world", "half_space")
    model = builder.contact("touch", "foot", "ground").build()
    before = fingerprint(model)
    assert fingerprint(model) == before
    path.write_text("v 0 0 1\n")
    assert fingerprint(model) != before
