"""Apart from the module that reads secrets, which few functions load."""


class SecretError(Exception):
    """A secret could not be read; the message says which, why and what to do, and never shows it."""
