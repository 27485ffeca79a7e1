"""SDF: links, joints that may close loops, nested frames.

sdf_models   several models as one, with names that can be told apart
sdf_values   numbers and vectors of elements
sdf_frames   poses relative to other frames
sdf_reader   file to model
"""
