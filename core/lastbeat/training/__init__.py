"""The code that runs inside a job, and beside it.

    entry           settings ──► a run that reports itself
    sdk             the run, its beat thread, sections, ranks
    node            GPUs, memory, disks and network of a node
    guardian        a process beside training that reports ends which Python cannot
    exec            what ``lastbeat exec`` does to a command; ``exec.in_place`` restarts it

``sdk`` imports ``stores`` and ``model`` alone, so that training loads nothing of the watchdog.
"""
