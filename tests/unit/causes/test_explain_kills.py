"""A SIGKILL: the OOM killer's as long as nobody knows better, but not where no OOM kill was counted."""

from lastbeat.explain.causes.confidence import Grounds
from lastbeat.explain.signals.hints import KILLED_WITHOUT_OOM
from lastbeat.model.cause import Cause
from lastbeat.model.oom_kills import NONE_COUNTED
from lastbeat.watch.observe.log_observer import exit_code
from support.explained import cause_of, explained
from support.printed import STEPS
from support.row_by_row import check_each

KILLED = f"train.py was killed by SIGKILL (signal 9), and {NONE_COUNTED}: often a person or the scheduler\n"
ENDED = f"torch.distributed.elastic.multiprocessing.errors.ChildFailedError: (exit status 1; {NONE_COUNTED})\n"
SCRIPT = f"sh ended with exit status 137 (128 + 9: one of its processes was killed by SIGKILL); {NONE_COUNTED}\n"
TORCHRUN = (
    "E1122 16:38:03.981000 31856 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -9) "
    "local_rank: 1 (pid: 592) of binary: /usr/bin/python\n"
    "  exitcode  : -9 (pid: 592)\n  traceback : Signal 9 (SIGKILL) received by PID 592\n"
)
SHELL = "train.sh: line 3: 77 Killed                  python train.py\n"
WORKER = "RuntimeError: DataLoader worker (pid 77) is killed by signal: Killed.\n"
KERNEL = "[Sat Nov 22 16:38:03 2026] Out of memory: Killed process 592 (python) total-vm:9kB\n"
CUDA = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
HANGS = "[monitor] WARNING: no progress since 600 s (step 50)\n[monitor] ERROR: nothing yet, sending SIGKILL\nKilled\n"
SRUN = "srun: error: node2: task 3: Killed\n"


def ended(error: str, log: str, scheduler: str | None = None) -> tuple[Cause, str]:
    """The cause, and what it rests on."""
    logs = (("logs/train.log", STEPS + log), ("_error", error))
    found = explained(*logs, exit_code=exit_code(error), scheduler=scheduler)
    assert found.ended
    assert not any(other.error_type == "oom" for other in found.alternatives)
    return cause_of(found), found.grounds


NOT_COUNTED = {
    "a training that the guardian or exec saw killed": (KILLED, ""),
    "one rank of it": (f"{KILLED}rank 1 of 2 on host-17, process 99\n", ""),
    "a rank under torchrun": (ENDED, TORCHRUN),
    "what a script had started": (SCRIPT, ""),
    "and the shell says so": (SCRIPT, SHELL),
    "a worker that loads data": (ENDED, WORKER),
}


def test_a_kill_where_no_oom_kill_was_counted_has_no_known_sender() -> None:
    check_each(NOT_COUNTED.items(), has_no_known_sender)


def has_no_known_sender(error: str, log: str) -> None:
    cause, grounds = ended(error, log)
    assert grounds == Grounds.END.value
    assert (cause.error_type, cause.hint, cause.restartable) == ("unknown", KILLED_WITHOUT_OOM, True)
    assert "most often" not in cause.hint


BETTER = {
    "the kernel's own word": (KILLED, KERNEL, None, "oom"),
    "the GPU's memory, which no cgroup counts": (KILLED, CUDA, None, "oom"),
    "the scheduler's": (KILLED, "", "OUT_OF_MEMORY", "oom"),
    "the hang that somebody ended so": (KILLED, HANGS, None, "hang"),
    "what died on another node was not counted here": (ENDED, SRUN, None, "oom"),
    "nobody counted": (ENDED.replace(f"; {NONE_COUNTED}", ""), TORCHRUN, None, "oom"),
}


def test_better_evidence_goes_before_that() -> None:
    check_each(BETTER.items(), goes_before)


def goes_before(error: str, log: str, scheduler: str | None, error_type: str) -> None:
    assert ended(error, log, scheduler)[0].error_type == error_type


def test_training_cannot_say_it_in_its_log() -> None:
    cause, _ = ended(ENDED.replace(f"; {NONE_COUNTED}", ""), f"{NONE_COUNTED}\n{TORCHRUN}")
    assert cause.error_type == "oom"
