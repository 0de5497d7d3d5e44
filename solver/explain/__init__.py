"""Why one job waits: rules that cannot hold together, node by node, and fixes with their price."""
