"""``wt.embed``: a mechanism in minimal coordinates. Loops leave some velocities free; all others follow from them.

    v = X_S y + s                        y: the independent velocities, s: what prescribed motion adds
    v̇ = X_S ẏ + b                        b: the bias, A b + γ = 0
    X_Sᵀ M X_S ẏ + X_Sᵀ (M b + c) = X_Sᵀ τ

X_S is made cluster by cluster (:mod:`whippletree.constraints.clusters.loop_clusters`): the rows of a cluster, split
into columns of independent and of other velocities, A = [A_y A_x], give A_x v_x = −A_y y − gₜ. The independent ones are
chosen by pivoting where the user is, so that A_x is as far from singular as possible (velocities that are no rates of
coordinates, of balls and free bodies, come last), or by the user; near a dead point of that choice another one is taken
(:meth:`MinimalSystem.suited`). Of redundant rows those serve that are clear at the configuration. Forward dynamics
needs none of this: the recursion over clusters has no dead points but those of the mechanism itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.clusters.loop_clusters import cluster_tree
from whippletree.constraints.constraint_set import ConstraintSet, constraint_set
from whippletree.constraints.dynamics import bias_forces, closed
from whippletree.constraints.loop_closure import Closure, attainable, close_loops, held_part
from whippletree.constraints.redundancy import CLEAR_ROW, free_velocities, independent_rows, row_sines
from whippletree.errors import NameLookupError, ShapeError, SingularSystemError, UnsupportedError, quote
from whippletree.model import Model, require_model
from whippletree.model.input_checks import as_names, coordinates, floats, shape_hints
from whippletree.tree import inertia
from whippletree.tree.mechanism import Mechanism

DEAD = 1e-9
"""Sine of the angle to a dead point at which the independent velocities no longer determine the others, and share of
the largest singular value of the rows below which they depend on each other."""


NEAR_DEAD_POINT = 1e-2
"""Sine of the angle to a dead point below which other independent velocities are worth a change: the maps lose two
digits there."""


LATER = 0.2
"""Weight of velocities that are no rates of coordinates where independent ones are chosen: they are taken where others
would do five times worse."""


class VelocityMap(NamedTuple):
    """v = X y + s."""

    X: Array
    """X_S (nv, d)."""
    s: Array
    """Velocity that prescribed motion adds, (nv,)."""


class _Block(NamedTuple):
    """Velocities that some rows relate, and no others."""

    rows: list[int]
    """The rows that are factored: as many as are independent."""
    columns: list[int]
    spare: list[int]
    """Redundant rows, of which some serve where factored ones vanish."""

    def at(self, A: Array) -> _Block:
        """The block with rows that are clear where all rows are A (m, nv)."""
        sizes = np.linalg.svd(A[np.ix_(self.rows, self.columns)], compute_uv=False)
        if not self.spare or sizes.min(initial=1.0) > NEAR_DEAD_POINT * sizes.max(initial=0.0):
            return self
        every = [*self.rows, *self.spare]
        found = row_sines(A[np.ix_(every, self.columns)], range(len(every)), clear=CLEAR_ROW)
        chosen = [every[i] for i in found]
        return self._replace(rows=chosen) if len(chosen) == len(self.rows) else self


@dataclass(frozen=True, eq=False)
class MinimalSystem:
    """A model in minimal coordinates; made by :func:`embed`. States are plain numbers, one at a time."""

    model: Model
    independent: tuple[str, ...]
    """Names of the independent velocities: a joint's, or ``joint[i]`` where it has several."""
    numbers: tuple[int, ...] = field(repr=False)
    """Their numbers in v."""

    @cached_property
    def _system(self) -> ConstraintSet:
        return constraint_set(self.model)

    def velocity_map(self, q: Any, t: float = 0.0) -> VelocityMap:
        """X_S (nv, d) and s (nv,): v = X_S y + s holds exactly for the velocities that the constraints allow.

        Raises:
            SingularSystemError: at a dead point of the independent velocities; naming others.
        """
        nv = self.model.nv
        at = coordinates("velocity_map", "q", q, self.model)
        A, drift = self._rows(at, np.zeros(nv), t, "velocity")
        X, s = np.zeros((nv, len(self.numbers))), np.zeros(nv)
        X[list(self.numbers), range(len(self.numbers))] = 1
        for block, others, own in self._split(A):
            answer = self._solve_block(
                A, block, others, np.column_stack([A[np.ix_(block.rows, own)], drift[block.rows]])
            )
            X[np.ix_(others, [self.numbers.index(k) for k in own])] = -answer[:, :-1]
            s[others] = -answer[:, -1]
        return VelocityMap(X, s)

    def velocity(self, q: Any, y: Any, t: float = 0.0) -> Array:
        """v (nv,) of the independent velocities y (d,)."""
        X, s = self.velocity_map(q, t)
        return np.asarray(X @ self._check_values("y", y) + s)

    def rates(self, v: Any) -> Array:
        """y (d,) of velocities v (nv,)."""
        return self._velocities("rates", "v", v)[list(self.numbers)]

    def acceleration_bias(self, q: Any, v: Any, t: float = 0.0) -> Array:
        """b (nv,) with v̇ = X_S ẏ + b."""
        at = coordinates("acceleration_bias", "q", q, self.model)
        A, gamma = self._rows(at, self._velocities("acceleration_bias", "v", v), t, "bias")
        b = np.zeros(self.model.nv)
        for block, others, _ in self._split(A):
            b[others] = -self._solve_block(A, block, others, gamma[block.rows])
        return b

    def acceleration(self, q: Any, v: Any, y_rate: Any, t: float = 0.0) -> Array:
        """v̇ (nv,) of the independent accelerations ẏ (d,)."""
        return np.asarray(
            self.velocity_map(q, t).X @ self._check_values("y_rate", y_rate) + self.acceleration_bias(q, v, t)
        )

    def forces(self, q: Any, tau: Any, t: float = 0.0) -> Array:
        """X_Sᵀ τ (d,): the generalised forces of y. Many joint forces τ (nv,) have the same."""
        return np.asarray(self.velocity_map(q, t).X.T @ self._velocities("forces", "tau", tau))

    def mass_matrix(self, q: Any, t: float = 0.0) -> Array:
        """X_Sᵀ M X_S (d, d), M with the inertia C⁻¹ of compliant rows."""
        at = coordinates("mass_matrix", "q", q, self.model)
        X, m = self.velocity_map(q, t).X, Mechanism.of(self.model)
        M = inertia.mass_matrix(m.tree, m.sweep, m.still(at.astype(object))).astype(float)
        A_soft, stiffness, _ = self._compliant_rows(at, np.zeros(self.model.nv), t)
        return np.asarray(X.T @ (M + (A_soft.T * stiffness) @ A_soft) @ X)

    def mass_matrix_inverse(self, q: Any, t: float = 0.0) -> Array:
        """(X_Sᵀ M X_S)⁻¹ (d, d): the entries of M† = X_S (X_Sᵀ M X_S)⁻¹ X_Sᵀ at the independent velocities, for X_S is
        the identity there. No matrix of the whole is inverted, and no dead point of the choice matters.
        """
        m, state = Mechanism.of(self.model), coordinates("mass_matrix_inverse", "q", q, self.model).astype(object)
        unit = np.eye(self.model.nv, dtype=int).astype(object)[:, list(self.numbers)]
        if not self.model.constraints:
            return inertia.mass_matrix_inverse(m.tree, m.sweep, m.still(state)).astype(float)
        at = closed(m, m.still(state), state, None, t, None)
        nothing = np.zeros((len(at.kept), len(self.numbers)), dtype=int).astype(object)
        return np.asarray(at.factor.solve(unit, nothing).a[list(self.numbers)].astype(float))

    def bias(self, q: Any, v: Any, t: float = 0.0) -> Array:
        """X_Sᵀ (M b + c) (d,): the generalised forces of y that keep ẏ = 0, those of compliant rows included."""
        m = Mechanism.of(self.model)
        at, speeds = coordinates("bias", "q", q, self.model), self._velocities("bias", "v", v)
        links = m.moving(at.astype(object), speeds.astype(object))
        M = inertia.mass_matrix(m.tree, m.sweep, links).astype(float)
        c = bias_forces(m, links).astype(float)
        b = self.acceleration_bias(q, v, t)
        A_soft, stiffness, gamma = self._compliant_rows(at, speeds, t)
        return np.asarray(self.velocity_map(q, t).X.T @ (M @ b + c + A_soft.T @ (stiffness * (A_soft @ b + gamma))))

    def reduce(self, q: Any) -> dict[str, Array]:
        """The independent coordinates by name, out of q (nq,): all of a joint's, or ``joint[i]`` where some depend."""
        at = coordinates("reduce", "q", q, self.model)
        places = {name: held_part(self.model, name) for name in self._coordinates("reduce")}
        return {name: at[place] for name, (place, _) in places.items()}

    def expand(self, values: Mapping[str, Any], guess: Any = None, t: float = 0.0) -> Array:
        """q (nq,) with the independent coordinates at these values, on the branch of a guess (default: home).

        Raises:
            AssemblyError: if the loops cannot close there.
        """
        if not isinstance(values, Mapping):
            raise TypeError(f"expand: expected values by name, as reduce(q) gives them, got {quote(values)}")
        known = self._coordinates("expand")
        for name in values:
            if name not in known:
                raise NameLookupError("independent coordinate", str(name), known)
        if missing := [name for name in known if name not in values]:
            raise ShapeError(f"expand: no value is given for {', '.join(missing)}: name all independent coordinates")
        start = self.model.home.q if guess is None else guess
        closure = Closure(Mechanism.of(self.model), self._system.demands, t)
        return close_loops(closure, np.asarray(start, dtype=float), dict(values), attainable(self.model))

    def rechosen(self, q: Any, t: float = 0.0) -> MinimalSystem:
        """This system with the independent velocities that suit a configuration best."""
        return embed(self.model, q=q, t=t)

    def sine(self, q: Any, t: float = 0.0) -> float:
        """How far the choice is from a dead point at q, the least of all loops: |y| ≥ sine · |v| for the velocities of
        a loop, whatever its motion.

        Digits of the maps are lost as it falls: their condition number is its inverse. 1 where nothing is tied.
        """
        at = coordinates("sine", "q", q, self.model)
        A, _ = self._rows(at, np.zeros(self.model.nv), t, "velocity")
        return min([1.0, *[_sine_of_choice(A, block, others) for block, others, _ in self._split(A)]])

    def suited(self, q: Any, t: float = 0.0, *, least: float = NEAR_DEAD_POINT) -> MinimalSystem:
        """This system, or, nearer to a dead point of its choice than ``least``, the one that suits q best.

        Call it along a motion: the choice changes where it must and nowhere else, and v = X_S y + s joins the two.
        """
        if self.sine(q, t) >= least:
            return self
        other = self.rechosen(q, t)
        return other if other.sine(q, t) > self.sine(q, t) else self

    def _coordinates(self, function: str) -> list[str]:
        """The names of the coordinates whose rates are independent.

        Raises:
            UnsupportedError: a joint with a quaternion has independent velocities and others.
        """
        names: list[str] = []
        for joint, kind, part in zip(self.model.joints, self.model.joint_types, self.model.v_slices, strict=True):
            own = [k - part.start for k in range(part.start, part.stop) if k in self.numbers]
            if not own:
                continue
            if len(own) == kind.nv:
                names.append(joint.name)
            elif kind.nq == kind.nv:
                names += [f"{joint.name}[{i}]" for i in own]
            else:
                raise UnsupportedError(
                    f"{function}: only some velocities of joint {joint.name!r} are independent, and they are no rates "
                    f"of its coordinates, a quaternion: choose others with wt.embed(model, independent=...), or work "
                    f"with velocities"
                )
        return names

    def _split(self, A: Array) -> list[tuple[_Block, list[int], list[int]]]:
        """Every block where its rows are A, with its dependent and its independent velocities."""
        free = set(self.numbers)
        found = []
        for block in _blocks(self._system):
            others = [k for k in block.columns if k not in free]
            found.append((block.at(A), others, [k for k in block.columns if k in free]))
        return found

    def _solve_block(self, A: Array, block: _Block, others: list[int], right: Array) -> Array:
        """A_x⁻¹ of right-hand sides."""
        if not _sine_of_choice(A, block, others) > DEAD:
            names = ", ".join(self.independent[self.numbers.index(k)] for k in block.columns if k in self.numbers)
            raise SingularSystemError(
                f"model {self.model.name!r}: the independent velocities {names or '(none)'} do not determine the other "
                f"velocities of their loops at this configuration (a dead point of that choice, or of the mechanism). "
                f"minimal.suited(q), or rechosen(q), takes others; forward_dynamics needs none."
            )
        return np.asarray(np.linalg.solve(A[np.ix_(block.rows, others)], right)) if len(others) else right[:0]

    def _rows(self, q: Array, v: Array, t: float, what: str) -> tuple[Array, Array]:
        """A (m, nv), and the rows' velocity or bias (m,), as floats."""
        m, state, rates = Mechanism.of(self.model), q.astype(object), v.astype(object)
        links = m.moving(state, rates)
        rows = self._system.rows(m, links, state, rates, t)
        return self._system.matrix(m, links, state, t), getattr(rows, what)().astype(float)

    def _compliant_rows(self, q: Array, v: Array, t: float) -> tuple[Array, Array, Array]:
        """A (s, nv), C⁻¹ and γ (s,) of compliant rows: with f = −C⁻¹ (A a + γ) they act as inertia and as forces."""
        soft = [i for i, c in enumerate(self._system.compliance) if c]
        if not soft:
            return np.zeros((0, self.model.nv)), np.zeros(0), np.zeros(0)
        A, gamma = self._rows(q, v, t, "bias")
        return A[soft], 1 / np.array([float(self._system.compliance[i]) for i in soft]), gamma[soft]

    def _velocities(self, function: str, word: str, values: Any) -> Array:
        """Velocities, or forces that go with them, (nv,) as floats."""
        array = floats(function, word, values)
        if array.shape != (self.model.nv,):
            hint = shape_hints(self.model).get(word, "")
            found = f"{function}: {word} has shape {array.shape}, expected ({self.model.nv},)"
            raise ShapeError(f"{found}. {hint}" if hint else found)
        return array

    def _check_values(self, name: str, values: Any) -> Array:
        array = floats("embed", name, values)
        if array.shape != (len(self.numbers),):
            raise ShapeError(
                f"{name} has shape {array.shape}, expected ({len(self.numbers)},): one number for each of "
                f"{', '.join(self.independent)}"
            )
        return array


