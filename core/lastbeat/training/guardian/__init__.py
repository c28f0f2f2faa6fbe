"""A small process beside training that observes its end, and reports that if training could not."""
