"""Finds in a run's logs why it failed."""
