# ruff: noqa: E501 - lines of logs are as long as they are
"""Words of failures in logs of runs that did not fail."""

import pytest

from lastbeat.causes.explaining import explain_text
from lastbeat.signals.loading import load


def steps(first: int = 10, count: int = 5) -> str:
    return "".join(f"step {n}/1000 loss {3 - n / 500:.3f} lr 3.0e-04\n" for n in range(first, first + 10 * count, 10))


CAUGHT = """\
2026-03-01 10:02:00,000 ERROR evaluator: evaluation of task hellaswag failed
Traceback (most recent call last):
  File "/home/u/evaluator.py", line 40, in run_task
    score = task(model)
KeyError: 'gold'
"""
LINES = [
    pytest.param(
        "INFO | arguments: oom_retries=3 nccl_timeout=1800 kill_on_error=True nan_check=True hang_detector=on",
        id="settings in one line",
    ),
    pytest.param(
        "  distributed_timeout_minutes ..................... 30\n  exit_signal ..................................... SIGTERM\n  error_injection_type ............................ transient_error",
        id="Megatron's arguments",
    ),
    pytest.param(
        "Namespace(timeout=1800, on_error='abort', resume='ckpt/last.pt', nccl_debug='WARN', loss_scale=None)",
        id="argparse's arguments",
    ),
    pytest.param(
        "+ export NCCL_DEBUG=INFO TORCH_NCCL_ASYNC_ERROR_HANDLING=1\n+ echo 'if this says CUDA out of memory. Tried to allocate, lower the batch'",
        id="a shell that shows its commands",
    ),
    pytest.param(
        "{'train/nan_count': 0, 'train/errors': 0, 'timeouts': 0, 'oom': 0, 'xid_errors': 0}", id="counters at zero"
    ),
    pytest.param(
        "health: Xid errors: 0, uncorrectable ECC errors: 0, NVLink CRC errors: 0, hangs: 0, OOM kills: 0",
        id="a report that all is well",
    ),
    pytest.param(
        "    Volatile uncorrectable ECC errors : 0\n    Remapped Rows pending : No\n    HW Thermal Slowdown : Not Active",
        id="nvidia-smi says that all is well",
    ),
    pytest.param(
        "NCCL version 2.21.5+cuda12.4\nn1:10:10 [0] NCCL INFO NCCL_TIMEOUT set by environment to 22.\nn1:10:10 [0] NCCL INFO Connection closed by localRank 3",
        id="what NCCL says by the way",
    ),
    pytest.param(
        "n1:10:99 [0] NCCL WARN NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.",
        id="a warning of NCCL's that means nothing",
    ),
    pytest.param(
        "[W301 10:00:00.1 socket.cpp:464] [c10d] The client socket has failed to connect to [n4]:29500 (errno: 97 - Address family not supported by protocol).",
        id="no IPv6",
    ),
    pytest.param(
        "[W301 10:00:00.1 socket.cpp:464] [c10d] The client socket has failed to connect to [n4]:29500 (errno: 111 - Connection refused).",
        id="the store is not up yet",
    ),
    pytest.param(
        "[rank0]:[W301 10:00:00.1 ProcessGroupNCCL.cpp:4115] [PG ID 0 Rank 0] using GPU 0 as device used by this process is currently unknown. This can potentially cause a hang if this rank to GPU mapping is incorrect.",
        id="a warning that something could hang",
    ),
    pytest.param(
        "UserWarning: This DataLoader will create 16 worker processes in total. Our suggested max number of worker in current system is 8, which might cause the DataLoader to run slow or even freeze",
        id="a warning of slow loading",
    ),
    pytest.param(
        "huggingface/tokenizers: The current process just got forked, after parallelism has already been used. Disabling parallelism to avoid deadlocks...",
        id="tokenizers avoid deadlocks",
    ),
    pytest.param(
        "/opt/x/image.py:34: UserWarning: OSError('image file is truncated (12 bytes not processed)')",
        id="a damaged image that was left out",
    ),
    pytest.param(
        "WARNING: sample 1234 skipped: JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        id="a damaged record that was left out",
    ),
    pytest.param(
        "[2026-03-01 10:00:00,000] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        id="a loss scale that is being found",
    ),
    pytest.param(
        " iteration 31/ 5000 | lm loss: 2.1E+00 | loss scale: 32768.0 | grad norm: inf | number of skipped iterations:   1 | number of nan iterations:   0 |",
        id="a step that was skipped",
    ),
    pytest.param("eval: {'eval_loss': nan, 'eval_runtime': 1.2}", id="an evaluation without a result"),
    pytest.param(
        "botocore retry handler: ReadTimeoutError on PutObject, attempt 2 of 5, retrying in 3.1 s",
        id="an upload that is tried again",
    ),
    pytest.param(
        "ERROR s3fs: Connection reset by peer while reading s3://b/shard-1.tar, retrying (1/3)",
        id="a read that is tried again",
    ),
    pytest.param(
        "wandb: Network error (ConnectionError), entering retry loop.\nwandb: ERROR Error while calling W&B API: Connection refused (<Response [502]>)",
        id="W&B is away",
    ),
    pytest.param(
        'Exception ignored in: <function Pool.__del__ at 0x7f>\nTraceback (most recent call last):\n  File "/usr/lib/python3.10/multiprocessing/pool.py", line 268, in __del__\n    self._change_notifier.put(None)\nOSError: [Errno 9] Bad file descriptor',
        id="what Python ignores itself",
    ),
    pytest.param(
        "sample 3 | prompt: What does 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB' mean?\nsample 3 | output: RuntimeError: CUDA error: an illegal memory access was encountered means a bug.",
        id="texts that a model writes",
    ),
    pytest.param(
        'generated: "Traceback: KeyError. Then slurmstepd killed the job: oom-kill event, Segmentation fault, Killed"',
        id="a story about a crash",
    ),
    pytest.param("No checkpoint found in ckpt/, starting from scratch", id="nothing to resume from"),
    pytest.param(
        "resuming after preemption: loaded step 30 from ckpt/, 3 of 5 restarts left", id="resumed after a preemption"
    ),
    pytest.param(
        "srun: job 4411 queued and waiting for resources\nsrun: job 4411 has been allocated resources",
        id="waiting for Slurm",
    ),
    pytest.param(
        "word error rate: 12.3 top-1 error: 24.1 reconstruction error 0.12 failed samples: 0",
        id="errors that are measured",
    ),
    pytest.param(
        "watchdog armed: will abort if no progress for 1800 s; heartbeat timeout 600 s", id="a watchdog that watches"
    ),
    pytest.param(
        "monitored_barrier(timeout=30s) passed; all_reduce test passed, no timeout", id="a barrier that was passed"
    ),
    pytest.param(
        "checkpoint integrity: checksum ok, 0 corrupted shards, 0 missing files", id="a check that found nothing"
    ),
    pytest.param("signal handlers installed for SIGTERM, SIGUSR1 (preemption), SIGINT", id="handlers for signals"),
    pytest.param(
        "INFO elastic: max_restarts=3 exit_code=0 last_failure=None preempted=False", id="what a launcher remembers"
    ),
    pytest.param("process group destroyed, exit code 0", id="a good exit code"),
    pytest.param("[torchelastic] simulated fault: none; error_file: <N/A>", id="no fault to simulate"),
    pytest.param("GPU memory: 64.38GiB(84.11%) allocated, 0 OOM retries, 0 alloc retries", id="memory that suffices"),
    pytest.param(
        "DeprecationWarning: passing timeout is deprecated; a RuntimeError will be raised in a future release",
        id="what will be an error one day",
    ),
    pytest.param(
        "Note: if you see 'No space left on device', clean /tmp; if a rank dies with exit code 137 it was the OOM killer.",
        id="advice",
    ),
    pytest.param(
        "caution: torch.load without weights_only could run code; UnpicklingError is raised if the file is unsafe",
        id="more advice",
    ),
]


