"""Conditions: warnings that are raised and cleared beside RUNNING. Each is a row that a pure function finds."""
