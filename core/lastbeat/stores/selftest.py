"""Tests that a store honours conditional writes. Some S3-compatible stores ignore conditions and let every writer
win."""

from lastbeat.stores.port import ConflictError, Expect, Store


def honours_conditions(store: Store, key: str, body: bytes, version: str) -> bool:
    """Whether ``store`` refuses a create-only write of an existing key, and a write with a wrong version.

    ``key`` must hold ``body`` at ``version``. Both probes write the same ``body``, so a store that accepts them keeps
    its content. Raises :class:`StoreError` if the store does not answer.
    """
    return _refuses(store, key, body, Expect.NOTHING) and _refuses(store, key, body, _other(version))


def conditions_ignored(store: Store) -> str:
    """The note about a store that ignores conditional writes."""
    return f"{store.url} ignores conditional writes: with more than one watcher an alert may go out twice."


def _refuses(store: Store, key: str, body: bytes, expect: Expect | str) -> bool:
    try:
        store.write(key, body, expect)
    except ConflictError:
        return True
    return False


def _other(version: str) -> str:
    """A version of the same form that the key does not have."""
    digits = {"0": "1"}
    return "".join(digits.get(char, "0") if char.isalnum() else char for char in version)
