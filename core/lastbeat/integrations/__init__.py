"""Callbacks for training frameworks, one module each. A module imports its framework, and lastbeat imports none of
them."""
