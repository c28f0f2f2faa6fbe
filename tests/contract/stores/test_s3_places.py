"""A fleet root on S3 lies where boto3 would look for it, and is opened with what boto3 would take."""

import json
from pathlib import Path

import pytest

from lastbeat.stores.port import DeniedError, Expect, MissingStoreError, StoreError
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from support.proxy import FaultProxy
from support.row_by_row import labelled
from support.s3 import ACCESS_KEY, REGION, SECRET_KEY, S3Server
from support.seaweed import READER_KEY
from support.there import there


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "/training-runs/",
        "training runs/team 1",
        "läufe/実行/🔥",
        "a%20b",
        "a+b&c=d;e",
        "#1?x",
        "back\\slash",
    ],
)
@pytest.mark.parametrize("server_name", ["s3_server", "seaweed"])
def test_boto3_sees_what_was_written_and_the_other_way_round(
    request: pytest.FixtureRequest, server_name: str, prefix: str
) -> None:
    if server_name == "seaweed" and "\\" in prefix:
        pytest.skip("SeaweedFS takes a backslash for a slash")
    server: S3Server = request.getfixturevalue(server_name)
    bucket, client = server.bucket(), server.client()
    store = s3_store(parse(f"s3://{bucket}/{prefix}"), server.environment(), region=REGION)
    root = f"{prefix.strip('/')}/" if prefix else ""
    store.write("run 1/meta~.json", b"ours")
    client.put_object(Bucket=bucket, Key=f"{root}run-2/_error", Body=b"theirs")
    listed = client.list_objects_v2(Bucket=bucket)["Contents"]
    assert [o["Key"] for o in listed] == [f"{root}run 1/meta~.json", f"{root}run-2/_error"]
    assert [(e.key, e.version) for e in store.list("").entries] == [(o["Key"][len(root) :], o["ETag"]) for o in listed]
    assert there(store.read("run-2/_error", 100)).body == b"theirs"
    assert store.url == f"s3://{bucket}/{prefix.strip('/')}".rstrip("/")


@pytest.mark.parametrize("stray", labelled([
    ("a doubled slash, where a variable was empty", "run-1//checkpoint"),
    ("dots", "run-1/../x"),
]))  # fmt: skip
def test_one_impossible_key_does_not_hide_a_fleet(s3_server: S3Server, stray: str) -> None:
    bucket, client = s3_server.bucket(), s3_server.client()
    keys = sorted([stray, *(f"run-{n}/metadata.json" for n in range(5))])
    for key in keys:
        client.put_object(Bucket=bucket, Key=f"runs/{key}", Body=b"{}")
    store = s3_store(parse(f"s3://{bucket}/runs"), s3_server.environment(), region=REGION)
    whole = store.list("")
    assert [e.key for e in whole.entries] == keys
    assert not whole.more
    paged: list[str] = []
    more = True
    while more:
        page = store.list("", paged[-1] if paged else "", limit=2)
        paged += [e.key for e in page.entries]
        more = page.more and bool(page.entries)
    assert paged == keys
    blob = there(store.read("run-3/metadata.json", 10))
    assert next(e.version for e in whole.entries if e.key == "run-3/metadata.json") == blob.version


def test_folder_markers_are_no_keys_and_lead_no_listing_in_circles(s3_server: S3Server) -> None:
    bucket, client = s3_server.bucket(), s3_server.client()
    for key in ("runs/", "runs/run-1/", "runs/run-1/a", "runs/run-1/a-1", "runs/run-1/a/", "runs/run-1/a0"):
        client.put_object(Bucket=bucket, Key=key, Body=b"x" if key.endswith(("a", "1", "0")) else b"")
    store = s3_store(parse(f"s3://{bucket}/runs"), s3_server.environment(), region=REGION)
    assert [e.key for e in store.list("run-1/").entries] == ["run-1/a", "run-1/a-1", "run-1/a0"]
    found: list[str] = []
    for _ in range(10):
        page = store.list("run-1/", found[-1] if found else "", limit=2)
        found += [e.key for e in page.entries]
        if not page.more:
            break
    assert found == ["run-1/a", "run-1/a-1", "run-1/a0"]


