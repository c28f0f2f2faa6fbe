"""The record: its JSON, and its compare-and-set."""
