"""Numbers that methods of the interior calculate with, of contacts in space and of contacts in a plane.

A method of the interior has one idea of x and w inside their cones, whatever these are; here is the rest. In space they
are Lorentz cones, (3,) in the axes of the contact (:mod:`whippletree.contact.problem.lorentz`). In a plane a cone has
two edges, and along these it is two half lines: a contact of the scaled impulse (λₙ, λ_t) has

    x = (λₙ + λ_t, λₙ − λ_t)        w = (uₙ + |u_t| + u_t, uₙ + |u_t| − u_t)        x, w ≥ 0

and x ∘ w = ν 1 says that both products are ν, as in the Lorentz cone of (λₙ, λ_t, 0), whose central path this is. A
contact without friction has λ_t = 0 and both numbers alike. All matrices of a block are diagonal but for the slip's
derivative, so that a step is the one in space for a third of its operations.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from whippletree.arithmetic.arrays import Array, vector
from whippletree.arithmetic.scalars import less, select, sqrt
from whippletree.contact.problem.cones import both, largest, length
from whippletree.contact.problem.lorentz import CentralPair, Scaling, exit_rate, product, quotient
from whippletree.spatial import cross


class SpaceCone:
    """Lorentz's cone, of a contact with two tangents. Numbers are those along its axes."""

    count = 3
    keeps: tuple[tuple[int, ...], ...] = ((3, 3), (3, 3))
    """Shapes of what :meth:`linearise` finds for the rest of a step: Nesterov and Todd's W and its inverse."""
    pair = CentralPair
    """Points of the central path."""

    @staticmethod
    def one() -> Array:
        """The unit of x ∘ w."""
        return vector(1, 0, 0)

    @staticmethod
    def of_axes(u: Array) -> Array:
        """Numbers of an impulse, of a velocity without slip or, row by row, of what is multiplied by motions."""
        return u

    @staticmethod
    def to_axes(x: Array) -> Array:
        """The impulse (3,) along the axes."""
        return x

    @staticmethod
    def thrown(B: Array) -> Array:
        """Rows along which x pushes, from those of the axes."""
        return B

    @staticmethod
    def inner(x: Array, w: Array) -> Any:
        """x · w along the axes."""
        return x @ w

    @staticmethod
    def add_slip(r: Array, w: Array, rubs: Any) -> Array:
        """r with the |w_t| of a contact that rubs."""
        return vector(r[0] + select(rubs, length(w[1], w[2]), 0), r[1], r[2])

    @staticmethod
    def slip_slope(w: Array, rubs: Any) -> Array:
        """1 + S, S being the derivative of |w_t|; 1 where that has none, or the contact does not rub."""
        side = length(w[1], w[2])
        slides = both(rubs, less(0, side))
        e1, e2 = (select(slides, x / select(slides, side, 1), 0) for x in w[1:])
        return np.array([[1, e1, e2], [0, 1, 0], [0, 0, 1]], dtype=object)

    @staticmethod
    def linearise(x: Array, w: Array) -> tuple[list[Array], Array, Array]:
        """What is kept, W² of dw = aimed − W² dx, and the ``aimed`` that leads to x ∘ w = 0."""
        W, back, square = Scaling.of(x, w)
        level = W @ x
        return [W, back], square, W @ quotient(-product(level, level), level)

    @staticmethod
    def aim(kept: list[Array], x: Array, w: Array, dx: Array, dw: Array, gap: Any, bent: Any) -> Array:
        """``aimed`` that leads to x ∘ w = gap 1, with a share of the predictor's second-order term."""
        W, back = kept
        level = W @ x
        target = vector(gap, 0, 0) - product(level, level) - bent * product(back @ dw, W @ dx)
        return np.asarray(W @ quotient(target, level))

    @staticmethod
    def follow(kept: list[Array], dx: Array) -> Array:
        """W² dx."""
        W = kept[0]
        return np.asarray(W @ (W @ dx))

    @staticmethod
    def rates(kept: list[Array], x: Array, w: Array, dx: Array, dw: Array) -> list[Any]:
        """1 over the largest shares of a step that stay inside the cone, of x and of w."""
        return [exit_rate(x, dx), exit_rate(w, dw)]

    @staticmethod
    def size(change: Array) -> Any:
        """The larger of the two numbers that a change (3,) in the algebra of a cone has, in size."""
        return abs(change[0]) + length(change[1], change[2])

    @staticmethod
    def determinant(inverse: Array) -> Any:
        """A number with the sign of the determinant of a matrix of a block."""
        a, b, c = inverse
        return a @ cross(b, c)


