"""Which devices a container gets, and what it is told about them: pure functions."""
