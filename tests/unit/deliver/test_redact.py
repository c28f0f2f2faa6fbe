"""No secret is in what leaves, neither whole nor in the part that matters."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.alerts.document import encode
from lastbeat.model.cause import Evidence
from lastbeat.model.secrets import MASK, SHORTEST, Redactor
from support.messages import FAILED

SLACK = "https://hooks.slack.com/services/T0AAAAAAA/B0BBBBBBB/abcdefghijklmnopqrstuvwx"
QUERY = "https://ops:hunter22@hooks.example.com/in coming/x?token=s3cr3t-s3cr3t-s3cr3t"


@pytest.mark.parametrize(
    ("secrets", "text", "shown"),
    [
        pytest.param([SLACK], f"POST {SLACK} failed", f"POST {MASK} failed", id="a whole URL"),
        pytest.param(
            [SLACK],
            '"POST /services/T0AAAAAAA/B0BBBBBBB/abcdefghijklmnopqrstuvwx HTTP/1.1" 404',
            f'"POST {MASK} HTTP/1.1" 404',
            id="its path, as HTTP libraries log it",
        ),
        pytest.param([SLACK], "token abcdefghijklmnopqrstuvwx", f"token {MASK}", id="its token alone"),
        pytest.param([SLACK], "hooks.slack.com is down", "hooks.slack.com is down", id="the host is no secret"),
        pytest.param([QUERY], "GET /in%20coming/x?token=s3cr3t-s3cr3t-s3cr3t", f"GET {MASK}", id="encoded and queried"),
        pytest.param([QUERY], "password hunter22", f"password {MASK}", id="the password in a URL"),
        pytest.param(["p4ssp4ss"], "p4ssp4ss p4ssp4ssword", f"{MASK} {MASK}word", id="any other secret anywhere"),
        pytest.param(["test"], "run test-1", "run test-1", id="what is too short to be a secret garbles nothing"),
        pytest.param(["", " "], "a b", "a b", id="blank secrets are none"),
        pytest.param([], "key AKIAIOSFODNN7EXAMPLE", f"key {MASK}", id="AWS access key ids always"),
        pytest.param(["http://127.0.0.1:80/"], "a / b", "a / b", id="a bare slash is no secret"),
    ],
)
def test_redact(secrets: list[str], text: str, shown: str) -> None:
    assert Redactor(secrets)(text) == shown


secrets_without_the_mask = st.text(st.characters(exclude_characters="*"), min_size=1).filter(
    lambda text: len(text.strip()) >= SHORTEST
)


@given(st.lists(secrets_without_the_mask, max_size=4), st.text(), st.text())
def test_no_secret_survives(secrets: list[str], before: str, after: str) -> None:
    redact = Redactor(secrets)
    assert not [secret for secret in secrets if secret.strip() in redact(f"{before}{secret}{after}")]


def test_a_redactor_does_not_show_its_secrets() -> None:
    assert SLACK not in repr(Redactor([SLACK]))


def test_a_message_is_masked_everywhere() -> None:
    hostile = replace(
        FAILED, reason=SLACK, cause=SLACK, action=SLACK, conditions={"stalled": SLACK}, instance_id=SLACK,
        evidence=Evidence(SLACK, 7, SLACK, host=SLACK), also_seen=(SLACK,),
        phase=SLACK, log_tail=(SLACK,), stack=(SLACK,), notes=(SLACK,), where=SLACK, link=SLACK,
    )  # fmt: skip
    assert "abcdefghijklmnopqrstuvwx" not in encode(hostile.masked(Redactor([SLACK])))