@pytest.mark.parametrize("server_name", ["s3_server", "seaweed"])
def test_a_missing_bucket_is_said_to_be_missing(request: pytest.FixtureRequest, server_name: str) -> None:
    server: S3Server = request.getfixturevalue(server_name)
    store = s3_store(parse("s3://there-is-no-such-bucket/runs"), server.environment(), region=REGION)
    with pytest.raises(MissingStoreError, match="no such bucket"):
        store.list("run-1/")
    with pytest.raises(MissingStoreError, match="no such bucket"):
        store.read("run-1/_error", 10)


@pytest.mark.parametrize("expect", [Expect.NOTHING, Expect.ANYTHING, '"abc"'])
def test_nothing_is_written_to_a_missing_bucket(s3_server: S3Server, expect: Expect | str) -> None:
    # SeaweedFS makes the bucket for who may make one.
    store = s3_store(parse("s3://there-is-no-such-bucket/runs"), s3_server.environment(), region=REGION)
    with pytest.raises(MissingStoreError, match="no such bucket"):
        store.write("run-1/x", b"", expect)


@pytest.mark.parametrize(("access", "secret", "expected"), labelled([
    ("an unknown key", "nobody", SECRET_KEY, "access key is not known"),
    ("a wrong secret", ACCESS_KEY, "wrong", "secret key does not fit"),
]))  # fmt: skip
def test_wrong_credentials_are_denied(seaweed: S3Server, access: str, secret: str, expected: str) -> None:
    bucket = seaweed.bucket()
    env = seaweed.environment() | {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}
    with pytest.raises(DeniedError, match=expected) as raised:
        s3_store(parse(f"s3://{bucket}/runs"), env, region=REGION).list("")
    assert secret not in str(raised.value)


def test_who_may_only_read_can_watch_and_not_write(seaweed: S3Server) -> None:
    bucket = seaweed.bucket()
    seaweed.client().put_object(Bucket=bucket, Key="runs/run-1/_error", Body=b"boom")
    env = seaweed.environment() | {"AWS_ACCESS_KEY_ID": READER_KEY}
    store = s3_store(parse(f"s3://{bucket}/runs"), env, region=REGION)
    assert [e.key for e in store.list("run-1/").entries] == ["run-1/_error"]
    assert store.read("run-1/_error", 10) is not None
    with pytest.raises(DeniedError) as raised:
        store.write("run-1/_watchdog.json", b"{}", Expect.NOTHING)
    assert "s3:PutObject" in raised.value.advice


def _files(tmp_path: Path, config: str, credentials: str = "") -> dict[str, str]:
    (tmp_path / "config").write_text(config)
    (tmp_path / "credentials").write_text(credentials)
    return {
        "AWS_CONFIG_FILE": str(tmp_path / "config"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials"),
    }


KEYS = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY}
NOWHERE = "http://127.0.0.1:1"


@pytest.mark.parametrize(("env", "config"), labelled([
    ("S3's own before the general one", {"AWS_ENDPOINT_URL_S3": "HERE", "AWS_ENDPOINT_URL": NOWHERE}, ""),
    ("from the default profile", {}, "[default]\nendpoint_url = HERE\n"),
    ("from the profile in use", {"AWS_PROFILE": "lab"},
     f"[default]\nendpoint_url = {NOWHERE}\n[profile lab]\nendpoint_url = HERE\n"),
    ("from the services section before the profile's own line", {},
     f"[default]\nservices = lab\nendpoint_url = {NOWHERE}\n[services lab]\ns3 =\n  endpoint_url = HERE\n"),
    ("the environment first", {"AWS_ENDPOINT_URL": "HERE"}, f"[default]\nendpoint_url = {NOWHERE}\n"),
]))  # fmt: skip
def test_the_endpoint_is_found_where_boto3_finds_it(
    s3_server: S3Server, tmp_path: Path, env: dict[str, str], config: str
) -> None:
    env = {name: value.replace("HERE", s3_server.url) for name, value in env.items()}
    env |= KEYS | _files(tmp_path, config.replace("HERE", s3_server.url))
    store = s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION)
    assert store.write("run-1/x", b"1")


