"""lastbeat's own log: through :mod:`logging`, by LASTBEAT_OWN_LOG, with secrets masked."""

import logging
import time
from pathlib import Path
from typing import Final

from lastbeat.model.secrets import Redactor, mask_tokens
from lastbeat.settings import Settings
from lastbeat.settings.table import OWN_LOG

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


FORMAT: Final = MaskingFormatter()
"""The format of the process that serves or prints what people see. Its ``redactor`` has the secrets of the settings."""


def redact(text: str) -> str:
    """``text`` with every known secret masked."""
    return FORMAT.redactor(text)


def masked(text: str) -> str:
    """``text`` with every known secret masked, and whatever looks like a token."""
    return mask_tokens(redact(text))


def level(settings: Settings) -> int:
    """The level as a number of :mod:`logging`."""
    return int(getattr(logging, (settings[OWN_LOG].level or "warning").upper()))


def file_handler(path: Path, formatter: logging.Formatter) -> logging.Handler:
    """Appends to ``path``, and reopens it after a rotation. Raises ``OSError``."""
    from logging.handlers import WatchedFileHandler  # noqa: PLC0415 - 6 ms, and few have such a file

    path.parent.mkdir(parents=True, exist_ok=True)
    made = WatchedFileHandler(path, encoding="utf-8", errors="backslashreplace")
    made.setFormatter(formatter)
    return made


def announce(text: str, name: str = NAMES[0]) -> None:
    """Log ``text`` for people in training's log, by the logger of that ``name``. A logger that shows only warnings
    prints it on stderr; one that shows even less does not. Never raises."""
    own = logging.getLogger(name)
    try:
        if own.isEnabledFor(logging.INFO) and own.hasHandlers():
            own.info("%s", text)
        elif own.isEnabledFor(logging.WARNING):
            record = own.makeRecord(own.name, logging.INFO, __file__, 0, "%s", (text,), None)
            for handler in own.handlers or ([logging.lastResort] if logging.lastResort is not None else []):
                handler.handle(record)
    except Exception as fault:  # noqa: BLE001 - training's handlers may do anything
        own.debug("cannot log an announcement: %s", fault)


def begin_in_training(settings: Settings) -> None:
    """Set up logging within a program that has its own, and change only the parts that the settings name. Never
    raises."""
    own = logging.getLogger("lastbeat")
    wanted = level(settings)
    if wanted != logging.WARNING:
        own.setLevel(wanted)
    path = settings[OWN_LOG].file
    if any(isinstance(handler.formatter, MaskingFormatter) for handler in own.handlers):
        # An earlier run of this process has set it up.
        return
    handler: logging.Handler | None = None
    if path is not None:
        try:
            handler = file_handler(path, MaskingFormatter(settings.redactor))
            own.propagate = False
        except OSError as fault:
            own.warning("%s cannot be written: %s; correct %s", path, fault.strerror or fault, OWN_LOG.name)
    elif wanted < logging.WARNING and not own.hasHandlers():
        # Logging is not configured, so Python's last resort would show only warnings.
        handler = logging.StreamHandler()
        handler.setFormatter(MaskingFormatter(settings.redactor))
    if handler is not None:
        own.addHandler(handler)
