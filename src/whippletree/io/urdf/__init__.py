"""URDF.

urdf_loops    elements that close loops
urdf_reader   file to model: links, joints, shapes
"""
