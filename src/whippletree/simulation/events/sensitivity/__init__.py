"""Derivatives of whole runs with events.

phase_sensitivity   through a smooth phase
event_sensitivity   through an event: the saltation matrix
run_sensitivity     through a run, row by row
"""
