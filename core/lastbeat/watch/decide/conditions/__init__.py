"""Conditions: warnings that are raised and cleared beside RUNNING. A row each, found by pure functions."""
