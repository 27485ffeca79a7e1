"""Scenario files: a whole simulation as text, from the model to what is kept of the run.

    scenario_tables   the tables of a scenario file
    scenario_reader   ``wt.load_scenario``, and the model kept inside the file of a run
    factories         controllers, events and parameters from their tables

The chapter imports ``io``, ``mechanisms``, ``simulation`` and what is below them.
"""
