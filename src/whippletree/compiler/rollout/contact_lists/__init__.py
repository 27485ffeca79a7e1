"""Steps of a mechanism with contacts, over lists of what touches: each is solved to a tolerance.

contact_list_suitability   models that can have such steps, and those for which they pay
contact_list_step          the step, from poses to poses
contact_list_memory        its memory: arguments, what its parts leave for each other, tables of all blocks
contact_list_members       which blocks are in the list: a guess before the solution, a check after it
contact_list_preparation   rows and numbers of a block in the list, for the solver
contact_list_trees         its tree: poses, free motion, the factor of M; which of the two forms suits
contact_list_written_tree  short trees, written out
contact_list_looped_tree   long trees, as loops over nodes
contact_list_limbs         its straight code, with limbs that are alike in the lanes of a vector
contact_list_momentum      momenta of bodies, carried from pose to pose: long trees in a plane
contact_list_asking        a controller in Python: what it is asked in every step
contact_list_motors        motors and servos: forces, damping, rows
contact_list_ranges        servos with a force range: rows only while they saturate
contact_list_closures      constraints: rows that are met exactly
contact_list_moments       torsional and rolling friction: rows that follow a contact
contact_list_forms         code of their own for blocks of one row: limits, dry friction, servos
contact_list_rows          rows of blocks, and the linear systems made of them: dense
contact_list_recursion     those of long trees that touch the world alone, by articulated recursions
contact_list_parts         parts of a scene that nothing joins, solved one by one, and their linear systems
contact_list_chains        those of chains, contact by contact from the base to the tip, which loses no digits
contact_list_solver        sweeps, and which method has its turn
contact_list_newton        Newton's method
contact_list_law           Coulomb's law of one block, and the derivative
contact_list_search        how far Newton steps go
contact_list_interior      the interior-point method, for scenes that are jammed
contact_list_cones         numbers that it calculates with, of contacts in space and in a plane
contact_list_path          its central path on chains, followed where it turns back
contact_list_balls         balls about shapes: how far apart these are at least
contact_list_reach         pairs that are too far apart to meet within a step
contact_list_parted        pairs whose shapes never meet, whatever the coordinates
contact_list_positions     coordinates: poses, gaps, and the projection that moves apart what overlaps
contact_list_normals       the displacement of a round of that projection
contact_list_held          normals that push in it, found together
contact_list_results       results: the state, impulses, works, and whether the scene goes on
contact_list_gaps          candidates in many states, by the same narrow phase alone, and their loads; limits of tendons
"""
