"""What people do to the runs that they see: silence, acknowledge, end and restart them."""
