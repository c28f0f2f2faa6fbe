"""What stands before the lines of a program, and between them, changes neither the cause nor its line."""

import random
from collections.abc import Callable, Mapping

from lastbeat.explain.causes.explaining import explain_text
from lastbeat.explain.signals.loading import load
from support.explained import cause_of
from support.printed import CHILD_FAILED, STEPS, traceback
from support.row_by_row import check_each

LOGS = {
    "oom": STEPS + traceback("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."),
    "exception": STEPS + traceback("KeyError: 'labels'"),
    "cancelled": STEPS + "^C" + traceback("KeyboardInterrupt"),
    "a chain": STEPS
    + traceback("TypeError: 'NoneType' object is not iterable")
    + "\nDuring handling of the above exception, another exception occurred:\n\n"
    + traceback("RuntimeError: step failed"),
    "numerical_instability": STEPS + "".join(f"step {n}0/1000 loss nan lr 3.0e-04\n" for n in range(6, 9)),
    "a crash": STEPS + "train.sh: line 3: 4711 Segmentation fault      (core dumped) python train.py\n",
    "time_limit": STEPS
    + "slurmstepd: error: *** JOB 4711 ON n1 CANCELLED AT 2026-03-01T15:00:00 DUE TO TIME LIMIT ***\n",
}
PREFIXES: Mapping[str, Callable[[int, str], str]] = {
    "Ray": lambda _, line: f"(TaskRunner pid=123) {line}",
    "Ray on another node": lambda _, line: f"(WorkerDict.rollout pid=123, ip=10.0.0.7) {line}",
    "Ray, an actor without a name": lambda _, line: f"(pid=123, ip=10.0.0.7) {line}",
    "Ray in colours": lambda _, line: f"\x1b[36m(TaskRunner pid=123)\x1b[0m {line}",
    "SkyPilot": lambda _, line: f"(worker1, rank=1, pid=27522, ip=10.105.0.4) {line}",
    "SkyPilot before a rank": lambda _, line: f"(worker1, rank=1, pid=27522, ip=10.105.0.4) [rank4]: {line}",
    "kubectl logs --prefix": lambda _, line: f"[pod/train-0/trainer] {line}",
    "kubectl logs --timestamps": lambda n, line: f"2026-03-01T10:00:00.{n:09d}Z {line}",
    "containerd's files": lambda n, line: f"2026-03-01T10:00:00.{n:09d}Z stderr F {line}",
    "docker compose": lambda _, line: f"trainer-1  | {line}",
    "grep -n": lambda n, line: f"{n + 101}:{line}",
    "cat -n": lambda n, line: f"{n + 1:6d}\t{line}",
    "a poster's line numbers": lambda n, line: f"{n + 101}  {line}",
    "a poster's line numbers before a rank": lambda n, line: f"{n + 101}  [rank1]: {line}",
    "a poster's quotation marks": lambda _, line: f"> {line}",
    "srun --label": lambda _, line: f" 3: {line}",
    "torchrun --tee": lambda _, line: f"[default3]:{line}",
    "Windows' line ends": lambda _, line: f"{line}\r",
    "colours": lambda _, line: f"\x1b[31m{line}\x1b[0m",
}


def test_a_prefix_changes_neither_cause_nor_line() -> None:
    check_each(
        ((f"{log} behind {name}", (LOGS[log], prefix)) for log in LOGS for name, prefix in PREFIXES.items()),
        is_the_same,
    )


def is_the_same(text: str, prefix: Callable[[int, str], str]) -> None:
    lines = "".join(f"{prefix(n, line)}\n" for n, line in enumerate(text.splitlines()))
    bare, found = (cause_of(explain_text(each, load("default"))) for each in (text, lines))
    assert (found.error_type, found.evidence.line) == (bare.error_type, bare.evidence.line)


def test_line_numbers_are_those_of_grep_however_often_a_bar_was_redrawn() -> None:
    bar = "\r 26%|##6       | 262/1000 [01:42<14:26,  2.97it/s]"
    text = f"{bar * 9}\n{bar * 9}" + traceback("KeyError: 'labels'").replace("\n", f"\n{bar * 9}\n")
    numbers = [number for number, line in enumerate(text.split("\n"), start=1) if "KeyError" in line]
    assert [cause_of(explain_text(text, load("default"))).evidence.line] == numbers


def test_ranks_that_write_into_each_others_lines() -> None:
    """Two to four processes without prefixes die of the same, and print when they like; some line ends come late."""
    lasts = ("torch.OutOfMemoryError: CUDA out of memory.", "KeyError: 'labels'")
    check_each(((f"{last} {seed}", (last, seed)) for last in lasts for seed in range(6)), is_found)


def is_found(last: str, seed: int) -> None:
    chance = random.Random(seed)
    waiting = [traceback(last).splitlines() for _ in range(chance.choice([2, 3, 4]))]
    printed: list[str] = []
    while any(waiting):
        printed.append(chance.choice([lines for lines in waiting if lines]).pop(0))
    glued = "".join(line + ("" if n % 5 == seed % 5 else "\n") for n, line in enumerate(printed))
    texts = (STEPS + glued + "\n" + CHILD_FAILED, traceback(last))
    found, alone = (cause_of(explain_text(each, load("default"))) for each in texts)
    assert found.error_type == alone.error_type
    assert last[:8] in found.evidence.text
