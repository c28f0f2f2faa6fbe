"""``signals``: the signals that lastbeat finds in logs."""
