"""A CUDA driver made of host memory, for tests without a GPU.

Device memory is host memory that only this driver knows, a module is the kernel's LLVM IR compiled for the CPU, and a
launch runs one thread after the other; the 32 threads of a warp run at once where they wait for each other, and the two
of a pair where they hand numbers to each other. What LLVM's
and NVIDIA's assemblers do is not tested this way; everything around them is.
"""

import ctypes
import itertools
import re
import threading

from whippletree.compiler.cuda import driver, ptx_target
from whippletree.compiler.cuda.cuda_arrays import DeviceArray, column_strides
from whippletree.compiler.cuda.thread_pairs import AMONG_PAIRS, FROM_HALVES, HALVES, SHUFFLE
from whippletree.compiler.llvm import jit

DEVICES = 2
WARP = 32
Wait = ctypes.CFUNCTYPE(None)
Shuffle = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int32] * 3)


class EmulatedDriver:
    """The functions of the driver that the library calls; every one returns 0 or an error code."""

    def __init__(self, capacity=1 << 30):
        self.capacity = capacity
        self.memory = {}  # address -> (buffer, device)
        self.modules = {}
        self.paired = set()  # addresses of kernels whose threads go in pairs
        self.contexts = []
        self.streams = []
        self.launches = 0

    # ---- devices and contexts ----------------------------------------------------------------------------------------

    def cuInit(self, flags):
        return 0

    def cuGetErrorName(self, code, name):
        name._obj.value = f"ERROR_{code}".encode()
        return 0

    def cuGetErrorString(self, code, text):
        text._obj.value = b"an emulated error"
        return 0

    def cuDeviceGetCount(self, count):
        count._obj.value = DEVICES
        return 0

    def cuDeviceGet(self, handle, number):
        handle._obj.value = number
        return 0

    def cuDevicePrimaryCtxRetain(self, context, handle):
        context._obj.value = handle.value + 1
        return 0

    def cuDeviceGetName(self, text, size, handle):
        text.value = b"emulated"
        return 0

    def cuDeviceGetAttribute(self, value, attribute, handle):
        value._obj.value = {16: 2, 75: 9, 76: 0}[attribute]
        return 0

    def cuCtxPushCurrent_v2(self, context):
        self.contexts.append(context.value - 1)
        return 0

    def cuCtxPopCurrent_v2(self, context):
        self.contexts.pop()
        return 0

    def cuStreamSynchronize(self, stream):
        return 0

    # ---- memory ------------------------------------------------------------------------------------------------------

    def cuMemGetInfo_v2(self, free, total):
        free._obj.value = self.capacity
        return 0

    def cuMemAlloc_v2(self, pointer, size):
        if size.value > self.capacity:
            return 2
        buffer = ctypes.create_string_buffer(size.value + 64)
        pointer._obj.value = ctypes.addressof(buffer)
        self.memory[ctypes.addressof(buffer)] = (buffer, self.contexts[-1])
        return 0

    def cuMemAllocAsync(self, pointer, size, stream):
        return self.cuMemAlloc_v2(pointer, size)

    def cuMemFree_v2(self, pointer):
        return 0 if self.memory.pop(pointer.value, None) else 1

    def cuMemFreeAsync(self, pointer, stream):
        return self.cuMemFree_v2(pointer)

    def cuMemcpyHtoDAsync_v2(self, target, source, size, stream):
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def cuMemcpyDtoHAsync_v2(self, target, source, size, stream):
        ctypes.memmove(target.value, source.value, size.value)
        return 0

    def cuPointerGetAttribute(self, value, attribute, pointer):
        for start, (buffer, device) in self.memory.items():
            if start <= pointer.value < start + len(buffer):
                value._obj.value = {2: 2, 9: device}[attribute]
                return 0
        return 1

    # ---- modules -----------------------------------------------------------------------------------------------------

    def cuModuleLoadDataEx(self, module, image, count, options, values):
        code = jit.object_code(image.value.decode().partition("\n")[2], jit.host())
        module._obj.value = len(self.modules) + 1
        loaded = self.modules[module._obj.value] = jit.LoadedObject(code, [ptx_target.KERNEL_SYMBOL])
        if b"call i32 %shuffle(" in image.value:
            self.paired.add(loaded[ptx_target.KERNEL_SYMBOL])
        return 0

    def cuModuleUnload(self, module):
        return 0

    def cuModuleGetFunction(self, function, module, symbol):
        function._obj.value = self.modules[module.value][symbol.decode()]
        return 0

    def cuFuncGetAttribute(self, value, attribute, function):
        value._obj.value = 1
        return 0

    def cuFuncSetAttribute(self, function, attribute, value):
        return 0

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, count, function, threads, shared):
        count._obj.value = 1
        return 0

    def cuLaunchKernel(self, function, blocks, by, bz, threads, ty, tz, shared, stream, parameters, extra):
        self.launches += 1
        self.streams.append(stream.value or 0)
        size = ctypes.c_size_t.from_address(extra[3]).value
        packed = (ctypes.c_uint64 * (size // 8)).from_address(extra[1])
        kinds = [*[ctypes.c_int32] * 3, Wait, Shuffle, *[ctypes.c_uint64] * len(packed)]
        run = ctypes.CFUNCTYPE(None, *kinds)(function.value)
        if function.value in self.paired:
            for block, thread in itertools.product(range(blocks), range(0, threads, 2)):
                self.pair(run, block, thread, threads, packed)
            return 0
        for first in range(0, blocks * threads, WARP):
            # a warp without a state for each of its threads does not wait
            together = shared and first + WARP <= packed[0]
            self.warp(
                run, [divmod(thread, threads) for thread in range(first, first + WARP)], threads, packed, together
            )
        return 0

    def pair(self, run, block, first, threads, packed):
        """Two neighbours that hand numbers to each other, in step."""
        handed, barrier = [0, 0], threading.Barrier(2)

        def shuffle(thread, bits, source):
            handed[thread % 2] = bits
            barrier.wait()
            found = handed[source]
            barrier.wait()
            return found

        callbacks = Wait(lambda: None), Shuffle(shuffle)
        workers = [
            threading.Thread(target=run, args=(block, threads, thread, *callbacks, *packed))
            for thread in (first, first + 1)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    def warp(self, run, members, threads, packed, together):
        """All threads of a warp."""
        barrier = threading.Barrier(WARP if together else 1)
        callbacks = Wait(lambda: barrier.wait() and None), Shuffle()
        if not together:
            for block, thread in members:
                run(block, threads, thread, *callbacks, *packed)
            return
        workers = [threading.Thread(target=run, args=(*(b, threads, t), *callbacks, *packed)) for b, t in members]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()


def for_the_host(ir, arch):
    """The kernel as a function of the CPU: where its thread stands becomes an argument."""
    head, _, ir = ir.partition("\n")
    ir = ir.replace("external addrspace(3) global [0 x double]", "internal global [65536 x double] zeroinitializer")
    ir = re.sub(r" addrspace\([134]\)", "", ir).replace("ptx_kernel ", "")
    ir = ir.replace(
        f"@{ptx_target.KERNEL_SYMBOL}(",
        f"@{ptx_target.KERNEL_SYMBOL}(i32 %ctaid.x, i32 %ntid.x, i32 %tid.x, ptr %wait, ptr %shuffle, ",
    )
    ir = re.sub(r"declare \w+ @llvm\.nvvm.*\n", "", ir)
    ir = ir.replace("call void @llvm.nvvm.bar.warp.sync(i32 -1)", "call void %wait()")
    ir = re.sub(
        rf"call i32 @{re.escape(SHUFFLE)}\(i32 -1, (i32 %\w+), (i32 %?\w+), i32 {AMONG_PAIRS}\)",
        r"call i32 %shuffle(i32 %tid.x, \1, \2)",
        ir,
    )
    ir = re.sub(r"  call void @llvm\.nvvm\.cp\.async\.(commit|wait).*\n", "", ir)
    ir = re.sub(r"call void @llvm\.nvvm\.cp\.async\.ca\.shared\.global\.", "call void @copy", ir)
    for k, half in enumerate(HALVES):
        ir += f"define internal i32 @half{k}(double %x) {{\n  %bits = bitcast double %x to i64\n"
        ir += f"  %moved = lshr i64 %bits, {32 * k}\n  %half = trunc i64 %moved to i32\n  ret i32 %half\n}}\n"
        ir = ir.replace(f"@{half}(", f"@half{k}(")
    ir = ir.replace(f"@{FROM_HALVES}(", "@whole(")
    ir += "define internal double @whole(i32 %low, i32 %high) {\n  %a = zext i32 %low to i64\n"
    ir += "  %b = zext i32 %high to i64\n  %c = shl i64 %b, 32\n  %d = or i64 %a, %c\n"
    ir += "  %x = bitcast i64 %d to double\n  ret double %x\n}\n"
    for size in (4, 8):
        ir += f"define internal void @copy{size}(ptr %to, ptr %from) {{\n  %x = load i{8 * size}, ptr %from\n"
        ir += f"  store i{8 * size} %x, ptr %to\n  ret void\n}}\n"
    return f"//{head[1:]}\n" + re.sub(r"call i32 @llvm\.nvvm\.read\.ptx\.sreg\.([a-z.]+)\(\)", r"add i32 %\1, 0", ir)


def install(monkeypatch, **options):
    """Put the emulated driver in place of the real one for one test."""
    emulated = EmulatedDriver(**options)
    monkeypatch.setattr(driver, "driver", lambda: emulated)
    monkeypatch.setenv("WHIPPLETREE_CACHE", "off")  # what is no PTX must not be taken for it by others
    monkeypatch.setattr(ptx_target, "ptx_text", for_the_host)
    driver.device.cache_clear()
    driver.device_count.cache_clear()
    return emulated


def on_device(values, core=1, columns=False, number=0):
    """A copy in a device's memory, by rows or by columns."""
    strides = column_strides(values.shape, core, values.itemsize) if columns else None
    made = DeviceArray(number, values.shape, values.dtype, strides)
    made.fill(values)
    return made
