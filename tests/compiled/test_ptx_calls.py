"""Calls of GPU functions on an emulated driver: arrays of every sort, layouts, streams, memory, errors."""

import ctypes

import numpy as np
import pytest

import whippletree as wt
from emulated_cuda import install, on_device
from whippletree.compiler.cuda import cuda_arrays
from whippletree.compiler.cuda.cuda_function import compile_for_cuda, merge_dimensions
from whippletree.compiler.frontend.unrolled import unrolled_program
from whippletree.files.cache import CodeCache
from whippletree.functions import find


@pytest.fixture
def driver(monkeypatch):
    return install(monkeypatch)


def states(model, batch, dtype="float64", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, (*batch, n)).astype(dtype) for n in (model.nq, model.nv, model.nv)]


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


def test_nothing_is_copied_to_the_host_behind_the_callers_back(driver):
    array = on_device(np.arange(6.0).reshape(2, 3), columns=True)
    with pytest.raises(wt.DeviceError, match=r"use its \.numpy\(\)"):
        np.asarray(array)
    np.testing.assert_array_equal(array.numpy(), np.arange(6.0).reshape(2, 3))


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
        self.tensor = cuda_arrays._Tensor(
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
    cache, model = CodeCache(tmp_path), wt.mechanisms.chain(1)
    program = unrolled_program(model, find("forward_dynamics", model))
    inputs = states(model, (5,))
    first = compile_for_cuda(program, cache=cache)(*inputs)
    entries = cache.info().entries
    np.testing.assert_array_equal(compile_for_cuda(program, cache=cache)(*inputs), first)
    assert entries == cache.info().entries == 2


def test_merged_batches():
    assert merge_dimensions(((40, 8), (0, 0)), (5, 5)) == ([25], [[8], [0]])
    assert merge_dimensions(((40, 8), (0, 8)), (5, 5)) == ([5, 5], [[40, 8], [0, 8]])
    assert merge_dimensions(((), ()), ()) == ([1], [[0], [0]])
