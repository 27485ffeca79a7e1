"""Scenario files: a whole simulation as text, from the model to what is kept of the run."""
