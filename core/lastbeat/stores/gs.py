"""``gs://bucket/prefix``: Google Cloud Storage. Credentials are found in the order of Google's own libraries."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from lastbeat.model.setting import Setting, SettingValues
from lastbeat.stores.kind import Charge, Prices, Remedies, Root, Traits
from lastbeat.stores.port import DeniedError, StoreError, check_prefix

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Backend

    from lastbeat.stores.objects import ObjectStore

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

_ENDPOINT: Final = "https://storage.googleapis.com"
_ISSUERS: Final = (
    "oauth2.googleapis.com",
    "accounts.google.com",
    "www.googleapis.com",
    "metadata.google.internal",
    "169.254.169.254",
)
"""Issuers of tokens: for a service account, and on a machine in Google Cloud."""
_WELL_KNOWN: Final = ".config/gcloud/application_default_credentials.json"
_LOGIN: Final = (
    "set GOOGLE_APPLICATION_CREDENTIALS to a service account's key file, run `gcloud auth application-default login`, "
    "or give the machine a service account"
)
REMEDIES: Final = Remedies(
    place="bucket",
    endpoint="STORAGE_EMULATOR_HOST",
    login=_LOGIN,
    expired=_LOGIN,
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
        "ExpiredToken": ("the credentials have expired", _LOGIN),
        "InvalidAuthentication": ("the credentials are not known there", _LOGIN),
        "AuthenticationRequired": ("it wants credentials", _LOGIN),
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


def open_store(
    root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False
) -> "ObjectStore":
    """As :meth:`lastbeat.stores.registry.StoreModule.open_store`."""
    from lastbeat.stores.clock import StoreClock  # noqa: PLC0415 - only the chosen store's client is loaded
    from lastbeat.stores.endpoint import server_time_s  # noqa: PLC0415 - as above
    from lastbeat.stores.objects import Dialect, ObjectStore  # noqa: PLC0415 - as above

    url, at = root.url, values[STORAGE_EMULATOR_HOST] or _ENDPOINT
    return ObjectStore(
        lambda: _connect(root, values, environ, at),
        url=url,
        clock=StoreClock(lambda: server_time_s(at, root.place, environ), url),
        dialect=Dialect(TRAITS, REMEDIES, by_generation=True),
    )


def _connect(root: Root, values: SettingValues, env: Mapping[str, str], at: str) -> "Backend":
    from obstore.exceptions import BaseError  # noqa: PLC0415 - as below
    from obstore.store import GCSStore  # noqa: PLC0415 - 25 ms, which a directory's watcher need not wait for

    from lastbeat.stores.endpoint import client_options  # noqa: PLC0415

    options: Any = client_options(at, env, *_ISSUERS, *filter(None, [env.get("GCE_METADATA_HOST")]))
    # obstore takes missing options from the environment, so all relevant ones are given.
    config: Any = {"base_url": at, "skip_signature": False}
    if values[STORAGE_EMULATOR_HOST]:
        # The emulator ignores it, but without one obstore would ask a metadata server for a token.
        config["bearer_token"] = "emulator"  # noqa: S105 - no secret
    elif key := values[GOOGLE_SERVICE_ACCOUNT_KEY]:
        config["service_account_key"] = key
    elif file := _key_file(values, env):
        _check_readable(file, root.url, named=values[GOOGLE_APPLICATION_CREDENTIALS] is not None)
        config["application_credentials"] = str(file)
    try:
        return GCSStore(
            root.place,
            prefix=root.prefix or None,
            config=config,
            client_options=options,
            retry_config={"max_retries": 0},
        )
    except (BaseError, ValueError, TypeError) as error:
        # Its text may contain parts of the key file.
        raise StoreError(
            f"{root.url}: the Google credentials could not be understood ({type(error).__name__})",
            f"{_LOGIN}; of other kinds of credentials (workload identity federation, impersonation) none is taken",
        ) from None


def _check_readable(file: Path, url: str, *, named: bool) -> None:
    try:
        with file.open("rb"):
            return
    except OSError as error:
        why = error.strerror or "it cannot be read"
    raise DeniedError(
        f"{url}: no credentials: the key file {file} cannot be read: {why}",
        f"correct {GOOGLE_APPLICATION_CREDENTIALS.name}, or unset it if other credentials are meant"
        if named
        else _LOGIN,
    )


def _key_file(values: SettingValues, env: Mapping[str, str]) -> Path | None:
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
    if file := _key_file(values, environ):
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
