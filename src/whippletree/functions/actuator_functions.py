"""The catalogue's functions about actuators: what commands make them apply, and how activations follow them."""

from __future__ import annotations

from whippletree.arithmetic.arrays import Array
from whippletree.functions.registry import function
from whippletree.tree import activation, actuation
from whippletree.tree.mechanism import Mechanism


@function(tau=("nv",), constraints="tree", actuators=True)
def actuator_forces(m: Mechanism, q: Array, v: Array, ctrl: Array, act: Array | None = None) -> Array:
    """Joint forces (nv,) of all actuators under their commands, cut to ranges of commands, forces and joints.

    Where actuators have activations, which take the place of their commands, these are an input too.
    """
    drives = ctrl if act is None else activation.drives(m.tree.model, ctrl, act)
    return actuation.actuator_forces(m, q, v, drives)


@function(rate=("activations",), constraints="tree", actuators=True)
def activation_rates(m: Mechanism, ctrl: Array, act: Array) -> Array:
    """How fast the activations of actuators follow their commands; the ends of their ranges are not asked."""
    return activation.activation_rates(m.tree.model, ctrl, act)
