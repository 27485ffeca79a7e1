"""Unknown signs that must agree: equations between sums of unknowns that are 0 or 1, where 1 + 1 = 0.

A sum is an integer: bit 0 is the constant, bit k the unknown number k. Equations are solved as they come: each makes
its highest unknown a sum of lower ones, or contradicts those before it.
"""

from __future__ import annotations

PLUS, MINUS = 0, 1
"""Sums without unknowns: a value as it is, and its negative."""


class Parities:
    """Unknown signs, and what is known of them."""

    def __init__(self) -> None:
        self._unknowns = 0
        self._solved: dict[int, int] = {}
        """Highest unknown of an equation to all of the equation."""
        self._values: dict[int, int] = {}

    def unknown(self) -> int:
        """A new unknown, as a sum."""
        self._unknowns += 1
        return 1 << self._unknowns

    def reduced(self, form: int) -> int:
        """This sum without the unknowns that are known from others."""
        left, kept = form, 0
        while left > 1:
            top = left.bit_length() - 1
            equation = self._solved.get(top)
            if equation is None:
                kept |= 1 << top
                left ^= 1 << top
            else:
                left ^= equation
        return kept | left

    def equate(self, first: int, second: int) -> bool:
        """Demand that two sums are equal; False, and nothing demanded, if that contradicts what is known."""
        form = self.reduced(first ^ second)
        if form == MINUS:
            return False
        if form:
            self._solved[form.bit_length() - 1] = form
        return True

    def sign(self, form: int) -> int:
        """+1 or −1: the value of a sum, with every unknown that is left taken as 0."""
        return -1 if self.reduced(form) & 1 else 1
