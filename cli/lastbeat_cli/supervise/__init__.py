"""``supervise``: jobs that come back by themselves."""
