"""``drill``: injects faults into harmless jobs, to check that restarts work."""
