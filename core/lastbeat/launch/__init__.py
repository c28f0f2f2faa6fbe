"""For scripts of people who train on Ray: ``lastbeat.launch.ray``."""
