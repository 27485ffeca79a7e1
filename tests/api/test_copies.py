"""Models and what is made of them travel: copied, pickled, sent to other processes; and stay read-only."""

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction
from multiprocessing import get_context

import numpy as np
import pytest

import whippletree as wt

WAYS = {"copy": copy.copy, "deepcopy": copy.deepcopy, "pickle": lambda x: pickle.loads(pickle.dumps(x))}
MODELS = {
    "loop": wt.mechanisms.four_bar,
    "contact": wt.mechanisms.bouncing_ball,
    "exact": lambda: wt.mechanisms.pendulum(length=Fraction(1, 3), mass=Fraction(2, 7)),
}


def acceleration(dyn, q, v):
    return dyn.forward_dynamics(q, v, np.zeros(len(v)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MODELS)
def test_a_copy_of_a_model_is_as_good_and_as_frozen(name, way):
    model = MODELS[name]()
    made = WAYS[way](model)
    assert repr(made) == repr(model)
    assert [repr(x) for x in (*made.bodies, *made.joints)] == [repr(x) for x in (*model.bodies, *model.joints)]
    assert made.home.q.tobytes() == model.home.q.tobytes()
    with pytest.raises(ValueError, match="read-only"):
        made.bodies[0].center[0] = 5
    for part in (*made.constraints, *made.geometries):
        with pytest.raises(TypeError, match="does not support item assignment"):
            part.parameters["radius"] = 5


def test_the_mathematics_of_a_joint_is_worked_out_once_and_anew_for_a_copy():
    joint = wt.mechanisms.double_pendulum().joints[1]
    kind = joint.type
    assert joint.type is kind
    turned = replace(joint, kind="prismatic")
    assert type(turned.type) is not type(kind)
    assert "type" not in joint.__getstate__()
    assert pickle.loads(pickle.dumps(joint)).type is not kind


def test_a_mapping_given_to_a_part_is_not_shared():
    given = {"radius": 1.0}
    shape = wt.model.Geometry("ball", "world", "sphere", parameters=given)
    given["radius"] = 2.0
    assert shape.parameters["radius"] == 1.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("make", [wt.compile, wt.reference])
def test_functions_of_a_copy_give_the_same_bits(make, way):
    dyn = make(wt.mechanisms.four_bar())
    q, v = dyn.model.home.q, np.array([1.0, 0.5, -0.5])
    assert acceleration(WAYS[way](dyn), q, v).tobytes() == acceleration(dyn, q, v).tobytes()


def test_compiled_functions_in_other_processes():
    dyn = wt.compile(wt.mechanisms.double_pendulum(), threads=1)
    q, v = np.array([0.3, -0.2]), np.array([0.1, 0.4])
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(acceleration, dyn, q, v).result().tobytes() == acceleration(dyn, q, v).tobytes()


def test_a_single_compiled_function_says_what_to_pickle_instead():
    function = wt.compile(wt.mechanisms.pendulum()).forward_dynamics
    with pytest.raises(TypeError, match=r"forward_dynamics: .* pickle or copy what wt\.compile returned"):
        pickle.dumps(function)


def test_many_threads_may_compile_one_function_at_once():
    dyn = wt.compile(wt.mechanisms.chain(5), threads=1)
    random = np.random.default_rng(0)
    states = random.normal(size=(64, 2, dyn.model.nv))
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda state: acceleration(dyn, *state), states))
    assert all(a.tobytes() == acceleration(dyn, *state).tobytes() for a, state in zip(found, states, strict=True))


@pytest.mark.parametrize("way", WAYS)
def test_errors_cross_processes(way):
    from whippletree.errors import IntegrationError

    errors = [
        wt.NameLookupError("joint", "elbwo", ["elbow"], where="arm"),
        wt.FileError("robot.urdf", ["line 3: no mass", "line 9: no axis"]),
        wt.MissingExtraError("a page", "viser", "view"),
        wt.AssemblyError("open", q=1.0, residuals={"pin.x": 0.1}),
        IntegrationError("no step", time=0.5),
    ]
    for error in errors:
        made = WAYS[way](error)
        assert type(made) is type(error)
        assert str(made) == str(error)
        for word in ("name", "known", "faults", "residuals", "time"):
            assert getattr(made, word, None) == getattr(error, word, None)


@pytest.mark.parametrize("name", [*MODELS, "tree"])
def test_the_arrays_of_a_home_state_are_the_callers(name):
    model = wt.mechanisms.double_pendulum() if name == "tree" else MODELS[name]()
    before = [x.tolist() for x in (model.home.q, model.home.v)]
    for x in (model.home.q, model.home.v):
        x += 1
    assert [x.tolist() for x in (model.home.q, model.home.v)] == before
