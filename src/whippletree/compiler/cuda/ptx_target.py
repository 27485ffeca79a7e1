"""The GPU target: a program as one kernel in PTX, one thread per state, through LLVM's NVPTX back end.

The kernel's parameters, in order (:func:`parameters` lists them):

    states                     how many states there are
    for each input and output  its address, the bytes from state to state, the strides of its core dimensions in bytes
    sizes                      of the named dimensions
    tables                     addresses of the table and index buffers
    work, slots                address of the work space in global memory, if any, and how many states it has room for

Arrays of any strides are served. Work space that is small is local to a thread, where the hardware interleaves the
threads; large work space lies in global memory, number after number, each for a warp: neighbours read neighbours.

The arithmetic is that of the CPU, operation by operation: fused multiply-adds are explicit, division and square root
are rounded correctly, subnormal numbers are kept, and no fast-math flag is written. So the bits are the CPU's.

Large kernels in float32 divide by calls of two functions (:func:`division_functions`). A division is a dozen
instructions, for which a kernel as long as the instruction cache has no room: with calls, forward dynamics of a
humanoid is a tenth faster on an H200. In float64, where arithmetic bounds the rate, they bring nothing.

The functions return their results with every bit inverted, because of an error of NVIDIA's assembler (CUDA 13.0, level
2 and above). Short of registers, it takes the result of a call for something that it can have again at any time from
the register in which it was returned, even where that register holds another value by then: in operational_inertia of a
humanoid, in float64, one pivot took the place of another. What is computed from a result is no such copy; all kernels
of the catalogue in float32 have been right with it (docs/performance.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from whippletree.compiler.cuda.ptx_memory import ASIDE, WARP, Aside, GpuArray, GpuMemory, pitch
from whippletree.compiler.cuda.split import part_program, parts_of
from whippletree.compiler.cuda.staging import ArrayPlace, Stager, results
from whippletree.compiler.cuda.thread_pairs import FROM_HALVES, HALVES, PAIR, SHUFFLE, PairCode
from whippletree.compiler.cuda.tuning import Form, Shaped, fit_program, shape_program
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.emit import emit_body
from whippletree.compiler.llvm.ir import INTRINSICS, MachineLanes, Operand, Real, Writer, table_text
from whippletree.compiler.llvm.sine import far_arguments_function
from whippletree.compiler.llvm.target_memory import Registers
from whippletree.compiler.program import Address, Block, Program, every_block, tables_of
from whippletree.errors import DeviceError, UnsupportedError

KERNEL_SYMBOL = "whippletree_kernel"
TRIPLE = "nvptx64-nvidia-cuda"

GLOBAL = 1
"""Address space of a device's memory: arrays of a call, and tables of constants."""

LOCAL_LIMIT = 8 * 1024
"""Work space up to this many bytes is local to a thread; the driver reserves it for every thread that a card holds."""

ARCHITECTURES = (70, 75, 80, 86, 90, 100)
"""Compute capabilities, times ten, that code is written for; a newer card runs the code of the newest older one."""


def architecture(capability: tuple[int, int]) -> str:
    """The name of the architecture to compile for, for a card of that compute capability."""
    number = 10 * capability[0] + capability[1]
    fitting = [a for a in ARCHITECTURES if a <= number]
    if not fitting:
        least = ARCHITECTURES[0] / 10
        raise DeviceError(
            f"target 'cuda': this device has compute capability {capability[0]}.{capability[1]}; {least} is the least "
            f"that kernels are written for. Compile for the CPU: wt.compile(model)."
        )
    return f"sm_{fitting[-1]}"


def global_work(program: Program, real: Real) -> int:
    """Bytes of global work space for each state, 0 if it can be local: small, and of one function alone."""
    size = sum(b.size for b in program.of_role("work")) * MachineLanes(1, real).bytes
    return size if size > LOCAL_LIMIT or parts_of(program) else 0


# ---- from a program to LLVM IR ---------------------------------------------------------------------------------------


