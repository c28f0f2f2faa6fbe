"""Logs go to stderr, and no secret gets into them."""

import logging
import sys
import time

from lastbeat.model.redact import Redactor


class _Format(logging.Formatter):
    """Redacts the finished text, so that arguments and tracebacks are covered too."""

    converter = staticmethod(time.gmtime)

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.redactor = Redactor()

    def format(self, record: logging.LogRecord) -> str:
        return self.redactor(super().format(record))


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]  # generic only for the checker
    """Whatever ``sys.stderr`` is at the moment: the live panel puts itself in front of it."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            self.setStream(sys.stderr)
            super().emit(record)


_format = _Format()


def start() -> None:
    """Send the logs of lastbeat and its libraries to stderr, warnings and worse."""
    handler = _Stderr()
    handler.setFormatter(_format)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def verbose(*, on: bool) -> None:
    """Whether to show what lastbeat does step by step; its libraries stay quiet either way."""
    logging.getLogger("lastbeat").setLevel(logging.DEBUG if on else logging.NOTSET)
    logging.getLogger("lastbeat_cli").setLevel(logging.DEBUG if on else logging.NOTSET)


def hide(secrets: Redactor) -> None:
    """From now on mask ``secrets``."""
    _format.redactor = secrets


def redact(text: str) -> str:
    """``text`` with every known secret masked."""
    return _format.redactor(text)
