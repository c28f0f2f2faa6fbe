"""``sweep``: makes passes over a fleet and reports them."""
