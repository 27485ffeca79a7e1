"""CasADi functions that call our machine code: ``casadi.external``, with exact derivatives and their sparsity.

    external(model, "forward_dynamics")               constrained dynamics, or any function of the catalogue
    external(model, "embedded_dynamics", "crank")     in minimal coordinates: y = v of the named joints
    external(model, "contact_step", sweeps=4)         one step with contact

A function is traced once; its derivative by every input is traced from it, and only entries that can differ from zero
are computed. Both become object code, which a C compiler links with a few lines of glue into a library that CasADi
loads: inside ``nlpsol`` no Python runs. With ``machine_code=False`` the trace is replayed on CasADi's SX instead, which
has second derivatives.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from whippletree import functions
from whippletree.arithmetic import linalg
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.trace import Trace, Traced, evaluate, finish
from whippletree.arithmetic.trace.derivative import gradient, tangent
from whippletree.compiler.casadi import import_casadi
from whippletree.compiler.cpu.export import c_name, export_programs
from whippletree.compiler.frontend.unrolled import input_shapes
from whippletree.compiler.program import Buffer, Program, straight_program
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.kinematics.pairs import no_closed_form
from whippletree.contact.problem.contact_problem import local, sweep_blocks
from whippletree.contact.time_step import ContactBlocks, finish_step, pose_step
from whippletree.errors import UnsupportedError
from whippletree.functions.registry import checked_names, for_names
from whippletree.model import Model, require_model
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

SWEEPS_OF_FUNCTION = 10
"""Sweeps of a contact step as a CasADi function, unless their number is given; one is exact for a single contact."""

EMBEDDED, CONTACT_STEP = "embedded_dynamics", "contact_step"


def external(
    model: Model,
    name: str,
    *names: Any,
    machine_code: bool = True,
    folder: str | Path | None = None,
    sweeps: int = SWEEPS_OF_FUNCTION,
) -> Any:
    """A function of a model as a ``casadi.Function`` with exact first derivatives and sparse Jacobians.

    Args:
        model: whose function it is; without open parameters.
        name: of the catalogue; ``embedded_dynamics`` (q, y, tau) → (v, y_rate) for the joints whose velocities y are
            minimal coordinates; or ``contact_step`` (q, v, tau, dt) → (q_next, v_next, impulses).
        names: what a function of the catalogue takes before its numbers, or the joints of ``embedded_dynamics``.
        machine_code: whether CasADi calls compiled code (a C compiler links it) or works on its own SX.
        folder: where the library is written; default: a new one below the system's place for temporary files.
        sweeps: over the contacts of a ``contact_step``.

    Raises:
        MissingExtraError: CasADi is not installed.
        UnsupportedError: there is no C compiler.
        NameLookupError: an unknown function, frame or joint.
    """
    require_model(model, "external")
    casadi = import_casadi("wt.control.external")
    traced = _trace_function(model, name, names, int(sweeps))
    if not machine_code:
        return _on_symbols(casadi, traced)
    place = Path(tempfile.mkdtemp(prefix="whippletree-casadi-") if folder is None else folder)
    return casadi.external(traced.name, str(_library(traced, place)))


@dataclass(frozen=True)
class TracedFunction:
    """A function of flat inputs, column by column as CasADi stores matrices, and its outputs as traced scalars."""

    name: str
    trace: Trace
    inputs: dict[str, tuple[int, int]]
    """Rows and columns of each input."""
    given: dict[str, list[Traced]]
    outputs: dict[str, Array]
    """Matrices of any scalars."""


def _trace_function(model: Model, name: str, names: Sequence[Any], sweeps: int) -> TracedFunction:
    implementation, shapes, titles = _implementation(model, name, names, sweeps)
    trace = Trace()
    given: dict[str, list[Traced]] = {}
    inputs, arrays = {}, []
    for word, shape in shapes.items():
        rows, columns = (*shape, 1, 1)[:2]
        flat = list(np.ravel(trace.inputs(rows * columns)))
        given[word], inputs[word] = flat, (rows, columns)
        array = np.array(flat, dtype=object).reshape(columns, rows).T.reshape(shape)
        arrays.append(array[()])
    with np.errstate(all="ignore"):
        found = implementation(*arrays)
    outputs = {}
    for title, part in zip(titles, found if isinstance(found, tuple) else (found,), strict=True):
        array = np.asarray(part, dtype=object)
        outputs[title] = array.reshape((*array.shape, 1, 1)[:2]) if array.ndim < 2 else array
    return TracedFunction(c_name(f"{model.name}_{name}"), trace, inputs, given, outputs)


Described: TypeAlias = tuple[Callable[..., Any], dict[str, tuple[int, ...]], list[str]]
"""A function on any scalar, the shapes of its inputs, and what its outputs are called."""


def _implementation(model: Model, name: str, names: Sequence[Any], sweeps: int) -> Described:
    """The function to be traced."""
    if name == EMBEDDED:
        return _embedded_function(model, names)
    if name == CONTACT_STEP:
        return _contact_step(model, sweeps)
    entry = functions.find(name, model)
    chosen = checked_names(entry, tuple(names)) if entry.names else ()
    entry = for_names(entry, model, chosen)
    tree = skeleton(model)
    titles = [f"{title}_out" if title in entry.inputs else title for title in entry.outputs]
    return lambda *x: entry.implementation(Mechanism(tree), *chosen, *x), input_shapes(model, entry, ()), titles


def _embedded_function(model: Model, names: Sequence[Any]) -> Described:
    """(q, y, tau) → (v, rate of y): v meets the rows and has y at the named joints."""
    chosen = [i for joint in names for i in range(model.nv)[model.slice(joint)]]
    system, tree = constraint_set(model), skeleton(model)
    kept = list(system.structure.independent) if model.constraints else []
    others = [i for i in range(model.nv) if i not in chosen]
    if len(others) != len(kept):
        raise UnsupportedError(
            f"embedded_dynamics: model {model.name!r} has {model.nv - len(kept)} freedoms, and joints {list(names)} "
            f"have {len(chosen)} velocities: name joints with as many"
        )
    if system.timed or system.switches or any(system.compliance):
        raise UnsupportedError("embedded_dynamics: rows that depend on time, are switched or yield are not supported")
    entry = functions.find("forward_dynamics", model)

    def implementation(q: Array, y: Array, tau: Array) -> tuple[Array, Array]:
        m = Mechanism(tree)
        v = zeros(model.nv)
        v[chosen] = y
        if kept:
            A = system.rows(m, m.still(q), q, None, 0).jacobian()[kept]
            B = A[:, others]
            # B is square; B Bᵀ is positive definite wherever the named joints are coordinates
            v[others] = -(B.T @ linalg.ldlt(B @ B.T, lenient=True).solve(A[:, chosen] @ y))
        return v, entry.implementation(m, q, v, tau)[chosen]

    shapes: dict[str, tuple[int, ...]] = {"q": (model.nq,), "y": (len(chosen),), "tau": (model.nv,)}
    return implementation, shapes, ["v", "y_rate"]


def _contact_step(model: Model, sweeps: int) -> Described:
    """(q, v, tau, dt) → (q_next, v_next, impulses) by sweeps from no impulses, as ``contact_rollout`` does."""
    blocks, tree = ContactBlocks(model), skeleton(model)
    unwritten = [pair for pair in blocks.contacts.pairs if pair.touching is None]
    if unwritten:
        raise UnsupportedError(f"contact_step: {no_closed_form(unwritten[0])}")

    def implementation(q: Array, v: Array, tau: Array, dt: Any) -> tuple[Array, Array, Array]:
        m = Mechanism(tree)
        at = pose_step(m, blocks, q, v, tau, dt)
        own = [local(at.problem.G[i, :, i]) for i in range(blocks.count)]
        impulse, kappa = zeros(blocks.count, 3), zeros(blocks.count)
        for _ in range(sweeps):
            impulse, kappa = sweep_blocks(at.problem, own, impulse, kappa)
        end = finish_step(m, at, q, impulse, dt, blocks)
        return end.q, end.v, impulse

    shapes: dict[str, tuple[int, ...]] = {"q": (model.nq,), "v": (model.nv,), "tau": (model.nv,), "dt": ()}
    return implementation, shapes, ["q_next", "v_next", "impulses"]


# --- on CasADi's own scalars ------------------------------------------------------------------------------------------


def _on_symbols(casadi: Any, traced: TracedFunction) -> Any:
    symbols = [casadi.SX.sym(word, *shape) for word, shape in traced.inputs.items()]
    scalars = [symbol[i] for symbol in symbols for i in range(symbol.numel())]
    flat = [x for part in traced.outputs.values() for x in part.ravel()]
    values = iter(evaluate(finish(traced.trace, flat), scalars))
    results = []
    for part in traced.outputs.values():
        matrix = casadi.SX(*part.shape)
        for index in np.ndindex(*part.shape):
            value = next(values)
            if isinstance(part[index], Traced) or part[index] != 0:
                matrix[index] = value
        results.append(matrix)
    return casadi.Function(traced.name, symbols, results, list(traced.inputs), list(traced.outputs))


# --- as machine code --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Matrix:
    """A sparse matrix as CasADi has it: column by column, rows in order."""

    shape: tuple[int, int]
    places: list[tuple[int, int]]
    values: list[Any]

    @staticmethod
    def of(array: Array) -> _Matrix:
        rows, columns = array.shape
        places = [(i, j) for j in range(columns) for i in range(rows) if _may_differ(array[i, j])]
        return _Matrix((rows, columns), places, [array[place] for place in places])

    @property
    def description(self) -> list[int]:
        """Rows, columns, where each column begins, and the row of each entry."""
        starts = [sum(j < column for _, j in self.places) for column in range(self.shape[1] + 1)]
        return [*self.shape, *starts, *[i for i, _ in self.places]]


def _may_differ(x: Any) -> bool:
    return isinstance(x, Traced) or x != 0


def _library(traced: TracedFunction, folder: Path) -> Path:
    """Object code of a function and of its Jacobian, and the glue, as one shared library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise UnsupportedError(
            "external: there is no C compiler (cc, gcc or clang) on this machine, which links machine code into a "
            "library for CasADi: install one, or pass machine_code=False"
        )
    results = {title: _Matrix.of(part) for title, part in traced.outputs.items()}
    slopes = _jacobian(traced)
    programs = {"f": _program("f", traced, results), "jac": _program("jac", traced, slopes)}
    prefix = traced.name
    export_programs(folder, prefix, programs, "double")
    glue = folder / f"{prefix}_casadi.c"
    glue.write_text(_glue(prefix, traced, results, slopes), encoding="utf-8")
    library = folder / f"{prefix}.so"
    objects = [str(folder / f"{prefix}_{word}.o") for word in programs]
    command = [compiler, "-shared", "-fPIC", "-O1", str(glue), *objects, "-o", str(library), "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnsupportedError(f"external: {compiler} did not link the library:\n{done.stderr[-2000:]}")
    return library


def _jacobian(traced: TracedFunction) -> dict[str, _Matrix]:
    """Every output by every input, column by column as CasADi numbers entries; forwards or backwards, what is less."""
    inputs = [x for flat in traced.given.values() for x in flat]
    outputs = [x for part in traced.outputs.values() for x in part.T.ravel()]
    J = zeros(len(outputs), len(inputs))
    if len(inputs) <= len(outputs):
        for k in range(len(inputs)):
            J[:, k] = tangent(outputs, inputs, [int(i == k) for i in range(len(inputs))])
    else:
        for k, y in enumerate(outputs):
            if isinstance(y, Traced):
                J[k] = gradient([y], [1], inputs)
    found, row = {}, 0
    for title, part in traced.outputs.items():
        column = 0
        for word, flat in traced.given.items():
            block = J[row : row + part.size, column : column + len(flat)]
            found[f"jac_{title}_{word}"] = _Matrix.of(block)
            column += len(flat)
        row += part.size
    return found


def _program(name: str, traced: TracedFunction, results: dict[str, _Matrix]) -> Program:
    inputs = [Buffer(f"in_{word}", "input", (len(flat),)) for word, flat in traced.given.items()]
    outputs = [Buffer(f"out_{title}", "output", (len(part.values),)) for title, part in results.items()]
    flat = [x for part in results.values() for x in part.values]
    return straight_program(name, finish(traced.trace, flat), inputs, outputs)


GLUE = """/* Written by whippletree: machine code as an external function of CasADi. */
#include "{prefix}.h"
#define INT long long int
static const double nothing[{widest}];
"""


def _glue(prefix: str, traced: TracedFunction, results: dict[str, _Matrix], slopes: dict[str, _Matrix]) -> str:
    widest = max([1, *[rows * columns for rows, columns in traced.inputs.values()]])
    dense = {word: _dense(*shape) for word, shape in traced.inputs.items()}
    empty = {f"out_{title}": [*part.shape, *[0] * (part.shape[1] + 1)] for title, part in results.items()}
    text = GLUE.format(prefix=prefix, widest=widest)
    text += _c_function(prefix, f"{prefix}_f", dense, dense, results)
    return text + _c_function(f"jac_{prefix}", f"{prefix}_jac", {**dense, **empty}, dense, slopes)


def _dense(rows: int, columns: int) -> list[int]:
    return _Matrix.of(np.ones((rows, columns), dtype=object)).description


def _c_function(
    name: str, code: str, inputs: dict[str, list[int]], used: dict[str, list[int]], results: dict[str, _Matrix]
) -> str:
    """One function with all that CasADi asks about it."""
    scratch = np.cumsum([0, *[len(part.values) for part in results.values()]]).tolist()
    given = [f"arg[{k}] ? arg[{k}] : nothing" for k, word in enumerate(used) if used[word][0] * used[word][1]]
    taken = [f"res[{k}] ? res[{k}] : w + {scratch[k]}" for k, part in enumerate(results.values()) if part.values]
    described = [part.description for part in results.values()]

    def strings(words: Sequence[str]) -> str:
        return ", ".join(f'"{word}"' for word in words)

    def tables(kind: str, lists: Sequence[list[int]]) -> str:
        rows = "".join(
            f"static const INT {name}_{kind}_{k}[] = {{{', '.join(map(str, row))}}};\n" for k, row in enumerate(lists)
        )
        listed = ", ".join(f"{name}_{kind}_{k}" for k in range(len(lists)))
        return f"{rows}static const INT *const {name}_{kind}[] = {{{listed}}};\n"

    return f"""{tables("s_in", list(inputs.values()))}{tables("s_out", described)}
static const char *const {name}_words_in[] = {{{strings(list(inputs))}}};
static const char *const {name}_words_out[] = {{{strings(list(results))}}};
int {name}(const double **arg, double **res, INT *iw, double *w, int mem) {{
    (void)iw; (void)mem;
    {code}({", ".join([*given, *taken])});
    return 0;
}}
INT {name}_n_in(void) {{ return {len(inputs)}; }}
INT {name}_n_out(void) {{ return {len(results)}; }}
const char *{name}_name_in(INT i) {{ return {name}_words_in[i]; }}
const char *{name}_name_out(INT i) {{ return {name}_words_out[i]; }}
const INT *{name}_sparsity_in(INT i) {{ return {name}_s_in[i]; }}
const INT *{name}_sparsity_out(INT i) {{ return {name}_s_out[i]; }}
int {name}_work(INT *sz_arg, INT *sz_res, INT *sz_iw, INT *sz_w) {{
    if (sz_arg) *sz_arg = {len(inputs)};
    if (sz_res) *sz_res = {len(results)};
    if (sz_iw) *sz_iw = 0;
    if (sz_w) *sz_w = {scratch[-1]};
    return 0;
}}
"""
