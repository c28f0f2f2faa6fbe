"""Which host a client of an endpoint may reach."""

import pytest

from lastbeat.stores.endpoint import one_host


@pytest.mark.parametrize(
    ("endpoint", "reached"),
    [
        pytest.param("https://s3.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com", id="S3 itself"),
        pytest.param("http://MinIO.lab:9000/below", "minio.lab", id="a name, without port and path"),
        pytest.param("http://127.0.0.1:9000", "127.0.0.1", id="an address"),
        pytest.param("http://127.1:9000", "127.1,127.0.0.1", id="an address in short"),
        pytest.param("http://[::1]:9000", "::1", id="an address of IPv6, without its brackets"),
        pytest.param("http://[0:0::1]", "::1", id="the same, written longer"),
        pytest.param("http://läufe.lab", "läufe.lab,xn--lufe-loa.lab", id="a name beyond ASCII"),
    ],
)
def test_the_endpoints_own_host_is_reached_and_no_other(endpoint: str, reached: str) -> None:
    options = one_host(endpoint)
    assert options["proxy_excludes"] == reached
    assert options["proxy_url"] == "http://127.0.0.1:0"
