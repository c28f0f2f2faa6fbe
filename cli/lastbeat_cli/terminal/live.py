"""Shared by live screens: whether the terminal can show one, and how it ends."""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from lastbeat_cli.terminal import paint

if TYPE_CHECKING:
    from lastbeat_cli.terminal.feed import Feed

T = TypeVar("T")
_PATIENCE_S: Final = 0.3


def possible() -> bool:
    """Whether stdout is a terminal to draw on, and stdin one to read keys from."""
    return paint.capable(sys.stdout) and sys.stdin is not None and sys.stdin.isatty()


@contextmanager
def quiet() -> Iterator[None]:
    """Turn off logs on the terminal: they would damage the picture, which shows errors itself."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def leave(feed: "Feed[T]", status: int) -> int:
    """Stop ``feed`` and return ``status``. If a read hangs in the store, end the process at once."""
    ended = feed.stop(_PATIENCE_S)
    if feed.broken is not None:
        raise feed.broken
    if not ended:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        os._exit(status)
    return status
