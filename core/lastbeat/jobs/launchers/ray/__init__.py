"""Ray: jobs of a cluster, through the Jobs API of its dashboard."""
