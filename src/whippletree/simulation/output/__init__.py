"""Results of a run: a labelled dataset, and its files.

dataset         the xarray dataset of a run
contact_loads   forces of contacts, stops and dry friction as loads on joints and bodies
labels          names and units of its coordinates
run_files       ``wt.save_run``, ``wt.load_run``; runs as tidy and wide tables: ``wt.tidy_frame``
"""
