"""The contact problem of one time step, and its solution by sweeps over the contacts, on any scalar.

    u = G λ + g,      K ∋ λ ⟂ u + s(u) ∈ K*   for each contact

with the impulses λ (N s), the velocities u (m/s) after the step, the Delassus matrix G = J M† Jᵀ and the velocities g
that the contacts would have without impulses. Each *block* has three rows: normal, tangent 1 and tangent 2. A joint
limit is a block without friction whose tangents do not exist; the dry friction of a joint is one without a normal and
with a disc of fixed radius (:mod:`whippletree.contact.problem.cones`). Torsional and rolling friction are such discs,
too, of moments against angular velocities: their radius is ρ times the normal impulse of the contact that they belong
to. So there is one kind of block.

A sweep (projected Gauss–Seidel) solves one block after the other, the others held. The block's own problem is solved
in closed form where it sticks or is open; where it slides, λ_t(κ) = −(S + κ)⁻¹ b with the one unknown κ ≥ 0, the ratio
of sliding velocity to friction, for which |λ_t| = μ λₙ; each sweep improves κ by one Newton step, so that sweeps have a
fixed cost and compile to straight code. Nothing is regularised: a fixed point solves the problem as stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from whippletree.arithmetic import scalars
from whippletree.arithmetic.arrays import Array, zeros
from whippletree.arithmetic.scalars import is_zero, less, negated, select
from whippletree.contact.problem.cones import both, cone_violation, largest, length, natural_map, not_less
from whippletree.contact.problem.delassus import Matrix, is_sparse, part

IMMOBILE = 2.0**-40
"""Share of a block's mean diagonal (about 1e-12) below which a direction counts as one in which an impulse moves
nothing, such as the second tangent of a planar mechanism: it carries no impulse."""


class LoadedDiscs(NamedTuple):
    """Discs whose radius follows the normal impulse of another block: moments against spinning and rolling."""

    host: Array
    """Number of the block whose normal impulse counts; of blocks without one, their own, (k,)."""
    share: Array
    """ρ, the radius per normal impulse, m, (k,); 0 for blocks whose radius is their cap alone."""

    def part(self, numbers: Array) -> LoadedDiscs:
        """Moments of some blocks, hosts among them."""
        place = np.zeros(len(self.host), dtype=int)
        place[numbers] = np.arange(len(numbers))
        return LoadedDiscs(place[self.host[numbers]], self.share[numbers])

    def loads(self) -> Array:
        """ρ as a matrix (k, k), by block and host."""
        found = np.zeros((len(self.host), len(self.host)))
        found[np.arange(len(self.host)), self.host] = self.share
        return found


class ContactProblem(NamedTuple):
    """The problem of one step; k blocks."""

    G: Any
    """1/kg, (k, 3, k, 3); of plain numbers also a sparse array (3k, 3k), :mod:`whippletree.contact.problem.delassus`.
    """
    g: Array
    """m/s, (k, 3)."""
    friction: Array
    """μ, (k,)."""
    cap: Array
    """Largest impulse of dry friction, N s or N m s, (k,); 0 for contacts and limits."""
    moments: LoadedDiscs | None = None
    """Blocks whose disc is larger than the cap by what presses on it, if there are any."""

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.g)

    def velocity(self, impulse: Array) -> Array:
        """u = G λ + g, (k, 3)."""
        size = 3 * self.blocks
        return np.asarray(self.matrix @ impulse.reshape(size) + self.g.reshape(size)).reshape(self.blocks, 3)

    def radius(self, impulse: Array, block: int) -> Any:
        """Radius of one block's disc under impulses (k, 3), N s or N m s, beside what its own friction allows."""
        if self.moments is None or self.moments.host[block] == block:
            return self.cap[block]
        return self.cap[block] + self.moments.share[block] * largest([impulse[self.moments.host[block], 0], 0])

    def radii(self, impulse: Array) -> Array:
        """Radii of the discs of all blocks, (k,), for plain numbers."""
        if self.moments is None:
            return self.cap
        return np.asarray(self.cap + self.moments.share * np.maximum(impulse[self.moments.host, 0], 0.0))

    @staticmethod
    def of(matrix: Matrix, g: Array, friction: Array, cap: Array, moments: LoadedDiscs | None = None) -> ContactProblem:
        """The problem of a matrix (3k, 3k), dense or sparse."""
        k = len(g)
        return ContactProblem(matrix if is_sparse(matrix) else matrix.reshape(k, 3, k, 3), g, friction, cap, moments)

    def part(self, numbers: Array) -> ContactProblem:
        """The problem of some blocks, those with these numbers, on which no others act."""
        moments = None if self.moments is None else self.moments.part(numbers)
        own = self.g[numbers], self.friction[numbers], self.cap[numbers], moments
        return ContactProblem.of(part(self.matrix, numbers), *own)

    @property
    def matrix(self) -> Matrix:
        """G (3k, 3k)."""
        size = 3 * self.blocks
        return self.G.reshape(size, size) if self.G.ndim == 4 else self.G


