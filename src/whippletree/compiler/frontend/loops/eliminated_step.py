"""A step at velocity level by elimination at body level, for ladders, trusses and grids of any length.

    w = v + h a        M a = τ − c + Aᵀ f,   A a + γ = 0
    v⁺ = w − A†ᵀ (A w + gₜ),   M (v⁺ − w) = Aᵀ p

The sum of both is step 4 of document 003, M (v⁺ − v) = h (τ − c) + Aᵀ (h f + p) with A v⁺ + gₜ = 0: accelerations and
an impact without restitution, two programs of :mod:`~whippletree.compiler.frontend.loops.elimination_program` in one.
"""

from __future__ import annotations

from dataclasses import replace

from whippletree.arithmetic import scalars
from whippletree.compiler.frontend.loops.elimination_program import BY_ELIMINATION, ROWS_ALONE, EliminationProgram
from whippletree.compiler.frontend.loops.front_loops import Code
from whippletree.compiler.frontend.unrolled import STATUS
from whippletree.compiler.program import Buffer, Index, Loop, Program, Statement
from whippletree.compiler.program.traced_blocks import traced_block
from whippletree.compiler.program.work_space import WorkSpace, inlined
from whippletree.constraints.constraint_set import ConstraintSet
from whippletree.functions import find, resolve, sizes
from whippletree.functions.registry import Function
from whippletree.tree.skeleton import Skeleton

STEP_BY_ELIMINATION = "velocity_step"
"""The function that is made of two others."""


def can_eliminate(function: Function, system: ConstraintSet) -> bool:
    """Whether a function can run as loops over bodies, closures and fronts."""
    known = function.name in (*BY_ELIMINATION, *ROWS_ALONE, STEP_BY_ELIMINATION)
    return known and not system.switches and not any(system.compliance)


def elimination_program(function: Function, tree: Skeleton) -> Program:
    """The kernel program of a function that solves the body-level system, or needs its rows."""
    if function.name == STEP_BY_ELIMINATION:
        return _velocity_step(function, tree)
    return EliminationProgram(function, tree).write()


def _velocity_step(function: Function, tree: Skeleton) -> Program:
    space, known = WorkSpace(), sizes(tree.model)
    space.add(*[Buffer(name, "input", resolve(shape, known)) for name, shape in function.inputs.items()])
    space.add(Buffer("v_out", "output", resolve(("nv",), known)))
    space.add(Buffer("impulses", "output", resolve(("rows",), known)))
    space.add(Buffer(STATUS, "output", (), integer=True))
    nv, rows = known["nv"], known["rows"]
    space.work(a=(nv,), forces=(rows,), faster=(nv,), strikes=(rows,), plastic=(1,))
    space.work(first_status=(1,), second_status=(1,))
    forward = replace(find("forward_dynamics", tree.model), outputs={"a": ("nv",), "forces": ("rows",)})
    first = {"a": "a", "forces": "forces", STATUS: "first status"}
    second = {"v": "faster", "v_out": "v_out", "impulses": "strikes", "restitution": "plastic", STATUS: "second status"}
    clock: list[Statement] = []
    if "t" in function.inputs:
        space.work(clock=(1,))
        clock = [traced_block(lambda t: [[t]], [space.at("t")], [space.at("clock")])]
        first["t"] = second["t"] = "clock"
    body = [
        *clock,
        *_inlined(space, EliminationProgram(forward, tree).write(), "forces of step", first),
        Loop("velocity", nv, (_sum("faster", "v", "a", "velocity"),)),
        space.put(0.0, space.at("plastic")),
        *_inlined(space, EliminationProgram(find("impact", tree.model), tree).write(), "impact of step", second),
        Loop("row", rows, (_sum("impulses", "strikes", "forces", "row"),)),
        _status(),
    ]
    return space.program(function.name, body)


def _inlined(space: WorkSpace, program: Program, prefix: str, place: dict[str, str]) -> list[Statement]:
    """The statements of a program whose arguments are those of the same name, unless they are placed elsewhere."""
    arguments = {b.name: place.get(b.name, b.name) for b in program.of_role("input", "output")}
    statements, own = inlined(program, prefix, arguments)
    space.add(*own)
    return statements


def _sum(target: str, base: str, rate: str, register: str) -> Statement:
    """target := base + h · rate, for one number."""
    code = Code()
    code.store(
        code.load(base, Index(register)) + code.load("h") * code.load(rate, Index(register)), target, Index(register)
    )
    return code.block()


def _status() -> Statement:
    """That of the accelerations, or else that of the impact."""
    code = Code()
    first, second = (code.load(f"{name} status", Index(None, 0)) for name in ("first", "second"))
    code.store(scalars.select(scalars.less(0, first), first, second), STATUS)
    return code.block()
