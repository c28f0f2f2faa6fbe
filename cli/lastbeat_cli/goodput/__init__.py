"""``goodput``: where a run's wall time went."""
