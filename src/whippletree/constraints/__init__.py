"""Constraints: kinds (what is demanded) and rows (residual, A and bias at a state)."""
