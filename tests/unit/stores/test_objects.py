"""What holds for the object store before and beside any request."""

import subprocess
import sys
from pathlib import Path

import pytest

from lastbeat.stores import az, gs
from lastbeat.stores.answers import explain
from lastbeat.stores.kind import Remedies
from lastbeat.stores.port import DeniedError, StoreError, UnreachableError
from lastbeat.stores.s3 import REMEDIES
from support.row_by_row import labelled

CORE = str(Path(__file__).parents[3] / "core")


def _run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": CORE}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_environments_own_keys_load_no_boto3() -> None:
    code = (
        "import sys; from lastbeat.stores.port import UnreachableError\n"
        "from lastbeat.stores.registry import parse; from lastbeat.stores.s3_store import s3_store\n"
        "env = {'AWS_ENDPOINT_URL': 'http://127.0.0.1:1', 'AWS_ACCESS_KEY_ID': 'a', 'AWS_SECRET_ACCESS_KEY': 'b',\n"
        "       'AWS_CONFIG_FILE': '/nonexistent', 'AWS_SHARED_CREDENTIALS_FILE': '/nonexistent'}\n"
        "try: s3_store(parse('s3://bucket/runs'), env, region='us-east-1').list('')\n"
        "except UnreachableError: print(sorted({'boto3', 'botocore'} & set(sys.modules)))"
    )
    assert _run(code) == "[]"


def test_a_forked_child_is_refused_and_does_not_hang() -> None:
    code = (
        "import os, time; from obstore.store import MemoryStore; from lastbeat.stores.clock import StoreClock\n"
        "from lastbeat.stores.s3 import REMEDIES; from lastbeat.stores.volatile import IN_MEMORY\n"
        "from lastbeat.stores.objects import Dialect, ObjectStore; from lastbeat.stores.port import StoreError\n"
        "clock, dialect = StoreClock(time.time, 'memory:///'), Dialect(IN_MEMORY, REMEDIES)\n"
        "make = lambda: ObjectStore(MemoryStore, url='memory:///', clock=clock, dialect=dialect)\n"
        "used, fresh = make(), make(); used.list(''); pid = os.fork()\n"
        "if pid:\n"
        "    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0; used.list('')\n"
        "else:\n"
        "    for store in (used, fresh):\n"
        "        try: store.read('x', 1)\n"
        "        except StoreError as error: assert 'forked' in str(error)\n"
        "        else: os._exit(1)\n"
        "    os._exit(0)\n"
    )
    _run(code)


@pytest.mark.parametrize(("text", "kind", "expected"), labelled([
    ("a certificate that nobody signed",
     "HTTP error: error sending request\n\nDebug source:\nkind: Connect, InvalidCertificate(UnknownIssuer)",
     StoreError, "certificate is not trusted"),
    ("a host that does not exist",
     'HTTP error: error sending request\n\n"dns error", failed to lookup address information', UnreachableError,
     "cannot be resolved"),
    ("a time-out", "HTTP error: error sending request\n\nkind: Timeout", UnreachableError, "in time"),
    ("anything else", "something new\nsecret=AKIA", StoreError, "not how an object store speaks"),
]))  # fmt: skip
def test_trouble_below_http_is_told_in_words(text: str, kind: type[StoreError], expected: str) -> None:
    error = explain(RuntimeError(text), "s3://bucket/runs", "reading run-1/_error", REMEDIES)
    assert type(error) is kind
    assert expected in str(error)
    assert "AKIA" not in str(error)
    assert error.advice


@pytest.mark.parametrize(("text", "kind", "expected"), labelled([
    ("a machine without a service account",
     ("Error performing token request: Error performing GET http://169.254.169.254/computeMetadata/v1/x in 1ms - "
     "Server returned non-2xx status code: 404 Not Found: secret=AKIA"), DeniedError, "no credentials were issued"),
    ("nobody to ask, or not at the moment",
     ("Error performing token request: Error performing GET http://metadata.google.internal/x in 3s - "
     "HTTP error: error sending request\n\nkind: Timeout"), UnreachableError, "could not be reached"),
    ("who issues them has trouble",
     ("Error performing token request: Error performing POST https://login.microsoftonline.com/t/oauth2/token "
     "in 1s - Server returned non-2xx status code: 503 Service Unavailable: "), UnreachableError, "answered 503"),
    ("a batch that removes", "Bulk delete request failed for key run-1/x: not allowed (code: 403)", DeniedError, "403"),
]))  # fmt: skip
@pytest.mark.parametrize("remedies", [gs.REMEDIES, az.REMEDIES], ids=["Google", "Azure"])
def test_credentials_that_are_not_issued_are_told_with_what_to_set(
    text: str, kind: type[StoreError], expected: str, remedies: Remedies
) -> None:
    error = explain(RuntimeError(text), "gs://bucket/runs", "deleting run-1/x", remedies)
    assert type(error) is kind
    assert expected in str(error)
    assert "AKIA" not in str(error)
    assert error.advice
