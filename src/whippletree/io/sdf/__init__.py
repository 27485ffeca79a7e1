"""SDF: links, joints that may close loops, nested frames.

sdf_values   numbers and vectors of elements
sdf_reader   file to model: frames by name, several models as one
"""
