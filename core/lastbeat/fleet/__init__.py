"""Many runs: which of them to look at in this pass, what became of the pass, and what they have in common."""
