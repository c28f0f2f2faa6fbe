"""A small process beside training that sees how it ended, and writes that down where training could not."""
