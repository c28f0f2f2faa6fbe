"""Watches many runs: selects those that a pass works on, collects its findings, and groups related alerts."""
