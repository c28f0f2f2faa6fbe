"""Restart policies as people write them: their files, the names in them, and those that come with lastbeat."""
