"""``explain``: why a run failed, from its logs."""
