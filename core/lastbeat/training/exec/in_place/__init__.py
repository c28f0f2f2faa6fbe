"""``lastbeat exec --max-restarts``: ends a command that hangs or has failed, and restarts it within its job."""
