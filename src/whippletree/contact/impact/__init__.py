"""Impacts: velocities after a collision, and how they depend on those before.

laws                 Newton's, Poisson's, energetic and sequential laws; the path of the impulse while the slip turns
impact               one impact of a mechanism with several contacts
impact_derivatives   derivatives of the velocities after it, and how a deviation before an event appears after it
"""
