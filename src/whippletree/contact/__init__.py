"""Contact: where shapes touch, which forces act there, and what an impact does.

    geometry           shapes and the distance between two of them
    kinematics         candidates of contact at a state: gaps, points, axes, rows
    problem            the contact problem: impulses in friction cones and the velocities after them
    impact             impact laws, their derivatives, saltation matrices
    contact_modes      which contacts stick, slide or lift; motion under the rows of such a mode
    time_step          one step through time with contacts, limits and friction of joints
    restitution_share  how much of its restitution a bounce may have without adding energy
    inertia_of_motions whether every motion has inertia in a step
    implicit_springs   springs and dampers taken at the end of a step
    servos             actuators in a step: implicit servos, force ranges as bounds

The chapter imports ``accuracy``, ``constraints``, ``tree`` and what is below them.
"""
