"""Contact by events: smooth phases, and events at which a contact begins, ends or changes.

The way of one hop: a phase runs (``smooth_motion`` on the ``equations`` of its mode), a guard changes sign
(``guards``), the event is located and answered (``transitions``: touch-down, lift-off, stick, slip), an impact resets
the velocities (``contact.impact``), a new mode is found (``contact.contact_modes``), the next phase begins.

    event_method      the method of ``wt.simulate``, and the loop over phases
    equations, phase  equations of motion of all candidates; one phase with its active rows
    compiled_phase    a phase by machine code, one function for all modes
    smooth_motion     integration of a phase
    guards            functions whose change of sign ends a phase, also watched inside the kernel of its steps
    transitions       answers to events
    event_log         what happened, in columns, and what a run reports of it

Beside the main line: ``zeno`` (impacts that accumulate, events that repeat), ``painleve`` (jamming), ``turning_slip``,
``load_sharing`` (redundant contacts), ``massless_feet``, ``sensitivity``.
"""
