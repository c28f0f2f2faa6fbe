"""``lastbeat deploy`` as a process: what it says, what it calls, and what it says where something is missing."""

import shutil
from pathlib import Path

import pytest

from support.checkout import ROOT
from support.cli import LASTBEAT, call

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest"}


def program(folder: Path, name: str, text: str) -> None:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def test_a_dry_run_says_what_is_made_and_how_and_does_nothing(tmp_path: Path) -> None:
    arguments = ("deploy", "--guided", "--dry-run", "--bucket", "my-bucket", "--set", "StaleMinutes=15")
    done = call(LASTBEAT, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for text in (
        "s3://my-bucket/training-runs",
        "an SNS topic",
        "put-bucket-notification-configuration --bucket my-bucket",
        f"{ROOT / 'infra' / 'package.sh'} --architecture arm64 --runtime python3.13",
        "sam deploy --template-file",
        "--guided --parameter-overrides Bucket=my-bucket Prefix=training-runs Architecture=arm64",
        "Runtime=python3.13 StaleMinutes=15\n",
    ):
        assert text in done.stdout


def test_signals_of_ones_own_go_into_the_zip_and_are_named_to_the_function(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("signals: {s: some text}", encoding="utf-8")
    arguments = ("deploy", "--dry-run", "--bucket", "my-bucket", "--signals", "megatron_nccl,cluster.yaml")
    done = call(LASTBEAT, *arguments, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "package.sh --architecture arm64 --runtime python3.13 --signals megatron_nccl,cluster.yaml\n" in done.stdout
    assert "Signals=megatron_nccl,cluster\n" in done.stdout


def test_a_page_is_asked_for_by_name_and_its_token_is_not_shown(tmp_path: Path) -> None:
    arguments = ("deploy", "--page", "--dry-run", "--bucket", "my-bucket")
    refused = call(LASTBEAT, *arguments, cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "set LASTBEAT_DASHBOARD_TOKEN to what 'openssl rand -hex 24' prints" in refused.stderr
    done = call(LASTBEAT, *arguments, cwd=tmp_path, LASTBEAT_DASHBOARD_TOKEN="a-token-of-some-length")
    assert (done.returncode, done.stderr) == (0, "")
    assert "SAM prints it as PageUrl" in done.stdout
    assert "PageToken=***" in done.stdout
    assert "a-token-of-some-length" not in done.stdout
    assert "PageToken" not in call(LASTBEAT, "deploy", "--dry-run", "--bucket", "my-bucket", cwd=tmp_path).stdout


WRONG_SIGNALS = [
    pytest.param(("--signals", "own.yaml"), "own.yaml:1: signals.s: unknown key 'sevrity'", id="a file that is wrong"),
    pytest.param(("--signals", "jax", "--set", "Signals=jax"), "say the same thing", id="what is said twice"),
]


@pytest.mark.parametrize(("arguments", "message"), WRONG_SIGNALS)
def test_signals_that_cannot_be_used_are_refused_before_anything_is_built(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "own.yaml").write_text("signals: {s: {pattern: x, sevrity: error}}", encoding="utf-8")
    done = call(LASTBEAT, "deploy", "--bucket", "my-bucket", *arguments, cwd=tmp_path, **KEYS)
    assert done.returncode == 3
    assert message in done.stderr
    assert "package.sh" not in done.stdout


def test_without_sam_and_credentials_it_says_how_to_come_by_both(tmp_path: Path) -> None:
    done = call(LASTBEAT, "deploy", "--bucket", "my-bucket", cwd=tmp_path, PATH=str(tmp_path))
    assert done.returncode == 3
    assert "pipx install aws-sam-cli" in done.stderr
    assert "aws sso login" in done.stderr


def test_a_checkout_packages_and_then_calls_sam(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for folder in ("core", "cli"):
        shutil.copytree(ROOT / folder, checkout / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (checkout / "infra").mkdir()
    shutil.copy(ROOT / "infra" / "template.yaml", checkout / "infra")
    program(checkout / "infra", "package.sh", 'echo "packaged $*"')
    program(tmp_path / "bin", "sam", 'echo "sam $*"; exit "$SAM_EXIT"')
    paths = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": f"{checkout / 'core'}:{checkout / 'cli'}"}
    for exit_status, status in (("0", 0), ("1", 2)):
        arguments = ("deploy", "--bucket", "my-bucket", "--region", "eu-west-1", "--architecture", "x86_64")
        done = call(LASTBEAT, *arguments, cwd=tmp_path, SAM_EXIT=exit_status, **paths, **KEYS)
        assert done.returncode == status, done.stderr
        assert "packaged --architecture x86_64 --runtime python3.13\n" in done.stdout
        assert "--region eu-west-1 --capabilities CAPABILITY_IAM" in done.stdout.rpartition("sam deploy")[2]


TOKENS = "operate:operate-token-of-some-length view:view-token-of-some-length"


@pytest.mark.parametrize(
    ("setting", "token"),
    [
        pytest.param("operate-token-of-some-length", "operate-token-of-some-length", id="the one that there is"),
        pytest.param(TOKENS, "view-token-of-some-length", id="of two, the one that only views"),
    ],
)
def test_a_page_that_views_gets_one_token(tmp_path: Path, installed: Path, setting: str, token: str) -> None:
    paths = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(installed)}
    arguments = ("deploy", "--page", "--bucket", "my-bucket")
    done = call(LASTBEAT, *arguments, cwd=tmp_path, LASTBEAT_DASHBOARD_TOKEN=setting, **paths, **KEYS)
    assert done.returncode == 0, done.stderr
    _, asked, run = done.stdout.rpartition("sam deploy")
    assert asked
    assert f" PageToken={token}\n" in run
    assert done.stdout.count(token) == 1, "only SAM gets it"


def test_a_page_that_acts_takes_the_token_to_operate_and_the_apps_secret(tmp_path: Path, installed: Path) -> None:
    paths = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(installed)}
    arguments = ("deploy", "--page", "operate", "--bucket", "my-bucket")
    only_views = call(LASTBEAT, *arguments, cwd=tmp_path, LASTBEAT_DASHBOARD_TOKEN="view:view-token-of-some-length")
    assert (only_views.returncode, "needs a token to operate" in only_views.stderr) == (3, True)
    app = {"SLACK_BOT_TOKEN": "xoxb-123456789012-1234 8f742231b10e8888abcd99baac85a5aa", "SLACK_CHANNEL": "C0123456789"}
    done = call(LASTBEAT, *arguments, cwd=tmp_path, LASTBEAT_DASHBOARD_TOKEN=TOKENS, **app, **paths, **KEYS)
    assert (done.returncode, done.stderr) == (0, "")
    assert "write what they do there" in done.stdout
    _, _, run = done.stdout.rpartition("sam deploy")
    assert run.split()[-5:] == [
        "PageToken=view-token-of-some-length", "PageOperateToken=operate-token-of-some-length",
        "SlackBotToken=xoxb-123456789012-1234", "SlackSigningSecret=8f742231b10e8888abcd99baac85a5aa",
        "SlackChannel=C0123456789",
    ]  # fmt: skip
    assert done.stdout.count("8f742231b10e8888abcd99baac85a5aa") == 1, "only SAM gets it"
    without = call(LASTBEAT, *arguments, cwd=tmp_path, LASTBEAT_DASHBOARD_TOKEN=TOKENS, **paths, **KEYS)
    assert (without.returncode, "Slack" in without.stdout.rpartition("sam deploy")[2]) == (0, False), "the bot stays"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """lastbeat as a wheel installs it, with a package.sh that says what it finds around it."""
    folder = tmp_path / "site-packages"
    for room in ("core/lastbeat", "cli/lastbeat_cli"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, folder / Path(room).name, ignore=ignored)
    brought = folder / "lastbeat_cli" / "deployed"
    shutil.copytree(ROOT / "lambda", brought / "lambda")
    shutil.copy(ROOT / "LICENSE", brought)
    for name in ("template.yaml", "bundle.py", "requirements.txt", "requirements-fast.txt"):
        (brought / "infra").mkdir(exist_ok=True)
        shutil.copy(ROOT / "infra" / name, brought / "infra")
    # As some installers leave it: not executable.
    saying = 'cd "$(dirname "$0")/.." && ls && ls core lambda && echo "by $PYTHON"'
    (brought / "infra" / "package.sh").write_text(saying, encoding="utf-8")
    program(tmp_path / "bin", "sam", 'echo "sam $*"; touch "$(dirname "$3")/samconfig.toml"')
    return folder


def test_an_installed_lastbeat_brings_along_what_it_deploys(tmp_path: Path, installed: Path) -> None:
    paths = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(installed)}
    folder = tmp_path / ".local" / "state" / "lastbeat" / "deploy"
    older = folder / "core" / "lastbeat" / "gone.py"
    for _ in range(2):
        done = call(LASTBEAT, "deploy", "--bucket", "my-bucket", cwd=tmp_path, **paths, **KEYS)
        assert (done.returncode, done.stderr) == (0, "")
        assert not older.exists(), "nothing of an older version is deployed"
        older.touch()
        said = done.stdout.split()
        assert {"LICENSE", "core", "infra", "lambda", "lastbeat", "handler.py", "lastbeat_lambda"} <= set(said)
        assert f"by {LASTBEAT[0]}" in done.stdout
        assert f"sam deploy --template-file {folder}/infra/template.yaml" in done.stdout
        assert (folder / "core" / "lastbeat" / "__init__.py").is_file()
        assert (folder / "infra" / "samconfig.toml").is_file(), "what SAM was answered is still there"


def test_where_an_installed_lastbeat_can_build_nothing_it_says_so(tmp_path: Path, installed: Path) -> None:
    (tmp_path / "file").touch()
    paths = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "PYTHONPATH": str(installed)}
    state = {"LASTBEAT_STATE_DIR": str(tmp_path / "file")}
    done = call(LASTBEAT, "deploy", "--bucket", "my-bucket", cwd=tmp_path, **paths, **state, **KEYS)
    assert done.returncode == 3
    assert f"cannot be put together in {tmp_path}/file/deploy: Not a directory" in done.stderr
