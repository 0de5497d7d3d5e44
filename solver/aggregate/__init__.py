"""Equal things become counts: classes of interchangeable nodes, and bounds over them."""
