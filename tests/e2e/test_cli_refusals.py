"""What cannot be done as it was asked for: plain words, a document with --json, exit status 3, and nothing is done."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from lastbeat import __version__
from lastbeat.views import schemas
from support.checkout import ROOT
from support.cli import LASTBEAT, MONITOR, RunFolder, call, environment

LINES = {
    "archive --list --root gone": "gone: there is no such directory",
    "backtest training-runs --policy megatron": "there is no such restart policy",
    "backtest training-runs --root other": "ROOT and --root name two fleets",
    "backtest --timeouts --policy megatron_transient": "--timeouts is about limits, not policies",
    "beat": "RUN is missing; use for example lastbeat beat my-run",
    "beat a --run-id b": "unexpected extra argument (a)",
    "beat ../a": "contains '/'",
    "beat a --step many": "--step='many' is not a whole number",
    "causes training-runs --by colour": "colour",
    "check my-run": "For a run: lastbeat check run my-run",
    "checkpoints": "no place is named",
    "checkpoints s3://": "s3://",
    "checkpoints nowhere": "not supervised, and there is no such folder",
    "cost": "no pass over this fleet was made yet",
    "dashboard --port web": "--port='web' is not a whole number",
    "dashboard --host no.such.name.invalid": "is no name or address",
    "dashboard --host 203.0.113.7": "cannot be listened on",
    "dashboard --token short": "--token is no token: 16 to 200",
    "deploy --root runs": "a Lambda function watches a bucket",
    "deploy --root s3://my-bucket/ --stack 'a b'": "no name of a stack",
    "deploy --bucket my-bucket --set Stale": "is no parameter",
    "docter": "Did you mean doctor?",
    "drill --launcher local --signals nothing": "nothing",
    "exec --run-id x": "command is missing",
    "exec --run-id x --root ftp://x/y -- true": "--root",
    "exec --run-id x --policy default -- true": "needs --max-restarts",
    "exec --run-id x --max-restarts 3 -- srun python x.py": "let srun start",
    "exec --run-id x --max-restarts 3 -- docker run x": "within the container",
    "exec --run-id x --max-restarts 3 --section-timeouts step -- true": "--section-timeouts",
    "explain model.pt": "model.pt is no text: it looks like a binary file",
    "explain empty-folder": "empty-folder has no logs (*.log",
    "explain /dev/zero": "/dev/zero is a device",
    "fail bad": "lastbeat fail my-run 'it broke'",
    "fail a it broke": "put 'it broke' in quotes",
    "fail --run-id a": "the message is missing",
    "fail --run-id a --exit-status 0": "no failure",
    "fleet --status BROKEN": "is no status; these are: RUNNING",
    "fleet --since soon": "--since='soon' is not a time",
    "fleet --bucke b": "No such option: --bucke. Did you mean --bucket?",
    "health": "none is named",
    "health my-run --head-pod head": "name one of them",
    "health my-run --pod worker": "leave them out for a RUN",
    "health --ray-address ray://10.0.0.7:10001": "http://HOST:8265",
    "health --head-pod http://10.0.0.7:8265": "--at address=",
    "limits --stale-minutes soon": "is not a number of minutes",
    "limits --remove --stale-minutes 5": "ask for one thing",
    "limits 'm-*' --remove-all": "use --remove",
    "limits 'm-*' --remove": "has no limits of 'm-*'",
    "limits --learned": "--learned is of one run",
    "limits a --apply": "--apply is of --learned",
    "limits a --learned --stale fixed": "leave the other limits out",
    "logs my-run": "the run my-run has no log",
    "logs my-run --file x.log": "It has: _error",
    "logs my-run --grep '(a+)+$'": "exponential",
    "logs my-run -i": "--grep, which is missing",
    "restart --json": "RUN is missing",
    "restart my-rnu": "Did you mean my-run?",
    "stop my-rnu": "Did you mean my-run?",
    "restart a b": "unexpected extra argument (b)",
    "restart jbos": "Did you mean lastbeat restart jobs?",
    "restart agent --interval": "'lastbeat restart agent --help'",
    "restart adopt my-run": "JOB is missing",
    "routes check bad-routes.yaml": "bad-routes.yaml:2: unknown key 'rots' (did you mean 'routes'?)",
    "routes test --status faild": "--run is missing",
    "routes test --run a --status faild --at noon": "--status='faild' is none of them",
    "show": "RUN is missing; use for example lastbeat show my-run",
    "show my-rum": "Did you mean my-run?",
    "show a --once": "are of --live",
    "show a --live -n 3": "--lines shows the end of a log",
    "signals show cuda_out_of_memry": "did you mean 'cuda_out_of_memory'?",
    "signals list --signals nope": "--signals: there is no built-in catalogue 'nope'",
    "signals show hf_hub_failed --signals megatron_basic": "default has it",
    "signals test train.log --only nothing": "has no signal 'nothing'",
    "silence": "ask for one thing",
    "silence 'run-*' --why x": "--for is missing",
    "silence 'run-*' --for 30s --why x": "from 1m to 30d",
    "simulate-fault --run-id my-run --type gpu_error --rank 1": "LASTBEAT_SIMULATE_FAULT=gpu_error:1",
    "simulate-fault --run-id my-run --type rank_kiled": "rank_killed",
    "supervise --run-id run": "--launcher is missing",
    "supervise --run-id run --launcher local": "there is no command",
    "supervise --resume run": "there is no run run in",
    "supervise --resume my-run": "my-run is not supervised; begin with",
    "supervise --agent": "--launcher is missing",
    "supervise --run-id run --launcher local --checkpoint-dir no/such -- true": (
        "no/such: there is no such directory\ncreate it, mount its file system, or correct --checkpoint-dir"
    ),
    "supervise --agent --launcher local --run-id run": "No such option: --run-id",
    "supervise --run-id run --launcher local --log s3://b/x.log -- true": "s3://b/x.log is in a store",
    "supervise --config none.yaml": "--config none.yaml cannot be read: No such file or directory; check the path",
    "supervise --run-id run --launcher ray-pod -- true": "ray-pod needs the pod of the cluster's head",
    "supervise --run-id run --launcher ray-pod --head-pod -x -- true": "no name of a pod",
    "supervise --run-id run --launcher ray-pod --head-pod a --option=--partition=gpu -- true": "no option of ray-pod",
    "sweep --metrics http --stale-minutes -1": "--metrics='http' is neither a port nor HOST:PORT",
    "sweep --metrics-file x.txt": "does not end in .prom",
    "sweep --once --metrics 0": "with --once use --metrics-file",
    "sweep --metrics 0.0.0.0:0": "set LASTBEAT_DASHBOARD_TOKEN",
    "timeouts my-run --apply --remove": "name one of them",
    "watch --once --log x": "--log is a log of one run",
}
"""What is typed, and a part of the answer."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet of one run, which failed and has no log; and files of many kinds."""
    place = tmp_path_factory.mktemp("place")
    run = RunFolder(place / "training-runs", "my-run")
    run.metadata()
    run.put("_error", "boom\n")
    (place / "empty-folder").mkdir()
    (place / "model.pt").write_bytes(bytes(range(256)) * 100)
    (place / "train.log").write_text("step 1 loss 2.5\n")
    (place / "bad-routes.yaml").write_text("default: {to: slack}\nrots: []\n")
    return place


