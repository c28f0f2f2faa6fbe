"""``completion``: completes commands, options and run ids in a shell."""
