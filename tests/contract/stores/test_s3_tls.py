"""A store behind a certificate authority of one's own."""

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastbeat.stores.port import StoreError, UnreachableError
from lastbeat.stores.registry import parse
from lastbeat.stores.s3_store import s3_store
from support.certificates import write_authority
from support.proxy import FaultProxy, run_proxy
from support.s3 import REGION, S3Server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_authority(tmp_path_factory.mktemp("läufe ca"))


@pytest.fixture
def tls_proxy(s3_server: S3Server, authority: Path) -> Iterator[FaultProxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "server.pem")
    with run_proxy(s3_server.url, context) as proxy:
        yield proxy


@pytest.mark.parametrize("configured", [False, True], ids=["from the environment", "from the profile"])
def test_a_trusted_authority_is_enough(
    s3_server: S3Server, tls_proxy: FaultProxy, authority: Path, tmp_path: Path, configured: bool
) -> None:
    env = s3_server.environment() | {"AWS_ENDPOINT_URL": tls_proxy.url}
    if configured:
        (tmp_path / "config").write_text(f"[default]\nca_bundle = {authority}/ca.pem\n", encoding="utf-8")
        env["AWS_CONFIG_FILE"] = str(tmp_path / "config")
    else:
        env["AWS_CA_BUNDLE"] = str(authority / "ca.pem")
    store = s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION)
    assert store.write("run-1/x", b"1") == store.list("").entries[0].version
    assert abs(store.clock().timestamp() - time.time()) < 10
    assert tls_proxy.count("HEAD") == 1


def test_an_unknown_authority_is_not_trusted(s3_server: S3Server, tls_proxy: FaultProxy) -> None:
    env = s3_server.environment() | {"AWS_ENDPOINT_URL": tls_proxy.url}
    store = s3_store(parse(f"s3://{s3_server.bucket()}/runs"), env, region=REGION)
    with pytest.raises(StoreError, match="certificate is not trusted") as raised:
        store.list("")
    assert not isinstance(raised.value, UnreachableError)
    assert "AWS_CA_BUNDLE" in raised.value.advice
