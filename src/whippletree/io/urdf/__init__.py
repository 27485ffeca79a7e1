"""URDF.

urdf_shapes   poses and shapes of elements
urdf_loops    elements that close loops
urdf_reader   file to model
"""
