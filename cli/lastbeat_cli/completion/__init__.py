"""``completion``: names that a shell completes."""
