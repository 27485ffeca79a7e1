"""Mesh files as triangles: STL, OBJ and Collada, read within the limits of :mod:`whippletree.files.bounded_files`.

surface        triangles with welded corners
mesh_formats   the formats, told apart by their content
collada        scenes of Collada files
"""
