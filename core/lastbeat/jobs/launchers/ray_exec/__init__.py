"""Ray: jobs of a cluster, through Ray's own commands in its head pod. ``lastbeat.launch.ray`` uses it."""