@pytest.mark.parametrize(("line", "says"), LINES.items(), ids=LINES)
def test_it_is_refused_and_nothing_is_done(place: Path, line: str, says: str) -> None:
    before = sorted(place.rglob("*"))
    done = call(LASTBEAT, *shlex.split(line), cwd=place)
    assert (done.returncode, done.stdout.startswith("{")) == (3, "--json" in line)
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(place.rglob("*")) == before


TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
ROWS = [
    pytest.param(["show", "gone"], {}, ["there is no run gone"], id="a run that is not there"),
    pytest.param(["fleet", "--sinc", "7d"], {}, ["No such option: --sinc"], id="an option that there is not"),
    pytest.param(
        ["fleet"], {"STALE_MINUTES": "ten", "ALERT_ON": "loud"}, ["STALE_MINUTES", "ALERT_ON"], id="several at once"
    ),
    pytest.param(["fleet", "--since", TOKEN], {}, ["--since='***'"], id="a secret, which is masked"),
    pytest.param(
        ["watch", "run-1", "--once", "--interval", "x"], {}, ["--interval='x'"], id="a check that is not made"
    ),
]


@pytest.mark.parametrize(("words", "settings", "named"), ROWS)
def test_an_error_is_a_document_too(
    tmp_path: Path, words: list[str], settings: dict[str, str], named: list[str]
) -> None:
    (tmp_path / "training-runs" / "run-1").mkdir(parents=True)
    done = call(LASTBEAT, *words, "--json", cwd=tmp_path, **settings)
    told = json.loads(done.stdout)
    assert (done.returncode, told.keys(), told["data"]) == (3, {"schema", "version", "data", "errors"}, None)
    Draft202012Validator(schemas.schema("answer")).validate(told)
    assert all(part in error["message"] for part, error in zip(named, told["errors"], strict=True))
    assert done.stderr.startswith("Error: ")
    assert TOKEN not in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["explain", "train.log"], id="why a log ends"),
        pytest.param(["limits"], id="the limits of a fleet"),
        pytest.param(["restart", "policy", "list"], id="the policies that there are"),
    ],
)
def test_an_answer_is_an_envelope_whose_keys_stand_beside_its_data(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "training-runs" / "run-1").mkdir(parents=True)
    (tmp_path / "train.log").write_text("RuntimeError: CUDA out of memory\n", encoding="utf-8")
    told = json.loads(call(LASTBEAT, *words, "--json", cwd=tmp_path).stdout)
    Draft202012Validator(schemas.schema("answer")).validate(told)
    assert (told["version"], told["errors"]) == (__version__, [])
    assert told["data"]
    assert told == {**told, **told["data"]}