def embed(model: Model, *, independent: Sequence[str] | None = None, q: Any = None, t: float = 0.0) -> MinimalSystem:
    """A model in minimal coordinates: the velocities that its constraints leave free, and how all others follow.

    Args:
        model: with or without constraints; without, all velocities are independent.
        independent: names of the independent velocities, such as motors; default: chosen by pivoting at q.
        q: configuration (nq,) at which they are chosen; default: home.
        t: time, for constraints that depend on it.

    Returns:
        The system: ``.independent``, and maps both ways.

    Raises:
        NameLookupError: there is no such velocity.
        ShapeError: too many or too few independent velocities in some loop, or one of them twice.
        UnsupportedError: constraints that are switched change the number of freedoms.
    """
    require_model(model, "embed")
    system = constraint_set(model)
    if system.switches:
        raise UnsupportedError(
            f"embed: the number of freedoms changes when {', '.join(map(repr, system.switches))} are switched: switch "
            f"them in the model"
        )
    names = velocity_names(model)
    m = Mechanism.of(model)
    state = coordinates("embed", "q", model.home.q if q is None else q, model).astype(object)
    A = system.matrix(m, m.still(state), state, t)
    blocks = _blocks(system)
    tied = {k for block in blocks for k in block.columns}
    chosen = [k for k in range(model.nv) if k not in tied]
    if independent is None:
        unlike = _not_rates(model)
        for block in blocks:
            chosen += [block.columns[i] for i in _free_columns(A, block.at(A), unlike)]
    else:
        given = [_velocity_number(names, name) for name in as_names(independent)]
        if repeated := [names[k] for k in dict.fromkeys(given) if given.count(k) > 1]:
            raise ShapeError(f"embed: {', '.join(repeated)} named more than once: each can be independent once")
        _check_counts(model, names, blocks, given, chosen)
        chosen = given
    numbers = tuple(sorted(chosen)) if independent is None else tuple(chosen)
    return MinimalSystem(model, tuple(names[k] for k in numbers), numbers)


