"""Ray: jobs of a cluster, by the Jobs API of its dashboard."""
