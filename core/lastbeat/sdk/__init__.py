"""What runs inside training: it reports, and never raises into it, blocks it or slows it."""