def velocity_names(model: Model) -> list[str]:
    """Name of every velocity: its joint's, or ``joint[i]`` where it has several."""
    names = []
    for joint, part in zip(model.joints, model.v_slices, strict=True):
        count = part.stop - part.start
        names += [joint.name] if count == 1 else [f"{joint.name}[{i}]" for i in range(count)]
    return names


def _blocks(system: ConstraintSet) -> list[_Block]:
    """The rigid factored rows with the velocities that they relate: of each cluster, or of the whole."""
    rigid = [i for i in system.structure.independent if not system.compliance[i]]
    clusters = cluster_tree(system)
    spare = system.structure.redundant
    if clusters is None:
        return [_Block(rigid, list(range(system.model.nv)), list(spare))]
    tree = Mechanism.of(system.model).tree
    kept, left_out = set(rigid), set(spare)
    return [
        _Block(
            rows,
            [k for node in c.members for k in range(tree.v_slices[node].start, tree.v_slices[node].stop)],
            [i for i in c.rows if i in left_out],
        )
        for c in clusters.looped
        if (rows := [i for i in c.rows if i in kept])
    ]


def _free_columns(A: Array, block: _Block, last: set[int]) -> list[int]:
    """Positions of the velocities of a block that determine the others as gently as possible; some come last."""
    own = A[np.ix_(block.rows, block.columns)]
    ranks = [LATER if k in last else 1.0 for k in block.columns]
    return free_velocities(own[independent_rows(own, range(len(own)))], len(block.columns), ranks)