class PlanePair(NamedTuple):
    """Points of the central path of a contact in a plane: see :class:`CentralPair`."""

    x: Array
    """(2,)"""
    w: Array
    """(2,)"""
    total: Array
    """x + w, (2,)."""
    root: Any
    """√ν"""

    @staticmethod
    def of(z: Array, gap: Any) -> PlanePair:
        """The pair of z (2,) and ν ≥ 0."""
        total = vector(*[sqrt(t * t + 4 * gap) for t in z])
        more = [(abs(t) + size) / 2 for t, size in zip(z, total, strict=True)]
        rest = [gap / select(less(0, a), a, 1) for a in more]
        x, w = ([select(less(0, s * t), a, b) for t, a, b in zip(z, more, rest, strict=True)] for s in (1, -1))
        return PlanePair(vector(*x), vector(*w), total, sqrt(gap))

    def yielded(self, dx: Array) -> Array:
        """−dw (2,) of a change dx of x at the same ν."""
        return np.asarray(self.w / self.x * dx)

    def relative(self, dz: Array) -> Array:
        """A change dz of z as a share of x + w."""
        return np.asarray(dz * (1 / self.total))

    def bending(self, dz: Array) -> Array:
        """How far a change dz of z is from one that x and w follow along straight lines, as a share of x + w."""
        share = 1 / self.total
        grows = [less(0, (x - w) * d) for x, w, d in zip(self.x, self.w, dz, strict=True)]
        return vector(*[select(g, 2 * self.root * s, 1) * (s * d) for g, s, d in zip(grows, share, dz, strict=True)])


class PlaneCone:
    """Two half lines, of a contact in a plane; its third axis is across that and has nothing."""

    count = 2
    keeps: tuple[tuple[int, ...], ...] = ((2,), (2,))
    """Shapes of what :meth:`linearise` finds for the rest of a step: w / x and 1 / x."""
    pair = PlanePair
    """Points of the central path."""

    @staticmethod
    def one() -> Array:
        """The unit of x ∘ w."""
        return vector(1, 1)

    @staticmethod
    def of_axes(u: Array) -> Array:
        """See :meth:`SpaceCone.of_axes`."""
        return np.array([u[0] + u[1], u[0] - u[1]], dtype=object)

    @staticmethod
    def to_axes(x: Array) -> Array:
        """The impulse (3,) along the axes."""
        return vector((x[0] + x[1]) / 2, (x[0] - x[1]) / 2, 0)

    @staticmethod
    def thrown(B: Array) -> Array:
        """Rows along which x pushes, from those of the axes."""
        return PlaneCone.of_axes(B) / 2

    @staticmethod
    def inner(x: Array, w: Array) -> Any:
        """x · w along the axes."""
        return (x @ w) / 2

    @staticmethod
    def add_slip(r: Array, w: Array, rubs: Any) -> Array:
        """r with the |w_t| of a contact that rubs."""
        side = select(rubs, abs(w[0] - w[1]) / 2, 0)
        return vector(r[0] + side, r[1] + side)

    @staticmethod
    def slip_slope(w: Array, rubs: Any) -> Array:
        """See :meth:`SpaceCone.slip_slope`."""
        up, down = both(rubs, less(w[1], w[0])), both(rubs, less(w[0], w[1]))
        e = select(up, 1, select(down, -1, 0)) / 2
        return np.array([[1 + e, -e], [e, 1 - e]], dtype=object)

    @staticmethod
    def linearise(x: Array, w: Array) -> tuple[list[Array], Array, Array]:
        """See :meth:`SpaceCone.linearise`."""
        inverse = 1 / x
        ratio = w * inverse
        return [ratio, inverse], np.diag(ratio), -w

    @staticmethod
    def aim(kept: list[Array], x: Array, w: Array, dx: Array, dw: Array, gap: Any, bent: Any) -> Array:
        """See :meth:`SpaceCone.aim`."""
        return np.asarray((gap - bent * dw * dx) * kept[1] - w)

    @staticmethod
    def follow(kept: list[Array], dx: Array) -> Array:
        """See :meth:`SpaceCone.follow`."""
        return np.asarray(kept[0] * dx)

    @staticmethod
    def rates(kept: list[Array], x: Array, w: Array, dx: Array, dw: Array) -> list[Any]:
        """See :meth:`SpaceCone.rates`."""
        return [*(-dx * kept[1]), *(-dw / w)]

    @staticmethod
    def size(change: Array) -> Any:
        """The larger of the two numbers of a change (2,), in size."""
        return largest([abs(change[0]), abs(change[1])])

    @staticmethod
    def determinant(inverse: Array) -> Any:
        """A number with the sign of the determinant of a matrix of a block."""
        return inverse[0, 0] * inverse[1, 1] - inverse[0, 1] * inverse[1, 0]


Cone: TypeAlias = SpaceCone | PlaneCone
