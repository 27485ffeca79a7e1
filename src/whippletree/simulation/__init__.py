"""Motion in time: ``wt.simulate`` and the methods behind it.

    run, method            the call, the choice of a method, a run cut into chunks that can be resumed
    motion                 equations of motion and the projection onto the constraint manifold
    adaptive               collocation with error control
    fixed_step             explicit and implicit steps of one length
    events                 contact by events: phases, guards, impacts, modes
    time_stepping          contact in steps
    contacts_in_python     contact kinematics for steps in Python
    checkpoint, run_identity   parts of a run on disk, and which run they belong to
    progress, one_by_one, record, conditioning_watch   progress bar, batches, rows of output, lost digits
    sparse_rows            rows of output with numbers of many things, of which few differ from zero
    sensing                readings of sensors
    output                 the dataset, its labels and its files

The chapter imports ``controllers``, ``compiler`` and what is below them.
"""
