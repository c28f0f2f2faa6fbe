"""The store behind a ``gs://`` address: obstore's client of Google Cloud Storage."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from obstore.exceptions import BaseError
from obstore.store import GCSStore
from obstore.store import ObjectStore as Backend

from lastbeat.model.setting import SettingValues
from lastbeat.stores.clock import StoreClock
from lastbeat.stores.endpoint import client_options, server_time_s
from lastbeat.stores.gs import (
    GOOGLE_APPLICATION_CREDENTIALS,
    GOOGLE_SERVICE_ACCOUNT_KEY,
    LOGIN,
    REMEDIES,
    STORAGE_EMULATOR_HOST,
    TRAITS,
    key_file,
)
from lastbeat.stores.kind import Root
from lastbeat.stores.objects import Dialect, ObjectStore
from lastbeat.stores.port import DeniedError, StoreError

_ENDPOINT: Final = "https://storage.googleapis.com"
_ISSUERS: Final = (
    "oauth2.googleapis.com",
    "accounts.google.com",
    "www.googleapis.com",
    "metadata.google.internal",
    "169.254.169.254",
)
"""Issuers of tokens: for a service account, and on a machine in Google Cloud."""


def open_store(root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False) -> ObjectStore:
    """As :meth:`lastbeat.stores.registry.StoreAdapter.open_store`."""
    url, at = root.url, values[STORAGE_EMULATOR_HOST] or _ENDPOINT
    return ObjectStore(
        lambda: _connect(root, values, environ, at),
        url=url,
        clock=StoreClock(lambda: server_time_s(at, root.place, environ), url),
        dialect=Dialect(TRAITS, REMEDIES, by_generation=True),
    )


def _connect(root: Root, values: SettingValues, env: Mapping[str, str], at: str) -> Backend:
    options: Any = client_options(at, env, *_ISSUERS, *filter(None, [env.get("GCE_METADATA_HOST")]))
    # obstore takes missing options from the environment, so all relevant ones are given.
    config: Any = {"base_url": at, "skip_signature": False}
    if values[STORAGE_EMULATOR_HOST]:
        # The emulator ignores it, but without one obstore would ask a metadata server for a token.
        config["bearer_token"] = "emulator"  # noqa: S105 - no secret
    elif key := values[GOOGLE_SERVICE_ACCOUNT_KEY]:
        config["service_account_key"] = key
    elif file := key_file(values, env):
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
            f"{LOGIN}; of other kinds of credentials (workload identity federation, impersonation) none is taken",
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
        else LOGIN,
    )
