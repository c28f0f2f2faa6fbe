"""lastbeat: a watchdog for long training runs."""

__version__ = "0.1.0"
