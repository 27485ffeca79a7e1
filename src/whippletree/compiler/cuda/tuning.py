"""How a kernel is written, chosen by its size. Nothing here changes a bit of any result."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from whippletree.arithmetic.trace import Straight
from whippletree.arithmetic.trace.schedule import order_for_registers
from whippletree.compiler.cuda.staging import Staging, results, stage_angles, stage_program
from whippletree.compiler.cuda.thread_pairs import pair_program
from whippletree.compiler.llvm.ir import Real
from whippletree.compiler.llvm.spill_plan import plan
from whippletree.compiler.program import Loop, Program, Statement, every_block, map_blocks


@dataclass(frozen=True)
class Form:
    """How a kernel is written."""

    threads: int = 128  # of a block
    registers: int = 0  # at most so many per thread; 0: as many as there are
    keep: int = 0  # arrange straight-line code for so many values in registers; 0: as it was traced
    room: int = 0  # slots of shared memory that each thread may put other values into
    pair: bool = False  # two threads work on a state, where it has two limbs


SMALL_KERNEL = 1800
"""Operations up to which a block of code is left as it was traced: it fits the registers of a thread."""

LONG_KERNEL = 5500
"""Operations beyond which inputs and results go through shared memory in any layout, since that makes the code shorter:
128 kB of it, 8192 instructions, fit the instruction cache. Shorter code is faster without, unless that serves rows."""

LONGER = 8000
"""Operations whose code is longer than the instruction cache whatever is done. A warp then waits for instructions most
of its time, five of them as much as eight; so that form is best which has most room for the values of each thread."""

CANDIDATES: dict[Real, tuple[Form, ...]] = {
    "float": (Form(128, registers=168, keep=135, room=148), Form(64, keep=220, room=216)),
    "double": (Form(128, keep=110, room=108),),
}
"""Forms of large kernels, the one with most threads first. Each uses the registers and the shared memory of a
multiprocessor to the full. Measured on an H200: docs/performance.md."""

ROOMIEST: dict[Real, Form] = {"float": Form(160, keep=240, room=358), "double": CANDIDATES["double"][-1]}
"""Forms of kernels that are longer than the instruction cache and whose values find no room in any of the others."""


PAIR_FORM: dict[Real, Form] = {
    "float": Form(128, registers=168, keep=140, room=148, pair=True),
    "double": Form(128, keep=110, room=108, pair=True),
}
"""Form of kernels in which two threads work on a state. Fewer threads with more room are slower: 1.04 instead of 1.40
thousand million states a second of a G1 in single precision."""


@dataclass(frozen=True)
class Shaped:
    """A program arranged for a form: its main part, and what goes through shared memory around it."""

    main: Program
    form: Form = field(default_factory=Form)
    staging: Staging = field(default_factory=Staging)
    distances: tuple[int, ...] = ()
    """Of a pair of threads: how far apart they read and write."""


def fit_program(program: Program, real: Real, rows: bool) -> Shaped:
    """The program arranged for the first form in which its values find room."""
    if any(isinstance(s, Loop) and s.on_threads for s in program.body) and (found := fit_pair(program, real)):
        return found
    operations = max((block.code.operations for block in every_block(program.body)), default=0)
    if operations <= SMALL_KERNEL:
        return Shaped(program)
    forms = CANDIDATES[real]
    found = shape_program(program, forms[0], rows or operations > LONG_KERNEL)
    form = next((f for f in forms if _slots(found, f.keep) <= f.room), None)
    if form is None and operations > LONGER:
        found = shape_program(program, ROOMIEST[real])
        form = found.form
    return replace(found, form=form or forms[-1])


def fit_pair(program: Program, real: Real) -> Shaped | None:
    """The program arranged for pairs of threads; None if it is not one of two limbs."""
    found = shape_program(program, PAIR_FORM[real])
    return found if found.form.pair else None


def shape_program(program: Program, form: Form, through_shared_memory: bool = True) -> Shaped:
    """The program arranged for a form."""
    if form.pair and (paired := pair_program(program)):
        alone = shape_program(paired.program, replace(form, pair=False), through_shared_memory=False)
        main, staging = stage_angles(alone.main) if form.keep else (alone.main, alone.staging)
        return Shaped(main, form, staging, paired.distances)
    form = replace(form, pair=False)
    if not form.keep:
        return Shaped(program, form)
    arranged = replace(program, body=_arrange(program.body, form.keep))
    if not through_shared_memory:
        return Shaped(arranged, form)
    main, staging = stage_program(arranged, form.room)
    return Shaped(main, form, staging)


def _slots(found: Shaped, keep: int) -> int:
    """How many slots the values beyond so many registers need."""
    staging = found.staging

    def needed(code: Straight) -> int:
        size = len(code.nodes)
        return plan(
            code.nodes, range(size), keep, size + staging.waiting, staging.waiting, results(code, staging)
        ).slots

    return max(needed(block.code) for block in every_block(found.main.body))


def _arrange(body: tuple[Statement, ...], registers: int) -> tuple[Statement, ...]:
    """The statements with every block in an order that needs few registers."""
    return map_blocks(body, lambda block: replace(block, code=order_for_registers(block.code, registers)))
