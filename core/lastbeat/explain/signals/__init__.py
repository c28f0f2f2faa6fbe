"""Catalogues of signals, the error types that they name, and hints about what to do."""
