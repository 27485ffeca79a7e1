"""Arrays of PyTorch, CuPy, JAX and DLPack on a GPU, streams, threads, errors.

Needs an NVIDIA GPU (``make test-gpu``) and these libraries; elsewhere tests are skipped, and say why.
"""

import threading

import numpy as np
import pytest

import whippletree as wt
from gpu_cases import MISSING, random_inputs, robot, same_bits
from whippletree.compiler.cuda import driver

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def need_a_gpu():
    if MISSING:
        pytest.skip(MISSING)


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
        driver.DeviceMemory(driver.device(0), 1 << 45, "a test")
    same_bits(function(*inputs), expected)
