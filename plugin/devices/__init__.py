"""Sources of GPUs: the driver (`nvml`), or any preset (`fake`)."""
