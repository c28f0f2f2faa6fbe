"""What ``lastbeat sweep`` is asked to do for Prometheus, and what is wrong with it."""

from pathlib import Path

import pytest

from lastbeat import settings as configuration
from lastbeat_cli.metrics.exporter import ExportOptions, check_token, wanted

PORTS: list[tuple[str, tuple[str, int] | None]] = [
    ("9108", ("127.0.0.1", 9108)),
    ("localhost:9108", ("localhost", 9108)),
    ("0.0.0.0:9108", ("0.0.0.0", 9108)),
    ("[::1]:9108", ("[::1]", 9108)),
    ("", None),
    (":9108", None),
    ("localhost", None),
    ("-1", None),
    ("65536", None),
    ("٩١٠٨", None),
    ("localhost:0x10", None),
]


@pytest.mark.parametrize(("text", "address"), PORTS)
def test_where_to_listen(text: str, address: tuple[str, int] | None) -> None:
    faults: list[str] = []
    assert wanted(text, None, faults, once=False).address == address
    assert bool(faults) is (address is None)
    if faults:
        assert faults == [f"--metrics={text!r} is neither a port nor HOST:PORT; use for example --metrics 9108"]


@pytest.mark.parametrize(
    ("text", "good"),
    [("/var/lib/lastbeat.prom", True), ("a.b.prom", True), ("lastbeat.txt", False), ("x/.prom", False), ("", False),
     ("a\0.prom", False), (".prom", False)],
)  # fmt: skip
def test_where_to_write(text: str, good: bool) -> None:
    faults: list[str] = []
    found = wanted(None, text, faults, once=True).path
    assert found == (Path(text).absolute() if good else None)
    assert bool(faults) is not good


def test_one_pass_serves_nobody() -> None:
    faults: list[str] = []
    wanted("9108", None, faults, once=True)
    assert faults == ["--metrics is for a sweep that goes on; with --once use --metrics-file PATH.prom"]


@pytest.mark.parametrize(
    ("host", "token", "fine"),
    [
        ("127.0.0.1", None, True),
        ("localhost", None, True),
        ("[::1]", "a-token-of-some-length", True),
        ("0.0.0.0", None, False),
        ("node-7.example", None, False),
        ("0.0.0.0", "a-token-of-some-length", True),
    ],
)
def test_who_scrapes_from_elsewhere_needs_a_token_that_stays(
    host: str, token: str | None, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LASTBEAT_DASHBOARD_TOKEN", raising=False)
    given = {} if token is None else {"LASTBEAT_DASHBOARD_TOKEN": token}
    faults: list[str] = []
    check_token(ExportOptions((host, 9108)), configuration.load(given), faults)
    assert (faults == []) is fine
    assert token is None or token not in "".join(faults)
