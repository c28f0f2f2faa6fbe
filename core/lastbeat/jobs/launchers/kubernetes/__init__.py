"""Kubernetes: a job is an object of the cluster, made from the user's manifest and queried with kubectl."""
