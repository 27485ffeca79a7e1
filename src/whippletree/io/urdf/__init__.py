"""URDF.

urdf_reader   file to model: links, joints, shapes
"""
