"""Configurations at which rows depend on each other: what can move there, and where to.

motions         motions that the rows allow, massless ones among them
exploration     generic configurations, and the branches that leave a singular one
dead_points     branches of the motion where A loses rank
tangent_cone    accelerations at rest on a dead point: the branch of least constraint
"""
