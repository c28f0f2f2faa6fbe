"""The version of this distribution, where everything may import it from."""

__version__ = "0.2.0"
