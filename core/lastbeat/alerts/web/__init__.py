"""HTTP calls that end: how long one may take, and why there was no answer."""