@pytest.mark.parametrize("line", LINES)
def test_a_word_in_a_harmless_place(line: str) -> None:
    """Before training, in the middle of it, and as the last thing that it said so far."""
    for text in (line + "\n" + steps(), steps() + line + "\n" + steps(60), steps() + line + "\n"):
        assert explain_text(text, load("default")).cause is None, text[-400:]


GOING_ON = [
    pytest.param(CAUGHT, id="an exception that was caught and logged"),
    pytest.param(
        "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"t.py\", line 3, in <module>\n[rank1]:     x()\n[rank1]: KeyError: 'x'\nW0301 10:00:00.1 1 torch/distributed/elastic/agent/server/api.py:700] [default] Worker group FAILED. 2/3 attempts left; will restart worker group\n",
        id="workers that torchrun started again",
    ),
    pytest.param(
        "[81202.711010] NVRM: Xid (PCI:0000:18:00): 63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.\n",
        id="a row of memory that was remapped",
    ),
    pytest.param("OSError: [Errno 28] No space left on device: '/tmp/cache'\n", id="a cache that could not be written"),
    pytest.param("step 60/1000 loss nan lr 3.0e-04\n", id="one loss that was no number"),
    pytest.param(
        "step 60/1000 loss nan | number of nan iterations: 1 |\n"
        + "".join(f"step {n}/1000 loss 2.{n} | number of nan iterations: 0 |\n" for n in range(61, 66)),
        id="one loss that was no number, where every line counts such steps",
    ),
    pytest.param(
        'Timeout (0:05:00)!\nThread 0x00007f487be1bb80 (most recent call first):\n  File "/home/u/train.py", line 13 in __getitem__\n',
        id="a pause that was long",
    ),
    pytest.param(
        "2026-03-01 ERROR uploader: An error occurred (SlowDown) when calling the PutObject operation (reached max retries: 4)\n",
        id="an upload that was given up",
    ),
    pytest.param(
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.78 GiB total capacity; 13.90 GiB already allocated; 1.20 GiB free; 14.05 GiB reserved in total by PyTorch)\n",
        id="a batch size that was too large and was made smaller",
    ),
]


@pytest.mark.parametrize("text", GOING_ON)
def test_steps_that_go_on_acquit(text: str) -> None:
    found = explain_text(steps() + text + steps(70, 6), load("default"))
    assert found.cause is None
    assert not found.ended


def test_a_run_that_says_that_it_is_done_is_a_success_whatever_its_teardown_prints() -> None:
    text = steps() + (
        "Training finished.\n"
        "[rank0]:[W301 10:00:00.1 ProcessGroupNCCL.cpp:1250] Warning: WARNING: process group has NOT been destroyed before we "
        "destruct ProcessGroupNCCL.\n"
        "/usr/lib/python3.10/multiprocessing/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 6 leaked "
        "semaphore objects to clean up at shutdown\n"
    )
    found = explain_text(text, load("default"))
    assert found.cause is None
    assert found.success is not None
    assert found.success.text == "Training finished."


def test_an_empty_text_says_nothing() -> None:
    assert explain_text("", load("default")).cause is None
    assert explain_text("\n\n\n", load("default")).cause is None
