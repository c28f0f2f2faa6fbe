"""``supervise``: jobs that restart by themselves."""