class Measure(NamedTuple):
    """How well impulses solve a problem."""

    impulse: Any
    """Largest norm of the natural map of a block, N s."""
    velocity: Any
    """This error as a velocity, m/s."""
    cone: Any
    """Largest violation of a cone, N s."""


class Local(NamedTuple):
    """A block's knowledge of itself, worked out once per step: 9 numbers.

    The tangents are turned to the principal axes of S = G_tt − G_tn G_nt / G_nn.
    """

    normal: Any
    """1 / G_nn; 0 where no impulse moves the normal."""
    cosine: Any
    sine: Any
    coupling1: Any
    """G_nt / G_nn along the principal axes."""
    coupling2: Any
    stiffness1: Any
    """Principal values of S; 0 for an immobile direction."""
    stiffness2: Any
    inverse1: Any
    """Reciprocals of the principal values; 0 for an immobile direction."""
    inverse2: Any


def local(G: Array) -> Local:
    """A block's own part (3, 3) of the Delassus matrix, prepared."""
    scale = IMMOBILE * (G[0, 0] + G[1, 1] + G[2, 2]) / 3
    normal = _reciprocal(G[0, 0], scale)
    a = G[1, 1] - G[0, 1] * G[0, 1] * normal
    b = G[1, 2] - G[0, 1] * G[0, 2] * normal
    d = G[2, 2] - G[0, 2] * G[0, 2] * normal
    half = (a - d) / 2
    root = length(half, b)
    mean = (a + d) / 2
    # of the two ways to write the first principal axis, the one without cancellation
    x = select(less(half, 0), b, half + root)
    y = select(less(half, 0), root - half, b)
    size = length(x, y)
    turned = less(0, size)
    unit = 1 / select(turned, size, 1)
    cosine, sine = select(turned, x * unit, 1), select(turned, y * unit, 0)
    first, second = mean + root, mean - root
    inverse1, inverse2 = _reciprocal(first, scale), _reciprocal(second, scale)
    return Local(
        normal,
        cosine,
        sine,
        (cosine * G[0, 1] + sine * G[0, 2]) * normal,
        (cosine * G[0, 2] - sine * G[0, 1]) * normal,
        select(less(0, inverse1), first, 0),
        select(less(0, inverse2), second, 0),
        inverse1,
        inverse2,
    )


def _reciprocal(x: Any, scale: Any) -> Any:
    """1 / x, or 0 where x is within rounding of nothing."""
    some = less(scale, x)
    return select(some, 1 / select(some, x, 1), 0)


def respond(at: Local, free: Array, mu: Any, cap: Any, kappa: Any) -> tuple[Array, Any]:
    """The impulse (3,) of a block whose velocity without it would be ``free`` (3,), and the next κ.

    Opening: λ = 0. Sticking: λ = −G⁻¹ free, if it is in the cone. Sliding: along λ_t(κ), on the cone's boundary, with
    uₙ = 0 exactly; only the direction is as good as κ.
    """
    closing = less(free[0], 0)
    alone = select(closing, -free[0] * at.normal, 0)  # the normal impulse without friction
    b1, b2 = _tangential(at, free, alone)
    speed = IMMOBILE * IMMOBILE * (free[0] * free[0] + free[1] * free[1] + free[2] * free[2])
    w1, w2 = at.coupling1, at.coupling2
    p1, p2 = -b1 * at.inverse1, -b2 * at.inverse2
    height = alone - w1 * p1 - w2 * p2
    reach = mu * height + cap
    inside = both(not_less(reach, 0), not_less(reach * reach, p1 * p1 + p2 * p2))
    # what cannot be stopped slides for ever: a belt with a motor, seen from a clamped block
    stopped = both(_can_stop(at.inverse1, b1, speed), _can_stop(at.inverse2, b2, speed))
    sticks = both(both(inside, not_less(height, 0)), stopped)
    normal, s1, s2, better = _sliding(at, (b1, b2), alone, mu, cap, kappa)
    open_cone = both(negated(closing), not_less(0, cap))
    t1, t2 = select(sticks, p1, s1), select(sticks, p2, s2)
    impulse = [
        select(sticks, height, normal),
        at.cosine * t1 - at.sine * t2,
        at.sine * t1 + at.cosine * t2,
    ]
    return np.array([select(open_cone, 0, x) for x in impulse], dtype=object), select(sticks, 0, better)


