"""Contact in steps: velocities and impulses at the end of each step, no events.

stepping_method   the method of ``wt.simulate``
impulse_step      one step in Python
near_blocks       which contacts and limits take part in it, and their rows
impulse_kernel    steps of a single scene in machine code
asking_kernel     the same where a controller in Python is asked in every step
inertial_gain     steps that gain energy from nothing, taken in halves
impulse_batch     steps of many states at once
motors            forces of a controller and commands of actuators, asked at the start of each step
scene_method      the method for scenes of many free bodies
mechanism_rows    a mechanism among them, between two calls of the kernel
box_bounds        pairs of these lists that boxes keep apart
near_lists        lists of what is near, by the kernel that makes them
pair_lists        these as the kernel of the steps takes them, without what boxes or sleep leave out
scene_run         steps in machine code between two lists
scene_skins       how far bodies may go before new lists are made
sleeping          islands at rest that are held still until something comes near
"""
