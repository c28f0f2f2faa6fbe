"""Processes of this machine, each with a keeper beside it."""
