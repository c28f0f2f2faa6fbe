"""What each kind of store says of itself before anybody asks it for anything."""

import json
from pathlib import Path

import pytest

from lastbeat.model.secrets import Redactor
from lastbeat.settings import SettingsError, load, opening, secrets_in
from lastbeat.stores import registry
from lastbeat.stores.az_store import _account
from support.row_by_row import check_each, labelled

SIGNED = "sv=2021-12-02&sp=rl&sig=aHVzaC1odXNoLWh1c2g%3D"
KEY_FILE = json.dumps({"type": "service_account", "private_key": "-----BEGIN hush-hush-----", "private_key_id": "abc"})


def settings(root: str, **environ: str) -> dict[str, str]:
    return {"MONITORING_ROOT": root, **environ}


@pytest.mark.parametrize("scheme", registry.KINDS)
def test_a_kind_has_an_address_that_it_takes_itself(scheme: str) -> None:
    kind = registry.module(scheme)
    root = registry.parse(kind.EXAMPLE)
    assert root.scheme == scheme
    assert root.url == kind.EXAMPLE
    assert registry.is_address(kind.EXAMPLE) is not kind.TRAITS.local


@pytest.mark.parametrize(("environ", "hidden"), labelled([
    ("S3's key", {"AWS_SECRET_ACCESS_KEY": "k" * 40}, "k" * 40),
    ("the key of a key file", {"GOOGLE_SERVICE_ACCOUNT_KEY": KEY_FILE}, "-----BEGIN hush-hush-----"),
    ("a token of Google's", {"GOOGLE_BEARER_TOKEN": "ya29.hush-hush-hush"}, "ya29.hush-hush-hush"),
    ("an account's key", {"AZURE_STORAGE_ACCOUNT_KEY": "aHVzaC1odXNo"}, "aHVzaC1odXNo"),
    ("under its other name", {"AZURE_STORAGE_ACCESS_KEY": "aHVzaC1odXNo"}, "aHVzaC1odXNo"),
    ("a signature in an address", {"AZURE_STORAGE_SAS_TOKEN": SIGNED}, "aHVzaC1odXNoLWh1c2g%3D"),
    ("a signature as it reads", {"AZURE_STORAGE_SAS_TOKEN": f"?{SIGNED}"}, "aHVzaC1odXNoLWh1c2g="),
    ("the key of a connection string",
     {"AZURE_STORAGE_CONNECTION_STRING": "AccountName=abc;AccountKey=aHVzaC1odXNoLWh1c2g=;"}, "aHVzaC1odXNoLWh1c2g="),
    ("its signature",
     {"AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint=https://a.example;SharedAccessSignature={SIGNED}"},
     "aHVzaC1odXNoLWh1c2g%3D"),
    ("an application's secret", {"AZURE_CLIENT_SECRET": "hush~hush.hush"}, "hush~hush.hush"),
]))  # fmt: skip
def test_what_opens_any_store_is_shown_nowhere(tmp_path: Path, environ: dict[str, str], hidden: str) -> None:
    assert hidden not in Redactor(secrets_in(environ))(f"it said {hidden} and went")

    def hides_it(root: str) -> None:
        found = load({}, settings(root, **environ), tmp_path, channels=False)
        assert hidden not in found.redactor(f"it said {hidden} and went")
        assert hidden not in repr(found)

    check_each(((root, (root,)) for root in ("training-runs", "s3://b-1", "gs://b-1", "az://c-1")), hides_it)


@pytest.mark.parametrize(("root", "environ", "link"), labelled([
    ("Google's", "gs://b-1/a b", {}, "https://console.cloud.google.com/storage/browser/b-1/a%20b/run-1"),
    ("an emulator has no console", "gs://b-1/a", {"STORAGE_EMULATOR_HOST": "localhost:1"}, None),
    ("Azure's needs what nobody says", "az://c-1/a", {"AZURE_STORAGE_ACCOUNT_NAME": "abc"}, None),
    ("an S3 of somebody's own", "s3://b-1/a", {"AWS_ENDPOINT_URL": "http://h:1"}, None),
    ("a path is no link", "/data", {}, None),
]))  # fmt: skip
def test_where_a_run_is_shown(tmp_path: Path, root: str, environ: dict[str, str], link: str | None) -> None:
    assert opening.console_link(load({}, settings(root, **environ), tmp_path), "run-1") == link


@pytest.mark.parametrize(("environ", "name", "endpoint"), labelled([
    ("an account's name", {"AZURE_STORAGE_ACCOUNT_NAME": "abc"}, "abc", "https://abc.blob.core.windows.net"),
    ("another cloud",
     {"AZURE_STORAGE_CONNECTION_STRING": "DefaultEndpointsProtocol=https;AccountName=abc;AccountKey=eA==;"
     "EndpointSuffix=core.chinacloudapi.cn"}, "abc", "https://abc.blob.core.chinacloudapi.cn"),
    ("an emulator's address names it", {"AZURE_STORAGE_ENDPOINT": "http://127.0.0.1:10000/devstoreaccount1/"},
     "devstoreaccount1", "http://127.0.0.1:10000/devstoreaccount1"),
    ("so does a private one", {"AZURE_STORAGE_ENDPOINT": "https://abc.privatelink.blob.core.windows.net"}, "abc",
     "https://abc.privatelink.blob.core.windows.net"),
    ("what is set alone goes first", {"AZURE_STORAGE_ACCOUNT_NAME": "abc",
     "AZURE_STORAGE_CONNECTION_STRING": "AccountName=xyz;BlobEndpoint=https://x.example/"}, "abc", "https://x.example"),
]))  # fmt: skip
def test_the_account_of_a_container(tmp_path: Path, environ: dict[str, str], name: str, endpoint: str) -> None:
    found = load({}, settings("az://c-1", **environ), tmp_path)
    account = _account(found.root, found.values)
    assert (account.name, account.endpoint) == (name, endpoint)


@pytest.mark.parametrize("name", ["My-Account", "a", "account.with.dots"])
def test_an_account_that_is_none_is_a_wrong_setting(tmp_path: Path, name: str) -> None:
    found = load({}, settings("az://c-1", AZURE_STORAGE_ACCOUNT_NAME=name), tmp_path)
    with pytest.raises(SettingsError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        opening.store(found)
