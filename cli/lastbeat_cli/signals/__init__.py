"""``signals``: what is looked for in logs."""
