"""``az://container/prefix``: Azure Blob Storage; account and credentials are named as Azure's own tools name them."""

import re
from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import parse_qs

from lastbeat.model.setting import Setting, SettingValues, web_address
from lastbeat.stores.kind import UNKNOWN, Remedies, Root, Traits
from lastbeat.stores.port import check_prefix

NAME: Final = "Azure Blob Storage"
SCHEME: Final = "az"
EXAMPLE: Final = "az://container/prefix"
# Prices differ by region, redundancy and kind of account, so no single list applies.
TRAITS: Final = Traits(UNKNOWN)

_SECRETS: Final = (
    "AZURE_STORAGE_ACCESS_KEY",
    "AZURE_STORAGE_MASTER_KEY",
    "AZURE_STORAGE_SAS_KEY",
    "AZURE_STORAGE_CLIENT_SECRET",
    "AZURE_STORAGE_TOKEN",
)
"""Other variables from which obstore takes credentials."""
_LOGIN: Final = (
    "set AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_STORAGE_CONNECTION_STRING, or give the machine a "
    "managed identity"
)
REMEDIES: Final = Remedies(
    place="container",
    endpoint="AZURE_STORAGE_ENDPOINT",
    login=_LOGIN,
    expired=_LOGIN,
    create="create the container, or correct MONITORING_ROOT or AZURE_STORAGE_ACCOUNT_NAME",
    trust="check the endpoint, and the certificates that this system trusts",
    allow={
        "reading": "Storage Blob Data Reader (of a SAS: r)",
        "writing": "Storage Blob Data Contributor (of a SAS: cw)",
        "listing": "Storage Blob Data Reader (of a SAS: l)",
        "deleting": "Storage Blob Data Contributor (of a SAS: d)",
    },
    no_place=frozenset({"ContainerNotFound", "ContainerBeingDeleted", "ContainerDisabled"}),
    no_key=frozenset({"BlobNotFound", "ResourceNotFound"}),
    denied={
        "AuthenticationFailed": (
            "the credentials are not valid there",
            "check AZURE_STORAGE_ACCOUNT_NAME and its key, when the SAS token ends, and this machine's clock",
        ),
        "InvalidAuthenticationInfo": ("the credentials are not in a form that it takes", _LOGIN),
        "NoAuthenticationInformation": ("it wants credentials", _LOGIN),
        "KeyBasedAuthenticationNotPermitted": (
            "the account takes no keys",
            "give the machine a managed identity with the role Storage Blob Data Contributor",
        ),
        "AccountIsDisabled": ("the account is disabled", "ask the owner of the account"),
    },
)


def _address(text: str) -> str:
    return web_address(text).rstrip("/")


AZURE_STORAGE_ACCOUNT_NAME = Setting[str | None](
    "AZURE_STORAGE_ACCOUNT_NAME",
    str,
    "az://: the storage account that the container lies in.",
    example="mystorageaccount",
)
AZURE_STORAGE_ACCOUNT_KEY = Setting[str | None](
    "AZURE_STORAGE_ACCOUNT_KEY", str, "az://: a key of that account.", secret=True, stands_in=_SECRETS[:2]
)
AZURE_STORAGE_SAS_TOKEN = Setting[str | None](
    "AZURE_STORAGE_SAS_TOKEN",
    str,
    "az://: a shared access signature in place of the key; of a container, with the permissions r, c, w, d and l.",
    secret=True,
    stands_in=_SECRETS[2:3],
)
AZURE_STORAGE_CONNECTION_STRING = Setting[str | None](
    "AZURE_STORAGE_CONNECTION_STRING",
    str,
    "az://: account, key or signature and endpoint in one, as the portal shows it; the settings before it outrank it.",
    secret=True,
)
AZURE_CLIENT_SECRET = Setting[str | None](
    "AZURE_CLIENT_SECRET",
    str,
    "az://: secret of an application, with AZURE_CLIENT_ID and AZURE_TENANT_ID; without any of these it is the "
    "machine's managed identity.",
    secret=True,
    stands_in=_SECRETS[3:4],
)
AZURE_STORAGE_ENDPOINT = Setting[str | None](
    "AZURE_STORAGE_ENDPOINT",
    _address,
    "az://: address of the account where it is not https://ACCOUNT.blob.core.windows.net.",
    example="http://127.0.0.1:10000/devstoreaccount1",
)
SETTINGS: Final = (
    AZURE_STORAGE_ACCOUNT_NAME,
    AZURE_STORAGE_ACCOUNT_KEY,
    AZURE_STORAGE_SAS_TOKEN,
    AZURE_STORAGE_CONNECTION_STRING,
    AZURE_CLIENT_SECRET,
    AZURE_STORAGE_ENDPOINT,
)


def parse(address: str) -> Root:
    """As :meth:`lastbeat.stores.registry.StoreModule.parse`."""
    container, _, rest = address.partition("/")
    if not container:
        raise ValueError("names no container")
    if not re.fullmatch(r"(?!-)(?!.*--)[a-z0-9-]{3,63}(?<!-)", container, re.ASCII):
        raise ValueError(
            "is not a container's name: 3 to 63 characters of a-z 0-9 - with a letter or digit at both ends; the "
            "account belongs into AZURE_STORAGE_ACCOUNT_NAME"
        )
    return Root(SCHEME, container, check_prefix(rest) or None)


def secrets(environ: Mapping[str, str]) -> Iterator[str]:
    """Credentials under other names, and the secret parts of a signature and a connection string."""
    yield from (text for name in _SECRETS if (text := environ.get(name, "").strip()))
    held = connection_fields(environ.get(AZURE_STORAGE_CONNECTION_STRING.name, ""))
    if key := held.get("accountkey"):
        yield key
    signed = (environ.get(AZURE_STORAGE_SAS_TOKEN.name, ""), held.get("sharedaccesssignature", ""))
    for signature in filter(None, signed):
        yield signature.lstrip("?")
        # Both as encoded in an address, and decoded.
        yield from (found[1] for found in re.finditer(r"(?:^|[?&])sig=([^&\s]+)", signature))
        yield from parse_qs(signature.lstrip("?")).get("sig", ())


def connection_fields(text: str) -> dict[str, str]:
    """The fields of a connection string, by their names in lower case."""
    pairs = (part.strip().partition("=") for part in text.split(";"))
    return {name.lower(): value.strip() for name, _, value in pairs if value}


def credentials(values: SettingValues, environ: Mapping[str, str]) -> str:
    """As :meth:`lastbeat.stores.registry.StoreModule.credentials`."""
    chosen = (
        AZURE_STORAGE_ACCOUNT_KEY, AZURE_STORAGE_SAS_TOKEN, AZURE_STORAGE_CONNECTION_STRING, AZURE_CLIENT_SECRET,
    )  # fmt: skip
    named = next((each.name for each in chosen if values[each]), "")
    if named:
        return f"those of {named}"
    return "by workload identity" if environ.get("AZURE_FEDERATED_TOKEN_FILE") else "this machine's managed identity"


def endpoint(values: SettingValues, environ: Mapping[str, str]) -> str:
    """As :meth:`lastbeat.stores.registry.StoreModule.endpoint`."""
    return AZURE_STORAGE_ENDPOINT.name if values[AZURE_STORAGE_ENDPOINT] else ""


def console_link(root: Root, values: SettingValues, environ: Mapping[str, str], run_id: str) -> str | None:
    """None, because an address in the portal contains the subscription and the resource group, which are unknown."""
    return None
