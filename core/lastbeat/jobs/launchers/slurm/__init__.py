"""Slurm: batch jobs, by its own commands."""
