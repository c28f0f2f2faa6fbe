"""``causes``: what the failures of a fleet cost."""
