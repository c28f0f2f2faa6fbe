"""Azurite: Microsoft's own emulator of Azure Blob Storage, from npm."""

import base64
import hashlib
import hmac
import http.client
import os
import shutil
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from support.waiting import LIMIT_S

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Account and key of every Azurite: Microsoft's documents print them."""
INSTALL = (
    "azurite is not installed: npm install --prefix ~/azurite azurite, and set AZURITE=~/azurite/node_modules/.bin"
)
_VERSION = "2021-12-02"
_START_S = 60.0


@dataclass(frozen=True)
class AzureServer:
    """``url`` is that of the account."""

    url: str

    def container(self) -> str:
        """A new, empty container."""
        name = f"runs-{uuid.uuid4().hex[:12]}"
        request = Request(f"{self.url}/{name}?restype=container", method="PUT", headers=_signed(name))
        with urlopen(request, timeout=LIMIT_S):
            return name

    def environment(self) -> dict[str, str]:
        """What a process needs in its environment to find this server, as it would find Azure."""
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
            "AZURE_STORAGE_ENDPOINT": self.url,
        }

    def signature(self, permissions: str) -> str:
        """A shared access signature of the account, for containers and blobs."""
        fields = [ACCOUNT, permissions, "b", "co", "", "2099-01-01T00:00:00Z", "", "http,https", _VERSION, "", ""]
        signed = base64.b64encode(hmac.new(base64.b64decode(KEY), "\n".join(fields).encode(), hashlib.sha256).digest())
        asked = f"sv={_VERSION}&ss=b&srt=co&sp={permissions}&se=2099-01-01T00%3A00%3A00Z&spr=http%2Chttps"
        return f"{asked}&sig={signed.decode().replace('+', '%2B').replace('/', '%2F').replace('=', '%3D')}"


def find_azurite() -> str | None:
    """``azurite-blob`` in the folder that AZURITE names, or on the path."""
    return shutil.which("azurite-blob", path=os.environ.get("AZURITE")) or shutil.which("azurite-blob")


@contextmanager
def run_azurite(azurite: str, folder: Path) -> Iterator[AzureServer]:
    """The blob service alone on a free port, which keeps nothing."""
    log = folder / "azurite.log"
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [azurite, *options, "--blobHost", "127.0.0.1", "--blobPort", "0"],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
        )  # fmt: skip
    try:
        yield AzureServer(f"{_listens(process, log)}/{ACCOUNT}")
    finally:
        process.terminate()
        process.wait(LIMIT_S)


def _listens(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Where, as it says itself, once somebody answers there."""
    until = time.monotonic() + _START_S
    while time.monotonic() < until and process.poll() is None:
        _, found, rest = log.read_text(errors="replace").partition("successfully listens on ")
        if found and "\n" in rest:
            url = rest.splitlines()[0].strip()
            connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=5)
            try:
                connection.request("GET", "/")
                connection.getresponse()
            except OSError:
                pass  # not up yet
            else:
                return url
            finally:
                connection.close()
        time.sleep(0.1)
    raise RuntimeError(f"Azurite did not start:\n{log.read_text(errors='replace')[-2000:]}")


def _signed(container: str) -> dict[str, str]:
    """Headers that make a container."""
    date = formatdate(usegmt=True)
    lines = ["PUT", *[""] * 11, f"x-ms-date:{date}", f"x-ms-version:{_VERSION}"]
    lines += [f"/{ACCOUNT}/{ACCOUNT}/{container}", "restype:container"]
    digest = hmac.new(base64.b64decode(KEY), "\n".join(lines).encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    return {
        "x-ms-date": date,
        "x-ms-version": _VERSION,
        "Authorization": f"SharedKey {ACCOUNT}:{signature}",
        "Content-Length": "0",
    }
