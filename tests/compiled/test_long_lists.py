"""Lists of a few among thousands of flags, which are looked at many at a time."""

import numpy as np
import pytest

from whippletree.compiler.cpu.cpu_function import compile_function
from whippletree.compiler.llvm.lists import BUNCH, FEWEST_BUNCHED
from whippletree.compiler.program import Address, Buffer, Collect, Each, Index, Loop, Program
from whippletree.compiler.program.interpret import interpret
from whippletree.compiler.program.traced_blocks import Piece, traced_block


def places_in_list(count):
    """Flags (count,) → for each that is positive, its place in the list, from 1 on; 0 for the others."""
    buffers = (Buffer("x", "input", (count,)), Buffer("place", "output", (count,)))
    buffers += (Buffer("flag", "work", (count,)), Buffer("so far", "work", (1,)))
    buffers += (Buffer("list", "work", (count,), integer=True),)

    def at(name, *places):
        own = [Index(None, place) if isinstance(place, int) else Index(place) for place in places]
        return Piece((), (Address(name, tuple(own)),))

    total = at("so far", 0)
    body = (
        traced_block(lambda: [[0]], [], [total]),
        Loop("k", count, (traced_block(lambda x: [[x], [0]], [at("x", "k")], [at("flag", "k"), at("place", "k")]),)),
        Collect("list", "k", count, Address("flag", (Index("k"),))),
        Each("i", "list", (traced_block(lambda n: [[n + 1], [n + 1]], [total], [total, at("place", "i")]),)),
    )
    return Program("places in a list", buffers, body)


@pytest.mark.parametrize("count", [FEWEST_BUNCHED - 1, FEWEST_BUNCHED, FEWEST_BUNCHED + BUNCH + 13])
def test_those_that_are_positive_are_listed_in_order(count):
    function, random = compile_function(places_in_list(count)), np.random.default_rng(0)
    few = [0, 7, 8, 63, 64, 511, 512, FEWEST_BUNCHED - 2, count - 1]
    rows = [np.full(count, -1.0), np.ones(count), random.normal(size=count)]
    rows += [np.where(np.arange(count) == place, 1.0, -1.0) for place in few]
    rows.append(np.where(np.isin(np.arange(count), few), 1.0, np.where(random.random(count) < 0.5, np.nan, 0.0)))
    for flags in rows:
        expected = np.where(flags > 0, np.cumsum(flags > 0), 0)
        np.testing.assert_array_equal(function(flags), expected)
    np.testing.assert_array_equal(function(np.stack(rows)), [function(flags) for flags in rows])
    np.testing.assert_array_equal(interpret(places_in_list(count), {"x": rows[-1]})["place"], expected)
