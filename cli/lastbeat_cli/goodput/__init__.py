"""``goodput``: what wall time went into."""
