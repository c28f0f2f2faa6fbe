# ruff: noqa: E501 - lines of logs are as long as they are
"""What is said by the way, in logs of runs that did not fail and of some that did."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load
from support.printed import STEPS, raised, traceback

CASES = [
    pytest.param(
        "none",
        "2026-03-01 10:00:00.123456: W tensorflow/stream_executor/platform/default/dso_loader.cc:64] Could not load dynamic library 'libnvinfer.so.7'; dlerror: libnvinfer.so.7: cannot open shared object file: No such file or directory\n2026-03-01 10:00:00.123456: E external/local_xla/xla/stream_executor/cuda/cuda_fft.cc:485] Unable to register cuFFT factory: Attempting to register factory for plugin cuFFT when one has already been registered\n",
        id="TensorFlow misses what it does not need",
    ),
    pytest.param(
        "none",
        STEPS
        + "2026-03-01 ERROR http: GET /metrics failed with status 503\nrequest finished with status code 200 in 3 ms\n",
        id="a request that failed",
    ),
    pytest.param(
        "none",
        "WARNING: Running pip as the 'root' user can result in broken permissions\nERROR: pip's dependency resolver does not currently take into account all the packages that are installed. This behaviour is the source of the following dependency conflicts.\n"
        + STEPS,
        id="pip complains",
    ),
    pytest.param("none", STEPS + "MeanAbsoluteError: 0.32\nRootMeanSquaredError: 1.2e-3\n", id="metrics of that name"),
    pytest.param(
        "none", "GPU health:\n  Segmentation faults       : 0\n  Bus errors : none\n", id="a report of no faults"
    ),
    pytest.param(
        "none",
        "| Error | Meaning |\n|---|---|\n| CUDA out of memory | the GPU is full |\n| Bus error | shared memory is full |\n",
        id="a table of what there may be",
    ),
    pytest.param(
        "none",
        'restart_on:\n    - NCCL error\n    - Segmentation fault\n    - "CUDA out of memory"\n',
        id="a list of what is waited for",
    ),
    pytest.param(
        "none",
        '    except torch.cuda.OutOfMemoryError as e:\n        raise RuntimeError("CUDA out of memory") from e\n',
        id="source code",
    ),
    pytest.param(
        "none",
        STEPS
        + "step 60/1000 loss nan lr 3.0e-04\nstep 61/1000 loss 2.1 lr 3.0e-04\n"
        + "".join(f"Eval: {n}%|#  | {n}/100 [00:01<00:09]\n" for n in range(10, 60)),
        id="one loss that was no number, and then no loss for long",
    ),
    pytest.param("none", STEPS + "- **Segmentation fault**: a native crash\n", id="bold type"),
    pytest.param("none", STEPS + "eval sample 3 -> It received SIGSEGV and dumped core.\n", id="what was generated"),
    pytest.param(
        "none",
        STEPS + "Early stopping: val_loss did not improve for 3 epochs, stopping\nbest checkpoint: ckpt/best.pt\n",
        id="early stopping",
    ),
    pytest.param(
        "none",
        STEPS + "[signal] SIGUSR1 handler: checkpoint requested\ncheckpoint saved\n",
        id="a signal for a checkpoint",
    ),
    pytest.param(
        "none",
        "checking NCCL ... ok\nchecking for corrupted shards: none found\nno missing files\nfound 0 damaged samples\n",
        id="checks that find nothing",
    ),
    pytest.param(
        "none",
        STEPS
        + "batch size 64: CUDA out of memory, trying 32\nstep 60/1000 loss 2.1\nstep 70/1000 loss 2.0\nstep 80/1000 loss 2.0\n",
        id="a batch size is found",
    ),
    pytest.param(
        "none",
        "find batch size: 64 -> CUDA out of memory, retrying with 32\nfind batch size: 32 ok\n",
        id="a batch size is found at once",
    ),
    pytest.param("none", STEPS + "dataloader: slow batch, waited 12 s for worker 3\n", id="a slow batch"),
    pytest.param(
        "none",
        STEPS
        + "2026-03-01 WARNING tracking server unavailable\n"
        + traceback(
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='mlflow', port=443): Max retries exceeded"
        ).replace("<module>", "log_metric")
        + "continuing without tracking\n",
        id="a tracking server is away",
    ),
    pytest.param(
        "none",
        "(pid=1) 2026-03-01 INFO worker.py: Connected to Ray cluster.\n(autoscaler +3s) Tip: use `ray status` to view detailed cluster status.\n(raylet) Spilled 2312 MiB, 10 objects, write throughput 500 MiB/s. Set RAY_verbose_spill_logs=0 to disable this message.\n",
        id="what Ray says by the way",
    ),
    pytest.param(
        "none",
        "Loaded checkpoint. Previous run ended with exit code 143 (SIGTERM, preempted)\n" + STEPS,
        id="how the run before ended",
    ),
    pytest.param(
        "none",
        "previous attempt failed: CUDA out of memory. Tried to allocate 2 GiB; restarting with smaller batch\n" + STEPS,
        id="how the attempt before ended",
    ),
    pytest.param("none", STEPS + "validation: loss nan (empty split)\n", id="an empty evaluation"),
    pytest.param(
        "none",
        "fatal: not a git repository (or any of the parent directories): .git\n" + STEPS,
        id="git is not there, then steps",
    ),
    pytest.param(
        "none", "fatal: not a git repository (or any of the parent directories): .git\n", id="git is not there"
    ),
    pytest.param(
        "none", STEPS + "killing 0 stale processes\nkilled 3 old tensorboard processes\n", id="processes of old"
    ),
    pytest.param(
        "none", STEPS + "failed requests: 3 of 1000, exit status of healthcheck: 0\n", id="failures that are counted"
    ),
    pytest.param(
        "none",
        "slurmstepd: error: couldn't chdir to `/home/u': No such file or directory: going to /tmp instead\n" + STEPS,
        id="Slurm starts elsewhere",
    ),
    pytest.param(
        "none",
        "JobId=1 StartTime=2026 TimeLimit=1-00:00:00 Requeue=1 Restarts=0\n" + STEPS,
        id="what Slurm knows of the job",
    ),
    pytest.param(
        "cancelled",
        STEPS
        + "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers\nWARNING:torch.distributed.elastic.multiprocessing.api:Sending process 4411 closing signal SIGHUP\n"
        + traceback("torch.distributed.elastic.multiprocessing.api.SignalException: Process 4400 got signal: 1"),
        id="the terminal was closed",
    ),
    pytest.param(
        "cancelled",
        "Epoch 0:  10%|#         | 10/100 [00:05<00:45,  2.00it/s, v_num=1][rank: 0] Received SIGTERM: 15\n[rank: 1] Received SIGTERM: 15\nBypassing SIGTERM: 15\nslurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-03-01T10:00:00 ***\n",
        id="Lightning bypasses SIGTERM",
    ),
    pytest.param(
        "cancelled",
        "Epoch 0:  10%|#         | 10/100 [00:05<00:45,  2.00it/s, v_num=1][rank: 0] Received SIGTERM: 15\nslurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO PREEMPTION ***\n",
        id="Lightning bypasses SIGTERM of a preemption",
    ),
    pytest.param("none", STEPS + "worker heartbeat timeout: 600 s" + "\n", id="a limit for heartbeats"),
    pytest.param("none", STEPS + "rank 3 alive, last heartbeat 2 s ago" + "\n", id="a heartbeat that came"),
    pytest.param("none", STEPS + "watchdog timeout 600 s" + "\n", id="a limit for a watchdog"),
    pytest.param("none", STEPS + "Please install flash-attn for better speed" + "\n", id="advice to install something"),
    pytest.param(
        "none", STEPS + "apex is not installed; using torch.nn.LayerNorm" + "\n", id="a package that is done without"
    ),
    pytest.param(
        "none", STEPS + "this model requires transformers>=4.40, found 4.44" + "\n", id="a requirement that is met"
    ),
    pytest.param("none", STEPS + "time budget of 3600 s, 100 s used up" + "\n", id="a budget of time"),
    pytest.param("none", STEPS + "job timeout reached: never" + "\n", id="a count of none"),
    pytest.param("none", STEPS + "coordination service heartbeat timeout set to 100 s" + "\n", id="a limit of JAX"),
    pytest.param(
        "none",
        STEPS + '{"level":"INFO","message":"oom retries 0, nan count 0, timeout 600"}' + "\n",
        id="settings in JSON",
    ),
    pytest.param(
        "none",
        STEPS + '{"level":"warning","msg":"CUDA out of memory, retrying with batch 4"}' + "\n",
        id="a retry in JSON",
    ),
    pytest.param(
        "none", STEPS + "WARNING rank 7 is slow: no progress for 12 s" + "\n", id="one warning that somebody is slow"
    ),
]


@pytest.mark.parametrize(("error_type", "text"), CASES)
def test_what_is_said_by_the_way(error_type: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert (cause.error_type if cause is not None else "none") == error_type


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CONDA = "CommandNotFoundError: Your shell has not been properly configured to use 'conda activate'.\n"
TIME_LIMIT = "slurmstepd: error: *** JOB 123 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***\n"

NOT_NEEDED = [
    pytest.param(
        "oom",
        "/var/spool/slurmd/job123/slurm_script: line 9: module: command not found\n" + raised(OOM, steps=False),
        id="the shell misses a command, and the program ends of memory",
    ),
    pytest.param(
        "storage",
        "Unable to open log file. Permission denied\n"
        + raised("OSError: [Errno 122] Disk quota exceeded", steps=False),
        id="something may not write its own log, and the program's disk is full",
    ),
    pytest.param(
        "exception",
        "bash: line 1: nvidia-smi: command not found\n"
        + raised("AttributeError: 'Trainer' object has no attribute 'fi'", steps=False),
        id="a tool is missing, and the program has a bug",
    ),
    pytest.param(
        "exception",
        "INFO:absl:Unable to load the plugin: libtpu.so: cannot open shared object file: No such file or directory\n"
        + raised("FileExistsError: out/run-1 already exists", steps=False),
        id="a library says in passing what it does without, and the program refuses its folder",
    ),
    pytest.param(
        "exception",
        "03:08:57.841 [I] Unable to load the plugin: libtpu.so: cannot open shared object file (41:bridge.py:9)\n"
        + raised("FileExistsError: out/run-1 already exists", steps=False),
        id="the same with a level of one letter",
    ),
    pytest.param(
        "storage",
        "Unable to open log file. Permission denied\n"
        "ray.exceptions.RayTaskError(OSError): ray::train() (pid=45173, ip=10.0.0.4)\n"
        '  File "/home/u/train.py", line 41, in train\n    torch.save(state, path)\n'
        "OSError: [Errno 122] Disk quota exceeded\n",
        id="a remote task's disk is full",
    ),
    pytest.param("time_limit", CONDA + TIME_LIMIT, id="conda complains, and the job runs until its time is over"),
    pytest.param(
        "environment",
        "bash: line 1: ninja: command not found\n" + raised("RuntimeError: could not build the extension", steps=False),
        id="what is vague may follow from what was missing",
    ),
    pytest.param(
        "environment",
        raised("ModuleNotFoundError: No module named 'apex'", steps=False) + TIME_LIMIT,
        id="what was missing was raised, and the job idled until its time was over",
    ),
    pytest.param(
        "environment",
        "torchrun: command not found\nsrun: error: n1: task 0: Exited with exit code 127\n",
        id="what was missing is all there is",
    ),
]


@pytest.mark.parametrize(("error_type", "text"), NOT_NEEDED)
def test_what_was_only_said_to_be_missing_gives_way(error_type: str, text: str) -> None:
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.error_type == error_type


def test_what_was_raised_is_the_evidence_and_not_what_a_shell_missed_before_it() -> None:
    text = "./run.sh: line 44: conda: command not found\n" + raised(
        "ModuleNotFoundError: No module named 'src'", steps=False
    )
    cause = explain_text(text, load("default")).cause
    assert cause is not None
    assert cause.evidence.text == "ModuleNotFoundError: No module named 'src'"
