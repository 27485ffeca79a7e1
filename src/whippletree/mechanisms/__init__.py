"""Ready-made models, to learn with, to test with and to measure with.

    trees              pendulums, chains, random trees
    linkages, andrews  closed loops
    contact_textbook   contact with known answers
    legged             machines that walk, roll and hop

The planar ones live in the x–y plane with y up: joint axes along z, gravity (0, −9.81, 0). Their links lie along x
when all coordinates are zero, so a pendulum hangs down at q = −π/2 (a cart-pole's pole stands up along y instead).
Lengths are in m, masses in kg; a mass may be 0, and numbers may be exact (``Fraction``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whippletree.errors import NameLookupError
from whippletree.mechanisms.andrews import andrews
from whippletree.mechanisms.contact_textbook import (
    bouncing_ball,
    box_stack,
    newtons_cradle,
    painleve_rod,
    rocking_block,
    sliding_block,
    spheres_in_box,
)
from whippletree.mechanisms.legged import hopper, humanoid, planar_biped, quadruped, rimless_wheel, simplest_walker
from whippletree.mechanisms.linkages import (
    crank_slider,
    delta_robot,
    flexible_slider_crank,
    four_bar,
    four_bar_chain,
    gear_train,
    knife_edge_sleigh,
    n_four_bar,
    peaucellier,
    rolling_disc,
    stewart_platform,
)
from whippletree.mechanisms.trees import cart_pole, chain, double_pendulum, pendulum, rod_inertia, tree

__all__ = [
    "andrews",
    "bouncing_ball",
    "box_stack",
    "cart_pole",
    "chain",
    "crank_slider",
    "delta_robot",
    "double_pendulum",
    "flexible_slider_crank",
    "four_bar",
    "four_bar_chain",
    "gear_train",
    "hopper",
    "humanoid",
    "knife_edge_sleigh",
    "n_four_bar",
    "newtons_cradle",
    "painleve_rod",
    "peaucellier",
    "pendulum",
    "planar_biped",
    "quadruped",
    "rimless_wheel",
    "rocking_block",
    "rod_inertia",
    "rolling_disc",
    "simplest_walker",
    "sliding_block",
    "spheres_in_box",
    "stewart_platform",
    "tree",
]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:  # type checkers find a misspelt name themselves

    def __getattr__(name: str) -> Any:
        raise NameLookupError("mechanism", name, __all__)
