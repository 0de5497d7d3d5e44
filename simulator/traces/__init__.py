"""Readers of published traces, each to one `simulator.scenario.Scenario`."""
