"""Bid prices: what every shape is worth on every kind of node, from a workload."""
