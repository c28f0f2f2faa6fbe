"""Users' catalogues compiled: the same catalogue, where nothing but JSON can be read."""

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lastbeat.explain.signals.compiling import compile_user_catalogues
from lastbeat.explain.signals.loading import CatalogueError, load_setting
from support.checkout import ROOT

FILES = {
    "/etc/cluster.yaml": """\
extends: [parts/licences.yml, megatron_stall_detection]
error_types:
  oom: {hint: 'Use the profile small-batch.'}
signals:
  first: 'a text'
  cuda_out_of_memory: {hint: Changed., restartable: true}
  megatron_loss: 'a built-in signal with another pattern'
  last: {substring: 'plain (text', ignore_case: true, kind: data}
silence: [plain_exception]
absences:
  checkpoint_overdue: {substring: 'saved checkpoint', within_s: 1800, every_s: 600, hint: df -h}
  alive: {signal: first, every_s: 60}
limits: {poll_s: 30}
""",
    "/etc/parts/licences.yml": """\
extends: []
error_types: {licence: {restartable: true, meaning: No seat is left., hint: lmstat -a}}
signals:
  seat: {pattern: 'no seat for (?P<product>\\w{1,40})', error_type: licence, hint: 'No seat for {product}.'}
""",
    "/on_top.yaml": "signals: {seat: {severity: critical}, more: text}",
    "/alone.yaml": "signals: {more: text}",
}
PROBE = """\
import json, sys
for name in ("yaml", "pydantic"): sys.modules[name] = None
from lastbeat.explain.signals.loading import load_setting
found = load_setting(sys.argv[1], lambda name: 1 / 0)
print(json.dumps([found.signals, found.absences, dict(found.error_types), found[4:]], default=sorted))
"""


def text_of(name: str) -> str:
    return FILES[name]


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        pytest.param("/etc/cluster.yaml", "cluster", id="a file that extends another one and a built-in catalogue"),
        pytest.param("/etc/cluster.yaml, /on_top.yaml", "cluster,on_top", id="one on top of another"),
        pytest.param("/alone.yaml", "alone", id="one that stands on the default, since it does not say"),
    ],
)
def test_the_compiled_catalogue_is_the_same(tmp_path: Path, setting: str, names: str) -> None:
    compiled = compile_user_catalogues(setting, text_of)
    assert compiled.setting == names
    package = tmp_path / "lastbeat"
    shutil.copytree(ROOT / "core" / "lastbeat", package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "explain" / "signals" / "catalog" / "compiled.json").write_text(compiled.text, encoding="utf-8")
    command = [sys.executable, "-c", PROBE, compiled.setting]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    found = load_setting(setting, text_of)
    called = dict(zip(setting.replace(" ", "").split(","), names.split(","), strict=True))
    called["/etc/parts/licences.yml"] = "licences"
    signals = [each._replace(source=called.get(each.source, each.source)) for each in found.signals]
    expected = [signals, found.absences, dict(found.error_types), found[4:]]
    assert json.loads(done.stdout) == json.loads(json.dumps(expected, default=sorted))


@pytest.mark.parametrize(
    ("files", "said"),
    [
        pytest.param({"/default.yaml": ""}, "/default.yaml: its name, 'default'", id="a built-in catalogue's name"),
        pytest.param({"/a b.yaml": ""}, "/a b.yaml: its name, 'a b'", id="a name that no setting can have"),
        pytest.param({"/1.yaml": ""}, "rename it", id="a name without a letter"),
        pytest.param(
            {"/a.yaml": "extends: [b/a.yaml]", "/b/a.yaml": "extends: []"}, "'a'", id="two files of the same name"
        ),
        pytest.param(
            {"/a.yaml": "signals: {s: {pattern: (}}"}, "/a.yaml:1: signals.s.pattern", id="a file that is wrong"
        ),
    ],
)
def test_what_cannot_be_compiled_is_refused(files: Mapping[str, Any], said: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        compile_user_catalogues(next(iter(files)), files.__getitem__)
    assert said in str(caught.value)
