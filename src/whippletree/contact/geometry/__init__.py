"""Shapes, and the distance between two of them with its nearest points.

height_field, terrain   smooth surfaces through a grid of heights
mesh_formats            mesh files as triangles: STL, OBJ and Collada, told apart by their content
mesh_files              meshes of geometries from their files, and how much of its hull each fills
convex_pieces           convex pieces of a closed mesh, and how well they fill it
coacd_process           the library CoACD, which cuts meshes, in a process of its own
decomposition           ``wt.decompose``: convex pieces in place of meshes
shapes                  the shapes of a model as numbers, meshes by their convex hulls
polytopes               convex hulls
closed_forms            pairs of shapes with a formula, and the table of them
shape_numbers           shapes and poses as rows of numbers, and back
box_pairs               two boxes in closed form, for time steps
step_forms              capsules on boxes and cylinders, and the table of what time steps can do
rounded_polytopes       bounded convex shapes as polytopes with a rounding, in common tables
solid_distance          how far two solids are apart or overlap, and where
solid_normals           their normal by Newton's method, also from that of a moment ago
solid_cells             where that search begins: cells of relative poses
solid_rest              solids that hardly move against each other, compared where they were
solid_pairs             candidates of two solids, for time steps
bounds                  boxes around shapes, to tell pairs that cannot touch
separation              how far two convex shapes are apart
nearest_points          nearest points polished to rounding
rays                    how far along a ray a shape begins
coal_pairs              all other pairs, by the library ``coal``: boxes and hulls, and what is round
"""
