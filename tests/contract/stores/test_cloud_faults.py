"""Google's and Azure's stores: faults are told in their words and without secrets, and no request leaves the host."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import pytest

from contract.stores.conftest import named
from contract.stores.test_s3_redirects import CALLS
from lastbeat.stores.port import DeniedError, Expect, MissingStoreError, Store, StoreError, UnreachableError
from lastbeat.stores.selftest import honours_conditions
from support.azurite import AzureServer
from support.proxy import Answer, Fault, FaultProxy, Reset, Strip, run_proxy
from support.row_by_row import check_each, labelled

SECRET = "c2VjcmV0LWtleS10aGF0LW5vYm9keS1tYXktc2Vl"
KEY = "run-1/metadata.json"


@dataclass(frozen=True)
class Cloud:
    """A kind of store behind a proxy of its own, with one bucket or container in it."""

    scheme: str
    place: str
    proxy: FaultProxy
    environ: Mapping[str, str]
    condition: str
    """The header of a condition."""

    def open(self, place: str = "", **environ: str) -> Store:
        return named(f"{self.scheme}://{place or self.place}/runs", {**self.environ, **environ})


@pytest.fixture(params=["gs", "az"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    if request.param == "gs":
        server = request.getfixturevalue("google")
        with run_proxy(server.url) as proxy:
            environ = {"STORAGE_EMULATOR_HOST": proxy.url}
            yield Cloud("gs", server.bucket(), proxy, environ, "x-goog-if-generation-match")
    else:
        azure = request.getfixturevalue("azurite")
        host, account = azure.url.rsplit("/", 1)
        with run_proxy(host) as proxy:
            environ = {**azure.environment(), "AZURE_STORAGE_ENDPOINT": f"{proxy.url}/{account}"}
            yield Cloud("az", azure.container(), proxy, environ, "if-none-match")


def refusal(status: int, code: str) -> Answer:
    return Answer(status, f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{SECRET}</Message></Error>")


@pytest.mark.parametrize(("fault", "kind", "said"), labelled([
    ("without the permission", refusal(403, "AccessDenied"), DeniedError, "access denied"),
    ("with the wrong credentials", refusal(401, "InvalidAuthentication"), DeniedError, ""),
    ("with a wrong signature", refusal(403, "AuthenticationFailed"), DeniedError, ""),
    ("busy", refusal(503, "ServerBusy"), UnreachableError, "503"),
    ("broken off", Reset(), UnreachableError, "no connection, or it broke"),
    ("a web server", Answer(404, "<html>"), StoreError, "not how an object store speaks"),
]))  # fmt: skip
def test_what_is_wrong_is_told_with_a_remedy_and_without_secrets(
    cloud: Cloud, fault: Fault, kind: type[StoreError], said: str
) -> None:
    cloud.proxy.inject(fault)

    def is_told(call: Callable[[Store], object]) -> None:
        with pytest.raises(StoreError) as raised:
            call(cloud.open())
        assert type(raised.value) is kind
        assert said in str(raised.value)
        assert raised.value.advice
        assert SECRET not in f"{raised.value}{raised.value.advice}"
        assert "AWS" not in f"{raised.value}{raised.value.advice}"
        assert "s3:" not in f"{raised.value}{raised.value.advice}"

    check_each(((name, (CALLS[name],)) for name in ("list", "read", "write")), is_told)


@pytest.mark.parametrize("call", ["list", "folders", "read", "write", "update"])
def test_a_missing_bucket_is_no_empty_one(cloud: Cloud, call: str) -> None:
    with pytest.raises((MissingStoreError, StoreError)) as raised:
        CALLS[call](cloud.open("never-made"))
    # A conditional update asks what is there first, and an answer without a body does not say what is missing.
    if call != "update":
        assert isinstance(raised.value, MissingStoreError)
        assert "there is no such" in str(raised.value)
        assert "MONITORING_ROOT" in raised.value.advice


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_to_another_host_is_not_followed_and_said(cloud: Cloud, status: int) -> None:
    with run_proxy(cloud.proxy.url) as elsewhere:
        there = f"{elsewhere.url.replace('127.0.0.1', 'localhost')}/{cloud.place}/runs/{KEY}"
        cloud.proxy.inject(Answer(status, "", {"Location": there}))

        def is_not_followed(call: Callable[[Store], object]) -> None:
            elsewhere.clear()
            with pytest.raises(StoreError) as raised:
                call(cloud.open())
            assert elsewhere.count() == 0
            assert not raised.value.retryable

        check_each(((name, (call,)) for name, call in CALLS.items()), is_not_followed)


def test_asking_for_the_time_follows_none(cloud: Cloud) -> None:
    with run_proxy(cloud.proxy.url) as elsewhere:
        cloud.proxy.inject(Answer(302, "", {"Location": elsewhere.url.replace("127.0.0.1", "localhost")}))
        cloud.open().clock()
        assert elsewhere.count() == 0
    assert [passed.method for passed in cloud.proxy.passed] == ["HEAD"]


def test_a_store_that_ignores_conditions_is_found_out(cloud: Cloud, request: pytest.FixtureRequest) -> None:
    # A key signs the conditions, too.
    signed = request.getfixturevalue("azurite").signature("rwdlac") if cloud.scheme == "az" else ""
    store = cloud.open(AZURE_STORAGE_ACCOUNT_KEY="", AZURE_STORAGE_SAS_TOKEN=signed)
    version = store.write(KEY, b"{}", Expect.NOTHING)
    cloud.proxy.inject(Strip((cloud.condition, "if-match")))
    assert not honours_conditions(store, KEY, b"{}", version)


def test_the_end_of_a_long_object_is_read_without_reading_the_rest(cloud: Cloud) -> None:
    store = cloud.open()
    store.write(KEY, b"a" * 500_000 + b"the end")
    cloud.proxy.clear()
    blob = store.read(KEY, 7, from_end=True)
    assert blob is not None
    assert (blob.body, blob.size_bytes) == (b"the end", 500_007)
    assert sum(passed.body_bytes for passed in cloud.proxy.passed) < 100


@pytest.mark.parametrize(("environ", "said", "remedy"), labelled([
    ("no account", {}, "which storage account", "AZURE_STORAGE_ACCOUNT_NAME"),
    ("the emulator's short form", {"AZURE_STORAGE_CONNECTION_STRING": "UseDevelopmentStorage=true"},
     "names no account", "Azurite"),
    ("a key that is none", {"AZURE_STORAGE_ACCOUNT_NAME": "abc", "AZURE_STORAGE_ACCOUNT_KEY": "no base64!"},
     "could not be understood", "AZURE_STORAGE_ACCOUNT_KEY"),
]))  # fmt: skip
def test_azure_says_what_has_to_be_set(environ: dict[str, str], said: str, remedy: str) -> None:
    with pytest.raises(StoreError) as raised:
        named("az://runs/x", environ).list("")
    assert said in str(raised.value)
    assert remedy in raised.value.advice
    assert "no base64" not in str(raised.value)


@pytest.mark.parametrize("way", ["key", "signature", "connection string", "connection string with a signature"])
def test_azure_takes_each_kind_of_credentials(azurite: AzureServer, way: str) -> None:
    account, key, at = azurite.environment().values()
    signature = azurite.signature("rwdlac")
    environ = {
        "key": azurite.environment(),
        "signature": {"AZURE_STORAGE_ENDPOINT": at, "AZURE_STORAGE_SAS_TOKEN": f"?{signature}"},
        "connection string": {
            "AZURE_STORAGE_CONNECTION_STRING": f"AccountName={account};AccountKey={key};BlobEndpoint={at};"
        },
        "connection string with a signature": {
            "AZURE_STORAGE_CONNECTION_STRING": f"BlobEndpoint={at};SharedAccessSignature={signature}"
        },
    }[way]
    store = named(f"az://{azurite.container()}/runs", environ)
    version = store.write(KEY, b"{}", Expect.NOTHING)
    assert [entry.version for entry in store.list("").entries] == [version]


def test_a_signature_that_may_only_read_reads_and_says_what_it_may_not(azurite: AzureServer) -> None:
    place = azurite.container()
    named(f"az://{place}/runs", azurite.environment()).write(KEY, b"{}")
    environ = {"AZURE_STORAGE_ENDPOINT": azurite.url, "AZURE_STORAGE_SAS_TOKEN": azurite.signature("rl")}
    store = named(f"az://{place}/runs", environ)
    assert store.read(KEY, 10) is not None
    with pytest.raises(DeniedError) as raised:
        store.write(KEY, b"x")
    assert "Storage Blob Data Contributor" in raised.value.advice
    assert "sig=" not in str(raised.value)


@pytest.mark.parametrize("text", ["{", '{"type": "external_account"}'])
def test_google_credentials_that_are_none_are_told_without_their_text(text: str) -> None:
    with pytest.raises(StoreError) as raised:
        named("gs://runs-1/x", {"GOOGLE_SERVICE_ACCOUNT_KEY": text}).list("")
    assert "credentials" in str(raised.value)
    assert "GOOGLE_APPLICATION_CREDENTIALS" in raised.value.advice
    assert text not in str(raised.value)
