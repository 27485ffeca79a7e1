"""Contact by events: smooth phases between instants at which something begins or ends.

The way of one hop: a phase runs (``smooth_motion`` on the ``equations`` of its mode), a guard changes sign
(``guards``), the event is located and answered (``transitions``: touch-down, lift-off, stick, slip), an impact resets
the velocities (``contact.impact``), a new mode is found (``contact.modes``), the next phase begins.

    event_method      the method of ``wt.simulate``, and the loop over phases
    equations, phase  equations of motion in a mode; one phase with its active rows
    compiled_phase    the same by machine code, one function for all modes
    compiled_guards   its guards, watched inside the kernel of its steps
    smooth_motion     integration of a phase
    guards            functions whose change of sign ends a phase
    transitions       answers to events
    event_log, event_output   what happened, in columns; what a run reports of it

Beside the main line: ``zeno`` (impacts that accumulate), ``painleve`` (jamming), ``repeated_events``, ``turning_slip``,
``joint_stops`` and ``dry_joints``, ``load_sharing`` and ``pseudo_inverse`` (redundant contacts), ``massless_feet``,
``sensitivity``.
"""
