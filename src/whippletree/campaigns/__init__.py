"""Campaigns: one simulation many times, with other parameters each time, on one machine or many.

Read in this order:

    design        which values the parameters take in which run
    targets       where the value of a parameter goes: model, start, contact, controller, solver
    cases         a model or a scenario with some values filled in, shared by all runs of one structure
    run_blocks    a stretch of runs, computed: starts that close their loops, rows, time series, events
    store         the folder: a manifest, and parts that are written whole or not at all
    engines, worker   who computes: this process, processes of this machine, dask
    campaign      ``wt.sweep``: plan, run what is missing, tell how far it has come, verify; a sweep as a TOML file
    opening       ``wt.open_sweep``: the folder as a labelled data set
    sweep_report  a page that shows the results

The chapter stands on ``scenario`` and ``simulation``; only the command line knows it.
"""