def kernel_ir(program: Program, real: Real, form: Form | None = None, rows: bool = True, copies: bool = True) -> str:
    """The module of LLVM IR with the kernel of a program, in a form that suits it if none is given.

    Its first line tells what a launch must know, see :func:`how_to_start`. Any kernel serves any layout; ``rows`` says
    for which one it shall be fast. ``copies``: the device can copy to shared memory without waiting, see
    :func:`copies_by_itself`.
    """
    if program.is_scalar:
        raise UnsupportedError(
            f"target 'cuda': {program.name} works on lists that come with the call, one scene at a time: compile it "
            f"for the CPU"
        )
    lanes = MachineLanes(1, real)
    program = part_program(program)
    how = fit_program(program, real, rows) if form is None else shape_program(program, form)
    kernel = _Kernel(program, how, lanes, copies)
    text = kernel.text()
    shared = kernel.slots * pitch(how.form.threads) * lanes.bytes
    states = how.form.threads // (PAIR if how.form.pair else 1)
    head = _HEAD.format(how.form.threads, states, shared, kernel.work)
    declarations = _declarations({lanes, MachineLanes(1, "double")})
    functions = [far_arguments_function(lanes), division_functions(lanes) if kernel.calls else ""]
    functions += [table_text(name, table.values, real, GLOBAL) for name, table in tables_of(program).items()]
    functions += kernel.lists
    return "\n".join([f"; {head}", declarations, text, *functions, _METADATA])


def copies_by_itself(arch: str) -> bool:
    """Whether an architecture has instructions that copy to shared memory while a thread goes on."""
    return int(arch.removeprefix("sm_")) >= 80


_HEAD = "threads of a block: {}, its states: {}, bytes of shared memory: {}, bytes of work space of a state: {}"


@dataclass(frozen=True)
class LaunchSize:
    """Numbers of a launch: threads of a block, the states that it works on, its bytes of shared memory, bytes of global
    memory for a state."""

    threads: int
    states: int
    shared: int
    work: int


def how_to_start(image: bytes) -> LaunchSize:
    """Read from a kernel's text."""
    found = re.match(_HEAD.replace("{}", r"(\d+)").encode(), image.removeprefix(b"// "))
    if found is None:
        raise ValueError("the text of a kernel does not tell how to start it")
    return LaunchSize(*map(int, found.groups()))


class _Kernel:
    """Writes the kernel: read the parameters, then one state after the other if there are more than threads."""

    def __init__(self, program: Program, how: Shaped, lanes: MachineLanes, copies: bool) -> None:
        self.program = program
        self.how = how
        self.lanes = lanes
        self.copies = copies
        self.calls = how.form.room > 0 and lanes.real == "float"  # divisions are calls
        self.work = 0 if how.form.pair else global_work(program, lanes.real)
        self.in_global = self.work > 0
        self.parameters = parameters(program, self.in_global)
        self.slots = 0  # of shared memory, for each thread
        self.lists: list[str] = []
        """Tables of places that the module has to define."""

    def text(self) -> str:
        w = self.new_writer()
        within, thread = _thread(w)
        aside = self.new_aside(w, within)
        if self.how.form.pair:
            return self.text_of_pair(w, aside, within, thread)
        parts = parts_of(self.how.main)
        with self.each_state(w, thread) as state:
            if parts:
                passed = f"{_parameter_list(self.parameters)}, i64 {state}, i64 {thread}, i32 {within}"
                for number, _ in enumerate(parts):
                    w.emit(f"call void @{_PART}{number}({passed})")
            else:
                self.one_state(self.how.main, w, aside, state, thread, within)
        head = f"define ptx_kernel void @{KERNEL_SYMBOL}({_parameter_list(self.parameters)}) #0"
        functions = [self.part(number, block) for number, block in enumerate(parts)]
        return "\n".join([_definition(head, w), _attributes(self.how.form), *functions])

    def text_of_pair(self, w: Writer, aside: Aside, within: Operand, thread: Operand) -> str:
        """PTX of a kernel in which two threads work on a state. Pairs beyond the last state do that one again: all
        threads of a warp have to be there when numbers go from one to another."""
        pair = PairCode(w, thread)
        w.own_operations = pair.operations()
        own, last = w.value(f"lshr i64 {thread}, {PAIR.bit_length() - 1}"), w.value("sub i64 %states, 1")
        state = w.value(f"select i1 {w.value(f'icmp slt i64 {own}, {last}')}, i64 {own}, i64 {last}")
        registers = pair.registers(self.how.distances)
        self.one_state(self.how.main, w, aside, state, thread, within, registers)
        w.emit("ret void")
        head = f"define ptx_kernel void @{KERNEL_SYMBOL}({_parameter_list(self.parameters)}) #0"
        return "\n".join([_definition(head, w), _attributes(self.how.form)])

    def part(self, number: int, block: Block) -> str:
        """PTX of one of several functions in which the work on a state is done."""
        w = self.new_writer()
        main = replace(self.how.main, body=(block,))
        self.one_state(main, w, self.new_aside(w, "%within"), "%state", "%thread", "%within")
        arguments = f"{_parameter_list(self.parameters)}, i64 %state, i64 %thread, i32 %within"
        w.emit("ret void")
        return _definition(f"define internal void @{_PART}{number}({arguments}) noinline", w)

    def new_writer(self) -> Writer:
        writer = CallingWriter(self.lanes) if self.calls else Writer(self.lanes)
        writer.table_space = GLOBAL
        return writer

    def new_aside(self, writer: Writer, within: Operand) -> Aside:
        form = self.how.form
        aside = Aside(writer, form.threads, form.keep, form.room)
        if form.room:
            aside.begin(within)
        return aside

    @contextmanager
    def each_state(self, w: Writer, thread: Operand) -> Iterator[Operand]:
        """Around the work on a state: begin with that of this thread's number, go on while there are more."""
        before = w.block
        w.emit("br label %next")
        w.start("next")
        state, following = w.fresh(), w.fresh()
        # fewer work spaces than states: a thread takes one state after the other
        if self.in_global:
            w.emit(f"{state} = phi i64 [ {thread}, %{before} ], [ {following}, %done ]")
        else:
            w.emit(f"{state} = add i64 {thread}, 0")
        w.emit(f"br i1 {w.value(f'icmp slt i64 {state}, %states')}, label %inside, label %finish")
        w.start("inside")
        yield state
        w.emit("br label %done")
        w.start("done")
        if self.in_global:
            w.emit(f"{following} = add i64 {state}, %slots")
            w.emit("br label %next")
        else:
            w.emit("br label %finish")
        w.start("finish")
        w.emit("ret void")

    def one_state(
        self,
        main: Program,
        w: Writer,
        aside: Aside,
        state: Operand,
        thread: Operand,
        within: Operand,
        registers: Registers | None = None,
    ) -> None:
        """The work on one state: its number (i64), that of the thread among all (i64) and in its block (i32)."""
        arrays = {b.name: GpuArray(b) for b in self.program.of_role("input", "output")}
        for number, array in enumerate(arrays.values()):
            moved = w.value(f"mul i64 {state}, %step{number}")
            array.base = w.value(f"getelementptr i8, ptr addrspace(1) %array{number}, i64 {moved}")
            array.strides = [f"%stride{number}.{i}" for i in range(len(array.buffer.shape))]
        memory = GpuMemory(main, w, arrays, thread, self.in_global, aside)
        staging = self.how.staging
        if staging.waiting:
            places = {name: ArrayPlace(f"%array{i}", f"%step{i}", f"%stride{i}.0") for i, name in enumerate(arrays)}
            stager = Stager(w, aside, state, w.value(f"and i32 {within}, {WARP - 1}"), self.copies)

            def place_of(address: Address) -> ArrayPlace:
                (stride,) = arrays[address.buffer].strides
                return ArrayPlace(memory.in_array(address, registers or {}), "", stride)

            stager.read(staging, places, place_of)
            (block,) = every_block(main.body)
            aside.waiting, aside.results = staging.waiting, results(block.code, staging)
            emit_body(main, w, memory, registers)
            stager.write(staging, places)
        else:
            emit_body(main, w, memory, registers)
        self.slots = max(self.slots, aside.slots)
        self.lists += memory.lists


