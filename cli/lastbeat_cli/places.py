"""Places that the user names besides the fleet root. Advice about the root does not fit them."""

from collections.abc import Iterator
from contextlib import contextmanager

from lastbeat.stores.port import MissingStoreError


@contextmanager
def named_by(what: str) -> Iterator[None]:
    """A context for a place that the user named. Replaces advice about the fleet root by ``what`` in a
    :class:`MissingStoreError`."""
    try:
        yield
    except MissingStoreError as error:
        do, is_of_root, _ = error.advice.partition("or correct MONITORING_")
        raise MissingStoreError(str(error), f"{do}or {what}" if is_of_root else error.advice) from None
