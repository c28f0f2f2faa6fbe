"""The command line: one module a command, and rendering apart from doing."""
