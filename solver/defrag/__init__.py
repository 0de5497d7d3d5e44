"""Defragmentation: what running work to move or stop, at the least cost, and in which order."""
