"""Real PyTorch trainings that end in twelve ways, and what people are told of each by SDK, exec and a log alone.

All of them are lived through at once, in three or four minutes (``fleets.py``). No test asserts how soon people were
told; docs/training-ends.md has the times, which ``make matrix`` takes.
"""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed: see .ci/run")

from matrix.cases import CASES, OWNER, Way
from matrix.fleets import Told, live

pytestmark = [
    pytest.mark.timeout(900),  # the first test lives through everything
    pytest.mark.skipif(sys.platform != "linux", reason="guardians, /proc and /dev/full are for Linux alone"),
]


@dataclass(frozen=True)
class Expected:
    """What people have to hear: the events in their order, the cause, and what the reason says (a pattern)."""

    events: tuple[str, ...]
    cause: str | None
    says: str


KILLED = r"killed by SIGKILL"
SHAPES = r"RuntimeError: mat1 and mat2 shapes cannot be multiplied \(32x9 and 8x16\)"
NO_MEMORY = r"DefaultCPUAllocator: can't allocate memory"
# What torch.save makes of ENOSPC.
NO_SPACE = r"iostream error|No space left|file write failed"
HUNG = ("WARNING", "TIMED_OUT")
SILENT = ("TIMED_OUT",)
STOOD_STILL = r"No progress: still at step \d+ after "
SAYS_NOTHING = r"stale|silent"
"""Of a log alone nobody can know more."""

EXPECTED: Mapping[tuple[str, str], Expected] = {
    ("sdk", "exception"): Expected(("FAILED",), "torch", SHAPES),
    ("exec", "exception"): Expected(("FAILED",), "torch", SHAPES),
    ("log", "exception"): Expected(("FAILED",), "torch", SHAPES),
    ("sdk", "oom"): Expected(("FAILED",), "oom", NO_MEMORY),
    ("exec", "oom"): Expected(("FAILED",), "oom", NO_MEMORY),
    ("log", "oom"): Expected(("FAILED",), "oom", NO_MEMORY),
    ("sdk", "kill"): Expected(("FAILED",), "cancelled|unknown", KILLED),
    ("exec", "kill"): Expected(("FAILED",), "cancelled|unknown", KILLED),
    ("log", "kill"): Expected(SILENT, None, SAYS_NOTHING),
    ("sdk", "segfault"): Expected(("FAILED",), "exception", "SIGSEGV"),
    ("exec", "segfault"): Expected(("FAILED",), "exception", "SIGSEGV"),
    ("log", "segfault"): Expected(SILENT, None, SAYS_NOTHING),
    ("sdk", "lock"): Expected(HUNG, "hang|deadlock", STOOD_STILL),
    ("exec", "lock"): Expected(HUNG, "hang|deadlock", STOOD_STILL),
    ("log", "lock"): Expected(SILENT, None, SAYS_NOTHING),
    ("sdk", "collective"): Expected(HUNG, "hang|deadlock", STOOD_STILL),
    ("exec", "collective"): Expected(HUNG, "hang|deadlock", STOOD_STILL),
    ("log", "collective"): Expected(SILENT, None, SAYS_NOTHING),
    ("sdk", "rank"): Expected(("FAILED",), "cancelled|unknown", rf"rank 1 on \S+ was {KILLED}"),
    ("exec", "rank"): Expected(("FAILED",), "cancelled|unknown", r"rank: 1|rank 1"),
    ("log", "rank"): Expected(("FAILED",), "cancelled|unknown", r"rank: 1|rank 1"),
    ("sdk", "nan"): Expected(("SUCCEEDED",), None, "but the loss is NaN since step"),
    ("exec", "nan"): Expected(("SUCCEEDED",), None, "but the loss is NaN since step"),
    ("log", "nan"): Expected(("WARNING", "TIMED_OUT"), "numerical_instability", SAYS_NOTHING),
    ("sdk", "ctrl-c"): Expected(("CANCELLED",), "cancelled", "KeyboardInterrupt"),
    ("exec", "ctrl-c"): Expected(("CANCELLED",), "cancelled", "KeyboardInterrupt"),
    ("log", "ctrl-c"): Expected(("CANCELLED",), "cancelled", "KeyboardInterrupt"),
    ("sdk", "sigterm"): Expected(("FAILED",), "cancelled", "SIGTERM"),
    ("exec", "sigterm"): Expected(("FAILED",), "cancelled", "SIGTERM"),
    ("log", "sigterm"): Expected(SILENT, None, SAYS_NOTHING),
    ("sdk", "disk"): Expected(("FAILED",), "storage", NO_SPACE),
    ("exec", "disk"): Expected(("FAILED",), "storage", NO_SPACE),
    ("log", "disk"): Expected(("FAILED",), "storage", NO_SPACE),
    ("sdk", "end"): Expected(("SUCCEEDED",), None, "completed"),
    ("exec", "end"): Expected(("SUCCEEDED",), None, "completed"),
    ("log", "end"): Expected(SILENT, None, SAYS_NOTHING),
}

