"""Kubernetes in and out: objects of a real cluster to a spec, a plan to steps that realise it."""
