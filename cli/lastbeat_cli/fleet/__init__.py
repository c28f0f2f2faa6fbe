"""``fleet``: the table of runs."""
