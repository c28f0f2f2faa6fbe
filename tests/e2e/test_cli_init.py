"""``lastbeat init``: a new user's settings in a file, checked."""

from pathlib import Path

import pytest

from support.cli import LASTBEAT, call
from support.http_sink import http_sink
from support.terminal import terminal

TOPIC = "arn:aws:sns:us-east-1:123456789012:runs"
HOOK = "https://hooks.slack.com/services/T000/B000/hush-hush-hush"


def test_without_a_terminal_it_prints_what_it_would_write(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("OTHER_TOKEN=hush-other\n")
    done = call(LASTBEAT, "init", "--slack-webhook", HOOK, cwd=tmp_path)
    assert done.returncode == 0
    assert "MONITORING_ROOT=training-runs\n" in done.stdout
    assert "SLACK_WEBHOOK_URL=" in done.stdout
    assert "hush" not in done.stdout + done.stderr
    assert "Nothing was written" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".env"]
    assert (tmp_path / ".env").read_text() == "OTHER_TOKEN=hush-other\n"


FILES = [
    pytest.param("", "MONITORING_ROOT=runs\n", id="none"),
    pytest.param("A=1", "A=1\nMONITORING_ROOT=runs\n", id="a last line without an end"),
    pytest.param(
        "# mine\nMONITORING_ROOT=old # why\nexport B='x\ny'\n",
        "# mine\nMONITORING_ROOT=runs\nexport B='x\ny'\n",
        id="an older value in its place",
    ),
    pytest.param(
        "MONITORING_ROOT=a\nA=1\nMONITORING_ROOT=b\n", "MONITORING_ROOT=runs\nA=1\n", id="one line where there were two"
    ),
    pytest.param("# MONITORING_ROOT=\n\n", "# MONITORING_ROOT=\n\nMONITORING_ROOT=runs\n", id="a comment of that name"),
]


@pytest.mark.parametrize(("before", "after"), FILES)
def test_other_lines_of_the_file_stay(tmp_path: Path, before: str, after: str) -> None:
    file = tmp_path / ".env"
    if before:
        file.write_text(before)
    done = call(LASTBEAT, "init", "--root", "runs", "--yes", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (1, ""), "it works, and no channel is set up"
    assert file.read_text() == after
    assert file.stat().st_mode & 0o777 == 0o600
    assert "ok    writing: allowed" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == [".env", "runs"]


@pytest.mark.parametrize("root", ["it's", "a#b\\"])
def test_any_root_is_read_as_it_was_given(tmp_path: Path, root: str) -> None:
    call(LASTBEAT, "init", "--root", root, "--yes", cwd=tmp_path)
    assert f"the fleet root is {tmp_path / root}\n" in call(LASTBEAT, "doctor", cwd=tmp_path).stdout


WRONG = [
    pytest.param(["--root", "ftp://b/p"], "", "neither s3://bucket/prefix", id="a foreign root"),
    pytest.param(["--sns-topic", "arn:x"], "", "--sns-topic='arn:x'", id="an ARN that is none"),
    pytest.param(["--root", "${HOME}x"], "", "cannot be written to .env", id="a value that the file cannot hold"),
    pytest.param(["--root", "runs"], "STALE_MINUTES=ten\n", "STALE_MINUTES='ten'", id="a wrong setting in the file"),
    pytest.param(
        ["--root", "/no/such/folder"], "", "Error: /no/such/folder: there is no such directory", id="no folder"
    ),
]


@pytest.mark.parametrize(("arguments", "before", "says"), WRONG)
def test_nothing_is_written_where_something_is_wrong(
    tmp_path: Path, arguments: list[str], before: str, says: str
) -> None:
    (tmp_path / ".env").write_text(before)
    done = call(LASTBEAT, "init", "--yes", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (3, "")
    assert says in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [".env"]
    assert (tmp_path / ".env").read_text() == before


def test_a_folder_of_that_name_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    done = call(LASTBEAT, "init", "--yes", cwd=tmp_path)
    assert done.returncode == 3
    assert "Is a directory; correct it or move it away" in done.stderr


def test_what_the_environment_outranks_is_said(tmp_path: Path) -> None:
    done = call(LASTBEAT, "init", "--yes", "--root", "runs", cwd=tmp_path, MONITORING_ROOT="others")
    assert "Note: MONITORING_ROOT in the environment outranks .env" in done.stdout
    assert f"the fleet root is {tmp_path / 'others'}" in done.stdout


def test_at_a_terminal_it_asks_writes_checks_and_sends_a_test_alert(tmp_path: Path) -> None:
    with http_sink() as sink, terminal(LASTBEAT, "init", cwd=tmp_path, columns=200, controlling=True) as screen:
        screen.wait_for(lambda shown: "Fleet root [training-runs]:" in shown)
        screen.press("ftp://runs\r")
        screen.wait_for(lambda shown: "it is s3://, gs:// or az://bucket/prefix, or a directory" in shown)
        screen.press("/no/such/folder\r")
        screen.wait_for(lambda shown: "there is no such directory" in shown)
        screen.press("\r")
        screen.wait_for(lambda shown: "Channel, or nothing:" in shown)
        screen.press("a channel\r")
        screen.wait_for(lambda shown: "an address begins with https:// or arn:" in shown)
        screen.press(f"{sink.url}\r")
        assert screen.wait_for_end() == 0
        assert [b"lastbeat-test-alert" in request.body for request in sink.requests] == [True]
        assert (tmp_path / ".env").read_text() == f"MONITORING_ROOT=training-runs\nLASTBEAT_WEBHOOK_URL={sink.url}\n"


def test_at_a_terminal_a_setting_is_replaced_only_on_a_yes(tmp_path: Path) -> None:
    before = f"MONITORING_ROOT=mine\nSNS_TOPIC_ARN={TOPIC}\n"
    (tmp_path / ".env").write_text(before)
    with terminal(LASTBEAT, "init", "--root", "others", cwd=tmp_path, columns=200, controlling=True) as screen:
        screen.wait_for(lambda shown: "Channel, or nothing:" in shown)
        screen.press("\r")
        screen.wait_for(lambda shown: "MONITORING_ROOT is set in .env already; replace it? [y/N]:" in shown)
        screen.press("\r")
        screen.wait_for(lambda shown: "/.env: unchanged" in shown)
        screen.wait_for(lambda shown: f"the fleet root is {tmp_path / 'mine'}" in shown)
    assert (tmp_path / ".env").read_text() == before


def test_at_a_terminal_ctrl_c_leaves_everything_as_it_was(tmp_path: Path) -> None:
    with terminal(LASTBEAT, "init", cwd=tmp_path, controlling=True) as screen:
        screen.wait_for(lambda shown: "Fleet root" in shown)
        # Python misses a signal that comes in the instant before it waits for keys, until the next key.
        screen.press("\x03\r")
        assert screen.wait_for_end() == 130
    assert list(tmp_path.iterdir()) == []
