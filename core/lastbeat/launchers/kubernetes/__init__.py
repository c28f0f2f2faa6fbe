"""Kubernetes: a job is an object of the cluster, made of its user's manifest and asked about with kubectl."""
