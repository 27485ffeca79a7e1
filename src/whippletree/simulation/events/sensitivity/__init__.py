"""Derivatives of whole runs with events.

phase_sensitivity   through a smooth phase
run_sensitivity     through a run, row by row, and through its events: saltation matrices
"""
