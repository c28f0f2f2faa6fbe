"""What a run's logs say → why it failed."""
