"""lastbeat's own log: through :mod:`logging`, as LASTBEAT_LOG_LEVEL and LASTBEAT_LOG_FILE say, with secrets masked."""

import logging
import time
from pathlib import Path
from typing import Final

from lastbeat.model.redact import Redactor
from lastbeat.settings import Settings
from lastbeat.settings.table import LOG_FILE, LOG_LEVEL

NAMES: Final = ("lastbeat", "lastbeat_cli", "lastbeat_lambda")
"""lastbeat's own loggers."""


class MaskingFormatter(logging.Formatter):
    """Masks the finished text, including arguments and tracebacks."""

    converter = staticmethod(time.gmtime)

    def __init__(self, redactor: Redactor | None = None) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
        self.redactor = redactor or Redactor()

    def format(self, record: logging.LogRecord) -> str:
        return self.redactor(super().format(record))


def level(settings: Settings) -> int:
    """The level as a number of :mod:`logging`."""
    return int(getattr(logging, settings[LOG_LEVEL].upper()))


def file_handler(path: Path, formatter: logging.Formatter) -> logging.Handler:
    """Appends to ``path``, and to a new file after a rotation. Raises ``OSError``."""
    from logging.handlers import WatchedFileHandler  # noqa: PLC0415 - 6 ms, and few have such a file

    path.parent.mkdir(parents=True, exist_ok=True)
    made = WatchedFileHandler(path, encoding="utf-8", errors="backslashreplace")
    made.setFormatter(formatter)
    return made


def announce(text: str, name: str = NAMES[0]) -> None:
    """Tell people something in the log of training, by the logger of that ``name``, also where that shows warnings
    alone: then on stderr. Not where the settings show even less. Never raises."""
    own = logging.getLogger(name)
    try:
        if own.isEnabledFor(logging.INFO) and own.hasHandlers():
            own.info("%s", text)
        elif own.isEnabledFor(logging.WARNING):
            record = own.makeRecord(own.name, logging.INFO, __file__, 0, "%s", (text,), None)
            for handler in own.handlers or ([logging.lastResort] if logging.lastResort is not None else []):
                handler.handle(record)
    except Exception as fault:  # noqa: BLE001 - training's handlers may do anything
        own.debug("could not be told: %s", fault)


def begin_in_training(settings: Settings) -> None:
    """Set up logging within a program that has its own: change only what the settings name. Never raises."""
    own = logging.getLogger("lastbeat")
    wanted = level(settings)
    if wanted != logging.WARNING:
        own.setLevel(wanted)
    path = settings[LOG_FILE]
    if any(isinstance(handler.formatter, MaskingFormatter) for handler in own.handlers):
        # An earlier run of this process has set it up.
        return
    handler: logging.Handler | None = None
    if path is not None:
        try:
            handler = file_handler(path, MaskingFormatter(settings.redactor))
            own.propagate = False
        except OSError as fault:
            own.warning("LASTBEAT_LOG_FILE=%s cannot be written: %s", path, fault.strerror or fault)
    elif wanted < logging.WARNING and not own.hasHandlers():
        # Nobody configured logging, and what Python does then shows warnings alone.
        handler = logging.StreamHandler()
        handler.setFormatter(MaskingFormatter(settings.redactor))
    if handler is not None:
        own.addHandler(handler)
