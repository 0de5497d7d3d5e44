"""What happens over time: jobs arrive, wait, run, are preempted and end, under a policy."""
