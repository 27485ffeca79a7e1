"""Whole roll-outs as one program: many time steps of many states without returning to Python.

rollout           ``dyn.rollout``: trees and constrained systems, with controllers
rollout_steps     one step of each integrator
rollout_blocks    the blocks that roll-outs share
long_trees        roll-outs of long trees, as loops over bodies
collocation_frame   when a step of collocation is kept, shortened or handed back, whatever the size of the state
collocation_kernel   many steps of collocation with error control, each iterated until it has converged
collocation_calls   steps of any model, which call its compiled functions at all points at once
called_newton     their stiff steps: Newton's method, with J from calls
complex_elimination   complex linear systems of a size that the call decides, several side by side
collocation_rates   its equations of motion at one point: the model's, or others
collocation_newton   its stiff steps: Newton's method, with matrices built and inverted in loops
step_watch        guards that end a call of it with the step in which one may vanish
step_control      how long the next step is, for numbers and for kernels
contact_rollout   ``dyn.contact_rollout``: steps with contacts
single_step       ``dyn.step``: one step under commands, and its derivatives
contact_kinds     gaps and rows as loops over pairs of one kind
step_space        what the parts of a step share: model, blocks, motors, buffers
contact_lists     a step of a single scene, over lists of what touches
contact_list_suitability   models that can have such steps, and those for which they pay
contact_list_trees   its tree: poses, free motion, the factor of M; written out, or as loops over nodes
contact_list_motors   its motors and servos: forces, damping, rows
motion_space      motions that a tree can have: six numbers, or three in a plane
contact_list_momentum   momenta of its bodies, carried from pose to pose: long trees in a plane
contact_list_closures   its constraints: rows that are met exactly
contact_list_ranges   its servos with a force range: rows only while they saturate
contact_list_moments   its torsional and rolling friction: rows that follow a contact
contact_list_rows   rows of its blocks, and the linear systems made of them: dense
contact_list_recursion   those of long trees that touch the world alone, by articulated recursions
contact_list_chains   those of chains, contact by contact from the base to the tip, where nothing stiff loses digits
contact_list_solver   its sweeps and Newton steps
contact_list_law   Coulomb's law of one of its blocks, and the derivative
contact_list_search   how far its Newton steps go
contact_list_interior   its interior-point method, for scenes that are jammed
dense_solve       linear systems of the size of the velocities
contact_list_reach   pairs that are too far apart to meet within a step
contact_list_gaps   candidates in many states, by its narrow phase alone, and their loads; limits of tendons
contact_list_normals   the displacement of a round of that projection
contact_list_positions   its coordinates: poses, gaps, and the projection that moves apart what overlaps
contact_list_results   its results: the state, impulses, works, and whether the scene goes on
scene_step        steps of a scene of many free bodies, whose size and lists come with the call
scene_kinds       its narrow phase: gaps of the pairs that are near, kind by kind
scene_slots       impulses follow their points where candidates of its pairs change places
scene_contacts    its contacts: their rows, what impulses do, starts with momentum
scene_sticking    impulses with which everything sticks, for scenes that begin at rest
scene_leaps       where its next sweeps begin: the least energy of a plane
scene_solver      its contact problem: sweeps, as far as they are needed
scene_positions   its projection of positions, which moves apart what overlaps
scene_overlaps    overlaps at the ends of its steps, by the shapes where they then are
step_bounces      restitution in both kinds of steps: no more of it than adds no energy
contact_sweeps    sweeps over contacts, coloured so that neighbours do not disturb each other
"""
