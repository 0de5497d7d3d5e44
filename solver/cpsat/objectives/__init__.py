"""What plans are compared by: each file turns a step of `solver.tiers` into an expression."""
