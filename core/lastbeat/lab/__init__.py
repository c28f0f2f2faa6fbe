"""Evaluates signals, restart policies and learned limits on past runs. Only commands of the CLI use it.

::

    labelled logs ─ scoring ─ by_repository, calibration      quality of signals and causes
    records       ─ backtest                                  effect of a restart policy
    heartbeats    ─ past_timeouts                             alerts of learned limits

Nothing of the product imports this room. It may import ``watch.decide``, ``explain`` and ``model``; it does no I/O.
"""
