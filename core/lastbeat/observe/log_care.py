"""One log that trips what understands text must not hide the others: each is asked by itself what it says."""

import logging
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from lastbeat.observe.file_log import FileLog, Readers
from lastbeat.stores.port import StoreError

if TYPE_CHECKING:
    from lastbeat.causes.mentions import Account
    from lastbeat.observe.log_deep import Share, Told

log = logging.getLogger(__name__)

T = TypeVar("T")


class Care:
    """Asks the logs of one run, and keeps which of them tripped since :meth:`begin`."""

    def __init__(self, run_id: str, readers: Readers) -> None:
        self.tripped: dict[str, str] = {}
        """Name of a log → what is said of it."""
        self._run_id = run_id
        self._readers = readers

    def begin(self) -> None:
        """A look begins."""
        self.tripped = {}

    def trip(self, file: FileLog, error: Exception) -> None:
        """``file`` could not be understood: what it said is lost, and reading goes on where it is."""
        log.error("%s of %s could not be understood", file.name, self._run_id, exc_info=error)
        file.forget()
        self.tripped[file.name] = f"{file.name} could not be understood ({type(error).__name__})."

    def account(self, file: FileLog) -> "Account | None":
        """What this attempt's text in ``file`` says; None when there is none."""
        found = self._ask(file, lambda: file.account(self._readers))
        # What it said is lost; that it was written is not.
        return found or self._ask(file, lambda: file.account(self._readers))

    def known(self, file: FileLog) -> "Told | None":
        """As :func:`lastbeat.observe.log_deep.known`."""
        from lastbeat.observe.log_deep import known  # noqa: PLC0415 - only at an event

        return self._ask(file, lambda: known(file, self._readers))

    def read_back(self, share: "Share", since: datetime | None) -> "Told | None":
        """As :func:`lastbeat.observe.log_deep.read_back`; where that cannot be read, what is known."""
        from lastbeat.observe.log_deep import read_back  # noqa: PLC0415 - as above

        try:
            return self._ask(share.file, lambda: read_back(share, since, self._readers))
        except StoreError:
            return self.known(share.file)

    def _ask(self, file: FileLog, question: Callable[[], T]) -> T | None:
        try:
            return question()
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this log's
            self.trip(file, error)
            return None
