"""What the callbacks of all frameworks have in common, without any framework."""

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lastbeat.integrations.session import metrics_of, never_raises
from support.checkout import ROOT
from support.hostile import VALUES
from support.waiting import LIMIT_S

BEGIN = """
import sys
from lastbeat.integrations.session import ContextCallback, Session

class Callback(ContextCallback):
    def __init__(self, run_id):
        self._session = Session(run_id, {})

callback = Callback("r")
session = callback._session
session.begin(10)
callback.run.step(3, loss=0.5)
"""


def _run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    environ = dict(os.environ) | {"PYTHONPATH": str(ROOT / "core"), "MONITORING_ROOT": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", script],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "sentinel", "first"),
    [
        pytest.param("session.end()", "_complete", "", id="a training that has ended"),
        pytest.param("raise ValueError('bad')", "_error", "ValueError: bad", id="an exception that nobody catches"),
        pytest.param("pass", "_error", "training did not reach its end", id="a process that ends all the same"),
        pytest.param("with callback: raise ValueError('bad')", "_error", "ValueError: bad",
                     id="an exception that leaves the block"),
        pytest.param("with callback: pass", "_error", "training did not reach its end",
                     id="a block that is left too early"),
        pytest.param("session.end(); raise ValueError", "_complete", "", id="what comes after the training is its own"),
        pytest.param("session.end(); session.begin(5); session.end(ValueError('bad'))", "_error", "ValueError: bad",
                     id="a second training that fails"),
        pytest.param(
            "callback.run.ask_to_stop('told', 'told'); session.stops(); session.saved('c', 9); session.end()",
            "_preempted",
            '{"checkpoint"',
            id="a training that saved and ended early because it was told to",
        ),
        pytest.param("callback.run.step(10); callback.run.ask_to_stop('x', 'x')\n"
                     "session.stops(); session.saved('c', 10); session.end()", "_complete", "",
                     id="one that was told to stop after its last step"),
        pytest.param("session.begin(5); session.end()", "_complete", "", id="a training that was left and begun again"),
    ],
)  # fmt: skip
def test_a_training_ends_with(script: str, sentinel: str, first: str, tmp_path: Path) -> None:
    done = _run(tmp_path, BEGIN + script)
    sentinels = {path.name for path in (tmp_path / "r").iterdir()} & {"_complete", "_error", "_preempted"}
    assert sentinels == {sentinel}, done.stderr
    assert (tmp_path / "r" / sentinel).read_text(encoding="utf-8").startswith(first)


def test_a_callback_that_fails_with_every_batch_is_logged_once_for_each_kind_of_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @never_raises
    def on_step_end(step: int) -> None:
        raise (AttributeError if step % 2 else TypeError)(f"step {step}")

    with caplog.at_level(logging.WARNING, "lastbeat"):
        for step in range(100):
            on_step_end(step)
    assert [record.getMessage().rpartition(": ")[2] for record in caplog.records] == ["step 0", "step 1"]


def test_ctrl_c_in_a_callback_is_not_kept_back() -> None:
    @never_raises
    def on_step_end() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        on_step_end()


def test_quantities_with_a_name_of_their_own_are_no_metrics() -> None:
    logs = {"loss": 1.0, "learning_rate": 0.1, "epoch": 1, "step": 2, "tokens": 3, "self": 4, "grad_norm": 0.5}
    assert metrics_of(logs) == {"grad_norm": 0.5}
    assert metrics_of(None) == {}


def test_what_has_no_name_costs_no_other_metric() -> None:
    endless = VALUES["a text whose str() is endless"]()
    found = metrics_of({endless: 1, 7: 2, object(): 3, None: 4, (5, 6): 5, "grad_norm": 0.5})
    assert found == {"short": 1, "grad_norm": 0.5}


SAVES = (
    BEGIN
    + """
class Model:
    def save(self, path):
        print(path, callback.run.phase_now[0])
        if path == "full":
            raise OSError("no space left")

model = Model()
session.report_saves(model, "save")
"""
)


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("model.save('a')", ["a saving", "training"], id="a save is a phase, and training comes after it"),
        pytest.param("try: model.save('full')\nexcept OSError as error: print(error)",
                     ["full saving", "no space left", "training"], id="its exception is training's"),
        pytest.param("with callback.run.phase('evaluation'):\n model.save('a')\n print(callback.run.phase_now[0])",
                     ["a saving", "evaluation", "training"], id="a save within an evaluation"),
        pytest.param("session.end(); model.save('a')", ["a training", "training"], id="none after the end"),
        pytest.param("session.begin(5); session.report_saves(model, 'save'); model.save('a')",
                     ["a saving", "training"], id="of a second training once"),
        pytest.param("session.end(); model.save = own = lambda path: print(path, callback.run.phase_now[0])\n"
                     "session.begin(5); session.report_saves(model, 'save'); model.save('b')\n"
                     "session.end(); print(model.save is own)", ["b saving", "True", "training"],
                     id="a method of training's own in its place is there after the end"),
        pytest.param("session.end(); print(vars(model))", ["{}", "training"], id="the end leaves nothing behind"),
    ],
)  # fmt: skip
def test_a_framework_that_says_nothing_of_its_saves(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    script: str,
    expected: list[str],
) -> None:
    for name, value in {"MONITORING_ROOT": str(tmp_path), "LASTBEAT_GUARDIAN": "off"}.items():
        monkeypatch.setenv(name, value)
    exec(f"{SAVES}{script}\nprint(callback.run.phase_now[0])\nsession.end()", {})
    assert capsys.readouterr().out.splitlines() == expected
