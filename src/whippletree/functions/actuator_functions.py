"""The catalogue's functions about actuators: what commands make them apply."""

from __future__ import annotations

from whippletree.arithmetic.arrays import Array
from whippletree.functions.registry import function
from whippletree.tree import actuation
from whippletree.tree.mechanism import Mechanism


@function(tau=("nv",), constraints="tree", actuators=True)
def actuator_forces(m: Mechanism, q: Array, v: Array, ctrl: Array) -> Array:
    """Joint forces (nv,) of all actuators under their commands, cut to ranges of commands, forces and joints."""
    return actuation.actuator_forces(m, q, v, ctrl)
