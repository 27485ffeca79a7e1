"""Steps of a scene of many free bodies, whose size and lists come with the call: heaps, walls, boxes full of balls.

scene_lists       the broad phase: pairs that are near, in the order in which they are swept
scene_step        the step
scene_bodies      the bodies in it: where they are, and where their motion leads
scene_kinds       its narrow phase: gaps of the pairs that are near, kind by kind
scene_slots       impulses follow their points where candidates of a pair change places
scene_contacts    contacts: their rows, what impulses do, starts with momentum
scene_moments     moments against spinning and rolling
scene_trees       mechanisms among the bodies: robots, doors and pendulums in a heap
scene_motors      their actuators: commands, forces, servos at an end of their range
scene_joints      limits and dry friction of their joints
scene_loops       constraints of theirs: four-bars, grippers, bodies that are welded
scene_ties        rows over several velocities: stops of tendons, servos with a range
scene_sticking    impulses with which everything sticks, for scenes that begin at rest
scene_stirring    contacts that sweeps go over: those that are far from their laws, and their neighbours
scene_trends      impulses of a pile at rest go on as they have changed
scene_leaps       where the next sweeps begin: the least energy of a plane
scene_islands     contacts that act on each other: what is solved is left alone
scene_elimination linear systems on the graph of the bodies that touch, body by body
scene_newton      Newton's method, island by island, where sweeps creep
scene_interior    interior-point steps for islands that it does not solve
scene_totals      totals over contacts and bodies, several at a time
scene_solver      the contact problem: sweeps, and steps between them, as far as they are needed
scene_positions   the projection of positions, which moves apart what overlaps
scene_overlaps    overlaps at the ends of steps, by the shapes where they then are
"""
