"""What follows from a decision: recorded, carried out once, settled. Alerts at least once, actions at most once."""
