"""NeMo-Run's plugins: what a task starts. With the real package if it is installed, else with its interface."""

import importlib.util
import sys
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pytest


@dataclass(kw_only=True)
class Plugin:
    experiment_id: str = field(init=False, default="")


@dataclass
class Script:
    path: str = ""
    inline: str = ""
    args: list[str] = field(default_factory=list)
    entrypoint: str = "bash"
    m: bool = False


@dataclass(kw_only=True)
class LocalExecutor:
    launcher: Any = None
    retries: int = 0


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> Any:
    if importlib.util.find_spec("nemo_run") is None:
        package: Any = ModuleType("nemo_run")
        package.Plugin, package.Script, package.LocalExecutor = Plugin, Script, LocalExecutor
        package.Executor = LocalExecutor
        monkeypatch.setitem(sys.modules, "nemo_run", package)
    monkeypatch.delitem(sys.modules, "lastbeat.integrations.nemo_run", raising=False)
    return importlib.import_module("lastbeat.integrations.nemo_run")


FT = "--max-restarts 3 --section-timeouts step:300,out_of_section:1800"


@pytest.mark.parametrize(
    ("task", "command"),
    [
        pytest.param({"inline": "torchrun 'a b.py'"}, "bash -c 'torchrun '\"'\"'a b.py'\"'\"''", id="an inline script"),
        pytest.param({"inline": "lastbeat exec -- ls"}, "ls", id="one that is wrapped already"),
        pytest.param({"path": "t.py", "args": ["-x"], "entrypoint": "python"}, "python t.py -x", id="a path"),
        pytest.param({"path": "pkg.t", "m": True, "entrypoint": "python"}, "python -m pkg.t", id="a module"),
    ],
)
@pytest.mark.parametrize("turned", [False, True], ids=["fault tolerance first", "preemption first"])
def test_a_script_starts_with_exec(plugins: Any, task: dict[str, Any], command: str, *, turned: bool) -> None:
    script, executor = plugins.run.Script(**task), plugins.run.LocalExecutor()
    both = [plugins.FaultTolerancePlugin(), plugins.PreemptionPlugin()]
    for plugin in reversed(both) if turned else both:
        plugin.setup(script, executor)
    whole = script.inline or " ".join([script.entrypoint, script.path, *script.args])
    options = [FT, "--time-margin 60"] if turned else ["--time-margin 60", FT]
    assert whole == f"lastbeat exec {' '.join(options)} -- {command}"
    assert (script.m, executor.retries) == (False, 2)


def test_what_cannot_be_wrapped_is_refused(plugins: Any) -> None:
    for task, launcher in ((object(), None), (plugins.run.Script(inline="ls"), "torchrun")):
        with pytest.raises(NotImplementedError, match="let the script start torchrun"):
            plugins.PreemptionPlugin().setup(task, plugins.run.LocalExecutor(launcher=launcher))
