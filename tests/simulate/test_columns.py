"""Columns that grow by rows: what was asked for earlier stays as it was."""

import numpy as np

from whippletree.simulation.events.event_log import Column


def test_earlier_rows_stay_while_later_ones_come():
    column, asked = Column(2), []
    for k in range(20):
        column.append([k, -k])
        asked.append(column.rows)
    for k, rows in enumerate(asked):
        assert rows.tolist() == [[n, -n] for n in range(k + 1)]


def test_a_column_goes_on_from_rows():
    column = Column(dtype=int)
    column.take(np.array([3, 4]))
    column.append(5)
    assert column.rows.tolist() == [3, 4, 5]
    assert len(column) == 3
