"""Megatron-LM's loop as a run: steps, phases, re-runs, and each kind of end."""

import json
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from support.megatron_loop import Loop, bound

WHO = "Rank 3, node n1, device 2, iteration #7: "


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Loop:
    return bound(monkeypatch, str(tmp_path))


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


def persistent() -> None:
    logging.getLogger("megatron.core.rerun_state_machine").error("%sPossible persistent error!!", WHO)
    sys.exit(17)


@pytest.mark.parametrize(
    ("last", "leave", "sentinel", "text"),
    [
        pytest.param(4, lambda: None, "_complete", "", id="it has ended"),
        pytest.param(4, partial(sys.exit, 0), "_complete", "", id="it ends the process after its last iteration"),
        pytest.param(3, partial(sys.exit, 0), "_preempted", '"/ckpt"', id="it has saved, and ends early"),
        pytest.param(3, partial(sys.exit, 3), "_error", "exit status 3", id="it fails"),
        pytest.param(3, persistent, "_error", f"{WHO}Possible persistent error!", id="the hardware is at fault"),
        pytest.param(3, partial(sys.exit, 16), "_error", "exit status 16", id="another rank has doubts"),
    ],
)
def test_each_end_has_its_sentinel(
    loop: Loop, tmp_path: Path, last: int, leave: Callable[[], object], sentinel: str, text: str
) -> None:
    with suppress(SystemExit), loop.reported("my-run") as loop.run:
        loop.pretrain(last, leave)
    assert text in (tmp_path / "my-run" / sentinel).read_text(encoding="utf-8")


def test_a_stop_is_passed_to_its_own_handler_if_that_listens(loop: Loop) -> None:
    heard: list[int] = []
    loop.args.exit_signal_handler = True
    with loop.reported("my-run") as loop.run:
        loop.pretrain(4)
        before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
        loop.run.on_stop()
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
