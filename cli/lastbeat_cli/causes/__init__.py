"""``causes``: the cost of a fleet's failures."""
