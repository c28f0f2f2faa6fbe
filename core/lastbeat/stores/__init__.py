"""The storage of runs: the store port, and one module for each kind of store."""
