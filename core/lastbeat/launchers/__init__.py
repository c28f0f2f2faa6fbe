"""Launchers: how a job is started, asked about, found again and ended. A module a kind, and a line in the registry."""
