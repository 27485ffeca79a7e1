"""How a kernel is written, chosen by its size. Nothing here changes a bit of any result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from whippletree.compiler.ir import Real
from whippletree.compiler.program import Block, Loop, Program, Statement, Switch, every_block
from whippletree.compiler.ptx_parts import parts
from whippletree.compiler.ptx_staging import Staging, results, staged
from whippletree.compiler.stash import plan
from whippletree.expression import Straight
from whippletree.expression.order import ordered


@dataclass(frozen=True)
class Form:
    """How a kernel is written."""

    threads: int = 128  # of a block
    registers: int = 0  # at most so many per thread; 0: as many as there are
    keep: int = 0  # arrange straight-line code for so many values in registers; 0: as it was traced
    room: int = 0  # slots of shared memory that each thread may put other values into


SMALL = 1800
"""Operations up to which a block of code is left as it was traced: it fits the registers of a thread."""

LONG = 5500
"""Operations beyond which inputs and results go through shared memory in any layout, since that makes the code shorter:
128 kB of it, 8192 instructions, fit the instruction cache. Shorter code is faster without, unless that serves rows."""

CANDIDATES: dict[Real, tuple[Form, ...]] = {
    "float": (Form(128, registers=168, keep=135, room=148), Form(64, keep=220, room=216)),
    "double": (Form(128, keep=110, room=108),),
}
"""Forms of large kernels, the one with most threads first. Each uses the registers and the shared memory of a
multiprocessor to the full. Measured on an H200: docs/performance.md."""


@dataclass(frozen=True)
class Part:
    """A part of a kernel: its code, and what goes through shared memory around it."""

    program: Program
    staging: Staging = field(default_factory=Staging)


def fitted(program: Program, real: Real, rows: bool) -> tuple[list[Part], Form]:
    """The parts of the program, arranged, and the first form in which their values find room."""
    operations = max((block.code.operations for block in every_block(program.body)), default=0)
    if operations <= SMALL:
        return [Part(program)], Form()
    forms = CANDIDATES[real]
    found, _ = shaped(program, forms[0], rows or operations > LONG)
    return found, next((f for f in forms if all(_slots(part, f.keep) <= f.room for part in found)), forms[-1])


def shaped(program: Program, form: Form, through_shared_memory: bool = True) -> tuple[list[Part], Form]:
    """The parts of the program arranged for a form."""
    if not form.keep:
        return [Part(program)], form
    arranged = parts(replace(program, body=_arranged(program.body, form.keep)))
    return [Part(*staged(p, form.room)) if through_shared_memory else Part(p) for p in arranged], form


def _slots(part: Part, keep: int) -> int:
    """How many slots the values beyond so many registers need."""
    staging = part.staging

    def needed(code: Straight) -> int:
        size = len(code.nodes)
        return plan(
            code.nodes, range(size), keep, size + staging.waiting, staging.waiting, results(code, staging)
        ).slots

    return max(needed(block.code) for block in every_block(part.program.body))


def _arranged(body: tuple[Statement, ...], registers: int) -> tuple[Statement, ...]:
    """The statements with every block in an order that needs few registers."""
    found: list[Statement] = []
    for statement in body:
        match statement:
            case Block():
                statement = replace(statement, code=ordered(statement.code, registers))
            case Loop():
                statement = replace(statement, body=_arranged(statement.body, registers))
            case Switch():
                statement = replace(statement, cases=tuple(_arranged(case, registers) for case in statement.cases))
        found.append(statement)
    return tuple(found)
