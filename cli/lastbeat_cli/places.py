"""Places that a person names, beside the fleet root: advice about the root is none about these."""

from collections.abc import Iterator
from contextlib import contextmanager

from lastbeat.stores.port import MissingStoreError


@contextmanager
def named_by(what: str) -> Iterator[None]:
    """Whatever is missing within was named by ``what``: raises :class:`MissingStoreError` with advice that says so."""
    try:
        yield
    except MissingStoreError as error:
        do, is_of_root, _ = error.advice.partition("or correct MONITORING_")
        raise MissingStoreError(str(error), f"{do}or {what}" if is_of_root else error.advice) from None
