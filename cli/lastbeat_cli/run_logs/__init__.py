"""``logs``: the output of a run."""
