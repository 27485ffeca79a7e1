"""The GPU target without a GPU: its text, NVIDIA's assembler where there is one, and calls on an emulated driver."""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install
from whippletree.catalogue import find
from whippletree.compiler import cuda, cuda_dlpack
from whippletree.compiler.cache import Cache
from whippletree.compiler.cuda_arrays import DeviceArray, column_strides
from whippletree.compiler.cuda_function import compile_for_cuda, merged
from whippletree.compiler.functions import compile_function
from whippletree.compiler.program import Buffer, straight_program
from whippletree.compiler.ptx import architecture, how_to_start, kernel_ir, ptx_text
from whippletree.compiler.ptx_forms import Form
from whippletree.compiler.rollout import rollout_program
from whippletree.compiler.tracing import unrolled_program
from whippletree.expression import Trace, finish

PTXAS = shutil.which("ptxas") or next((p for p in ["/usr/local/cuda/bin/ptxas"] if os.path.exists(p)), None)
REALS = ["float", "double"]


def pendulum():
    return wt.mechanisms.chain(1)


def unrolled(model, name):
    return unrolled_program(model, find(name, model))


def text_of(program, real, arch="sm_90", form=None):
    return ptx_text(kernel_ir(program, real, Form() if form is None else form or None), arch)


def root_program():
    """√x and x / y, the operations whose rounding a GPU likes to skimp on."""
    trace = Trace()
    x, y = trace.inputs(2)
    code = finish(trace, [x.sqrt(), x / y, x * y + x])
    return straight_program("root", code, [Buffer("x", "input", (2,))], [Buffer("y", "output", (3,))])


# ---- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("real", REALS)
def test_division_and_square_root_are_rounded_and_nothing_is_flushed(real):
    text = text_of(root_program(), real)
    bits = {"float": 32, "double": 64}[real]
    for instruction in ("sqrt.rn", "div.rn", "fma.rn"):
        assert f"{instruction}.f{bits}" in text
    for word in ("approx", "ftz", "full"):
        assert f".{word}" not in text


@pytest.mark.parametrize("real", REALS)
def test_products_are_never_fused_behind_our_back(real):
    """An addition without a rounding mode would be the assembler's to fuse."""
    text = text_of(unrolled(pendulum(), "forward_dynamics"), real)
    bits = {"float": 32, "double": 64}[real]
    for line in text.splitlines():
        word = line.split()[0] if line.split() else ""
        if word.startswith(("mul.f", "add.f", "sub.f", "mad.")) and word.endswith(f"f{bits}"):
            pytest.fail(f"not explicitly rounded: {line.strip()}")


GOLDEN = (Path(__file__).parent / "golden" / "pendulum.ptx").as_posix()


def stable(text):
    """The instructions of the kernel without names of registers: what a change of the emitter shows in."""
    body = text[text.index(".visible .entry") :]
    kept = []
    for line in body.splitlines():
        word = line.split()
        if word and not word[0].startswith((".", "//", "$", "{", "}", "(", ")", "@")):
            kept.append(word[0].rstrip(";"))
    return "\n".join(kept) + "\n"


def test_golden_text_of_a_pendulum():
    """``WHIPPLETREE_GOLDEN=write`` writes it anew after a change that is meant."""
    found = stable(text_of(unrolled(pendulum(), "inverse_dynamics"), "float"))
    if os.environ.get("WHIPPLETREE_GOLDEN") == "write":
        Path(GOLDEN).parent.mkdir(exist_ok=True)
        Path(GOLDEN).write_text(found)
    assert found == Path(GOLDEN).read_text()


def test_architectures():
    assert architecture((9, 0)) == "sm_90"
    assert architecture((8, 9)) == "sm_86"
    assert architecture((12, 0)) == "sm_100"
    with pytest.raises(wt.DeviceError, match=r"this device has compute capability 3\.5; 7\.0 is the least"):
        architecture((3, 5))
    for arch in ("sm_70", "sm_80", "sm_100"):
        assert f".target {arch}" in text_of(root_program(), "float", arch)


