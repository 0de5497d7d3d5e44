"""Placement as a CP-SAT model: one file per rule, one per objective, solved tier by tier."""
