"""The GPU against the CPU, bit by bit: every function of the catalogue, foreign arrays, streams, layouts, errors.

Needs an NVIDIA GPU (``make test-gpu``); elsewhere every test here is skipped, and says why.
"""

import math
import os
import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from whippletree import catalogue
from whippletree.compiler import cuda
from whippletree.model import Constraint, Frame
from whippletree.tree.skeleton import skeleton

pytestmark = pytest.mark.gpu

try:
    cuda.driver()
    MISSING = ""
except wt.DeviceError as error:
    MISSING = str(error)

ROBOTS = {
    "UR5": ("ur_description/urdf/ur5_robot.urdf", "fixed"),
    "Panda": ("panda_description/urdf/panda.urdf", "fixed"),
    "solo12": ("solo_description/robots/solo12.urdf", "free"),
    "G1": ("g1_description/urdf/g1_29dof_rev_1_0.urdf", "free"),
    "Talos": ("talos_data/robots/talos_reduced.urdf", "free"),
}
FEW = ("forward_dynamics", "inverse_dynamics", "mass_matrix", "mass_matrix_solve", "integrate", "momentum", "pose")
"""Functions that are checked on the large robots: assembling all of them takes minutes."""


@pytest.fixture(autouse=True)
def need_a_gpu():
    if MISSING:
        pytest.skip(MISSING)


def robot(name):
    file, base = ROBOTS[name]
    folder = os.environ.get("WHIPPLETREE_ROBOTS")
    if not folder:
        from importlib.metadata import distribution

        folder = distribution("example-robot-data").locate_file("cmeel.prefix/share/example-robot-data/robots")
    return wt.load(Path(str(folder)) / file, base=base).tree


def random_inputs(model, shapes, batch, dtype, seed=0):
    """Random arrays for named inputs; coordinates have unit quaternions."""
    rng = np.random.default_rng(seed)
    found = []
    for name, shape in shapes.items():
        x = rng.uniform(-2, 2, (*batch, *shape))
        if name in ("q", "r"):
            for joint, part in zip(model.joints, model.q_slices, strict=True):
                if joint.kind in ("free", "spherical"):
                    quaternion = x[..., part.stop - 4 : part.stop]
                    quaternion /= np.linalg.norm(quaternion, axis=-1, keepdims=True)
        found.append(np.abs(x).astype(dtype) if name in ("restitution", "weights", "h") else x.astype(dtype))
    return found


def same_bits(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(
        np.ascontiguousarray(found).view(np.uint8), np.ascontiguousarray(expected).view(np.uint8)
    )


def cases(model):
    """(function of a compiled model, shapes of its inputs) for everything in the catalogue that serves the model."""
    tree = skeleton(model)
    frame = max(tree.bodies, key=lambda name: len(tree.path(tree.bodies[name].node)))  # the one that most joints move
    joints = (model.joints[-1].name,)
    known = catalogue.sizes(model)
    for name, entry in catalogue.CATALOGUE.items():
        try:
            function = catalogue.find(name, model)
        except wt.UnsupportedError:
            continue
        names = [frame if kind == "frame" else joints for kind in entry.names]
        shapes = {n: catalogue.resolve(s, known) for n, s in function.inputs.items()}
        yield name, names, shapes


def evaluate(dyn, name, names, inputs):
    found = getattr(dyn, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # random states are not assembled: some of them have no answer
        results = (found(*names) if names else found)(*inputs)
    return results if isinstance(results, tuple) else (results,)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROBOTS)
def test_every_function_has_the_bits_of_the_cpu(name, dtype):
    model = robot(name)
    gpu, cpu = (wt.compile(model, target=target, dtype=dtype) for target in ("cuda", "cpu"))
    checked = 0
    for function, names, shapes in cases(model):
        if name not in ("UR5", "Panda") and function not in FEW:
            continue
        inputs = random_inputs(model, shapes, (257,), dtype)
        with np.errstate(all="ignore"):
            expected = evaluate(cpu, function, names, inputs)
        for a, b in zip(evaluate(gpu, function, names, inputs), expected, strict=True):
            same_bits(a, b)
        checked += 1
    assert checked >= len(FEW)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [wt.mechanisms.crank_slider, wt.mechanisms.four_bar])
def test_closed_loops_have_the_bits_of_the_cpu(make, dtype):
    model = make()
    gpu, cpu = (wt.compile(model, target=target, dtype=dtype) for target in ("cuda", "cpu"))
    for function, names, shapes in cases(model):
        inputs = random_inputs(model, shapes, (65,), dtype)
        if function == "operational_inertia":
            continue  # fewer than six freedoms move any frame of a planar mechanism: refused on every target
        with np.errstate(all="ignore"):
            expected = evaluate(cpu, function, names, inputs)
        for a, b in zip(evaluate(gpu, function, names, inputs), expected, strict=True):
            same_bits(a, b)


