"""What cannot be done as it was asked for: each command says so in plain words with exit status 3, and does nothing."""

import shlex
from pathlib import Path

import pytest

from support.cli import LASTBEAT, RunFolder, call

LINES = {
    "archive --list --root gone": "gone: there is no such directory",
    "backtest training-runs --policy megatron": "there is no such restart policy",
    "backtest training-runs --root other": "ROOT and --root name two fleets",
    "backtest --timeouts --policy megatron_transient": "--timeouts is about limits, not policies",
    "backtest --timeouts --decisions": "--timeouts is about limits, not policies",
    "beat": "RUN is missing; use for example lastbeat beat my-run",
    "beat a --run-id b": "unexpected extra argument (a)",
    "beat ../a": "contains '/'",
    "beat ''": "the run id is empty",
    "beat a --step many": "--step='many' is not a whole number",
    "beat a --attempt 0": "--attempt='0'",
    "causes training-runs --by colour": "colour",
    "check my-run": "For a run: lastbeat check run my-run",
    "check nod": "Did you mean node?",
    "check-node --gpus many": "--gpus",
    "checkpoints": "no place is named",
    "checkpoints nowhere": "not supervised, and there is no such folder",
    "completion tcsh": "bash",
    "cost": "no pass over this fleet was made yet",
    "dashboard --port web": "--port='web' is not a whole number",
    "dashboard --interval 0": "is not a time from 1s to 1h",
    "dashboard --host no.such.name.invalid": "is no name or address",
    "dashboard --host 203.0.113.7": "cannot be listened on",
    "dashboard --token short": "--token is no token: 16 to 200",
    "deploy --root runs": "a Lambda function watches a bucket",
    "deploy --root s3://my-bucket/ --stack 'a b'": "no name of a stack",
    "deploy --bucket my-bucket --set Stale": "is no parameter",
    "docter": "Did you mean doctor?",
    "drill --launcher local --iterations 0": "--iterations='0' is not a whole number",
    "drill --launcher local --signals nothing": "nothing",
    "exec --run-id x": "command is missing",
    "exec --run-id x --root ftp://x/y -- true": "--root",
    "exec --run-id x --policy default -- true": "needs --max-restarts",
    "exec --run-id x --max-restarts 3 -- srun python x.py": "let srun start",
    "exec --run-id x --max-restarts 3 -- docker run x": "within the container",
    "exec --run-id x --max-restarts 3 --section-timeouts step -- true": "--section-timeouts",
    "explain ''": "the name of a log or a run is empty",
    "explain my-rum": "Did you mean my-run?",
    "explain model.pt": "model.pt is no text: it looks like a binary file",
    "explain empty-folder": "empty-folder has no logs (*.log",
    "explain /dev/zero": "/dev/zero is a device",
    "fail bad": "lastbeat fail my-run 'it broke'",
    "fail a it broke": "put 'it broke' in quotes",
    "fail --run-id a": "the message is missing",
    "fail --run-id a --exit-status 0": "no failure",
    "fleet --status": "'lastbeat fleet --help'",
    "fleet --status BROKEN": "is no status; these are: RUNNING",
    "fleet --since soon": "--since='soon' is not a time",
    "fleet --bucke b": "No such option: --bucke. Did you mean --bucket?",
    "health": "none is named",
    "health my-run --head-pod head": "name one of them",
    "health my-run --pod worker": "leave them out for a RUN",
    "health --ray-address ray://10.0.0.7:10001": "http://HOST:8265",
    "health --head-pod http://10.0.0.7:8265": "--at address=",
    "health --head-pod --kubeconfig=x": "no name of a pod",
    "limits --stale-minutes soon": "is not a number of minutes",
    "limits --stale twenty": "is not one of learned, fixed and default",
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
    "restart a b": "unexpected extra argument (b)",
    "restart jbos": "Did you mean lastbeat restart jobs?",
    "restart policy lst": "there is no command 'lst'. Did you mean list?",
    "restart agent --interval": "'lastbeat restart agent --help'",
    "restart adopt my-run": "JOB is missing",
    "routes check bad-routes.yaml": "bad-routes.yaml:2: unknown key 'rots' (did you mean 'routes'?)",
    "routes test --status faild": "--run is missing",
    "routes test --run a --status faild --at noon": "--status='faild' is none of them",
    "show": "RUN is missing; use for example lastbeat show my-run",
    "show my-rum": "Did you mean my-run?",
    "show ''": "the run id is empty",
    "show a --once": "are of --live",
    "show a --live -n 3": "--lines shows the end of a log",
    "signals show cuda_out_of_memry": "did you mean 'cuda_out_of_memory'?",
    "signals list --signals nope": "--signals: there is no built-in catalogue 'nope'",
    "signals show hf_hub_failed --signals megatron_basic": "default has it",
    "signals test train.log --only nothing": "has no signal 'nothing'",
    "silence": "ask for one thing",
    "silence 'run-*' --list": "ask for one thing",
    "silence 'run-*' --why x": "--for is missing",
    "silence 'run-*' --for 30s --why x": "from 1m to 30d",
    "simulate-fault --run-id my-run --type gpu_error --rank 1": "LASTBEAT_SIMULATE_FAULT=gpu_error:1",
    "simulate-fault --run-id my-run --type rank_kiled": "rank_killed",
    "simulate-fault --run-id my-run --after never": "no number of seconds",
    "supervise --run-id run": "--launcher is missing",
    "supervise --run-id run --launcher local": "there is no command",
    "supervise --resume run": "there is no run run in",
    "supervise --resume my-run": "my-run is not supervised; begin with",
    "supervise --agent": "--launcher is missing",
    "supervise --run-id run --launcher local --checkpoint-dir no/such -- true": (
        "no/such: there is no such directory\ncreate it, mount its file system, or correct --checkpoint-dir"
    ),
    "supervise --agent --launcher local --run-id run": "No such option: --run-id",
    "supervise --once --launcher local": "No such option: --once",
    "supervise --resume run --policy default": "No such option: --policy",
    "supervise --run-id run --launcher local --log s3://b/x.log -- true": "s3://b/x.log is in a store",
    "supervise --config none.yaml": "--config none.yaml cannot be read: No such file or directory; check the path",
    "supervise --run-id run --launcher ray-pod -- true": "ray-pod needs the pod of the cluster's head",
    "supervise --run-id run --launcher ray-pod --head-pod -x -- true": "no name of a pod",
    "supervise --run-id run --launcher ray-pod --head-pod a --option=--partition=gpu -- true": "no option of ray-pod",
    "sweep --interval soon": "--interval='soon' is not a number of seconds",
    "sweep --metrics http --stale-minutes -1": "--metrics='http' is neither a port nor HOST:PORT",
    "sweep --metrics-file x.txt": "does not end in .prom",
    "sweep --once --metrics 0": "with --once use --metrics-file",
    "sweep --metrics 0.0.0.0:0": "set LASTBEAT_DASHBOARD_TOKEN",
    "timeouts my-run --apply --remove": "name one of them",
    "timeouts llama": "'lastbeat fleet' lists the runs",
    "wach": "Did you mean watch?",
    "watch --once --log x": "--log is a log of one run",
    "watch a --metrics 0": "are of a fleet",
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
