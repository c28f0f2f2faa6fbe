"""Launchers start, query, find and end jobs. Each kind is one package and one line in the registry."""