def test_a_humanoid_on_two_feet_has_the_bits_of_the_cpu():
    """Two welds to the ground: code longer than the instruction cache."""
    tree = robot("G1")
    q, v, tau = random_inputs(tree, {"q": (36,), "v": (35,), "tau": (35,)}, (300,), "float32")
    feet = ("left_ankle_roll_link", "right_ankle_roll_link")
    pose = wt.reference(tree).pose
    frames = [Frame(f"ground {foot}", "world", pose(foot)(q[0].astype(float))) for foot in feet]
    ties = [Constraint(f"contact {foot}", "weld", (f"ground {foot}", foot)) for foot in feet]
    model = replace(tree, frames=(*tree.frames, *frames), constraints=tuple(ties))
    gpu, cpu = (wt.compile(model, target=target, dtype="float32") for target in ("cuda", "cpu"))
    (expected,) = evaluate(cpu, "forward_dynamics", [], (q, v, tau))
    same_bits(*evaluate(gpu, "forward_dynamics", [], (q, v, tau)), expected)
    np.testing.assert_array_equal(gpu.forward_dynamics.status, cpu.forward_dynamics.status)


@pytest.mark.parametrize("method", ["semi_implicit_euler", "rk4"])
def test_rollouts_have_the_bits_of_the_cpu(method):
    model = robot("Panda")
    gpu, cpu = (wt.compile(model, target=target) for target in ("cuda", "cpu"))
    q, v = random_inputs(model, {"q": (model.nq,), "v": (model.nv,)}, (77,), "float64")
    tau = np.random.default_rng(1).uniform(-1, 1, (77, 20, model.nv))
    for a, b in zip(
        gpu.rollout(q, v, tau, 1e-3, method=method), cpu.rollout(q, v, tau, 1e-3, method=method), strict=True
    ):
        same_bits(a, b)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_loops_over_bodies_have_the_bits_of_the_cpu(dtype):
    model = wt.mechanisms.chain(500)
    gpu, cpu = (wt.compile(model, target=target, dtype=dtype) for target in ("cuda", "cpu"))
    shapes = {"q": (model.nq,), "v": (model.nv,), "tau": (model.nv,)}
    inputs = random_inputs(model, shapes, (333,), dtype)
    same_bits(gpu.forward_dynamics(*inputs), cpu.forward_dynamics(*inputs))
    same_bits(gpu.inverse_dynamics(*inputs), cpu.inverse_dynamics(*inputs))


@pytest.mark.parametrize("batch", [(), (0,), (1,), (31,), (33,), (1000,), (3, 5, 7), (1, 4)])
def test_any_batch(batch):
    model = robot("UR5")
    gpu, cpu = (wt.compile(model, target=target) for target in ("cuda", "cpu"))
    shapes = {"q": (6,), "v": (6,), "tau": (6,)}
    inputs = random_inputs(model, shapes, batch, "float64")
    same_bits(np.asarray(gpu.forward_dynamics(*inputs)), np.asarray(cpu.forward_dynamics(*inputs)))


# ---- arrays of other libraries ---------------------------------------------------------------------------------------


def setup(dtype="float32", count=1001):
    model = robot("Panda")
    gpu, cpu = (wt.compile(model, target=target, dtype=dtype) for target in ("cuda", "cpu"))
    inputs = random_inputs(model, {"q": (9,), "v": (9,), "tau": (9,)}, (count,), dtype)
    return gpu.forward_dynamics, inputs, cpu.forward_dynamics(*inputs)


def test_torch_tensors_by_rows_columns_and_strides():
    torch = pytest.importorskip("torch")
    function, inputs, expected = setup()
    rows = [torch.from_numpy(x).cuda() for x in inputs]
    columns = [x.T.contiguous().T for x in rows]
    mixed = [rows[0], columns[1], torch.stack([rows[2], rows[2]], dim=2)[..., 0]]
    for arrays in (rows, columns, mixed):
        result = function(*arrays)
        assert result.is_cuda
        same_bits(result.cpu().numpy(), expected)
    assert function(*columns).stride() == (1, len(expected))
    out = torch.full_like(rows[0], 7.0)
    assert function(*rows, out=out) is out
    same_bits(out.cpu().numpy(), expected)
    # in place: the result takes the place of an input
    function(*rows, out=rows[2])
    same_bits(rows[2].cpu().numpy(), expected)