def test_credentials_come_from_the_profile_when_the_environment_has_none(
    s3_server: S3Server, fault_proxy: FaultProxy, tmp_path: Path
) -> None:
    env = _files(tmp_path, "", f"[lab]\naws_access_key_id = {ACCESS_KEY}\naws_secret_access_key = {SECRET_KEY}\n")
    env |= {"AWS_PROFILE": "lab", "AWS_ENDPOINT_URL": fault_proxy.url}
    store = s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION)
    version = store.write("run-1/x", b"1")
    assert store.list("").entries[0].version == version


def test_credentials_that_expire_are_asked_for_again(s3_server: S3Server, tmp_path: Path) -> None:
    # A process that issues credentials for an hour, as single sign-on tools do.
    keys = {"AccessKeyId": ACCESS_KEY, "SecretAccessKey": SECRET_KEY, "SessionToken": "token"}
    issued = json.dumps({"Version": 1, "Expiration": "2099-01-01T00:00:00Z", **keys})
    (tmp_path / "issued.json").write_text(issued)
    env = _files(tmp_path, f"[profile sso]\ncredential_process = cat {tmp_path}/issued.json\n")
    env |= {"AWS_PROFILE": "sso", "AWS_ENDPOINT_URL": s3_server.url}
    assert s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION).write("run-1/x", b"1")


@pytest.mark.parametrize(("config", "profile", "expected"), labelled([
    ("none at all", "", None, "no AWS credentials were found"),
    ("a profile that is not there", "", "nobody", "ProfileNotFound"),
    ("a credential process that fails", "[profile broken]\ncredential_process = cat /nonexistent\n", "broken",
     "CredentialRetrievalError"),
]))  # fmt: skip
def test_missing_credentials_are_denied_with_advice(
    s3_server: S3Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    config: str,
    profile: str | None,
    expected: str,
) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_DEFAULT_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    env = _files(tmp_path, config) | {"AWS_ENDPOINT_URL": s3_server.url}
    env |= {"AWS_PROFILE": profile} if profile else {}
    with pytest.raises(DeniedError, match=expected) as raised:
        s3_store(parse("s3://bucket/runs"), env, region=REGION).list("")
    assert "AWS_ACCESS_KEY_ID" in raised.value.advice


@pytest.mark.parametrize(("region", "meant"), labelled([
    ("one of AWS", "eu-west-1", None),
    ("one that it may have one day", "ap-southeast-12", None),
    ("one of its European partition", "eusc-de-east-1", None),
    ("a hyphen too few", "eu-west1", "did you mean eu-west-1?"),
    ("a zone", "us-east-1a", "did you mean us-east-1?"),
    ("another store's", "auto", "use for example us-east-1"),
]))  # fmt: skip
def test_aws_has_regions_and_others_call_theirs_what_they_like(region: str, meant: str | None) -> None:
    s3_store(parse("s3://bucket/runs"), KEYS | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, region=region)
    if meant is None:
        s3_store(parse("s3://bucket/runs"), KEYS, region=region)
        return
    with pytest.raises(ValueError, match="no AWS region") as raised:
        s3_store(parse("s3://bucket/runs"), KEYS, region=region)
    assert meant in str(raised.value)


def test_malformed_settings_are_refused_before_any_request(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no AWS region"):
        s3_store(parse("s3://bucket/runs"), KEYS, region="eu-west-1.evil.example/")
    with pytest.raises(ValueError, match="no web address"):
        s3_store(parse("s3://bucket/runs"), KEYS | {"AWS_ENDPOINT_URL": "localhost:9000"}, region=REGION)
    env = KEYS | {"AWS_ENDPOINT_URL": "https://127.0.0.1:1", "AWS_CA_BUNDLE": str(tmp_path / "none.pem")}
    store = s3_store(parse("s3://bucket/runs"), env, region=REGION)
    with pytest.raises(StoreError, match="cannot be read"):
        store.list("")
