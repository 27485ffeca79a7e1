"""Contacts that act on each other: the independent parts of a contact problem."""

from __future__ import annotations

import numpy as np

from whippletree.contact.delassus import Matrix, is_sparse
from whippletree.spatial import Array


def islands(G: Matrix) -> list[Array]:
    """Numbers of the contacts that act on each other, directly or through others, for G (3k, 3k)."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    k = G.shape[0] // 3
    if is_sparse(G):  # contacts and the parts of the model that they touch
        first, second = G.touched[0], k + G.touched[1]
    else:
        first, second = np.nonzero((G != 0).reshape(k, 3, k, 3).any(axis=(1, 3)))
    size = max(k, second.max(initial=-1) + 1)
    near = coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(size, size))
    island = connected_components(near, directed=False)[1][:k]
    order = np.argsort(island, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(island[order])) + 1) if k else []
