"""Where a fleet may lie that was made up in memory: in a directory, in a bucket, in memory."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from lastbeat.stores.directory import DirectoryStore
from lastbeat.stores.port import Store
from lastbeat.stores.registry import parse
from support.memory import MemoryStore
from support.s3 import REGION, S3Server

Put = Callable[[str, bytes, datetime], object]


@dataclass(frozen=True)
class Place:
    """Where a fleet is to lie: how a file gets there with the time at which it was written, and how passes see it."""

    put: Put
    store: Store


def place_of(at: "Place | Path | Store") -> Place:
    """A directory keeps the times of its files, and so does a store in memory; any other store says that all of it was
    written now."""
    if isinstance(at, Place):
        return at
    if isinstance(at, Path):
        return Place(_into(at), DirectoryStore(at, create=True))
    if isinstance(at, DirectoryStore):
        return Place(_into(Path(at.url)), at)
    if isinstance(at, MemoryStore):
        memory = at
        return Place(lambda key, body, when: memory.put_text(key, body.decode("utf-8"), modified=when), memory)
    store = at
    return Place(lambda key, body, _when: store.write(key, body), store)


def _into(root: Path) -> Put:
    def put(key: str, body: bytes, when: datetime) -> None:
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        os.utime(path, (when.timestamp(), when.timestamp()))

    return put


def bucket(server: S3Server, name: str, prefix: str = "training-runs") -> Place:
    """A bucket of our own server, which can be told when a key was written."""
    from lastbeat.stores.s3_store import s3_store  # noqa: PLC0415 - most places need no bucket

    store = s3_store(parse(f"s3://{name}/{prefix}"), server.environment(), region=REGION)
    return Place(lambda key, body, when: server.put(name, f"{prefix}/{key}", body, when), store)
