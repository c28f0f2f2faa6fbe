"""``show`` and ``top``: one run in depth."""
