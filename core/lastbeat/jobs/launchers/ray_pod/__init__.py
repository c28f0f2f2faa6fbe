"""The head pod of a Ray cluster on Kubernetes: jobs are processes in it, by ``kubectl exec``."""
