"""Scenario files: a whole simulation as text, from the model to what is kept of the run.

    scenario_tables   the tables of a scenario file
    scenario_reader   ``wt.load_scenario``
    factories         controllers, events and parameters from their tables
    model_in_run      the model kept inside the file of a run

The chapter imports ``io``, ``mechanisms``, ``simulation`` and what is below them.
"""
