"""``lastbeat routes``: which channels an alert goes to."""