@pytest.mark.skipif(PTXAS is None, reason="NVIDIA's assembler ptxas is not installed")
@pytest.mark.parametrize("real", REALS)
@pytest.mark.parametrize("what", ["forward_dynamics", "rollout", "loop"])
def test_nvidias_assembler_accepts_it(what, real, tmp_path):
    if what == "rollout":
        program = rollout_program(wt.mechanisms.chain(3), "rk4")
    elif what == "loop":
        from whippletree.compiler.loops import loop_program
        from whippletree.tree.skeleton import skeleton

        model = wt.mechanisms.chain(400)
        program = loop_program(find("forward_dynamics", model), skeleton(model))
    else:
        program = unrolled(wt.mechanisms.chain(3), what)
    source = tmp_path / "kernel.ptx"
    source.write_text(text_of(program, real))
    subprocess.run([PTXAS, "-arch=sm_90", "-o", tmp_path / "kernel.cubin", source], check=True)


# ---- no driver -------------------------------------------------------------------------------------------------------


def test_the_absence_of_a_driver_is_one_clear_error(monkeypatch):
    def absent(name):
        raise OSError("no such file")

    monkeypatch.setattr(cuda.ctypes, "CDLL", absent)
    cuda.driver.cache_clear()
    with pytest.raises(wt.DeviceError) as caught:
        wt.compile(pendulum(), target="cuda")
    assert str(caught.value) == (
        "target 'cuda' needs NVIDIA's driver, and its library libcuda.so.1 is not here (no such file). Install "
        "NVIDIA's driver and check it with nvidia-smi, or compile for the CPU: wt.compile(model)."
    )


def test_an_unknown_target_is_refused():
    with pytest.raises(wt.NameLookupError, match="there is no target 'gpu'; known: 'cpu', 'cuda'"):
        wt.compile(pendulum(), target="gpu")


# ---- calls on an emulated driver -------------------------------------------------------------------------------------


@pytest.fixture
def driver(monkeypatch):
    return install(monkeypatch)


