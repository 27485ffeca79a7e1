"""Whole-body control: inverse dynamics as a quadratic program with friction cones, as one compiled function.

The unknowns are accelerations a, forces f of the rows of loops and forces p of contacts. Motors follow from them,

    tau = (M a + c − Aᵀ f − Jᵀ p)  of joints with a motor             0 = M a + c − Aᵀ f − Jᵀ p  of all others

so that no matrix is inverted: links may be massless, rows and contacts redundant. Rows and limits:

    hard        motion of joints without a motor; A a + γ = 0 of loops; J a + J̇ v = −damping J v of contacts that carry
    limits      |tau| ≤ effort limit; joints stay between their stops and below their velocity limits within a horizon;
                p in Coulomb's exact (second-order) cone, p = 0 for contacts that do not carry; the centre of pressure
                of a foot in a rectangle
    cost        Σ weight |J_k a + J̇_k v − w_k|² of tasks, level by level, + small costs of contact forces and efforts

The solver (:mod:`whippletree.control.cone_program`) is our own, so that model terms, program and torques are one
kernel, which batches over SIMD lanes and exports to C. Where contacts cannot be held within the limits (a weight that
feet cannot carry, a motor too weak), the answer is the one that misses least, and the report says which contact, limit
or cone is at fault.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array, vector, zeros
from whippletree.arithmetic.scalars import clip, less, select
from whippletree.arithmetic.trace import Traced
from whippletree.compiler.compiled import Compiled
from whippletree.compiler.compiled import compile as compile_model
from whippletree.compiler.cpu.export import c_name, export_programs
from whippletree.compiler.llvm.ir import Real
from whippletree.compiler.named_function import NamedFunction
from whippletree.compiler.program import Buffer, Program, Statement
from whippletree.compiler.program.traced_blocks import Piece, piece, sparse_block, traced_block
from whippletree.compiler.program.work_space import WorkSpace
from whippletree.constraints.constraint_set import constraint_set
from whippletree.constraints.forces_of_motion import RigidRows
from whippletree.contact.kinematics.contact_set import contact_set
from whippletree.contact.problem.cones import largest
from whippletree.control.cone_program import ConeProgram
from whippletree.control.operational_tasks import (
    CENTER,
    POSTURE,
    OperationalTask,
    TaskMotion,
    require_shape,
    rows_of,
    target_shape,
)
from whippletree.control.tiled_algebra import TILE, filled_tiles, groups
from whippletree.control.whole_body_layout import Layout, Settings, Shortfall, chosen_motors, shortfalls
from whippletree.errors import NameLookupError
from whippletree.model import Model, require_model
from whippletree.tree import inertia, inverse, kinematics
from whippletree.tree import momentum as sums
from whippletree.tree.element_forces import element_forces
from whippletree.tree.mechanism import Mechanism
from whippletree.tree.skeleton import skeleton

DYNAMICS_PENALTY, CONTACT_PENALTY, TASK_PENALTY = 1e6, 1e3, 1e4
"""ω of hard rows as multiples of the largest weight: of dynamics and loops, of contacts, and of tasks of lower levels
that must not be touched. They decide how fast the rounds end, and what yields where not all can be had: contacts, and
not mechanics."""

FORCE_COST = 1e-2
"""Cost of the squares of contact forces as shares of the robot's weight, m²/s⁴: shares loads among redundant
contacts."""

EFFORT_COST = 1e-4
"""Cost of the squares of efforts as shares of the robot's weight times 1 m, m²/s⁴: shares loads among redundant
motors."""

HORIZON = 0.05
"""s within which a joint may reach its stop or its velocity limit."""

PROGRAM_WIDTH = 1
"""States of a batch that go through the program together. The loops of a single state fill the lanes of a CPU already,
and its numbers stay in the first caches: µs per state with 1 and 4 lanes, solo12: 23 and 34, the G1: 112 and 181."""

CONTACT_DAMPING = 20.0
"""1/s: how fast velocity of contacts that carry is taken away."""


class Answer(NamedTuple):
    """The result of a whole-body controller; with a batch, every field has its dimensions in front."""

    tau: Any
    """Forces of motors (..., nv), N m or N; 0 for joints without one."""
    a: Any
    """Accelerations (..., nv)."""
    contact_forces: Any
    """Normal and two tangents of each candidate (..., 3 contacts), N; 0 for those that do not carry."""
    f: Any
    """Forces of the rows of constraints (..., rows)."""
    beyond: Any
    """How far accelerations are beyond what stops and velocity limits allow (..., nv); 0 where they are kept."""
    residual: Any
    """Shortfall of every row (..., rows of the program): dynamics as shares of the weight, loops and contacts in
    m/s² or rad/s², then, as far as they are rows, what tasks ask for. ``control.layout.row_names`` names them."""
    report: Any
    """(..., 5): gap, largest residual of a hard row, largest violation of a limit, gradient, rounds."""


def whole_body(
    model: Model,
    tasks: Sequence[OperationalTask],
    *,
    motors: Sequence[str] | None = None,
    limits: bool = True,
    force_cost: float = FORCE_COST,
    effort_cost: float = EFFORT_COST,
    horizon: float = HORIZON,
    contact_damping: float = CONTACT_DAMPING,
    support: Mapping[str, tuple[float, float]] | None = None,
    dyn: Compiled | None = None,
) -> WholeBody:
    """A controller that chooses torques, accelerations and contact forces together.

    Args:
        model: with or without loops; its contacts need closed forms, its friction coefficients are those of the cones.
        tasks: made by :func:`~whippletree.control.task`.
        motors: joints that have one; default: those that actuators drive, and in a model without actuators all but
            free joints on the world.
        limits: whether efforts, stops and velocities of joints are limits.
        force_cost, effort_cost: of contact forces and efforts as shares of the weight; they decide what tasks leave
            open.
        horizon: s within which a joint may reach its stop or velocity limit.
        contact_damping: 1/s, how fast velocity of contacts that carry is taken away.
        support: by frame of a foot, half of the length (x) and of the width (y), m, of the rectangle about its origin
            in which the centre of pressure stays; default: the hull of the contacts, which unilateral forces ensure.
        dyn: where functions are compiled; default: ``wt.compile(model)``.

    Raises:
        NameLookupError: an unknown frame, joint or row, with the nearest names.
        UnsupportedError: contacts without closed forms.
        ValueError: a cost, horizon, damping or support that is negative or not finite; a joint named twice.
    """
    require_model(model, "whole_body")
    chosen = chosen_motors(model, motors)
    feet = tuple((frame, float(x), float(y)) for frame, (x, y) in (support or {}).items())
    settings = Settings(
        chosen, bool(limits), float(force_cost), float(effort_cost), float(horizon), float(contact_damping), feet
    )
    return WholeBody(model, tuple(tasks), settings, dyn if dyn is not None else compile_model(model, watch="never"))


class WholeBody:
    """A controller: ``control(q, v, targets=…)`` answers for one state or many. Made by :func:`whole_body`."""

    def __init__(self, model: Model, tasks: tuple[OperationalTask, ...], settings: Settings, dyn: Compiled) -> None:
        self.model, self.tasks, self.settings, self.dyn = model, tasks, settings, dyn
        self.layout = Layout(model, tasks, settings)

    def __repr__(self) -> str:
        names = ", ".join(repr(t.name) for t in self.tasks)
        return f"<whole-body controller of model {self.model.name!r}: tasks {names}>"

    @cached_property
    def function(self) -> NamedFunction:
        """The compiled function, whose inputs are those of :meth:`inputs`."""
        layout = self.layout
        key = ("whole_body", self.tasks, self.settings)
        return self.dyn.program(key, lambda: whole_body_program(layout), width=PROGRAM_WIDTH)

    def __call__(
        self,
        q: Any,
        v: Any,
        *,
        targets: Mapping[str, Any] | None = None,
        rates: Mapping[str, Any] | None = None,
        accelerations: Mapping[str, Any] | None = None,
        touching: Any = None,
        t: Any = 0.0,
        active: Any = None,
    ) -> Answer:
        """Torques, accelerations and contact forces of one state or many.

        Args:
            q, v: states, (..., nq) and (..., nv).
            targets: by name of a task: a pose (..., 4, 4) of a frame, of which positions need the last column only, a
                point (..., 3) of the centre of mass, coordinates (..., nq) of a posture; default: where the model's
                home has them.
            rates, accelerations: by name of a task, of its rows; default 0.
            touching: 1 for contacts that carry, 0 for others, (..., contacts); default: all.
            t, active: time and switches, for models that have them.

        Raises:
            NameLookupError: a name that no task has.
            ValueError: a state or a target that is not finite.
        """
        self._require_finite({"q": q, "v": v, "touching": touching, "t": t, "active": active})
        for what, words in (("target", targets), ("rate", rates), ("acceleration", accelerations)):
            self._require_finite({f"{what} of task {name!r}": x for name, x in (words or {}).items()})
        given = self.inputs(q, v, targets, rates, accelerations, touching, t, active)
        with np.errstate(all="ignore"):  # a program that is lost overflows, and reports it by itself
            found = iter(self.function(*given))
        sizes = self.layout.answer_sizes.values()
        parts = [next(found) if size else None for size in sizes]
        batch = np.asarray(parts[-1]).shape[:-1]  # the report is never empty
        return Answer(*[np.zeros((*batch, 0)) if part is None else part for part in parts])

    def _require_finite(self, given: Mapping[str, Any]) -> None:
        for name, numbers in given.items():
            if numbers is not None and not np.isfinite(numbers).all():
                raise ValueError(
                    f"whole_body of model {self.model.name!r}: {name} has a number that is NaN or infinite, from which "
                    "no torque follows: hold the last torques, or see where the number comes from"
                )

    def inputs(
        self, q: Any, v: Any, targets: Any = None, rates: Any = None, accelerations: Any = None, touching: Any = None,
        t: Any = 0.0, active: Any = None,
    ) -> list[Any]:  # fmt: skip
        """The inputs of the compiled function, in its order."""
        layout = self.layout
        given: list[Any] = [q, v]
        for words in (targets, rates, accelerations):
            for name in words or {}:
                if name not in layout.names:
                    raise NameLookupError("task", name, layout.names, where=f"controller of model {self.model.name!r}")
        for task, rows in zip(self.tasks, layout.task_rows, strict=True):
            if task.kind != "momentum":
                target = (targets or {}).get(task.name)
                target = self._home_targets[task.name] if target is None else self._as_target(task, target)
                given.append(target)
            given.append((rates or {}).get(task.name, np.zeros(len(rows))))
            given.append((accelerations or {}).get(task.name, np.zeros(len(rows))))
        if layout.contacts:
            given.append(np.ones(layout.contacts) if touching is None else touching)
        system = constraint_set(self.model)
        given += [t] if layout.timed else []
        given += [np.ones(len(system.switches)) if active is None else active] if layout.switches else []
        return given

    def _as_target(self, task: OperationalTask, target: Any) -> Any:
        """A target as an array; a point is the position of a pose."""
        found = np.asarray(target, dtype=float)
        if task.kind == "frame" and found.shape[-1:] == (3,) and found.shape[-2:] != (4, 4):
            pose = np.zeros((*found.shape[:-1], 4, 4))
            pose[...] = self._home_targets[task.name]
            pose[..., :3, 3] = found
            return pose
        require_shape(task.name, found, target_shape(task, self.model))
        return found

    @cached_property
    def _home_targets(self) -> dict[str, Any]:
        q, found = self.model.home.q, {}
        for task in self.tasks:
            if task.kind == "frame":
                frame = self.layout.frame_of(task)
                found[task.name] = np.asarray(self.dyn.pose(frame)(q), dtype=float)
            elif task.kind == CENTER:
                found[task.name] = np.asarray(self.dyn.center_of_mass(q), dtype=float)
            elif task.kind == POSTURE:
                found[task.name] = np.asarray(q, dtype=float)
        return found

    def explain(self, answer: Answer) -> list[Shortfall]:
        """Shortfalls of one answer, and the limits and cones at fault, by name; nothing if it is solved."""
        return shortfalls(self, answer)

    def export(self, folder: str | Path, *, cpu: str | None = None) -> list[Path]:
        """Write the controller for programs without Python: an object file, a C header and an example.

        See ``dyn.export``; the C function takes the inputs of :attr:`function`, in its order, and the same bits come
        out.
        """
        program = whole_body_program(self.layout)
        real: Real = "double" if self.dyn.dtype == np.float64 else "float"
        return export_programs(Path(folder), c_name(self.model.name), {"whole_body": program}, real, cpu)


def whole_body_program(layout: Layout) -> Program:
    """(q, v, targets, rates and accelerations of tasks, touching, t, active) → the fields of :class:`Answer`."""
    space, model = WorkSpace(), layout.model
    shapes: dict[str, tuple[int, ...]] = {"q": (model.nq,), "v": (model.nv,)}
    for number, (task, own) in enumerate(zip(layout.tasks, layout.task_rows, strict=True)):
        if task.kind != "momentum":
            shapes[f"target_{number}"] = target_shape(task, model)
        shapes |= {f"rate_{number}": (len(own),), f"acceleration_{number}": (len(own),)}
    shapes |= {"touching": (layout.contacts,)} if layout.contacts else {}
    shapes |= {"t": ()} if layout.timed else {}
    shapes |= {"active": (layout.switches,)} if layout.switches else {}
    inputs = [Buffer(name, "input", shape) for name, shape in shapes.items()]
    rows = layout.answer_sizes["f"]
    outputs = [Buffer(name, "output", (size,)) for name, size in layout.answer_sizes.items() if size]
    space.add(*inputs, *outputs)
    solver = ConeProgram(space, layout.sizes)
    N = layout.sizes.tiles
    space.work(base_diagonal=(N, TILE), base_linear=(N, TILE), last_diagonal=(N, TILE), last_linear=(N, TILE))
    space.work(force_gain=(max(3 * groups(layout.contacts), 1), TILE))
    space.work(yielding=(max(rows, 1), N + 1, TILE), row_scale=(groups(len(layout.passive)), TILE))
    words = list(shapes)
    tree = skeleton(model)

    def terms(*numbers: Any) -> list[Any]:
        known = {"t": 0, "active": None} | dict(zip(words, numbers, strict=True))
        return _Terms(Mechanism(tree), layout, known).arrays()

    names = (
        "R", "aim", "U", "offset", "effort", "bound", "has", "base diagonal", "base linear", "last diagonal",
        "last linear", "force gain", "yielding", "row scale",
    )  # fmt: skip
    filled = [space.at(name) for name in names]
    body: list[Statement] = [zero for name in names for zero in solver.algebra.fill(name, 0)]
    terms_block = sparse_block(terms, [piece(b) for b in inputs], filled)
    body.append(terms_block)
    for matrix in ("R", "U"):
        solver.algebra.know_zeros(matrix, filled_tiles(terms_block, space, matrix))
    for level in layout.levels:
        last = level == layout.levels[-1]
        body += _level(layout, space, level, last)
        body += solver.statements()
        if not last:
            done = [layout.hard + k for k, own in enumerate(layout.soft_levels) if own == level]
            body += [_keep(space, done)] if done else []
    body.append(_answers(layout, space, rows))
    return space.program("whole_body", body)


def _level(layout: Layout, space: WorkSpace, level: int, last: bool) -> list[Statement]:
    """Weights and penalties of the rows while a level is solved, and costs of single unknowns."""
    penalties = [DYNAMICS_PENALTY] * (len(layout.passive) + len(layout.closed))
    penalties += [CONTACT_PENALTY] * (3 * layout.contacts)
    omega = [p * layout.heaviest for p in penalties]
    hard = [1] * layout.hard
    weights = [
        task.weight
        for task, rows in zip(layout.tasks, layout.task_rows, strict=True)
        if not layout.on_diagonal(task)
        for _ in rows
    ]
    for own, weight in zip(layout.soft_levels, weights, strict=True):
        omega.append(weight if own == level else TASK_PENALTY * layout.heaviest if own < level else 0)
        hard.append(1 if own < level else 0)
    padding = [0] * (TILE * groups(len(omega)) - len(omega))
    omega, hard = [*omega, *padding], [*hard, *padding]
    source = ("last diagonal", "last linear") if last else ("base diagonal", "base linear")
    return [
        traced_block(lambda: [omega, hard], [], space.each(("omega", "hard"))),
        traced_block(lambda d, c: [d, c], space.each(source), space.each(("diagonal", "linear"))),
    ]


def _keep(space: WorkSpace, rows: Sequence[int]) -> Statement:
    """Let later levels keep the attainments of a level's tasks: b := R x."""
    aims, left = (Piece((len(rows),), tuple(space.at(name).addresses[r] for r in rows)) for name in ("aim", "residual"))
    return traced_block(lambda aim, r: [aim + r], [aims, left], [aims])


