"""Tries decisions and signals on the past: only commands for makers and operators use it.

::

    labelled logs ─ scoring ─ by_repository, calibration      how good signals and causes are
    records       ─ backtest                                  what a restart policy would have been worth
    heartbeats    ─ past_timeouts                             what learned limits would have reported

Nothing of the product imports this room. It may import ``watch.decide``, ``explain`` and ``model``; it does no I/O.
"""
