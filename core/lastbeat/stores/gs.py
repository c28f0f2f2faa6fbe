"""``gs://bucket/prefix``: Google Cloud Storage. Credentials are found in the order of Google's own libraries."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final
from urllib.parse import quote

from lastbeat.model.setting import Setting, SettingValues
from lastbeat.stores.kind import Charge, Prices, Remedies, Root, Traits
from lastbeat.stores.port import check_prefix

NAME: Final = "Google Cloud Storage"
SCHEME: Final = "gs"
EXAMPLE: Final = "gs://bucket/prefix"
# Class A operations (writing, listing) and class B (reading) of Standard storage in a region, from
# https://cloud.google.com/storage/pricing-examples (2025); in a dual-region or multi-region class A costs twice that.
PRICES: Final = Prices(
    MappingProxyType(
        {"LIST": 0.005 / 1000, "PUT": 0.005 / 1000, "GET": 0.0004 / 1000, "HEAD": 0.0004 / 1000, "DELETE": 0.0}
    ),
    Charge.LISTED,
    "Google Cloud Storage, Standard in one region",
)
TRAITS: Final = Traits(PRICES)

_WELL_KNOWN: Final = ".config/gcloud/application_default_credentials.json"
LOGIN: Final = (
    "set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file, run `gcloud auth application-default login`, "
    "or give the machine a service account"
)
REMEDIES: Final = Remedies(
    place="bucket",
    endpoint="STORAGE_EMULATOR_HOST",
    login=LOGIN,
    expired=LOGIN,
    create="create the bucket, or correct MONITORING_ROOT",
    trust="check the endpoint, and the certificates that this system trusts",
    allow={
        "reading": "storage.objects.get",
        # Replacing an object also deletes the previous one.
        "writing": "storage.objects.create and storage.objects.delete",
        "listing": "storage.objects.list",
        "deleting": "storage.objects.delete",
    },
    no_place=frozenset({"NoSuchBucket"}),
    no_key=frozenset({"NoSuchKey"}),
    denied={
        "ExpiredToken": ("the credentials have expired", LOGIN),
        "InvalidAuthentication": ("the credentials are not known there", LOGIN),
        "AuthenticationRequired": ("it wants credentials", LOGIN),
        "UserProjectAccountProblem": ("the project's billing account has a problem", "ask the owner of the project"),
        "AccountProblem": ("the account has a problem", "ask the owner of the project"),
    },
)


def _emulator(text: str) -> str:
    address = text if "://" in text else f"http://{text}"
    if not re.fullmatch(r"https?://[^\s/?#@]+/?", address, re.ASCII):
        raise ValueError("is not a host with its port")
    return address.rstrip("/")


GOOGLE_APPLICATION_CREDENTIALS = Setting[str | None](
    "GOOGLE_APPLICATION_CREDENTIALS",
    str,
    "gs://: key file of a service account, or of application default credentials; else gcloud's own, else what the "
    "machine is given.",
    example="/etc/lastbeat/service-account.json",
)
GOOGLE_SERVICE_ACCOUNT_KEY = Setting[str | None](
    "GOOGLE_SERVICE_ACCOUNT_KEY",
    str,
    "gs://: the text of such a key file in place of the file.",
    secret=True,
)
STORAGE_EMULATOR_HOST = Setting[str | None](
    "STORAGE_EMULATOR_HOST",
    _emulator,
    "gs://: host and port of an emulator of Google Cloud Storage, which is asked without credentials.",
    example="localhost:9023",
)
SETTINGS: Final = (GOOGLE_APPLICATION_CREDENTIALS, GOOGLE_SERVICE_ACCOUNT_KEY, STORAGE_EMULATOR_HOST)


def parse(address: str) -> Root:
    """As :meth:`lastbeat.stores.registry.StoreModule.parse`."""
    bucket, _, rest = address.partition("/")
    if not bucket:
        raise ValueError("names no bucket")
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", bucket, re.ASCII) or ".." in bucket:
        raise ValueError(
            "is not a bucket's name: 3 characters or more of a-z 0-9 . _ - with a letter or digit at both ends"
        )
    return Root(SCHEME, bucket, check_prefix(rest) or None)


def secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """A token that obstore takes from the environment, and the key in the text of a key file."""
    yield from (text for name in ("GOOGLE_BEARER_TOKEN",) if (text := environ.get(name, "").strip()))
    try:
        key = json.loads(environ.get(GOOGLE_SERVICE_ACCOUNT_KEY.name) or "{}")
    except ValueError:
        return
    if isinstance(key, dict):
        found = (key.get(name) for name in ("private_key", "private_key_id"))
        yield from (each for each in found if isinstance(each, str) and each)


def key_file(values: SettingValues, env: Mapping[str, str]) -> Path | None:
    """The file with the credentials: the named one, else gcloud's own if it exists, else None."""
    if named := values[GOOGLE_APPLICATION_CREDENTIALS]:
        return Path(named).expanduser()
    home = env.get("HOME", "").strip()
    own = Path(home, _WELL_KNOWN) if home else None
    return own if own is not None and own.is_file() else None


def credentials(values: SettingValues, environ: Mapping[str, str]) -> str:
    """As :meth:`lastbeat.stores.registry.StoreModule.credentials`."""
    if values[STORAGE_EMULATOR_HOST]:
        return "by an emulator (STORAGE_EMULATOR_HOST), which wants none"
    if values[GOOGLE_SERVICE_ACCOUNT_KEY]:
        return "the key in GOOGLE_SERVICE_ACCOUNT_KEY"
    if file := key_file(values, environ):
        return f"those of {file}"
    return "those of this machine's service account"


def endpoint(values: SettingValues, environ: Mapping[str, str]) -> str:
    """As :meth:`lastbeat.stores.registry.StoreModule.endpoint`."""
    return STORAGE_EMULATOR_HOST.name if values[STORAGE_EMULATOR_HOST] else ""


def console_link(root: Root, values: SettingValues, environ: Mapping[str, str], run_id: str) -> str | None:
    """As :meth:`lastbeat.stores.registry.StoreModule.console_link`."""
    if values[STORAGE_EMULATOR_HOST]:
        return None
    folder = quote(f"{root.prefix}/{run_id}".lstrip("/"))
    return f"https://console.cloud.google.com/storage/browser/{root.place}/{folder}"