def _tangential(at: Local, free: Array, alone: Any) -> tuple[Any, Any]:
    """b: the tangential velocity once the normal impulse has acted alone, along the principal axes."""
    x, y = free[1], free[2]
    stopping = select(less(0, alone), -free[0], 0)  # the change of the normal velocity
    b1 = at.cosine * x + at.sine * y + at.coupling1 * stopping
    b2 = at.cosine * y - at.sine * x + at.coupling2 * stopping
    return b1, b2


def _sliding(at: Local, b: tuple[Any, Any], alone: Any, mu: Any, cap: Any, kappa: Any) -> tuple[Any, Any, Any, Any]:
    """Normal and tangential impulse of a sliding block, and κ after one Newton step on R/r − 1 = 0.

    r = |λ_t(κ)|, R = μ λₙ(κ) + cap. R/r is nearly linear in κ, as in trust-region methods.
    """
    w1, w2 = at.coupling1, at.coupling2
    d1, d2 = _inverse(at.stiffness1 + kappa), _inverse(at.stiffness2 + kappa)
    s1, s2 = -b[0] * d1, -b[1] * d2
    y1, y2 = s1 * d1, s2 * d2
    square = s1 * s1 + s2 * s2
    r = scalars.sqrt(square)
    R = mu * (alone - w1 * s1 - w2 * s2) + cap
    slope = mu * (w1 * y1 + w2 * y2) * square + R * (s1 * y1 + s2 * y2)
    sound = both(less(0, slope), less(0, R))
    newton = kappa - (R - r) * square / select(sound, slope, 1)
    # without friction there is nothing to find; with some, a κ that is far too small is doubled until R > 0
    further = select(less(0, mu * alone + cap), 2 * kappa + at.stiffness1, 0)
    better = select(sound, largest([newton, 0]), further)
    some = less(0, r)
    unit = 1 / select(some, r, 1)
    e1, e2 = s1 * unit, s2 * unit
    along = w1 * e1 + w2 * e2
    # λₙ = alone − w · λ_t and |λ_t| = μ λₙ + cap, together
    pinched = 1 + mu * along
    held = less(0, pinched)
    normal = largest([(alone - cap * along) / select(held, pinched, 1), 0])
    normal = select(held, normal, alone)
    radius = select(held, mu * normal + cap, 0)
    return normal, radius * e1, radius * e2, better


def _inverse(x: Any) -> Any:
    """1 / x; 1 at 0, where a direction is immobile and κ has not been found yet."""
    return 1 / select(less(0, x), x, 1)


def _can_stop(inverse: Any, b: Any, speed: Any) -> Any:
    """Whether sticking is possible along a principal axis: it is mobile, or there is no velocity but for rounding."""
    if is_zero(b):
        return True  # a tangent that does not exist, as that of a joint limit
    return negated(both(not_less(0, inverse), less(speed, b * b)))


class BlockScaling(NamedTuple):
    """Knowledge of a block that :func:`step_block` needs, all of whose directions can be moved: 7 numbers."""

    normal: Any
    """1 / G_nn."""
    coupling1: Any
    """G_nt."""
    coupling2: Any
    inverse11: Any
    """G_tt⁻¹."""
    inverse12: Any
    inverse22: Any
    step: Any
    """One over the larger principal value of G_tt."""


def block_scaling(G: Array) -> BlockScaling:
    """A block's own part (3, 3) of the Delassus matrix, prepared for many steps."""
    a, b, d = G[1, 1], G[1, 2], G[2, 2]
    rate = 1 / (a * d - b * b)
    largest_ = (a + d) / 2 + length((a - d) / 2, b)
    return BlockScaling(1 / G[0, 0], G[0, 1], G[0, 2], d * rate, -b * rate, a * rate, 1 / largest_)


def step_block(at: BlockScaling, impulse: Array, velocity: Array, mu: Any) -> Array:
    """A better impulse (3,) of a block whose velocity is that after ``impulse``: the normal first, then friction.

    A third of what :func:`respond` costs, and exact where normal and tangents do not feel each other, as with balls.
    Elsewhere a sliding block takes several steps, along −u_t at the rate of its more mobile direction; that fixed point
    is Coulomb's law and no other: friction against the sliding velocity, not against what G makes of it.
    """
    normal = largest([impulse[0] - at.normal * velocity[0], 0])
    d = normal - impulse[0]
    u = velocity[1] + at.coupling1 * d, velocity[2] + at.coupling2 * d
    return np.array([normal, *_step_disc(at, impulse, u, mu * normal)], dtype=object)


