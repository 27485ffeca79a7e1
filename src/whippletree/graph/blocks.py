"""Matrices cut into named rectangular blocks, over any scalar, and lazy products and sums of them.

A block vector is a plain array whose leading axis is cut by a :class:`~whippletree.graph.blocks.Partition`: (N,), or
(N, k) for k vectors at once. So vectors add and scale as NumPy does it, and ``operator @ vector`` gives a vector.
Operators come in two kinds:

* a :class:`BlockOperator` stores the blocks that can differ from zero; sums and products of these are computed at once;
* what contains a resolvent (:class:`~whippletree.graph.bwa.Resolvent`) stays a formula. ``H @ phi @ M @ phi.T @ H.T``
  costs nothing until it meets a vector, and then runs from right to left in linear time; no dense φ exists unless
  ``explicit()``, which gives the blocks, or ``dense()`` asks for it.

Only ``@``, ``+`` and ``-`` touch the scalars, and every literal is an integer: Fractions stay Fractions. Integer blocks
are NumPy integers, which wrap at 64 bits; give ``dtype=object`` for integers of any size.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import index
from typing import Any, NoReturn, TypeAlias, overload

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.errors import GraphError, ShapeError
from whippletree.graph.digraph import Node, check_permutation, quote_names

# --- an axis cut into named blocks ------------------------------------------------------------------------------------


@dataclass(frozen=True, init=False)
class Partition:
    """An axis of length N cut into named blocks that follow each other; sizes may be 0.

    Args:
        sizes: block name -> number of entries, in order.
    """

    names: tuple[Node, ...]
    sizes: tuple[int, ...]

    def __init__(self, sizes: Mapping[Any, int]) -> None:
        vars(self).update(names=tuple(sizes), sizes=tuple(map(index, sizes.values())))
        if negative := [name for name, m in zip(self.names, self.sizes) if m < 0]:
            raise ShapeError(f"Partition: blocks of negative size: {quote_names(negative)}. A size counts entries.")

    @cached_property
    def slices(self) -> Mapping[Node, slice]:
        """Block name -> its place on the axis."""
        ends = np.cumsum(self.sizes, dtype=int).tolist()
        return {name: slice(end - m, end) for name, m, end in zip(self.names, self.sizes, ends)}

    @cached_property
    def _size(self) -> dict[Node, int]:
        return dict(zip(self.names, self.sizes))

    @cached_property
    def total(self) -> int:
        """N, the length of the axis."""
        return sum(self.sizes)

    def size(self, name: Node) -> int:
        """m_k, the number of entries of one block."""
        try:
            return self._size[name]
        except KeyError:
            known = quote_names(self.names) or "none"
            raise GraphError(f"Partition: there is no block {name!r}; known: {known}.") from None

    def split(self, x: Array) -> dict[Node, Array]:
        """The blocks of a vector (N,) or (N, k), as views into it."""
        x = self.check_vector(x, "split")
        return {name: x[place] for name, place in self.slices.items()}

    def join(self, parts: Mapping[Any, Array]) -> Array:
        """The vector (N,) or (N, k) made of one block per name."""
        found = {name: np.asarray(part) for name, part in parts.items()}
        if wrong := [n for n in dict.fromkeys((*self.names, *found)) if n not in found or n not in self.slices]:
            raise GraphError(
                f"Partition.join: each block must be given once; missing or unknown: {quote_names(wrong)}."
            )
        for name, part in found.items():
            if part.shape[:1] != (self.size(name),):
                raise ShapeError(
                    f"Partition.join: block {name!r} has shape {part.shape}, expected ({self.size(name)},) or "
                    f"({self.size(name)}, k)."
                )
        return np.concatenate([found[name] for name in self.names]) if self.names else np.zeros(0, dtype=int)

    def check_vector(self, x: Any, where: str) -> Array:
        """The argument as an array (N,) or (N, k); anything else is a ShapeError."""
        vector: Array = np.asarray(x)
        if vector.ndim not in (1, 2) or vector.shape[0] != self.total:
            raise ShapeError(
                f"{where}: the vector has shape {vector.shape}, expected ({self.total},) or ({self.total}, k): "
                f"{len(self.names)} blocks of sizes {quote_names(self.sizes) or 'none'}."
            )
        return vector

    def permuted(self, order: Iterable[Node]) -> Partition:
        """These blocks in another order."""
        return Partition({name: self.size(name) for name in check_permutation(self.names, order)})


# --- operators between such axes --------------------------------------------------------------------------------------


Blocks: TypeAlias = Mapping[tuple[Node, Node], Array]


class Operator(ABC):
    """A linear map between partitioned vectors: what has rows, columns, a transpose and an action. Immutable.

    ``A @ x`` acts on an array (N,) or (N, k); ``A @ B``, ``A + B``, ``A - B``, ``-A`` are operators; ``A.T`` is the
    transpose (the star of 002; no conjugate).
    """

    rows: Partition
    cols: Partition

    # NumPy must leave ``array @ operator`` to __rmatmul__ instead of making an array of the operator
    __array_ufunc__ = None

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds every stored scalar."""

    @property
    @abstractmethod
    def T(self) -> Operator:
        """The transpose."""

    @abstractmethod
    def _apply(self, x: Array) -> Array:
        """The action on a checked array."""

    @abstractmethod
    def _times(self, other: BlockOperator) -> BlockOperator:
        """The product with an explicit operator, as an explicit operator."""

    def explicit(self) -> BlockOperator:
        """This operator with its blocks computed and stored where they can differ from zero."""
        return self._times(identity(self.cols, dtype=self.dtype))

    def block(self, row: Node, col: Node) -> Array:
        """One block, of shape (m_row, m_col), without computing the other columns."""
        self.rows.size(row)
        column = Partition({col: self.cols.size(col)})
        unit = {(col, col): np.eye(self.cols.size(col), dtype=self.dtype)}
        return self._times(BlockOperator._from_trusted(self.cols, column, unit)).block(row, col)

    def dense(self) -> Array:
        """The whole matrix, of shape (rows.total, cols.total)."""
        return self.explicit().dense()

    @overload
    def __matmul__(self, other: Operator) -> Operator: ...
    @overload
    def __matmul__(self, other: Array) -> Array: ...
    def __matmul__(self, other: Operator | Array) -> Operator | Array:
        if isinstance(other, Operator):
            _check_factors(self, other)
            return Product((*_factors(self), *_factors(other)))
        return self._apply(self.cols.check_vector(other, f"{type(self).__name__} @ vector"))

    def __rmatmul__(self, other: Array) -> Array:
        return (self.T @ np.asarray(other).T).T

    def __add__(self, other: Operator) -> Operator:
        _check_terms(self, other)
        return Sum((self, other), ())

    def __sub__(self, other: Operator) -> Operator:
        _check_terms(self, other)
        return Sum((self,), (other,))

    def __neg__(self) -> Operator:
        return Sum((), (self,))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} is immutable: build a new operator instead of setting {name!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {len(self.rows.names)} × {len(self.cols.names)} blocks, {self._extent()}>"

    def _extent(self) -> str:
        return f"shape ({self.rows.total}, {self.cols.total})"


class BlockOperator(Operator):
    """An operator that stores its blocks; a block that is not stored is zero.

    Args:
        rows: the partition of the rows.
        cols: the partition of the columns.
        blocks: (row name, column name) -> array of shape (m_row, m_col).
    """

    blocks: Blocks

    def __init__(self, rows: Partition, cols: Partition, blocks: Mapping[Any, Any]) -> None:
        checked = {(i, j): _checked_block(rows, cols, i, j, block) for (i, j), block in blocks.items()}
        vars(self).update(rows=rows, cols=cols, blocks=checked)

    @staticmethod
    def _from_trusted(rows: Partition, cols: Partition, blocks: Blocks) -> BlockOperator:
        """Without checks or copies, for blocks that were computed here."""
        for block in blocks.values():
            block.flags.writeable = False
        made = BlockOperator.__new__(BlockOperator)
        vars(made).update(rows=rows, cols=cols, blocks=blocks)
        return made

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds every stored scalar."""
        kinds = {block.dtype for block in self.blocks.values()}
        return np.result_type(*kinds) if kinds else np.dtype(int)

    @property
    def T(self) -> BlockOperator:
        """The transpose."""
        return BlockOperator._from_trusted(self.cols, self.rows, {(j, i): w.T for (i, j), w in self.blocks.items()})

    @cached_property
    def by_row(self) -> Mapping[Node, Mapping[Node, Array]]:
        """Row name -> column name -> block, for every row."""
        rows: dict[Node, dict[Node, Array]] = {name: {} for name in self.rows.names}
        for (i, j), w in self.blocks.items():
            rows[i][j] = w
        return rows

    def explicit(self) -> BlockOperator:
        """This operator: its blocks are stored already."""
        return self

    def block(self, row: Node, col: Node) -> Array:
        """One block, of shape (m_row, m_col): as stored, or zero."""
        shape = self.rows.size(row), self.cols.size(col)
        stored = self.blocks.get((row, col))
        return np.zeros(shape, dtype=self.dtype) if stored is None else stored

    def diagonal(self) -> dict[Node, Array]:
        """The blocks whose row and column have the same name."""
        return {name: self.block(name, name) for name in self.rows.names if name in self.cols.slices}

    def dense(self) -> Array:
        """The whole matrix, of shape (rows.total, cols.total)."""
        whole = np.zeros((self.rows.total, self.cols.total), dtype=self.dtype)
        for (i, j), w in self.blocks.items():
            whole[self.rows.slices[i], self.cols.slices[j]] = w
        return whole

    def _apply(self, x: Array) -> Array:
        y = np.zeros((self.rows.total, *x.shape[1:]), dtype=np.result_type(self.dtype, x.dtype))
        rows, cols = self.rows.slices, self.cols.slices
        for (i, j), w in self.blocks.items():
            y[rows[i]] += w @ x[cols[j]]
        return y

    def _times(self, other: BlockOperator) -> BlockOperator:
        # (A B)(i, j) = Σ_k A(i, k) B(k, j), over the stored blocks only
        product: dict[tuple[Node, Node], Array] = {}
        for (i, k), a in self.blocks.items():
            for j, b in other.by_row[k].items():
                accumulate(product, (i, j), a @ b)
        return BlockOperator._from_trusted(self.rows, other.cols, product)

    @overload  # type: ignore[override]  # narrower for a narrower argument, which mypy's check of overloads misses
    def __matmul__(self, other: BlockOperator) -> BlockOperator: ...
    @overload
    def __matmul__(self, other: Operator) -> Operator: ...
    @overload
    def __matmul__(self, other: Array) -> Array: ...
    def __matmul__(self, other: Operator | Array) -> Operator | Array:
        if isinstance(other, BlockOperator):
            _check_factors(self, other)
            return self._times(other)
        return super().__matmul__(other)

    @overload
    def __add__(self, other: BlockOperator) -> BlockOperator: ...
    @overload
    def __add__(self, other: Operator) -> Operator: ...
    def __add__(self, other: Operator) -> Operator:
        total = super().__add__(other)  # checks the partitions
        return total.explicit() if isinstance(other, BlockOperator) else total

    @overload
    def __sub__(self, other: BlockOperator) -> BlockOperator: ...
    @overload
    def __sub__(self, other: Operator) -> Operator: ...
    def __sub__(self, other: Operator) -> Operator:
        total = super().__sub__(other)  # checks the partitions
        return total.explicit() if isinstance(other, BlockOperator) else total

    def __neg__(self) -> BlockOperator:
        return BlockOperator._from_trusted(self.rows, self.cols, {at: -w for at, w in self.blocks.items()})

    def _extent(self) -> str:
        return f"{super()._extent()}, {len(self.blocks)} stored"


class Product(Operator):
    """A₁ A₂ … A_n, not multiplied out: it acts factor by factor, from right to left."""

    factors: tuple[Operator, ...]

    def __init__(self, factors: tuple[Operator, ...]) -> None:
        vars(self).update(rows=factors[0].rows, cols=factors[-1].cols, factors=factors)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds every stored scalar."""
        return np.result_type(*(factor.dtype for factor in self.factors))

    @property
    def T(self) -> Operator:
        """(A₁ … A_n)* = A_n* … A₁*."""
        return Product(tuple(factor.T for factor in reversed(self.factors)))

    def explicit(self) -> BlockOperator:
        """The blocks of the product, multiplied from right to left."""
        return reduce(lambda right, factor: factor._times(right), self.factors[-2::-1], self.factors[-1].explicit())

    def _apply(self, x: Array) -> Array:
        return reduce(lambda y, factor: factor._apply(y), reversed(self.factors), x)

    def _times(self, other: BlockOperator) -> BlockOperator:
        return reduce(lambda right, factor: factor._times(right), reversed(self.factors), other)


class Sum(Operator):
    """Σ plus − Σ minus, not added up."""

    plus: tuple[Operator, ...]
    minus: tuple[Operator, ...]

    def __init__(self, plus: tuple[Operator, ...], minus: tuple[Operator, ...]) -> None:
        first = (*plus, *minus)[0]
        vars(self).update(rows=first.rows, cols=first.cols, plus=plus, minus=minus)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type that holds every stored scalar."""
        return np.result_type(*(term.dtype for term in (*self.plus, *self.minus)))

    @property
    def T(self) -> Operator:
        """(A + B)* = A* + B*."""
        return Sum(tuple(term.T for term in self.plus), tuple(term.T for term in self.minus))

    def explicit(self) -> BlockOperator:
        """The blocks of the sum."""
        return self._add_blocks([a.explicit() for a in self.plus], [a.explicit() for a in self.minus], self.cols)

    def _apply(self, x: Array) -> Array:
        plus, minus = ([term._apply(x) for term in terms] for terms in (self.plus, self.minus))
        return reduce(np.subtract, minus, reduce(np.add, plus) if plus else np.zeros_like(minus[0]))

    def _times(self, other: BlockOperator) -> BlockOperator:
        return self._add_blocks([a._times(other) for a in self.plus], [a._times(other) for a in self.minus], other.cols)

    def _add_blocks(self, plus: list[BlockOperator], minus: list[BlockOperator], cols: Partition) -> BlockOperator:
        total: dict[tuple[Node, Node], Array] = {}
        for term in (*plus, *(-term for term in minus)):
            for at, w in term.blocks.items():
                accumulate(total, at, w)
        return BlockOperator._from_trusted(self.rows, cols, total)


# -- constructors --------------------------------------------------------------------------------------------------


def identity(partition: Partition, *, dtype: Any = int) -> BlockOperator:
    """The identity on a partition. Its ones are integers, which leave any other scalar as it is."""
    blocks = {(name, name): np.eye(m, dtype=dtype) for name, m in zip(partition.names, partition.sizes)}
    return BlockOperator._from_trusted(partition, partition, blocks)


def block_diagonal(blocks: Mapping[Any, Any]) -> BlockOperator:
    """One block per name on the diagonal; the partitions are read off the blocks, which may be rectangular.

    H = block_diagonal({k: H(k)}) maps bodies (columns) to joints (rows), M = block_diagonal({k: M(k)}) bodies to
    bodies.
    """
    arrays = {name: np.asarray(block) for name, block in blocks.items()}
    for name, block in arrays.items():
        if block.ndim != 2:
            raise ShapeError(f"block_diagonal: block {name!r} has shape {block.shape}, expected (rows, columns).")
    rows = Partition({name: block.shape[0] for name, block in arrays.items()})
    cols = Partition({name: block.shape[1] for name, block in arrays.items()})
    # equal partitions are made the same object: comparing them again is then free
    return BlockOperator(rows, rows if rows == cols else cols, {(name, name): block for name, block in arrays.items()})


def permutation(partition: Partition, order: Iterable[Node]) -> BlockOperator:
    """T with T* = T⁻¹ that lists the blocks in another order: rows in the new order, columns in the old one."""
    blocks = {(name, name): np.eye(m, dtype=int) for name, m in zip(partition.names, partition.sizes)}
    return BlockOperator._from_trusted(partition.permuted(order), partition, blocks)


def accumulate(blocks: dict[Any, Array], key: Any, term: Array) -> None:
    """Add a term to a block that may not be stored yet; never in place: the block may belong to another operator."""
    blocks[key] = blocks[key] + term if key in blocks else term


def _checked_block(rows: Partition, cols: Partition, i: Node, j: Node, block: Any) -> Array:
    expected = (rows.size(i), cols.size(j))
    copy = np.array(block)
    if copy.shape != expected:
        raise ShapeError(
            f"block ({i!r}, {j!r}) has shape {copy.shape}, expected {expected}: the sizes of row {i!r} and of column "
            f"{j!r}."
        )
    if copy.dtype == bool:
        copy = copy.astype(int)  # NumPy's bool @ bool is a logical or
    copy.flags.writeable = False
    return copy


def _check_factors(left: Operator, right: Operator) -> None:
    _check_same("the columns of the left factor and the rows of the right one", left.cols, right.rows)


def _check_terms(left: Operator, right: Operator) -> None:
    if not isinstance(right, Operator):
        raise TypeError(f"an operator and {type(right).__name__} do not add: wrap a matrix in a BlockOperator first")
    _check_same("the rows of the two terms", left.rows, right.rows)
    _check_same("the columns of the two terms", left.cols, right.cols)


def _check_same(what: str, left: Partition, right: Partition) -> None:
    if left is right or left == right:
        return
    pairs = list(zip(left.names, left.sizes)), list(zip(right.names, right.sizes))
    at = next((k for k, (a, b) in enumerate(zip(*pairs)) if a != b), min(map(len, pairs)))
    a, b = (f"block {side[at][0]!r} of size {side[at][1]}" if at < len(side) else "no block" for side in pairs)
    raise ShapeError(
        f"{what} are cut differently: at position {at} {a} meets {b}. Build both on the same Partition, or bring one "
        "into the other's order with permutation()."
    )


def _factors(operator: Operator) -> tuple[Operator, ...]:
    return operator.factors if isinstance(operator, Product) else (operator,)
