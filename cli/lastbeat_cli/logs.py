"""Logging to stderr or to the file of LASTBEAT_OWN_LOG, with secrets masked."""

import logging
import sys

from lastbeat.model.secrets import Redactor
from lastbeat.model.text import clean
from lastbeat.settings import Settings, own_log
from lastbeat.settings.table import OWN_LOG


class _Stderr(logging.StreamHandler):  # type: ignore[type-arg]  # generic only for the checker
    """Writes to the current ``sys.stderr``, which a test may replace."""

    def emit(self, record: logging.LogRecord) -> None:
        if sys.stderr is not None:
            self.setStream(sys.stderr)
            super().emit(record)


_format = own_log.FORMAT
redact = own_log.redact
masked = own_log.masked


def start() -> None:
    """Send warnings and errors of lastbeat and its libraries to stderr."""
    handler = _Stderr()
    handler.setFormatter(_format)
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)


def verbose(*, on: bool) -> None:
    """Turn debug logs of lastbeat on or off; its libraries stay quiet either way."""
    _set_level(logging.DEBUG if on else logging.NOTSET)


def follow(settings: Settings, *, tell: bool = True) -> None:
    """From now on mask the secrets of ``settings``, and log with their level to their file; ``--verbose`` outranks
    them. ``tell`` warns about old and misspelt names of settings."""
    hide(settings.redactor)
    if logging.getLogger(own_log.NAMES[0]).level == logging.NOTSET:
        _set_level(own_log.level(settings))
    path = settings[OWN_LOG].file
    if path is not None:
        try:
            handler = own_log.file_handler(path, _format)
        except OSError as fault:
            why = fault.strerror or fault
            what = "%s cannot be written: %s; correct %s"
            logging.getLogger(__name__).warning(what, path, why, OWN_LOG.name)
        else:
            logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    for hint in settings.name_hints if tell else ():
        logging.getLogger(__name__).warning("%s", hint)


def hide(secrets: Redactor) -> None:
    """From now on mask ``secrets``."""
    _format.redactor = secrets


def shown(text: str) -> str:
    """``text`` as one line for people: without terminal escapes and known secrets, its spaces as they are."""
    return redact(clean(text).replace("\n", " "))


def _set_level(level: int) -> None:
    for name in own_log.NAMES:
        logging.getLogger(name).setLevel(level)
