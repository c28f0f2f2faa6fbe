"""What runs inside training: it reports the run, and never raises into training, blocks it or slows it."""