def states(model, batch, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, (*batch, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]


def on_device(values, core=1, columns=False, number=0):
    strides = column_strides(values.shape, core, values.itemsize) if columns else None
    made = DeviceArray(number, values.shape, values.dtype, strides)
    made.fill(values)
    return made


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("batch", [(), (0,), (1,), (67,), (3, 5)])
def test_host_arrays(driver, dtype, batch):
    model = wt.mechanisms.chain(3)
    inputs = states(model, batch, dtype)
    found = wt.compile(model, target="cuda", dtype=dtype).forward_dynamics(*inputs)
    np.testing.assert_array_equal(found, wt.compile(model, dtype=dtype).forward_dynamics(*inputs))
    assert np.shape(found) == (*batch, 3)


@pytest.mark.parametrize("columns", [True, False])
def test_device_arrays_of_any_layout(driver, columns):
    model = wt.mechanisms.chain(3)
    inputs = states(model, (67,))
    function = wt.compile(model, target="cuda").forward_dynamics
    result = function(*[on_device(x, columns=columns) for x in inputs])
    np.testing.assert_array_equal(result.numpy(), wt.compile(model).forward_dynamics(*inputs))
    assert result.strides == ((8, 67 * 8) if columns else (24, 8))


def test_broadcast_device_arrays_take_as_few_launches_as_possible(driver):
    model = wt.mechanisms.chain(3)
    q, v, tau = states(model, (4, 6))
    function = wt.compile(model, target="cuda").forward_dynamics
    expected = wt.compile(model).forward_dynamics(q, v[0], tau[0, 0])
    result = function(on_device(q), on_device(v[0]), on_device(tau[0, 0]))
    np.testing.assert_array_equal(result.numpy(), expected)
    assert driver.launches == 4
    function(on_device(q), on_device(v), on_device(tau[0, 0]))
    assert driver.launches == 5


def test_loops_share_work_space_among_more_states_than_threads(driver):
    model = wt.mechanisms.chain(200)
    inputs = states(model, (700,))
    found = wt.compile(model, target="cuda").forward_dynamics(*inputs)
    np.testing.assert_array_equal(found, wt.compile(model).forward_dynamics(*inputs))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_put_aside_change_no_bit(driver, dtype):
    model = wt.mechanisms.chain(8)
    program = unrolled(model, "forward_dynamics")
    inputs = states(model, (70,), dtype)
    expected = wt.compile(model, dtype=dtype).forward_dynamics(*inputs)
    for form in (Form(64, keep=20), Form(64, keep=20, room=50), Form(32, keep=40, room=10), Form(64, keep=8, room=500)):
        text = kernel_ir(program, "float", form)
        assert ("addrspace(3) %" in text) == bool(form.room)
        np.testing.assert_array_equal(compile_for_cuda(program, dtype=dtype, form=form)(*inputs), expected)


def crowded_program(count):
    """Many numbers that are all alive in the middle."""
    trace = Trace()
    x = trace.inputs(50)
    values = [x[i % 50] * (x[7 * i % 50] + i) for i in range(count)]
    total = sum((a * b for a, b in zip(values, reversed(values), strict=True)), x[0])
    return straight_program(
        "crowded", finish(trace, [total]), [Buffer("x", "input", (50,))], [Buffer("y", "output", (1,))]
    )


@pytest.mark.parametrize(("count", "real", "threads"), [(900, "float", 64), (900, "double", 128), (100, "float", 128)])
def test_large_kernels_choose_their_form(count, real, threads):
    text = text_of(crowded_program(count), real, form=False)
    found = how_to_start(text.encode())
    assert found.threads == threads
    assert (found.shared > 48 * 1024) == (count == 900)
    assert 227 * 1024 // (found.shared + 1024) >= 2


def test_large_kernels_keep_their_bits(driver):
    program, x = crowded_program(900), np.random.default_rng(0).uniform(-1, 1, (70, 50))
    np.testing.assert_array_equal(compile_for_cuda(program)(x), compile_function(program)(x))


def test_rollouts(driver):
    model = wt.mechanisms.chain(2)
    q, v, _ = states(model, (9,))
    tau = np.random.default_rng(1).uniform(-1, 1, (9, 7, 2))
    for a, b in zip(*[wt.compile(model, target=t).rollout(q, v, tau, 1e-3) for t in ("cuda", "cpu")], strict=True):
        np.testing.assert_array_equal(a, b)


def test_out_and_stream(driver):
    model = wt.mechanisms.chain(3)
    inputs = [on_device(x) for x in states(model, (5,))]
    function = wt.compile(model, target="cuda").forward_dynamics
    out = on_device(np.zeros((5, 3)))
    assert function(*inputs, out=out, stream=77) is out
    assert driver.streams[-1] == 77
    np.testing.assert_array_equal(out.numpy(), function(*inputs).numpy())


def test_wrong_arrays_are_named(driver):
    model = wt.mechanisms.chain(3)
    q, v, tau = states(model, (5,))
    function = wt.compile(model, target="cuda").forward_dynamics
    good = [on_device(x) for x in (q, v, tau)]
    with pytest.raises(wt.ScalarError, match="v holds float32 values, this function takes float64"):
        function(good[0], on_device(v.astype("f4")), good[2])
    with pytest.raises(wt.DeviceError, match="v is on device 1, the first array on device 0"):
        function(good[0], on_device(v, number=1), good[2])
    with pytest.raises(wt.ShapeError, match=r"tau has shape \(5, 2\), expected \(..., 3\)"):
        function(*good[:2], on_device(tau[:, :2]))
    with pytest.raises(wt.ShapeError, match=r"out has shape \(4, 3\), expected \(5, 3\)"):
        function(*good, out=on_device(np.zeros((4, 3))))
    with pytest.raises(wt.DeviceError, match="out a is in the host's memory"):
        function(*good, out=np.zeros((5, 3)))
    with pytest.raises(wt.DeviceError, match="out overlaps the input tau"):
        function(*good, out=good[2])


class Foreign:
    """An array of a library that nobody knows."""

    def __init__(self, array):
        self.shape, self.__cuda_array_interface__ = array.shape, array.__cuda_array_interface__

    __cuda_array_interface__ = None


def test_arrays_of_unknown_libraries(driver):
    model = wt.mechanisms.chain(3)
    inputs = states(model, (5,))
    good = [on_device(x) for x in inputs]
    function = wt.compile(model, target="cuda").forward_dynamics
    found = function(*map(Foreign, good))
    np.testing.assert_array_equal(found.numpy(), wt.compile(model).forward_dynamics(*inputs))
    kept, driver.memory = driver.memory, {}
    with pytest.raises(wt.DeviceError, match="is in no device's memory; was the array freed"):
        function(*map(Foreign, good))
    driver.memory = kept


class Exporter:
    """An array that offers DLPack and nothing else."""

    def __init__(self, array, kind=2, code=2):
        self.array, self.kind, self.code, self.handed_over = array, kind, code, []
        self.shape = array.shape

    def __dlpack_device__(self):
        return self.kind, self.array.device

    def __dlpack__(self, stream=None):
        self.handed_over.append(stream)
        a, n = self.array, len(self.array.shape)
        size = a.dtype.itemsize
        self.shape_, self.strides_ = ((ctypes.c_int64 * n)(*x) for x in (a.shape, [s // size for s in a.strides]))
        self.tensor = cuda_dlpack._Tensor(
            a.memory.pointer, (self.kind, a.device), n, self.code, 8 * size, 1, self.shape_, self.strides_, 0
        )
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return make(ctypes.addressof(self.tensor), b"dltensor", None)


@pytest.mark.parametrize("columns", [True, False])
def test_arrays_with_nothing_but_dlpack(driver, columns):
    model = wt.mechanisms.chain(3)
    inputs = states(model, (5,))
    given = [Exporter(on_device(x, columns=columns)) for x in inputs]
    function = wt.compile(model, target="cuda").forward_dynamics
    expected = wt.compile(model).forward_dynamics(*inputs)
    np.testing.assert_array_equal(function(*given).numpy(), expected)
    assert given[1].handed_over == [1]  # how DLPack calls the default stream
    out = on_device(np.zeros((5, 3)))
    assert function(*given, out=Exporter(out), stream=77).array is out
    np.testing.assert_array_equal(out.numpy(), expected)
    assert given[1].handed_over == [1, 77]


def test_dlpack_arrays_that_are_refused(driver):
    model = wt.mechanisms.chain(3)
    good = [on_device(x) for x in states(model, (5,))]
    function = wt.compile(model, target="cuda").forward_dynamics
    with pytest.raises(wt.DeviceError, match=r"q \(Exporter\) is in memory of DLPack's kind 1, which no CUDA device"):
        function(Exporter(good[0], kind=1), *good[1:])
    with pytest.raises(wt.ScalarError, match="tau holds numbers of DLPack's kind 5"):
        function(*good[:2], Exporter(good[2], code=5))
    with pytest.raises(wt.ScalarError, match="v holds float32 values, this function takes float64"):
        function(good[0], Exporter(on_device(np.zeros((5, 3), "f4"))), good[2])


def test_a_full_device_is_an_error(driver):
    driver.capacity = 100
    model = wt.mechanisms.chain(3)
    with pytest.raises(wt.DeviceMemoryError, match="120 bytes of memory of emulated for the input q"):
        wt.compile(model, target="cuda").forward_dynamics(*states(model, (5,)))


def test_text_is_cached(driver, tmp_path):
    cache, program = Cache(tmp_path), root_program()
    x = np.array([[2.0, 3.0]])
    first = compile_for_cuda(program, cache=cache)(x)
    entries = cache.info().entries
    np.testing.assert_array_equal(compile_for_cuda(program, cache=cache)(x), first)
    assert entries == cache.info().entries == 2


def test_merged_batches():
    assert merged(((40, 8), (0, 0)), (5, 5)) == ([25], [[8], [0]])
    assert merged(((40, 8), (0, 8)), (5, 5)) == ([5, 5], [[40, 8], [0, 8]])
    assert merged(((), ()), ()) == ([1], [[0], [0]])
