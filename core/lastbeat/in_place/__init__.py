"""Ends a command that hangs or has failed, and starts it again within its job: what ``lastbeat exec --max-restarts``
does."""
