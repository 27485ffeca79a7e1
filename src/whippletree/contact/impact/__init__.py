"""Impacts: velocities after a collision, and how they depend on those before.

laws                 Newton's, Poisson's, energetic and sequential laws
stronge              the energetic law with friction: the path of the impulse while the slip turns
impact               one impact of a mechanism with several contacts
impact_derivatives   derivatives of the velocities after it
saltation            how a deviation before an event appears after it
"""
