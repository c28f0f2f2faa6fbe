"""``logs``: what a run printed."""