def _not_rates(model: Model) -> set[int]:
    """Numbers of the velocities that are no rates of coordinates: those of joints with a quaternion."""
    joints = zip(model.joint_types, model.v_slices, strict=True)
    return {k for kind, part in joints if kind.nq != kind.nv for k in range(part.start, part.stop)}


def _velocity_number(names: list[str], name: str) -> int:
    if name not in names:
        raise NameLookupError("velocity", name, names)
    return names.index(name)


def _check_counts(model: Model, names: list[str], blocks: list[_Block], given: list[int], loose: list[int]) -> None:
    """One independent velocity for each freedom of every loop, and each velocity that no loop ties."""
    if missing := [names[k] for k in loose if k not in given]:
        raise ShapeError(f"embed: nothing ties {', '.join(missing)}: they are independent in any case, name them too")
    for block in blocks:
        freedoms, own = len(block.columns) - len(block.rows), [k for k in block.columns if k in given]
        if len(own) != freedoms:
            joints = ", ".join(names[k] for k in block.columns)
            raise ShapeError(
                f"embed: the loops of {joints} in model {model.name!r} leave {freedoms} velocities free, and "
                f"{len(own)} are named ({', '.join(names[k] for k in own) or 'none'}): name {freedoms} of them"
            )


def _sine_of_choice(A: Array, block: _Block, others: list[int]) -> float:
    """How well the rows of a block determine these of its velocities from the rest: the least singular value of their
    columns in an orthonormal basis of the rows. 0 where they cannot, or where the rows depend on each other.

    The motions N that the rows allow and that basis make an orthogonal matrix, so this is the least singular value of N
    at the independent velocities, too.
    """
    if len(others) != len(block.rows):
        return 0.0
    if not others:
        return 1.0
    _, sizes, basis = np.linalg.svd(A[np.ix_(block.rows, block.columns)], full_matrices=False)
    if not sizes[-1] > DEAD * sizes[0]:
        return 0.0
    return float(np.linalg.svd(basis[:, [block.columns.index(k) for k in others]], compute_uv=False)[-1])
