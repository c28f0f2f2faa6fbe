"""Launchers start, query, find and end jobs. Each kind is one package."""