def step_moments(at: BlockScaling, moment: Array, turning: Array, radii: Sequence[Any]) -> Array:
    """Better moments (3,) of a contact whose bodies turn against each other at ``turning`` (3,), about its axes.

    That about the normal is within ± the first radius, those about the tangents within a disc of the second; ``at``
    is that of the moments.
    """
    wanted, most = moment[0] - at.normal * turning[0], radii[0]
    spin = select(less(wanted, -most), -most, select(less(most, wanted), most, wanted))
    d = spin - moment[0]
    u = turning[1] + at.coupling1 * d, turning[2] + at.coupling2 * d
    return np.array([spin, *_step_disc(at, moment, u, radii[1])], dtype=object)


def _step_disc(at: BlockScaling, impulse: Array, u: tuple[Any, Any], reach: Any) -> tuple[Any, Any]:
    """The last two of three numbers of a block, better ones within a disc, at a velocity u along them."""
    held1 = impulse[1] - at.inverse11 * u[0] - at.inverse12 * u[1]
    held2 = impulse[2] - at.inverse12 * u[0] - at.inverse22 * u[1]
    sticks = not_less(reach * reach, held1 * held1 + held2 * held2)
    slid1, slid2 = impulse[1] - at.step * u[0], impulse[2] - at.step * u[1]
    # the root comes last, and a quotient of zeros counts as 1: nothing has to be compared before it is known
    ratio = scalars.quotient(reach * reach, slid1 * slid1 + slid2 * slid2)
    share = scalars.sqrt(select(less(ratio, 1), ratio, 1))
    return select(sticks, held1, share * slid1), select(sticks, held2, share * slid2)


def sweep_blocks(
    problem: ContactProblem, locals_: Sequence[Local], impulse: Array, kappa: Array
) -> tuple[Array, Array]:
    """Impulses (k, 3) and κ (k,) after one sweep over all blocks."""
    impulse, kappa = np.array(impulse, dtype=object), np.array(kappa, dtype=object)
    for i, at in enumerate(locals_):
        free = np.array(problem.g[i], dtype=object)
        for j in range(problem.blocks):
            if j != i:
                free = free + problem.G[i, :, j] @ impulse[j]
        impulse[i], kappa[i] = respond(at, free, problem.friction[i], problem.radius(impulse, i), kappa[i])
    return impulse, kappa


def block_mass(G: Array) -> tuple[Any, Any]:
    """The mass (kg) that makes a block's velocities comparable with its impulses, 3 / trace, and its reciprocal.

    Both are 1 where nothing moves the block.
    """
    trace = G[0, 0] + G[1, 1] + G[2, 2]
    mobility = select(less(0, trace), trace / 3, 1)
    return 1 / mobility, mobility


def measure_residual(problem: ContactProblem, impulse: Array) -> Measure:
    """The residual of impulses (k, 3) in a problem; zeros without contacts."""
    u = problem.velocity(impulse)
    parts = [
        block_measure(problem.G[i, :, i], impulse[i], u[i], problem.friction[i], problem.radius(impulse, i))
        for i in range(problem.blocks)
    ]
    if not parts:
        return Measure(0, 0, 0)
    impulses, velocities, cones = ([0, *column] for column in zip(*parts))
    return Measure(scalars.sqrt(largest(impulses)), scalars.sqrt(largest(velocities)), largest(cones))


def block_measure(G: Array, impulse: Array, velocity: Array, mu: Any, cap: Any) -> Measure:
    """The *squares* of the residual of one block as impulse and as velocity, and its violation of the cone."""
    return measure_by_mass(block_mass(G), impulse, velocity, mu, cap)


def measure_by_mass(masses: tuple[Any, Any], impulse: Array, velocity: Array, mu: Any, cap: Any) -> Measure:
    """The result of :func:`block_measure`, from that of :func:`block_mass`."""
    mass, mobility = masses
    r = natural_map(impulse, velocity, mu, cap, mass)
    square = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    return Measure(square, square * mobility * mobility, cone_violation(impulse, mu, cap))


def solve_by_sweeps(problem: ContactProblem, sweeps: int, start: Array | None = None) -> tuple[Array, Measure]:
    """Impulses (k, 3) after a number of sweeps from a start, and their residual: the reference, on any scalar."""
    impulse = zeros(problem.blocks, 3) if start is None else start
    kappa = zeros(problem.blocks)
    locals_ = [local(problem.G[i, :, i]) for i in range(problem.blocks)]
    for _ in range(sweeps):
        impulse, kappa = sweep_blocks(problem, locals_, impulse, kappa)
    return impulse, measure_residual(problem, impulse)
