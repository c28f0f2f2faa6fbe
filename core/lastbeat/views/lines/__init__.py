"""A run and its figures as lines of text, for terminals and for Slack."""
