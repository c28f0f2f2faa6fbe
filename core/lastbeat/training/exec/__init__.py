"""What ``lastbeat exec`` does: ``child`` runs the command, ``in_place`` restarts it within its job."""
