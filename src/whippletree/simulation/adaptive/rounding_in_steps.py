"""Rounding that step control could take for an error: how loose a tolerance must be for steps of any length to meet it.

Rates that are uncertain by δf leave a step of length h uncertain by h (1 − h J)⁻¹ δf. Where J is large that is neither
small for short steps nor smallest for long ones. A closed loop, for example, passes rounding of its angles on to the
stretch δx of a stiff spring, however little that stretches. The velocity of the spring trembles by δx / h: the shorter
the steps are, the more, down to those that resolve the spring. An integrator that is asked for less shortens its steps
by factors of thousands, and gains no digit.

So where steps are rejected time and again, rates are compared with those of states next to them: what is not smooth in
them is rounding, their own and that of the state. What (1 − h J)⁻¹ leaves of it is compared with the tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from whippletree.arithmetic.arrays import Array, spread_signs
from whippletree.simulation.adaptive.newton import Rates, Stiffness

NEIGHBOURS_COMPARED, DIFFERENCES = 8, 4
"""How many states in a row are compared, and which differences of their rates: what is smooth in them is gone."""

SHARE_BETWEEN_NEIGHBOURS = 2.0**-20
"""Distance of these states, as a share of the step: so small that smooth rates have no differences of that order left,
and so large that all that is rounded in between is rounded anew."""

MOST_ROUNDING, SHARE_OF_ROUNDING = 0.05, 0.02
"""Share of the tolerance from which what rounding leaves of a step counts, and to which it is brought: the estimated
error of a step, from the last of eight coefficients, is up to 25 times as uncertain (measured on arms and cranks with
elastic joints)."""

MOST_BY_ROUNDING = 1e-8
"""Relative tolerance beyond which none is raised: rates that differ by more from those next to them jump."""


def noise_of_rates(rates: Rates, times: Array, states: Array, length: float) -> Array:
    """Uncertainties of rates at states (k, n) at times (k,) of a motion in steps of this length, (samples, k, n).

    Rates are taken at states in a row along the motion, each with last digits of its own. Of rounding, which differs
    from state to state, differences of order p are √(2p over p) times as large.
    """
    numbers = np.arange(NEIGHBOURS_COMPARED)[:, None]
    signs = spread_signs((numbers + 1) * np.arange(1, states.shape[1] + 1))[:, None]
    gone = SHARE_BETWEEN_NEIGHBOURS * length * numbers
    slopes = rates(times, states)
    rows = states + gone[..., None] * slopes + signs * np.spacing(np.abs(states))
    found = rates((times + gone).ravel(), rows.reshape(-1, states.shape[1])).reshape(rows.shape)
    return np.asarray(np.diff(found, DIFFERENCES, axis=0) / math.sqrt(math.comb(2 * DIFFERENCES, DIFFERENCES)))


def rounding_of_steps(
    noise: Array, lengths: Sequence[float], scale: Array, stiffness: Callable[[], Stiffness]
) -> float:
    """The most that uncertainties of rates (samples, n) leave of a step of one of some lengths, in units of the
    tolerance ``scale`` (n,); more than that where it is little even without (1 − h J)⁻¹."""
    plain = max(lengths) * _largest(noise / scale)
    if plain <= MOST_ROUNDING:
        return plain
    found = stiffness()
    return max(_largest(found.filter_error(h, h * noise.T).T / scale) for h in lengths)


def _largest(errors: Array) -> float:
    """Largest root mean square of some errors (m, n)."""
    return float(np.sqrt(np.mean(np.square(errors), axis=-1)).max())
