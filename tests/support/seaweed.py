"""SeaweedFS: an S3 server that shares no code with any other of these tests, and checks signatures."""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.s3 import ACCESS_KEY, SECRET_KEY, S3Server
from support.waiting import LIMIT_S

READER_KEY = "reader"
"""An access key that may list and read, and nothing else; its secret is :data:`SECRET_KEY`."""

_START_S = LIMIT_S
_PARTS = ("master", "volume", "filer", "s3")


def find_weed() -> str | None:
    """The ``weed`` binary on the path or beside this Python."""
    return shutil.which("weed") or shutil.which("weed", path=str(Path(sys.executable).parent))


@contextmanager
def run_seaweed(weed: str, folder: Path) -> Iterator[S3Server]:
    """Master, volume server, filer and S3 gateway in one process on free ports, with their data in ``folder``."""
    data = folder / "data"
    data.mkdir(parents=True)
    identities = folder / "s3.json"
    identities.write_text(json.dumps({"identities": [_identity(ACCESS_KEY, "Admin"), _identity(READER_KEY, "Read")]}))
    free = _free_ports(2 * len(_PARTS))
    s3 = free[_PARTS.index("s3")]
    command = [
        *(weed, "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *("-filer", "-s3", f"-s3.config={identities}"),
        *(f"-{part}.port={port}" for part, port in zip(_PARTS, free, strict=False)),
        *(f"-{part}.port.grpc={port}" for part, port in zip(_PARTS, free[len(_PARTS) :], strict=True)),
        # What would listen on a fixed port, and what would call home.
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false"),
        # Volumes are grown in groups, and the default size would fill a small disk.
        *("-master.volumeSizeLimitMB=32", "-volume.max=4000"),
    ]
    log = folder / "weed.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        _wait_for(s3, process, log)
        yield S3Server(f"http://127.0.0.1:{s3}")
    finally:
        process.kill()  # asked politely it takes over ten seconds
        process.wait(LIMIT_S)


def _identity(access_key: str, role: str) -> dict[str, object]:
    actions = ["Admin", "Read", "Write", "List", "Tagging"] if role == "Admin" else ["Read", "List"]
    return {
        "name": access_key,
        "credentials": [{"accessKey": access_key, "secretKey": SECRET_KEY}],
        "actions": actions,
    }


def _free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    try:
        for s in held:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in held]
    finally:
        for s in held:
            s.close()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=2)
        try:
            connection.request("GET", "/")
            if connection.getresponse().status in {200, 403}:
                return
        except (OSError, http.client.HTTPException):
            pass  # not up yet
        finally:
            connection.close()
        time.sleep(0.1)
    raise RuntimeError(f"SeaweedFS did not start:\n{log.read_text(errors='replace')[-2000:]}")
