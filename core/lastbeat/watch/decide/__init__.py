"""What an observation means for a run: pure functions of (record, observation, policy, now)."""
