"""The force of a muscle by its length, its speed and its activation, on any scalar: see
:class:`~whippletree.model.Muscle`.
"""

from __future__ import annotations

from typing import Any

from whippletree.arithmetic.scalars import less, select
from whippletree.model import Muscle


def muscle_force(muscle: Muscle, w: Any, length: Any, velocity: Any) -> Any:
    """The force of a muscle with an activation w: negative, for it pulls."""
    (l_0, l_1), (r_0, r_1) = muscle.length_range, muscle.operating_range
    optimal = (l_1 - l_0) / (r_1 - r_0)
    L, V = r_0 + (length - l_0) / optimal, velocity / (optimal * muscle.fastest)
    active = active_by_length(muscle, L) * active_by_velocity(muscle, V)
    return -muscle.peak * (active * w + passive_by_length(muscle, L))


def active_by_length(muscle: Muscle, L: Any) -> Any:
    """F_L: 1 at the optimal length, 0 beyond shortest and longest; four parabolas."""
    below, above = (1 - muscle.shortest) / 2, (muscle.longest - 1) / 2
    # how far from the optimal length, in halves of the way to the end: 2 is the end
    x = select(less(L, 1), (1 - L) / below, (L - 1) / above)
    outer = select(less(x, 2), (2 - x) * (2 - x) / 2, 0)
    return select(less(1, x), outer, 1 - x * x / 2)


def active_by_velocity(muscle: Muscle, V: Any) -> Any:
    """F_V: 0 where the muscle shortens at its fastest, 1 at rest, ``lengthening`` where it is drawn out fast."""
    most = muscle.lengthening
    gained = most - 1
    shortening = select(less(V, -1), 0, (V + 1) * (V + 1))
    if not gained:
        return select(less(0, V), most, shortening)
    drawn = select(less(gained, V), most, most - (gained - V) * (gained - V) / gained)
    return select(less(0, V), drawn, shortening)


def passive_by_length(muscle: Muscle, L: Any) -> Any:
    """F_P: 0 up to the optimal length, then a parabola, and a straight line from halfway to ``longest``."""
    x = (L - 1) * 2 / (muscle.longest - 1)
    drawn = muscle.passive * select(less(1, x), x - 0.5, x * x / 2)
    return select(less(0, x), drawn, 0)
