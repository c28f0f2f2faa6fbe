"""``policy``: when jobs are started again."""
