"""What launchers say about jobs, what it means, and what to do about it: a module a launcher. Pure."""
