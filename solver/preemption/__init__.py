"""Who gives way for whom, at which price: running work as a part of the decision."""
