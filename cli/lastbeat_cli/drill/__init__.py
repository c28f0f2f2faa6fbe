"""``drill``: faults on purpose, in harmless jobs, to see that they are survived."""