_PART = "whippletree_part_"


def _thread(w: Writer) -> tuple[Operand, Operand]:
    """The number of this thread in its block (i32) and among all (i64)."""
    read = [w.value(f"call i32 @llvm.nvvm.read.ptx.sreg.{name}()") for name in ("ctaid.x", "ntid.x", "tid.x")]
    block, size, own = (w.value(f"zext i32 {x} to i64") for x in read)
    return read[2], w.value(f"add i64 {w.value(f'mul i64 {block}, {size}')}, {own}")


def _definition(head: str, w: Writer) -> str:
    """A function of all that was written."""
    return "\n".join([f"{head} {{", "entry:", *w.entry, *w.lines, "}"])


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of the kernel: its LLVM type and its name. Every one takes eight bytes."""

    kind: str
    name: str


def parameters(program: Program, in_global: bool) -> list[KernelParameter]:
    """The parameters of the kernel, in order."""
    found = [KernelParameter("i64", "states")]
    for number, b in enumerate(program.of_role("input", "output")):
        found += [KernelParameter("ptr addrspace(1)", f"array{number}"), KernelParameter("i64", f"step{number}")]
        found += [KernelParameter("i64", f"stride{number}.{i}") for i in range(len(b.shape))]
    found += [KernelParameter("i64", f"size.{d}") for d in named_dimensions(program)]
    found += [
        KernelParameter("ptr addrspace(1)", f"table{number}")
        for number, _ in enumerate(program.of_role("table", "index"))
    ]
    if in_global:
        found += [KernelParameter("ptr addrspace(1)", "work"), KernelParameter("i64", "slots")]
    return found


def _parameter_list(given: Sequence[KernelParameter]) -> str:
    """Parameters as a definition or a call lists them."""
    return ", ".join(f"{p.kind} %{p.name}" for p in given)


def named_dimensions(program: Program) -> list[str]:
    """The dimensions that the arrays of a call decide, in order of appearance."""
    buffers = program.of_role("input", "output")
    return list(dict.fromkeys(d for b in buffers for d in b.shape if isinstance(d, str)))


def _declarations(kinds: set[MachineLanes]) -> str:
    lines = [f"@{ASIDE} = external addrspace(3) global [0 x double], align 16"]
    lines += [f"declare i32 @llvm.nvvm.read.ptx.sreg.{name}()" for name in ("ctaid.x", "ntid.x", "tid.x")]
    lines += [f"declare i32 @{SHUFFLE}(i32, i32, i32, i32)", f"declare double @{FROM_HALVES}(i32, i32)"]
    lines += [f"declare i32 @{half}(double)" for half in HALVES]
    lines += [
        f"declare void @llvm.nvvm.cp.async.ca.shared.global.{n}(ptr addrspace(3), ptr addrspace(1))" for n in (4, 8)
    ]
    lines += ["declare void @llvm.nvvm.cp.async.wait.all()", "declare void @llvm.nvvm.bar.warp.sync(i32)"]
    for lanes in sorted(kinds, key=lambda k: k.real):
        suffix = Writer(lanes).suffix
        for name, count in INTRINSICS.items():
            lines.append(f"declare {lanes.number} @llvm.{name}.{suffix}({', '.join([lanes.number] * count)})")
    return "\n".join(lines) + "\n"


def _attributes(form: Form) -> str:
    limits = [f'"nvvm.maxntid"="{form.threads}"']
    if form.registers:
        limits.append(f'"nvvm.maxnreg"="{form.registers}"')
    return f"attributes #0 = {{ nounwind {' '.join(limits)} }}\n"


_METADATA = """!0 = !{!"branch_weights", i32 1, i32 100000}
!1 = !{}
!2 = distinct !{!2, !3}
!3 = !{!"llvm.loop.unroll.disable"}
"""


# ---- from LLVM IR to PTX ---------------------------------------------------------------------------------------------


def ptx_text(ir: str, arch: str) -> str:
    """PTX of a module of LLVM IR."""
    with jit.compiling():
        binding = _binding()
        module = binding.parse_assembly(ir)
        module.triple = TRIPLE
        # level 3 looks for common subexpressions of traced code, which has none: the same instructions, a tenth later
        machine = binding.Target.from_triple(TRIPLE).create_target_machine(cpu=arch, features="", opt=2)
        module.data_layout = str(machine.target_data)
        module.verify()
        text = _plain(str(machine.emit_assembly(module)))
    return f"//{ir.partition(chr(10))[0][1:]}\n{text}"


@cache
def _binding() -> Any:
    """LLVM with its NVPTX back end."""
    binding = jit.llvm()
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    return binding


_FORBIDDEN = re.compile(r"\.(approx|ftz|full)\b")


def _plain(text: str) -> str:
    """The text, after a look that nothing in it rounds in another way than the CPU does."""
    if found := _FORBIDDEN.search(text):
        raise AssertionError(f"the NVPTX back end wrote an instruction that is not exact: {found.group()}")
    return text


# --- divisions of large kernels in float32, as calls of two functions -------------------------------------------------


_RECIPROCAL, _QUOTIENT = "whippletree_reciprocal", "whippletree_quotient"


class CallingWriter(Writer):
    """Writes divisions as calls."""

    def divide(self, a: Operand, b: Operand) -> Operand:
        kind, bits = self.lanes.number, self.lanes.integer
        one = a == self.constant(1.0)
        call = f"@{_RECIPROCAL}({kind} {b})" if one else f"@{_QUOTIENT}({kind} {a}, {kind} {b})"
        inverted = self.value(f"call {bits} {call}")
        return self.value(f"bitcast {bits} {self.value(f'xor {bits} {inverted}, -1')} to {kind}")


def division_functions(lanes: MachineLanes) -> str:
    """The functions that a calling writer calls."""
    kind, bits, one = lanes.number, lanes.integer, lanes.constant(1.0)

    def function(name: str, parameters: str, dividend: Operand) -> str:
        return f"""
define internal {bits} @{name}({parameters}) noinline {{
  %result = fdiv {kind} {dividend}, %b
  %bits = bitcast {kind} %result to {bits}
  %inverted = xor {bits} %bits, -1
  ret {bits} %inverted
}}
"""

    return function(_RECIPROCAL, f"{kind} %b", one) + function(_QUOTIENT, f"{kind} %a, {kind} %b", "%a")
