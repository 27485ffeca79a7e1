"""Functions for programs without Python: an object file for each, a C header for all, and an example to build.

The header turns NumPy's calling convention into a plain C function on one state: pointers to the inputs, then pointers
to the outputs. The object files need nothing but the C library (and that only for work space).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from whippletree.compiler.cpu.cpu_target import numpy_loop
from whippletree.compiler.llvm import jit
from whippletree.compiler.llvm.ir import MachineLanes, Real
from whippletree.compiler.llvm.kernel import FIRST_TABLE
from whippletree.compiler.program import Buffer, Program
from whippletree.compiler.program.check import check


def export_programs(
    folder: Path, prefix: str, programs: Mapping[str, Program], real: Real, cpu: str | None = None
) -> list[Path]:
    """Write object files, header and example; returns what was written.

    Args:
        folder: where to; made if it does not exist.
        prefix: in front of every C name.
        programs: by the name of their C function.
        real: ``double`` or ``float``.
        cpu: LLVM's name of the CPU to compile for, such as ``x86-64-v3``; default: this one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    machine = jit.host() if cpu is None else replace(jit.host(), cpu=cpu, features="")
    written = []
    for name, program in programs.items():
        check(program)
        path = folder / f"{prefix}_{name}.o"
        text = numpy_loop(program, MachineLanes(1, real), f"{prefix}_{name}_loop")
        path.write_bytes(jit.object_code(text, machine, statements=len(program.body)))
        written.append(path)
    header, example = folder / f"{prefix}.h", folder / "example.c"
    header.write_text(_header(prefix, programs, real), encoding="utf-8")
    example.write_text(_example(prefix, programs, real), encoding="utf-8")
    return [*written, header, example]


def c_name(text: str) -> str:
    """A name as C allows it."""
    cleaned = re.sub(r"\W", "_", text, flags=re.ASCII)
    return f"m_{cleaned}" if not cleaned or cleaned[0].isdigit() else cleaned


def _arrays(program: Program) -> list[Buffer]:
    """The arguments that exist: arrays with no numbers are left out."""
    return [b for b in program.of_role("input", "output") if not b.empty]


def _size(buffer: Buffer) -> int:
    size = 1
    for d in buffer.shape:
        size *= int(d)
    return size


def _declaration(buffer: Buffer, real: Real) -> str:
    kind = "int64_t" if buffer.integer else real
    constant = "const " if buffer.role == "input" else ""
    return f"{constant}{kind} {c_name(buffer.name)}[{_size(buffer)}]"


def _header(prefix: str, programs: Mapping[str, Program], real: Real) -> str:
    guard = f"{prefix.upper()}_H"
    functions = "\n".join(_wrapper(prefix, name, program, real) for name, program in programs.items())
    return f"""/* Written by whippletree. Matrices are row by row; SI units, angles in rad.
   A status that is not 0 means that there is no answer. */
#ifndef {guard}
#define {guard}
#include <stdint.h>

{functions}#endif
"""


def _wrapper(prefix: str, name: str, program: Program, real: Real) -> str:
    """A C function on one state around the loop of the object file."""
    arrays = _arrays(program)
    bytes_each = 8 if real == "double" else 4
    sizes = list(dict.fromkeys(str(d) for b in arrays for d in b.shape))
    strides: list[int] = []
    for b in arrays:
        rest = 8 if b.integer else bytes_each
        own = []
        for d in reversed(b.shape):
            own.append(rest)
            rest *= int(d)
        strides += reversed(own)
    steps = ", ".join(["0"] * len(arrays) + [str(s) for s in strides])
    pointers = ", ".join(f"(char *){c_name(b.name)}" for b in arrays)
    arguments = ", ".join(_declaration(b, real) for b in arrays)
    tables = program.of_role("table", "index")
    names = [f"{prefix}_{name}_table{k}" for k in range(len(tables))]
    contents = "".join(_table(table, b, real) for table, b in zip(names, tables, strict=True))
    # the control block of NumPy's loop: nobody stops it, nothing is kept, and the tables are behind
    data = ", ".join(["0"] * FIRST_TABLE + names)
    return f"""{contents}void {prefix}_{name}_loop(char **, const intptr_t *, const intptr_t *, void *);
static inline void {prefix}_{name}({arguments}) {{
    char *arrays[] = {{{pointers}}};
    const intptr_t sizes[] = {{{", ".join(["1", *sizes])}}};
    const intptr_t steps[] = {{{steps}}};
    const void *const control[] = {{{data}}};
    {prefix}_{name}_loop(arrays, sizes, steps, (void *)control);
}}

"""


def _table(name: str, buffer: Buffer, real: Real) -> str:
    """Constants of a program in C, to the last bit."""
    assert buffer.data is not None
    kind = "int64_t" if buffer.role == "index" else real
    numbers = [str(int(x)) if buffer.role == "index" else float(x).hex() for x in buffer.data.flat]
    return f"static const {kind} {name}[] = {{{', '.join(numbers)}}};\n"


def _example(prefix: str, programs: Mapping[str, Program], real: Real) -> str:
    """A program that reads the inputs of the first function from the command line and prints its outputs."""
    name, program = next(iter(programs.items()))
    arrays = _arrays(program)
    inputs = [b for b in arrays if b.role == "input"]
    declarations = "\n".join(f"    {_declaration(b, real).removeprefix('const ')} = {{0}};" for b in arrays)
    total = sum(map(_size, inputs))
    reads, prints, place = [], [], 1
    for b in inputs:
        reads.append(f"    for (int i = 0; i < {_size(b)}; i++) {c_name(b.name)}[i] = ({real})atof(argv[{place} + i]);")
        place += _size(b)
    for b in arrays:
        if b.role == "output":
            value = f"(double){c_name(b.name)}[i]"
            prints.append(f'    for (int i = 0; i < {_size(b)}; i++) printf("%.17g\\n", {value});')
    objects = " ".join(f"{prefix}_{n}.o" for n in programs)
    order = ", ".join(f"{b.name} ({_size(b)})" for b in inputs)
    lines = "\n".join([declarations, *reads])
    return f"""/* Build: cc -O2 example.c {objects} -o example
   Run:   ./example with {total} numbers: {order} */
#include "{prefix}.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {{
    if (argc != {total + 1}) {{
        fprintf(stderr, "%s: expected {total} numbers: {order}\\n", argv[0]);
        return 2;
    }}
{lines}
    {prefix}_{name}({", ".join(c_name(b.name) for b in arrays)});
{chr(10).join(prints)}
    return 0;
}}
"""
