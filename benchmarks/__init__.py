"""Measured numbers beside the ones that are promised. Run, not collected by the tests."""