def test_torch_streams():
    torch = pytest.importorskip("torch")
    function, inputs, expected = setup(count=200_000)
    arrays = [torch.from_numpy(x).cuda() for x in inputs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for stream in streams:
        with torch.cuda.stream(stream):
            results.append(function(*[x * 1 for x in arrays]) * 1)
    for stream, result in zip(streams, results, strict=True):
        stream.synchronize()
        same_bits(result.cpu().numpy(), expected)
    given = function(*arrays, stream=streams[0])
    streams[0].synchronize()
    same_bits(given.cpu().numpy(), expected)


def test_cupy_arrays():
    cupy = pytest.importorskip("cupy")
    function, inputs, expected = setup()
    arrays = [cupy.asarray(x) for x in inputs]
    same_bits(cupy.asnumpy(function(*arrays)), expected)
    same_bits(cupy.asnumpy(function(*[cupy.asfortranarray(x) for x in arrays])), expected)
    out = cupy.empty_like(arrays[0])
    with cupy.cuda.Stream(non_blocking=True) as stream:
        function(*arrays, out=out)
        stream.synchronize()
    same_bits(cupy.asnumpy(out), expected)
    same_bits(cupy.asnumpy(function(*[x[::-1] for x in arrays])), expected[::-1])


def test_jax_arrays():
    jax = pytest.importorskip("jax")
    function, inputs, expected = setup()
    arrays = [jax.device_put(x) for x in inputs]
    result = function(*arrays)
    assert isinstance(result, jax.Array)
    same_bits(np.asarray(result), expected)
    same_bits(np.asarray(result * 1), expected)


class OnlyDlpack:
    """A tensor behind nothing but DLPack."""

    def __init__(self, tensor):
        self.tensor, self.shape = tensor, tuple(tensor.shape)

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_dlpack():
    torch = pytest.importorskip("torch")
    function, inputs, expected = setup()
    tensors = [torch.from_numpy(x).cuda() for x in inputs]
    same_bits(function(*map(OnlyDlpack, tensors)).numpy(), expected)
    out = torch.zeros_like(tensors[0])
    stream = torch.cuda.Stream()
    function(*map(OnlyDlpack, tensors), out=OnlyDlpack(out), stream=stream)
    same_bits(out.cpu().numpy(), expected)
    with pytest.raises(wt.DeviceError, match="memory of DLPack's kind 1"):
        function(OnlyDlpack(tensors[0].cpu()), *tensors[1:])


def test_broadcasting_on_the_device():
    torch = pytest.importorskip("torch")
    function, inputs, _ = setup()
    q, v, tau = (torch.from_numpy(x[:60]).cuda() for x in inputs)
    cpu = wt.compile(robot("Panda"), dtype="float32").forward_dynamics
    found = function(q.reshape(6, 10, 9), v[:10], tau[0])
    same_bits(found.cpu().numpy(), cpu(inputs[0][:60].reshape(6, 10, 9), inputs[1][:10], inputs[2][0]))


def test_two_models_and_two_threads_at_once():
    torch = pytest.importorskip("torch")
    work = []
    for name in ("UR5", "Panda"):
        model = robot(name)
        inputs = random_inputs(model, {"q": (model.nq,), "v": (model.nv,), "tau": (model.nv,)}, (50_000,), "float32")
        expected = wt.compile(model, dtype="float32").forward_dynamics(*inputs)
        function = wt.compile(model, target="cuda", dtype="float32").forward_dynamics
        work.append((function, [torch.from_numpy(x).cuda() for x in inputs], expected))
    wrong = []

    def run(function, arrays, expected):
        for _ in range(20):
            if not np.array_equal(function(*arrays).cpu().numpy(), expected):
                wrong.append(function.name)

    threads = [threading.Thread(target=run, args=case) for case in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


# ---- errors ----------------------------------------------------------------------------------------------------------


def test_wrong_arrays_are_refused():
    torch = pytest.importorskip("torch")
    function, inputs, _ = setup()
    arrays = [torch.from_numpy(x).cuda() for x in inputs]
    with pytest.raises(wt.ScalarError, match="q holds float64 values, this function takes float32"):
        function(arrays[0].double(), *arrays[1:])
    with pytest.raises(wt.DeviceError, match="tau is a PyTorch tensor on cpu"):
        function(*arrays[:2], arrays[2].cpu())
    with pytest.raises(wt.ShapeError, match=r"v has shape \(1001, 8\)"):
        function(arrays[0], arrays[1][:, :8], arrays[2])
    with pytest.raises(wt.ShapeError, match=r"out has shape \(1000, 9\)"):
        function(*arrays, out=torch.empty((1000, 9), device="cuda"))
    with pytest.raises(wt.DeviceError, match="asks for gradients"):
        function(arrays[0].requires_grad_(), *arrays[1:])


def test_exhausted_card_is_an_error_and_not_the_end():
    function, inputs, expected = setup()
    with pytest.raises(wt.DeviceMemoryError, match="bytes of memory"):
        cuda.Memory(cuda.device(0), 1 << 45, "a test")
    same_bits(function(*inputs), expected)


def test_a_status_per_lane():
    model = wt.mechanisms.double_pendulum() if hasattr(wt.mechanisms, "double_pendulum") else wt.mechanisms.chain(2)
    gpu = wt.compile(model, target="cuda")
    result = gpu.forward_dynamics(np.zeros((5, model.nq)), np.zeros((5, model.nv)), np.full((5, model.nv), math.nan))
    assert np.isnan(result).all()
