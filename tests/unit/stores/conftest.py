"""A fleet root that other users may look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.closed import open_place


@pytest.fixture
def place() -> Iterator[Path]:
    with open_place() as place:
        yield place
