"""The scheduling problem, its policies, the CP-SAT model, and the independent check of a plan."""