def _answers(layout: Layout, space: WorkSpace, rows: int) -> Statement:
    """From the unknowns to the answer."""
    nv, first, unit = layout.model.nv, layout.first_acceleration, layout.force_unit
    limits = TILE * groups(layout.sizes.limits)

    def answers(
        x: Array, value: Array, gain: Array, yielding: Array, residual: Array, report: Array, bound: Array, has: Array,
        row_scale: Array,
    ) -> list[Any]:  # fmt: skip
        x, value, gain = np.ravel(x), np.ravel(value), np.ravel(gain)
        stops, there = (part.reshape(2, -1)[:, limits : limits + nv] for part in (bound, has))
        tau = zeros(nv)
        for k, (i, limit) in enumerate(zip(layout.motors, layout.efforts, strict=True)):
            tau[i] = value[k] * (limit if np.isfinite(limit) else unit)
        a = x[first : first + nv]
        places = [place for k in range(layout.contacts) for place in layout.force_places(k)]
        forces = gain[places] * x[places] * unit
        f = zeros(rows)
        for k, i in enumerate(layout.closed):
            f[i] = x[first + nv + k] * unit
        soft = [i for i in range(rows) if i not in layout.closed]
        for i in soft:
            f[i] = np.ravel(yielding[i])[: len(x)] @ x + yielding[i, -1, 0]
        short, long = there[0] * (stops[0] - a), there[1] * (a - stops[1])
        beyond = [largest([below, above, 0]) for below, above in zip(short, long, strict=True)]
        missing = np.ravel(residual)[: layout.sizes.rows]
        passive = len(layout.passive)
        missing[:passive] = missing[:passive] / np.ravel(row_scale)[:passive]
        return [tau, a, forces, f, beyond, missing, report]

    reads = space.each(("x", "value", "force gain", "yielding", "residual", "report", "bound", "has", "row scale"))
    present = [name for name, size in layout.answer_sizes.items() if size]

    def present_answers(*numbers: Any) -> list[Any]:
        found = dict(zip(layout.answer_sizes, answers(*numbers), strict=True))
        return [found[name] for name in present]

    return traced_block(present_answers, reads, space.each(present))


