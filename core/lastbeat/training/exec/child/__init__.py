"""Runs a command for ``lastbeat exec``: passes its streams and signals through, and says how it exited."""
