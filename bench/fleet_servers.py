"""Servers with a fleet on them: moto, which is filled from inside, and SeaweedFS, which is filled as S3 is."""

import asyncio
import base64
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Protocol

from bench.server import BUCKET, CHECKOUT, PREFIX, S3, environment_for, s3

_AT_ONCE = 64
_BATCH = 5000


class Server(Protocol):
    """A server that the benchmarks' processes watch."""

    @property
    def name(self) -> str:
        """As people call it."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What a process needs to find it."""
        ...

    def fill(self, files: Iterable[tuple[str, bytes]]) -> None:
        """Write these keys below the fleet root, quickly."""
        ...


class Moto:
    """Its processes ask it as any S3; ``fill`` reaches into it."""

    name = "moto"

    def __init__(self, server: S3) -> None:
        self._server = server
        self.environment = server.environment

    def fill(self, files: Iterable[tuple[str, bytes]]) -> None:
        left = iter(files)
        while batch := list(islice(left, _BATCH)):
            self._server.fill({key: base64.b64encode(body).decode() for key, body in batch})


class Seaweed:
    """``weed`` of the group ``servers``, in a process of its own."""

    name = "SeaweedFS"

    def __init__(self, url: str, access_key: str, secret_key: str) -> None:
        self.environment = environment_for(url, access_key, secret_key)
        self._url, self._keys = url, (access_key, secret_key)

    def fill(self, files: Iterable[tuple[str, bytes]]) -> None:
        asyncio.run(self._fill(files))

    async def _fill(self, files: Iterable[tuple[str, bytes]]) -> None:
        import obstore  # noqa: PLC0415 - only who fills needs it
        from obstore.store import S3Store  # noqa: PLC0415

        store = S3Store(
            BUCKET,
            prefix=PREFIX,
            config={
                "endpoint": self._url,
                "region": "us-east-1",
                "access_key_id": self._keys[0],
                "secret_access_key": self._keys[1],
            },
            client_options={"allow_http": True},
        )
        left = iter(files)

        async def some() -> None:
            # All of them take from the same files, each the next one.
            for key, body in left:
                await obstore.put_async(store, key, body)

        await asyncio.gather(*(some() for _ in range(_AT_ONCE)))


@contextmanager
def moto() -> Iterator[Moto]:
    with s3() as server:
        yield Moto(server)


@contextmanager
def seaweed() -> Iterator[Seaweed | None]:
    """None where ``weed`` is not installed."""
    sys.path.insert(0, str(CHECKOUT / "tests"))
    from support.s3 import ACCESS_KEY, SECRET_KEY  # noqa: PLC0415 - the tests' own server, and how it is started
    from support.seaweed import find_weed, run_seaweed  # noqa: PLC0415

    weed = find_weed()
    if weed is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="lastbeat-weed-") as folder, run_seaweed(weed, Path(folder)) as server:
        server.client().create_bucket(Bucket=BUCKET)
        yield Seaweed(server.url, ACCESS_KEY, SECRET_KEY)
