# ruff: noqa: E501 - lines of logs are as long as they are
"""Several attempts in one file: the verdict is of the last one."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.decide.logs import also_seen
from lastbeat.model.cause import AttemptInFile
from lastbeat.signals.loading import load
from support.printed import CHILD_FAILED, traceback

INIT = """\
{at} INFO run: writing to /data/runs/llama-small
{at} INFO data: 1200 documents in 4 shards
{at} INFO model: 124.4M parameters, 12 layers
{at} INFO optim: AdamW, cosine schedule
"""
OOM = traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
IMPORT = traceback("ModuleNotFoundError: No module named 'flash_attn'")
LABELS = traceback("KeyError: 'labels'")
DONE = "Training finished.\n"


def init(minute: int) -> str:
    return INIT.format(at=f"2026-03-01 10:{minute:02d}:00,000")


def steps(first: int = 1, count: int = 5, loss: str = "2.5") -> str:
    return "".join(f"step {n}0/1000 loss {loss}{n} lr 3.0e-04\n" for n in range(first, first + count))


NAN = "".join(f"step {n}0/1000 loss nan lr 3.0e-04\n" for n in range(6, 9))

TALK = "".join(f"reading file {'abcdefghij'[n % 10]}{n}.txt\n" for n in range(80))
CLOSED = "RuntimeError: Connection closed by peer [10.0.0.2]:4242\n"


def of_rank(rank: int, text: str) -> str:
    return "".join(f"[rank{rank}]: {line}\n" for line in text.splitlines())


SEVERAL = [
    pytest.param(init(0) + OOM + init(9) + IMPORT, "environment", 2, id="another error each time"),
    pytest.param(init(0) + steps() + OOM + init(9) + steps(1, 2) + LABELS, "exception", 2, id="both died in training"),
    pytest.param(init(0) + OOM + init(4) + OOM + init(9) + LABELS, "exception", 3, id="three of them"),
    pytest.param(init(0) + OOM + init(9) + DONE, None, 2, id="an old failure, and then a success without a step"),
    pytest.param(
        init(0) + steps() + NAN + LABELS + init(9) + IMPORT,
        "environment",
        2,
        id="it diverged, and the next one did not begin",
    ),
    pytest.param(init(0) + steps() + DONE + init(9) + OOM, "oom", 2, id="a success, and then a failure"),
    pytest.param(
        "SLURM_JOB_ID=4711\n" + steps() + OOM + "SLURM_JOB_ID=4712\n" + IMPORT,
        "environment",
        2,
        id="another job's number",
    ),
    pytest.param(
        "(llm) [ada@gpu001 llm]$ python train.py\n"
        + steps()
        + "^C"
        + traceback("KeyboardInterrupt")
        + "(llm) [ada@gpu001 llm]$ python train.py --resume\n"
        + OOM,
        "oom",
        2,
        id="a terminal's prompts",
    ),
    pytest.param(
        init(0) + OOM + CHILD_FAILED + init(9) + TALK,
        None,
        2,
        id="a launcher ended the first, the last one has printed much and says nothing of an end",
    ),
    pytest.param(
        init(0) + "run.sh: line 3:  4711 Killed                  python train.py\n" + init(9) + TALK,
        None,
        2,
        id="a shell saw the first one die",
    ),
    pytest.param(
        of_rank(0, init(0) + OOM) + of_rank(0, init(9)) + of_rank(0, TALK),
        None,
        2,
        id="the same rank begins again",
    ),
    pytest.param(init(0) + steps() + OOM + init(9) + steps(1, 4), None, 2, id="the last one trains"),
    pytest.param(
        init(0) + steps() + OOM + "root@worker-0:/work# python train.py --resume\n" + steps(1, 4),
        None,
        2,
        id="behind a prompt it trains",
    ),
    pytest.param(IMPORT + init(3) + IMPORT + init(9) + steps(), None, 2, id="the first one died before it said a word"),
]


@pytest.mark.parametrize(("text", "error_type", "number"), SEVERAL)
def test_the_last_attempt_counts(text: str, error_type: str | None, number: int) -> None:
    found = explain_text(text, load("default"), "train.log")
    assert (found.cause.error_type if found.cause is not None else None) == error_type
    assert found.attempt is not None
    begins = text.splitlines()[found.attempt.line - 1]
    assert found.attempt.number == number
    assert any(mark in begins for mark in ("writing to", "SLURM_JOB_ID", "python train.py --resume"))
    if found.cause is not None:
        assert found.cause.evidence.line > found.attempt.line
        assert f"attempt {number} of {number} in train.log, from line {found.attempt.line} on" in also_seen(found)


ONE = [
    pytest.param(
        init(0) + steps() + "".join(f"[rank{r}]: {each}\n" for r in (0, 1) for each in OOM.splitlines()) + CHILD_FAILED,
        "oom",
        id="two ranks die of the same",
    ),
    pytest.param(
        init(0) + init(0) + OOM + init(0) + "RuntimeError: Connection closed by peer [10.0.0.2]:4242\n" + CHILD_FAILED,
        "oom",
        id="ranks print the same opening, one of them after another has died",
    ),
    pytest.param(
        init(0)
        + steps()
        + OOM
        + "wandb: View run at https://wandb.example/runs/1\nwandb: Synced 5 files\n"
        + CHILD_FAILED,
        "oom",
        id="a tracker says good-bye",
    ),
    pytest.param(
        "JobId=4711 JobName=llama\nNodeList=gpu-n1 NumNodes=1\nPartition=gpu QOS=normal\n"
        + steps()
        + LABELS
        + "JobId=4711 JobName=llama\nNodeList=gpu-n1 NumNodes=1\nPartition=gpu QOS=normal\nState: FAILED\nexit code 1\n",
        "exception",
        id="a script prints what the job is at the beginning and at the end",
    ),
    pytest.param(
        init(0) + steps() + OOM + init(9),
        "oom",
        id="the next attempt has only begun, and shows nothing yet",
    ),
    pytest.param(
        "stage 1: tokenize\nreading the documents of the corpus\nwriting the shards of the corpus\n"
        + LABELS
        + "stage 2: train\nreading the shards of the corpus\nbuilding the model of 12 layers\n"
        + traceback("FileNotFoundError: [Errno 2] No such file or directory: '/data/shards'"),
        "exception",
        id="a script goes on with its next stage, which misses what the first should have made",
    ),
    pytest.param(
        "ada@gpu001:~/llm$ torchrun --nproc-per-node 8 train.py\n"
        + steps()
        + OOM
        + "ada@gpu001:~/llm$ nvidia-smi\nada@gpu001:~/llm$\n",
        "oom",
        id="somebody looks around after it",
    ),
    pytest.param(
        init(0) + steps() + "2026-03-01 10:05:00,000 ERROR eval: evaluation failed: no such task\n" + init(6) + LABELS,
        "exception",
        id="nothing had ended when the lines came again",
    ),
    pytest.param(
        "SLURM_JOB_ID=4711\n" + steps() + LABELS + "Array Job ID: 4700\n" + TALK,
        "exception",
        id="an epilogue names the array, and talks",
    ),
    pytest.param(
        "Job ID: 4711\n" + init(0) + steps() + LABELS + "submitted the follow-up, job id: 4712\n" + TALK,
        "exception",
        id="a script names the job that it submits next, and talks",
    ),
    pytest.param(
        init(0) + steps() + LABELS + "root@worker-0:/# python collect_logs.py\n" + TALK,
        "exception",
        id="a tool is started at a prompt, and talks",
    ),
    pytest.param(
        init(0) + "srun: error: n4: task 3: Exited with exit code 1\n" + LABELS + init(0) + TALK,
        "exception",
        id="srun sees one task end, and another begins late",
    ),
    pytest.param(
        of_rank(0, init(0) + LABELS) + "".join(of_rank(rank, init(1) + TALK + CLOSED) for rank in (1, 2, 3)),
        "exception",
        id="three ranks, known by number, begin when the first has died",
    ),
    pytest.param(
        init(0) + LABELS + init(1) + TALK + CLOSED + init(1) + TALK + CLOSED,
        "exception",
        id="two ranks without a number begin when the first has died",
    ),
    pytest.param(
        init(0) + LABELS + init(1) + TALK + CLOSED + CHILD_FAILED,
        "exception",
        id="a rank without a number begins when the first has died, before the launcher ends it all",
    ),
    pytest.param(
        LABELS + init(1) + init(1) + init(1) + TALK + CLOSED,
        "exception",
        id="the first rank dies before any says a word",
    ),
]


@pytest.mark.parametrize(("text", "error_type"), ONE)
def test_one_attempt_that_looks_like_two(text: str, error_type: str) -> None:
    found = explain_text(text, load("default"))
    assert found.cause is not None
    assert found.cause.error_type == error_type
    assert found.attempt is None


def test_an_attempt_in_words() -> None:
    assert AttemptInFile(3, "train.log", 412).told == "attempt 3 of 3 in train.log, from line 412 on"


RENDEZVOUS = """\
[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
[E socket.cpp:462] [c10d] The server socket has failed to listen on any local network address.
Traceback (most recent call last):
  File "/opt/venv/bin/torchrun", line 8, in <module>
    sys.exit(main())
  File "/opt/venv/lib/python3.10/site-packages/torch/distributed/elastic/rendezvous/static_tcp_rendezvous.py", line 55, in next_rendezvous
    self._store = TCPStore(
RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
"""
WATCHDOG = "".join(
    f"[E ProcessGroupNCCL.cpp:828] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1801501 milliseconds before timing out.\n"
    for rank in (1, 0)
)


@pytest.mark.parametrize("catalogue", ["default", "megatron_nccl"])
def test_a_launch_that_found_the_port_taken_says_nothing_of_the_job_that_has_it(catalogue: str) -> None:
    found = explain_text(steps() + RENDEZVOUS + WATCHDOG + CHILD_FAILED, load(catalogue)).cause
    assert found is not None
    assert found.error_type == "nccl_timeout"


def test_a_launch_that_found_the_port_taken_is_the_cause_where_no_worker_speaks() -> None:
    found = explain_text(RENDEZVOUS, load("default")).cause
    assert found is not None
    assert found.error_type == "communication"
