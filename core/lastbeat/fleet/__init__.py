"""Many runs: which of them a pass works on, what it finds, and what they have in common."""
