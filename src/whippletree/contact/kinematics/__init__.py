"""Candidates of contact at a state: gaps, points, axes and the rows that they put on the velocities.

pairs             the pairs of a model that may touch
contact_set       the candidates of a model with names (``wt.contact_set``): gap, point, axes and rows of each pair
joint_contacts    ends of joint ranges and dry friction of joints, as contacts of one row
body_poses        where the bodies are
broad_phase       pairs that are near, or overlap (``wt.without_overlaps``)
scene_mechanism   the bodies of a scene that joints hold together, as a model of their own
scene_layout      a model of many free bodies as tables: bodies, classes of geometries, kinds of pairs
large_scenes      the same quantities for scenes of many free bodies, sparse
"""
