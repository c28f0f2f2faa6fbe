"""``backtest``: what a restart policy would have made of a fleet's past."""
