"""The verdicts of Megatron-LM's own re-runs are the run's, by the real ``megatron.core``."""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: see .ci/run")
pytest.importorskip("megatron.core", reason="megatron-core is not installed; the group frameworks has it")

from support.megatron_loop import bound  # noqa: E402 - after what it needs


def test_a_bad_result_that_comes_again_is_told_with_its_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from megatron.core import rerun_state_machine as real  # noqa: PLC0415 - slow, and beside the stand-in of its loop

    loop = bound(monkeypatch, str(tmp_path))
    # There is no GPU, and the ranks that decide together are this one.
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    machine = real.RerunStateMachine(mode=real.RerunMode.VALIDATE_RESULTS)
    machine.first_iteration_complete, machine.current_iteration = True, 2

    def leave() -> None:
        for state in (real.RerunState.INITIAL_RUN, real.RerunState.RERUNNING_IN_PLACE):
            machine.state = state
            machine.validation_counts.clear()
            machine.validate_result(torch.tensor(float("nan")), torch.isnan, "found NaN in loss")
        machine.state = real.RerunState.WILL_RERUN_FROM_CHECKPOINT
        raise SystemExit(machine.should_checkpoint_and_exit()[2])

    with pytest.raises(SystemExit), loop.reported("my-run") as loop.run:
        loop.pretrain(3, leave)
    told = json.loads((tmp_path / "my-run/metadata.json").read_text(encoding="utf-8"))["rerun"]
    assert told["exit_code"] == 16
    (found,) = told["findings"]
    assert (found["verdict"], found["rank"], found["host"]) == ("reproduced", 0, os.uname().nodename)
