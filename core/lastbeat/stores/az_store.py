"""The store behind an ``az://`` address: obstore's client of Azure Blob Storage."""

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore
from obstore.store import ObjectStore as Backend

from lastbeat.model.setting import SettingValues
from lastbeat.stores.az import (
    AZURE_CLIENT_SECRET,
    AZURE_STORAGE_ACCOUNT_KEY,
    AZURE_STORAGE_ACCOUNT_NAME,
    AZURE_STORAGE_CONNECTION_STRING,
    AZURE_STORAGE_ENDPOINT,
    AZURE_STORAGE_SAS_TOKEN,
    REMEDIES,
    TRAITS,
    connection_fields,
)
from lastbeat.stores.clock import StoreClock
from lastbeat.stores.endpoint import client_options, server_time_s
from lastbeat.stores.kind import Root
from lastbeat.stores.objects import Dialect, ObjectStore
from lastbeat.stores.port import StoreError

_ISSUERS: Final = ("login.microsoftonline.com", "169.254.169.254")
"""Issuers of tokens: for an application, and on a machine in Azure."""
_PASSED: Final[Mapping[str, tuple[str, ...]]] = {
    "tenant_id": ("AZURE_STORAGE_TENANT_ID", "AZURE_TENANT_ID"),
    "client_id": ("AZURE_STORAGE_CLIENT_ID", "AZURE_CLIENT_ID"),
    "federated_token_file": ("AZURE_FEDERATED_TOKEN_FILE",),
    "authority_host": ("AZURE_STORAGE_AUTHORITY_HOST", "AZURE_AUTHORITY_HOST"),
    "msi_endpoint": ("AZURE_MSI_ENDPOINT", "AZURE_IDENTITY_ENDPOINT"),
    "object_id": ("AZURE_OBJECT_ID",),
    "msi_resource_id": ("AZURE_MSI_RESOURCE_ID",),
    "use_azure_cli": ("AZURE_USE_AZURE_CLI",),
}
"""Option of obstore → the variables for it. They are passed on unchanged, because a .env may hold them too."""


class _Account(NamedTuple):
    """A storage account and its credentials; an empty text where there is none."""

    name: str
    endpoint: str
    key: str
    signature: str


def open_store(root: Root, values: SettingValues, environ: Mapping[str, str], *, training: bool = False) -> ObjectStore:
    """As :meth:`lastbeat.stores.registry.StoreAdapter.open_store`."""
    url, account = root.url, _account(root, values)
    return ObjectStore(
        lambda: _connect(root, account, values, environ),
        url=url,
        clock=StoreClock(lambda: server_time_s(account.endpoint, root.place, environ), url),
        dialect=Dialect(TRAITS, REMEDIES, no_suffixes=True, no_offsets=True, bare_tags=True),
    )


def _account(root: Root, values: SettingValues) -> _Account:
    """The account that the settings name. Raises :class:`StoreError` if none is named."""
    held = connection_fields(values[AZURE_STORAGE_CONNECTION_STRING] or "")
    if held.get("usedevelopmentstorage", "").lower() == "true":
        raise StoreError(
            f"{root.url}: UseDevelopmentStorage names no account",
            "set AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY and AZURE_STORAGE_ENDPOINT, as Azurite has them",
        )
    name = values[AZURE_STORAGE_ACCOUNT_NAME] or held.get("accountname", "")
    at = values[AZURE_STORAGE_ENDPOINT] or held.get("blobendpoint", "").rstrip("/")
    if not name and at:
        # https://ACCOUNT.blob.core.windows.net, or http://127.0.0.1:10000/ACCOUNT
        parts = urlsplit(at)
        name = parts.path.strip("/") or (parts.hostname or "").partition(".")[0]
    if not name:
        raise StoreError(
            f"{root.url}: nothing says which storage account it lies in",
            "set AZURE_STORAGE_ACCOUNT_NAME, or AZURE_STORAGE_CONNECTION_STRING",
        )
    if not re.fullmatch(r"[a-z0-9]{3,24}", name, re.ASCII):
        raise ValueError("AZURE_STORAGE_ACCOUNT_NAME is not an account's name: 3 to 24 characters of a-z 0-9")
    if not at:
        scheme, suffix = held.get("defaultendpointsprotocol", "https"), held.get("endpointsuffix", "core.windows.net")
        at = f"{scheme}://{name}.blob.{suffix}"
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#@]*)?", at):
        raise ValueError("AZURE_STORAGE_CONNECTION_STRING names an endpoint that is no web address")
    key = values[AZURE_STORAGE_ACCOUNT_KEY] or ""
    signature = values[AZURE_STORAGE_SAS_TOKEN] or ""
    if not key and not signature:
        key, signature = held.get("accountkey", ""), held.get("sharedaccesssignature", "")
    return _Account(name, at, key, signature.lstrip("?"))


def _connect(root: Root, account: _Account, values: SettingValues, env: Mapping[str, str]) -> Backend:
    given = {
        name: next((text for each in names if (text := env.get(each, "").strip())), "")
        for name, names in _PASSED.items()
    }
    # obstore takes missing options from the environment, so all relevant ones are given.
    config: Any = {
        **{name: text for name, text in given.items() if text},
        "account_name": account.name,
        "endpoint": account.endpoint,
        "use_emulator": False,
        "skip_signature": False,
    }
    if account.key:
        config |= {"account_key": account.key, "credential_type": "access_key"}
    elif account.signature:
        config |= {"sas_key": account.signature, "credential_type": "sas_token"}
    elif secret := values[AZURE_CLIENT_SECRET]:
        config["client_secret"] = secret
    own = (urlsplit(given[name]).hostname or "" for name in ("authority_host", "msi_endpoint"))
    options: Any = client_options(account.endpoint, env, *_ISSUERS, *filter(None, own))
    try:
        return AzureStore(
            root.place,
            prefix=root.prefix or None,
            config=config,
            client_options=options,
            retry_config={"max_retries": 0},
        )
    except (BaseError, ValueError, TypeError) as error:
        # Its text may hold the key.
        raise StoreError(
            f"{root.url}: the Azure credentials could not be understood ({type(error).__name__})",
            "check AZURE_STORAGE_ACCOUNT_KEY (base64, as the portal shows it) or AZURE_STORAGE_SAS_TOKEN",
        ) from None