MISSES: Mapping[tuple[str, str, str], str] = {
    ("cause", "log", "rank"): "of a log alone nobody knows whether an OOM kill was counted: a SIGKILL counts as one",
    (
        "verdict",
        "sdk",
        "rank",
    ): "a pass in the moment before the guardian has written sees what another rank made of it",
    ("verdict", "log", "rank"): "so does a pass in the moment before torchrun has written which rank was killed",
}
"""What is known to be wrong: (test, way, case) → what people hear instead. docs/training-ends.md lists them,
too; one that is mended goes from both."""

OF_THE_DEAD = re.compile(
    r"process lives but|makes no progress|it still lives|before you kill it|py-spy dump|hangs? in", re.IGNORECASE
)
"""What is said of trainings that live, and is not true of those that have ended."""
OF_THE_LIVING = re.compile(r"was killed|has ended|exit status|exit code|no longer lives", re.IGNORECASE)


def rows(test: str) -> pytest.MarkDecorator:
    """Every way with every case. What is known to miss may fail, and may not: some of it is a race."""
    params = []
    for case in CASES:
        for way in Way:
            why = MISSES.get((test, way.value, case.name))
            marks = [pytest.mark.xfail(reason=why, strict=False)] if why is not None else []
            params.append(pytest.param(way, case, id=f"{case.says}-{way.says}", marks=marks))
    return pytest.mark.parametrize(("way", "case"), params)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Told]:
    return live(tmp_path_factory.mktemp("matrix"))


@pytest.fixture
def told(way: Way, case: Any, matrix: dict[tuple[str, str], Told]) -> Told:
    found = matrix[way.value, case.name]
    assert not found.fault, found.fault
    return found


def _texts(alert: dict[str, Any]) -> list[str]:
    """The sentences of lastbeat's own in an alert, and the words that it repeats."""
    own = [alert["reason"], alert["action"] or "", *alert["conditions"].values(), *alert["notes"]]
    return [*own, *alert["also_seen"]]


@rows("verdict")
def test_people_hear_what_it_came_to(way: Way, case: Any, told: Told) -> None:
    expected = EXPECTED[way.value, case.name]
    events = tuple(told.events)
    if case.name == "nan" and expected.events == ("SUCCEEDED",) and events[:1] == ("WARNING",):
        # A look between the first NaN and the end warns of it, and is right to.
        assert "NaN since step" in told.alerts[0][1]["reason"], told.alerts
        events = events[1:]
    assert events == expected.events, told.alerts
    assert re.search(expected.says, told.last["reason"]), told.last["reason"]


@rows("cause")
def test_the_cause_is_right(way: Way, case: Any, told: Told) -> None:
    expected = EXPECTED[way.value, case.name]
    cause = told.last["cause"]
    if expected.cause is None:
        assert cause is None
    else:
        assert cause is not None
        assert re.fullmatch(expected.cause, cause), told.last


@rows("truth")
def test_nothing_is_said_that_is_not_true(way: Way, case: Any, told: Told) -> None:
    for at, alert in told.alerts:
        assert at >= told.happened_at, f"this was told before anything had happened: {alert['reason']}"
        untrue = OF_THE_LIVING if case.lives else OF_THE_DEAD
        assert [text for text in _texts(alert) if untrue.search(text)] == []
        assert told.step == 0 or alert["step"] is None or alert["step"] <= told.step + 20
        since = re.search(r"NaN since step (\d+)", alert["reason"])
        assert since is None or int(since[1]) == told.step + 1


@rows("evidence")
def test_the_evidence_is_where_the_alert_says(way: Way, case: Any, told: Told) -> None:
    for _, alert in told.alerts:
        evidence = alert["evidence"]
        if evidence is None or evidence["file"] == "exit status":
            continue
        path = told.folder / evidence["file"]
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        assert any(evidence["text"].rstrip("…") in line for line in lines), evidence


@rows("person")
def test_it_says_whose_run_it_is(way: Way, case: Any, told: Told) -> None:
    # A log alone does not say.
    assert told.last["owner"] == (None if way is Way.LOG else OWNER)


@pytest.mark.parametrize("case", [pytest.param(case, id=case.says) for case in CASES if not case.lives])
def test_exec_ends_as_the_training_does(case: Any, matrix: dict[tuple[str, str], Told]) -> None:
    assert matrix["exec", case.name].exit == matrix["log", case.name].exit
