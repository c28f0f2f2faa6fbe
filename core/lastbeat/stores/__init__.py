"""Where runs lie: the store port and one module a kind of store."""