def test_what_a_command_is_given_asks_for_no_json(tmp_path: Path) -> None:
    assert call(LASTBEAT, "exec", "--run-id", "../x", "--", "true", "--json", cwd=tmp_path).stdout == ""


HOOK = "http://hooks.slack.com/services/T000/B000/hush-hush-hush"


@pytest.mark.parametrize(
    ("arguments", "settings", "says"),
    [
        pytest.param(["--once"], {}, "--run-id is missing", id="no run id"),
        pytest.param(["--run-id", "x", "--onec"], {}, "--once", id="a mistyped option"),
        pytest.param(["--run-id", "x"], {"SLACK_WEBHOOK_URL": HOOK}, "SLACK_WEBHOOK_URL", id="a webhook without TLS"),
        pytest.param(["--run-id", "x", "--root", "s3://bucket-1/p"], {"AWS_ENDPOINT_URL_S3": "no-address"},
                     "AWS_ENDPOINT_URL_S3", id="an endpoint for S3 alone that is none"),
    ],
)  # fmt: skip
def test_a_check_is_refused_before_anything_is_done(
    tmp_path: Path, arguments: list[str], settings: dict[str, str], says: str
) -> None:
    done = call(MONITOR, *arguments, cwd=tmp_path, **settings)
    assert (done.returncode, done.stdout) == (3, "")
    assert says in done.stderr
    assert done.stderr.startswith("Error: ")
    assert "Traceback" not in done.stderr
    assert "hush-hush" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_everything_that_is_wrong_is_told_at_once_by_the_command_as_by_the_launcher(tmp_path: Path) -> None:
    wrong = ("--run-id", "a b", "--interval", "often", "--bucket", "")
    more = {"STALE_MINUTES": "ten"}
    launched, called = (call(command, *wrong, cwd=tmp_path, **more) for command in (MONITOR, [*LASTBEAT, "watch"]))
    assert (called.returncode, called.stdout, called.stderr) == (launched.returncode, "", launched.stderr)
    assert launched.stderr.startswith("Error: 4 things are wrong")
    assert launched.stderr.count("\n- ") == 4


def test_a_folder_that_is_not_there_could_not_be_observed(tmp_path: Path) -> None:
    done = call(MONITOR, "--run-id", "x", "--once", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout.startswith("Run x: UNKNOWN\nDetail: ")
    assert "training-runs" in done.stdout
    assert "Action: " in done.stdout
    assert "MONITORING_ROOT" in done.stderr, "who set nothing learns where lastbeat looks"
    as_json = json.loads(call(MONITOR, "--run-id", "x", "--once", "--json", "--root", "nope", cwd=tmp_path).stdout)
    assert (as_json["status"], as_json["attempt"], as_json["since"]) == ("UNKNOWN", None, None)


def test_a_store_that_nobody_answers_for_could_not_be_observed(tmp_path: Path) -> None:
    done = call(
        MONITOR, "--run-id", "x", "--once", "--bucket", "bucket-1", cwd=tmp_path,
        AWS_ENDPOINT_URL="http://127.0.0.1:9", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="hush-hush-hush",
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stdout.startswith("Run x: UNKNOWN\nDetail: s3://bucket-1/training-runs: ")
    assert "hush" not in done.stdout + done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk, as Linux plays one")
def test_a_full_disk_behind_stdout_is_one_line_and_unknown(tmp_path: Path) -> None:
    RunFolder(tmp_path / "training-runs").metadata()
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*MONITOR, "--run-id", "run-1", "--once"],
            cwd=tmp_path, env=environment(tmp_path), stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 3
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr


def test_a_python_without_the_libraries_is_told_what_to_install(tmp_path: Path) -> None:
    bare = [sys.executable, "-S", "-I", str(ROOT / "cli" / "monitor.py")]
    done = call(bare, "--run-id", "x", "--once", cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert "make demo" in done.stderr
    assert "pip install" in done.stderr


def test_it_runs_from_any_folder_and_through_a_link(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "weird 'dir\" \u00fc" / "runs")
    run.metadata()
    link = tmp_path / "monitor"
    link.symlink_to(ROOT / "cli" / "monitor.py")
    env = environment(tmp_path)
    del env["PYTHONPATH"]
    done = subprocess.run(
        [sys.executable, str(link), "--run-id", "run-1", "--once", "--root", "runs"],
        cwd=run.root.parent, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.startswith("Run run-1: RUNNING\n")
