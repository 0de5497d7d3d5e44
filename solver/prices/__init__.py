"""What a node is worth at prices of requests, and the prices that a workload implies."""
