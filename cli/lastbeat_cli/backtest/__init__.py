"""``backtest``: replay a restart policy on a fleet's past."""
