"""The error of a secret that cannot be read, in a module apart from the reader, which few functions load."""


class SecretError(Exception):
    """A secret could not be read; the message says which, why and what to do, and never shows it."""
