"""What people look at: records and heartbeats as they lie in the store → rows of a fleet, all about one run."""
