"""Local processes, each with a keeper beside it."""
