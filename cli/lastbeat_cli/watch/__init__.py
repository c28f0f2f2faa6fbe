"""``watch``: watch one run, once or until it is over."""
