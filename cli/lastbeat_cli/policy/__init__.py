"""``policy``: restart policies."""
