"""``sweep``: passes over a fleet, and what is told of them."""
