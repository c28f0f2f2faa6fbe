"""Run ids, durations and waits, secrets."""

from datetime import timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastbeat.model.runid import InvalidRunIdError, check_run_id, safe_run_id
from lastbeat.model.secrets import mask_tokens
from lastbeat.model.times import backoff_s, format_duration, format_minutes


@pytest.mark.parametrize(
    "run_id", ["mistral-20250804-171621", "a", "A.b_c-d+e=f@g:h", "...", "-x", "x" * 200, "1", ".hidden"]
)
def test_good_run_ids_come_back_unchanged(run_id: str) -> None:
    assert check_run_id(run_id) == run_id


@pytest.mark.parametrize(
    ("run_id", "words"),
    [
        ("", "empty"),
        (".", "names a folder"),
        ("..", "names a folder"),
        ("_watchdog", "starts with '_'"),
        ("a/b", "'/'"),
        ("../etc", "'/'"),
        ("a b", "' '"),
        ("a\n", "'\\n'"),
        ("run\x00", "'\\x00'"),
        ("läuft", "'ä'"),
        ("x" * 201, "201 characters"),
        ("%2e%2e", "'%'"),
        ("run*", "'*'"),
    ],
)
def test_bad_run_ids_are_refused_with_the_reason(run_id: str, words: str) -> None:
    with pytest.raises(InvalidRunIdError) as caught:
        check_run_id(run_id)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "run_id"),
    [
        pytest.param("my exp!", "my-exp", id="punctuation becomes a dash, and none at the end"),
        pytest.param("lr=1e-4, wd=0.1", "lr=1e-4-wd=0.1", id="several characters become one dash"),
        pytest.param("a - b", "a-b", id="with the dashes among them"),
        pytest.param("sweep--7/run", "sweep--7-run", id="dashes of one's own stay"),
        pytest.param("/scratch/me/run 1", "scratch-me-run-1", id="a path"),
        pytest.param("../etc", "etc", id="a path that leads out"),
        pytest.param("_private", "private", id="an underscore at the beginning"),
        pytest.param("modèle läuft", "modele-lauft", id="accents are dropped"),
        pytest.param("ｅｘｐ①", "exp1", id="wide letters are plain ones"),
        pytest.param("a\n\x00b\ud800", "a-b", id="what no file name can hold"),
    ],
)
def test_a_name_becomes_the_run_id_that_people_expect(text: str, run_id: str) -> None:
    found, told = safe_run_id(text)
    assert found == run_id
    assert told.endswith(f"; lastbeat calls this run {run_id}")
    assert safe_run_id(run_id) == (run_id, ""), "nothing is said of what is one"


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(("模型甲-1", "模型乙-1"), id="letters that no id can hold"),
        pytest.param(("x" * 300 + "1", "x" * 300 + "2"), id="long names that differ at their ends"),
        pytest.param(("!", "?"), id="names of which nothing is left"),
        pytest.param(("_", "."), id="the same of an underscore"),
    ],
)
def test_names_of_different_runs_stay_apart(texts: tuple[str, ...]) -> None:
    assert len({safe_run_id(text)[0] for text in texts}) == len(texts)


@given(st.text(max_size=400).filter(str.strip))
def test_every_name_makes_a_run_id(text: str) -> None:
    found, told = safe_run_id(text)
    assert check_run_id(found) == found
    assert safe_run_id(text) == (found, told), "each rank makes the same"
    assert bool(told) == (found != text)
    assert "\n" not in told


@pytest.mark.parametrize("blank", ["", " ", "\n\t"])
def test_a_blank_name_is_none(blank: str) -> None:
    with pytest.raises(InvalidRunIdError):
        safe_run_id(blank)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (-5, "0s"), (59.9, "59s"), (60, "1m"), (190, "3m 10s"), (3600, "1h 00m"), (7500, "2h 05m"),
     (90000, "1d 1h"), (timedelta(days=3, hours=4), "3d 4h")],
)  # fmt: skip
def test_durations_in_their_two_largest_units(seconds: float | timedelta, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(("seconds", "text"), [(600, "10m"), (90, "1.5m"), (1.2, "0.02m")])
def test_limits_as_people_set_them(seconds: float, text: str) -> None:
    assert format_minutes(seconds) == text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG", "aws_secret_access_key = ***"),
        ('{"api_key": "abcdefgh12345"}', '{"api_key": "***"}'),
        ("Authorization: Bearer abc.def.ghi", "Authorization: Bearer ***"),
        ("password=hunter2hunter2", "password=***"),
        ("export AWS_SESSION_TOKEN=IQoJb3JpZ2luX2VjEJ", "export AWS_SESSION_TOKEN=***"),
        ("keys ASIAIOSFODNN7EXAMPLE, AKIAIOSFODNN7EXAMPLE", "keys ***, ***"),
        ("login hf_abcdefghijklmnopqrstuvwx done", "login *** done"),
        ("xoxb-123456789012-abcdef xapp-1-A0B1C2D3E4-56789", "*** ***"),
        ("github_pat_11ABCDEFG0123456789_abcdef", "***"),
        ("glpat-abcdefghij0123456789", "***"),
        ("AIzaSyA-abcdefghijklmnopqrstuvwxyz01234", "***"),
        ("{'Authorization': 'Basic dXNlcjpwYXNzd29yZA=='}", "{'Authorization': 'Basic ***'}"),
        ("GET /b/k?X-Amz-Date=1&X-Amz-Signature=0123456789abcdef", "GET /b/k?X-Amz-Date=1&X-Amz-Signature=***"),
        ("git clone https://ops:hunter22hunter@example.com/x", "git clone https://ops:***@example.com/x"),
        ("git clone https://abcdef0123456789@example.com/x", "git clone https://***@example.com/x"),
        ("see https://example.com:8080/a@b, user@example.com", "see https://example.com:8080/a@b, user@example.com"),
        ("tokens: 123456789 | tokens/s 1234.5", "tokens: 123456789 | tokens/s 1234.5"),
        ("consumed tokens=98304000 lr=1e-4", "consumed tokens=98304000 lr=1e-4"),
    ],
)
def test_secrets_by_their_shape(text: str, masked: str) -> None:
    assert mask_tokens(text) == masked


@pytest.mark.parametrize(
    ("failures", "cap_s", "wait_s"),
    [
        pytest.param(0, inf, 0.0, id="nothing has failed, so nothing waits"),
        pytest.param(1, inf, 5.0, id="the first failure waits for the first time"),
        pytest.param(2, inf, 10.0, id="the second one twice as long"),
        pytest.param(7, 320.0, 320.0, id="up to the limit"),
        pytest.param(1, 2.0, 2.0, id="and holds for the first failure, too"),
        pytest.param(10**6, 600.0, 600.0, id="however often it fails"),
        pytest.param(10**6, inf, 5.0 * 2**20, id="and without a limit the wait stays finite"),
    ],
)
def test_a_wait_doubles_up_to_its_limit(failures: int, cap_s: float, wait_s: float) -> None:
    assert backoff_s(failures, 5.0, cap_s) == wait_s


def test_what_does_not_wait_at_first_never_waits() -> None:
    assert backoff_s(9, 0.0, 60.0) == 0.0
