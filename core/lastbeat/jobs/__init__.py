"""Restart jobs; ``launchers`` start them.

    restarts        policies: when a job is restarted
    checkpoints     from where
    supervision     a job's part of a tick, and the executor that restarts it

It may import ``watch`` and what that may.
"""
