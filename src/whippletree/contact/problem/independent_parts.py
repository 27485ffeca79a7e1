"""Parts of a model that act on each other through contacts only, and what forces on them do: M† Jᵀ, part by part.

M† has a block for each part, a tree from the world outwards or several that constraints tie together. A row of J
touches the parts of its two bodies. So forces on different parts can be one right side of M† x = b without disturbing
each other: a pile of any size takes as many right sides as the busiest of its parts has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from whippletree.arithmetic.arrays import Array
from whippletree.constraints.constraint_set import constraint_set
from whippletree.contact.kinematics.body_poses import ranges
from whippletree.contact.problem.delassus import DENSE_UP_TO
from whippletree.model import Model
from whippletree.tree.skeleton import skeleton


def parts_of(model: Model) -> Array:
    """The number of the part that each velocity belongs to, (nv,)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    tree = skeleton(model)
    count = len(tree.nodes)
    ties = [(k, parent) for k, parent in enumerate(tree.parents) if parent >= 0]
    for c in constraint_set(model).demands if model.constraints else ():
        match c.demand.on:
            case "frames":
                nodes = [tree.place(name).node for name in c.constraint.on]
            case "joints":
                nodes = [tree.bodies[model.joints[model.joint_index(name)].child].node for name in c.constraint.on]
            case _:  # the equation of a massless motion, in which forces on anything may stand
                nodes = list(range(count))
        moving = [node for node in nodes if node >= 0]
        ties += [(moving[0], node) for node in moving[1:]]
    pairs = np.array(ties, dtype=int).reshape(-1, 2)
    near = coo_array((np.ones(len(pairs), dtype=bool), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    number = connected_components(near, directed=False)[1]
    return np.repeat(number, [part.stop - part.start for part in tree.v_slices]).astype(int)


def stack_rows(contacts: Any, joints: Sequence[int], directions: Sequence[int], signs: Sequence[float]) -> Any:
    """The rows (3 (k + m), nv) of k contacts and m joints, an array while they are few, else sparse.

    Args:
        contacts: rows (3 k, nv), an array or sparse.
        joints: the velocity of each joint, (m,).
        directions: along which of a block's three rows it acts, (m,).
        signs: and with which factor, (m,).
    """
    shape, at = (3 * len(joints), contacts.shape[1]), 3 * np.arange(len(joints)) + np.asarray(directions, dtype=int)
    if contacts.shape[0] + shape[0] <= 3 * DENSE_UP_TO:
        own = np.zeros(shape)
        own[at, list(joints)] = signs
        return np.concatenate([contacts if isinstance(contacts, np.ndarray) else contacts.toarray(), own])
    from scipy.sparse import coo_array, vstack

    return vstack([coo_array(contacts), coo_array((signs, (at, joints)), shape=shape)], format="csr")


def append_rows(rows: Any, more: Array) -> Any:
    """Rows (n, nv), an array or sparse, with further ones (m, nv) below them."""
    if isinstance(rows, np.ndarray):
        return np.concatenate([rows, more])
    from scipy.sparse import coo_array, vstack

    return vstack([rows, coo_array(more)], format="csr")


def responses(rows: Any, part: Array, solve: Callable[[Array], Array]) -> Any:
    """(M† Jᵀ)ᵀ, sparse, for sparse rows J (n, nv).

    Args:
        rows: of contacts.
        part: of each velocity, (nv,).
        solve: M† b for right sides (m, nv).
    """
    from scipy.sparse import coo_array

    n, nv = rows.shape
    J = rows.tocoo()
    row, column = J.coords
    # every row and part that it touches, sorted by parts; those of one part are told apart by their right side
    touched, which = np.unique(part[column] * n + row, return_inverse=True)
    owner_part, owner = np.divmod(touched, n)
    side = np.arange(len(touched)) - np.searchsorted(owner_part, owner_part)
    b = np.zeros((side.max(initial=-1) + 1, nv))
    b[side[which], column] = J.data
    x = solve(b)
    # the columns of a part, and how many they are
    columns, counts = np.argsort(part, kind="stable"), np.bincount(part)
    counts, starts = counts[owner_part], (np.cumsum(counts) - counts)[owner_part]
    at = columns[ranges(starts, counts)]
    return coo_array((x[np.repeat(side, counts), at], (np.repeat(owner, counts), at)), shape=(n, nv)).tocsr()
