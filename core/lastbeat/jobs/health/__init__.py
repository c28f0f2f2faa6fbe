"""The health of a training run: one report for ``lastbeat health`` and for scripts."""
