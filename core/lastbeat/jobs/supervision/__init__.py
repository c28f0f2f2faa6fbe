"""Supervised runs: their jobs are started, looked after, and started again as a restart policy says."""
