"""Start jobs, look after them and restart them.

    launchers       Slurm, Ray, Kubernetes, local processes: start, find and end jobs; they know no other room of jobs
    restarts        policies: when a job is restarted
    checkpoints     from where
    supervision     a job's part of a tick, and the executor that restarts it

It may import ``watch`` and what that may.
"""