def _equilibrium(row: Array) -> Any:
    """1 / the largest entry of a row, so that light links count as much as heavy ones; 1 for a row of zeros."""
    entries = [abs(entry) for entry in row if isinstance(entry, Traced) or entry != 0]
    most = largest([0, *entries])
    some = less(0, most)
    return select(some, 1 / select(some, most, 1), 1)


def in_groups(*parts: Array) -> Array:
    """Vectors, or matrices of rows, one behind the other, each filled up with zeros to whole groups."""
    filled = []
    for part in parts:
        missing = TILE * groups(len(part)) - len(part)
        filled.append(np.concatenate([part, zeros(missing, *part.shape[1:])]))
    return np.concatenate(filled)


class _Terms:
    """Every number of the program at one state, on any scalar."""

    def __init__(self, m: Mechanism, layout: Layout, known: Mapping[str, Any]) -> None:
        self.m, self.layout, self.known = m, layout, known
        self.q, self.v = known["q"], known["v"]
        self.at = TaskMotion(m, self.q, self.v)
        self.n = layout.sizes.unknowns
        self.first, self.unit = layout.first_acceleration, layout.force_unit
        self._mechanics()

    def _mechanics(self) -> None:
        """M a + c − Aᵀ f − Jᵀ p as a matrix E (nv, n) and e (nv,), in units of the weight."""
        m, layout, links, nv = self.m, self.layout, self.at.links, self.layout.model.nv
        M = inertia.mass_matrix(m.tree, m.sweep, links)
        c = m.join(inverse.bias_forces(m.sweep, links, m.base))
        c = c - m.join(sums.passive_forces(m.sweep, m.joints, m.coordinates(self.q), m.velocities(self.v)))
        if layout.model.elements:
            c = c - element_forces(m, self.q, self.v)
        E = zeros(nv, self.n)
        self.A = self.gamma = None
        if layout.model.constraints:
            rows = RigidRows(m, links, self.q, self.v, self.known["t"], self.known["active"])
            weighed = (rows.soft.T * rows.stiffness).T
            M, c = M + rows.soft.T @ weighed, c + rows.soft.T @ (rows.stiffness * rows.soft_bias)
            self.rows, self.A, self.gamma = rows, rows.A, rows.right(rows.gamma)
            E[:, self.first + nv : self.first + nv + len(rows.A)] = -rows.A.T
        E[:, self.first : self.first + nv] = M / self.unit
        if layout.contacts:
            contacts = contact_set(layout.model)
            self.J = contacts.jacobian(m, self.q)
            self.on = [select(less(0, x), 1, 0) for x in self.known["touching"]]
            self.gain = zeros(self.first)
            for k, (on, mu) in enumerate(zip(self.on, contacts.friction, strict=True)):
                places = layout.force_places(k)
                self.gain[places] = on, on * mu, on * mu
                E[:, places] = -(self.J[3 * k : 3 * k + 3].T * self.gain[places])
        self.E, self.e = E, c / self.unit
        self.row_scale = vector(*[_equilibrium(E[i]) for i in layout.passive])

    def arrays(self) -> list[Any]:
        """In the order of the buffers that :func:`whole_body_program` names."""
        R, aim = self._rows()
        gain = self.gain if self.layout.contacts else zeros(TILE)
        return [R, aim, *self._limits(), *self._costs(), gain, self._yielding(), in_groups(self.row_scale)]

    def _rows(self) -> tuple[Array, Array]:
        """All rows of the program and their right-hand sides: hard ones, then those of tasks."""
        layout = self.layout
        R = [(self.E[layout.passive].T * self.row_scale).T]
        aim = [-self.e[layout.passive] * self.row_scale]
        if self.A is not None and self.gamma is not None and len(self.A):
            R.append(self._on_accelerations(self.A))
            aim.append(-self.gamma)
        if layout.contacts:
            contacts = contact_set(layout.model)
            on = vector(*[x for x in self.on for _ in range(3)])
            bias = contacts.bias(self.m, self.q, self.v)
            R.append(self._on_accelerations((self.J.T * on).T))
            aim.append(-on * (bias + layout.settings.contact_damping * (self.J @ self.v)))
        for number, task in enumerate(layout.tasks):
            if not layout.on_diagonal(task):
                J, wanted = self._task(number, task)
                R.append(self._on_accelerations(J))
                aim.append(wanted)
        return in_groups(np.concatenate([zeros(0, self.n), *R])), in_groups(np.concatenate([zeros(0), *aim]))

    def _on_accelerations(self, J: Array) -> Array:
        full = zeros(len(J), self.n)
        full[:, self.first : self.first + self.layout.model.nv] = J
        return full

    def _task(self, number: int, task: OperationalTask) -> tuple[Array, Array]:
        """J (r, nv) of a task, and J a as it asks for."""
        target = self.known.get(f"target_{number}", zeros(6))
        rows = rows_of(task, self.at, self.layout.settings.motors, target)
        w = self.known[f"acceleration_{number}"] + task.damping * (self.known[f"rate_{number}"] - rows.rate)
        return rows.J, w + task.stiffness * rows.missing - rows.bias

    def _costs(self) -> list[Array]:
        """Diagonal and linear costs without, and with, postures of the last level."""
        layout, found = self.layout, []
        for with_postures in (False, True):
            d, c = zeros(self.n), zeros(self.n)
            for k in range(self.first // 3):
                on = self.on[k] if k < layout.contacts else 0
                places = layout.force_places(k)
                d[places] = layout.settings.force_cost * on + (1 - on)
                c[places[0]] = 1 - on  # a contact that does not carry is pushed to the tip of its cone
            for number, task in enumerate(layout.tasks):
                if with_postures and layout.on_diagonal(task):
                    rows = layout.task_rows[number]
                    wanted = self._task(number, task)[1]
                    for i, w in zip(rows, wanted, strict=True):
                        d[self.first + i] = d[self.first + i] + task.weight
                        c[self.first + i] = c[self.first + i] - task.weight * w
            found += [d, c]
        return found

    def _limits(self) -> list[Any]:
        """U, offset, effort, bound, has: limits of combinations of unknowns, then those of accelerations."""
        layout = self.layout
        rows, offsets, has, costs = [], [], [], []
        for i, most in zip(layout.motors, layout.efforts, strict=True):
            scale = self.unit / most if np.isfinite(most) else 1
            rows.append(self.E[i] * scale)
            offsets.append(self.e[i] * scale)
            has.append((-1, 1, 1, 1) if np.isfinite(most) else (0, 0, 0, 0))
            costs.append(layout.settings.effort_cost / (scale * scale))
        if layout.settings.support:
            points = contact_set(layout.model).points(self.m, self.q).point
            for frame, length, width in layout.settings.support:
                for row in self._pressure(frame, points, (length, width)):
                    rows.append(row)
                    offsets.append(0)
                    has.append((0, 0, 1, 0))
                    costs.append(0)
        U = np.stack(rows) if rows else zeros(0, self.n)
        low, high, has_low, has_high = (vector(*[h[k] for h in has]) for k in range(4))
        stops, none = self._stops(), zeros(self.n - self.first)
        bound = [in_groups(low, stops[0]), in_groups(high, stops[1])]
        present = [in_groups(has_low, stops[2]), in_groups(has_high, stops[3])]
        return [in_groups(U), in_groups(vector(*offsets), none), in_groups(vector(*costs), none), bound, present]

    def _pressure(self, frame: str, points: Array, half: tuple[float, float]) -> list[Array]:
        """Σ (1 ± xᵢ / half) pₙ ≥ 0 along both axes of a foot."""
        X = kinematics.pose(self.m.tree, self.at.links, self.m.place(frame))
        found = []
        for axis, most in enumerate(half):
            for sign in (1, -1):
                row = zeros(self.n)
                for k in self.layout.feet[frame]:
                    along = (X.R.T @ (points[k] - X.p))[axis]
                    row[k] = self.on[k] * (1 + sign * along / most)
                found.append(row)
        return found

    def _stops(self) -> list[Array]:
        """Least and most accelerations, and 1 where there are such: velocities after the horizon are within limits."""
        layout, h = self.layout, self.layout.settings.horizon
        found = [zeros(self.n - self.first) for _ in range(4)]
        if not layout.settings.limits:
            return found
        model = layout.model
        for joint, kind, place, own in zip(
            model.joints, model.joint_types, model.q_slices, model.v_slices, strict=True
        ):
            if kind.nv != 1 or kind.nq != 1:
                continue
            fastest = joint.velocity_limit if joint.velocity_limit > 0 else np.inf
            i = own.start
            for side, stop, sign in ((0, joint.lower, -1), (1, joint.upper, 1)):
                if not np.isfinite(stop) and not np.isfinite(fastest):
                    continue
                speed = (stop - self.q[place.start]) / h if np.isfinite(stop) else sign * fastest
                if np.isfinite(stop) and np.isfinite(fastest):
                    speed = clip(speed, -fastest, fastest)
                found[side][i] = (speed - self.v[own.start]) / h
                found[side + 2][i] = 1
        return found

    def _yielding(self) -> Array:
        """Forces of rows that yield, as functions of the unknowns, (rows, n + 4): a constant is behind them."""
        if self.A is None:
            return zeros(1, self.n + TILE)
        rows, nv = self.rows, self.layout.model.nv
        found = zeros(max(rows.count, 1), self.n + TILE)
        for k, i in enumerate(rows.yielding):
            found[i, self.first : self.first + nv] = -rows.stiffness[k] * rows.soft[k]
            found[i, self.n] = -rows.stiffness[k] * rows.soft_bias[k]
        return found
