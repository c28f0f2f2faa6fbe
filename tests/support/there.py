"""What has to be there."""

from typing import TypeVar

T = TypeVar("T")


def there(found: T | None) -> T:
    """``found``, which is not None."""
    assert found is not None
    return found
