"""Megatron-LM's loop as a run: steps, phases, re-runs, and each kind of end."""

import json
import logging
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.megatron_loop import Loop, loop

__all__ = ["loop"]
RERUN = logging.getLogger("megatron.core.rerun_state_machine")
BAD = "Rank 3, node n1, device 2, iteration #7: "


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MONITORING_ROOT", str(tmp_path))
    monkeypatch.setenv("LASTBEAT_GUARDIAN", "off")


def test_steps_and_phases_are_reported(loop: Loop, tmp_path: Path) -> None:
    before = loop.training_log
    with loop.reported("my-run") as loop.run:
        assert loop.run.phase_now[0] == "setup"
        loop.pretrain(4)
        assert loop.run.tokens == 3 * 2 * 8
    assert loop.training_log is before
    assert loop.phases == ["evaluation", "saving"] * 2
    told = json.loads((tmp_path / "my-run/progress.json").read_text(encoding="utf-8"))
    assert (told["step"], told["total_steps"], told["loss"], told["learning_rate"]) == (4, 4, 0.25, 0.1)
    assert told["metrics"] == {"grad_norm": 0.5}


def verdict(text: str) -> None:
    RERUN.error("%s%s!", BAD, text)


@pytest.mark.parametrize(
    ("last", "leave", "sentinel", "text"),
    [
        pytest.param(4, lambda: None, "_complete", "", id="it has ended"),
        pytest.param(4, partial(sys.exit, 0), "_complete", "", id="it ends the process after its last iteration"),
        pytest.param(3, partial(sys.exit, 0), "_preempted", '"/ckpt"', id="it has saved, and ends early"),
        pytest.param(3, partial(sys.exit, 3), "_error", "exit status 3", id="it fails"),
        pytest.param(3, lambda: (verdict("Possible persistent error"), sys.exit(17)), "_error", f"{BAD}Possible",
                     id="the hardware is at fault"),
        pytest.param(3, lambda: sys.exit(16), "_error", "exit status 16", id="another rank has doubts"),
    ],
)  # fmt: skip
def test_each_end_has_its_sentinel(
    loop: Loop, tmp_path: Path, last: int, leave: Callable[[], Any], sentinel: str, text: str
) -> None:
    try:
        with loop.reported("my-run") as loop.run:
            loop.pretrain(last, leave)
    except SystemExit:
        pass
    assert text in (tmp_path / "my-run" / sentinel).read_text(encoding="utf-8")


def test_a_stop_is_passed_to_its_own_handler_if_that_listens(loop: Loop) -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        loop.args.exit_signal_handler = True
        with loop.reported("my-run") as loop.run:
            loop.pretrain(4)
            signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
            loop.run.on_stop()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
