"""``dashboard``: the page, served."""
