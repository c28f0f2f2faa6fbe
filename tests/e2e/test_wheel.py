"""The installed wheel: what a user gets who never sees this checkout.

``INSTALLED_LASTBEAT`` is the path of the ``lastbeat`` command in a virtual environment that holds the wheel and
nothing of this checkout; ``.ci/run`` makes one.
"""

import json
import os
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

from lastbeat import __version__
from support.cli import RunFolder
from support.s3 import S3Server
from support.waiting import LIMIT_S

pytestmark = pytest.mark.skipif(
    "INSTALLED_LASTBEAT" not in os.environ,
    reason="INSTALLED_LASTBEAT is not set; .ci/run builds and installs the wheel",
)


def lastbeat(*arguments: str, cwd: Path, **settings: str) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "AWS_EC2_METADATA_DISABLED": "true", **settings}
    return subprocess.run(
        [os.environ["INSTALLED_LASTBEAT"], *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )


def test_it_is_this_version_and_lies_elsewhere(tmp_path: Path) -> None:
    python = Path(os.environ["INSTALLED_LASTBEAT"]).with_name("python")
    probe = "import lastbeat, lastbeat_cli; print(lastbeat.__version__, lastbeat.__file__, lastbeat_cli.__file__)"
    said = subprocess.run([python, "-I", "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    version, *places = said.split()
    assert version == __version__
    assert all("site-packages" in place for place in places)
    assert (Path(places[0]).parent / "py.typed").exists()
    assert re.search(r"\([0-9a-f]{12}(-dirty)?, \d{4}-\d\d-\d\d\)$", lastbeat("--version", cwd=tmp_path).stdout.strip())


def test_it_knows_its_signals(tmp_path: Path) -> None:
    said = lastbeat("signals", "list", "--json", cwd=tmp_path)
    assert said.returncode == 0, said.stderr
    assert len(json.loads(said.stdout)["signals"]) > 100
    # Made of the files beside it, which people may want to read.
    python = Path(os.environ["INSTALLED_LASTBEAT"]).with_name("python")
    probe = (
        "import lastbeat.explain.signals as s, pathlib; print(*pathlib.Path(s.__file__).parent.glob('catalog/*.yaml'))"
    )
    files = subprocess.run([python, "-I", "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "megatron_production.yaml" in files


def test_it_brings_the_whole_page_along(tmp_path: Path) -> None:
    RunFolder(tmp_path / "training-runs").metadata()
    lastbeat("sweep", "--once", cwd=tmp_path, LASTBEAT_PAGE_MINUTES="5")
    page = (tmp_path / "training-runs" / "_watchdog" / "index.html").read_bytes()
    assert page.count(b"<script>") > 10
    # The licence of what is in it that others wrote, beside it.
    python = Path(os.environ["INSTALLED_LASTBEAT"]).with_name("python")
    folder = "pathlib.Path(p.__file__).parent"
    probe = f"import lastbeat.views.page as p, pathlib; print(*{folder}.glob('assets/vendor/*/LICENSE'))"
    said = subprocess.run([python, "-I", "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert "uPlot" in said


def test_it_builds_the_function_that_it_deploys(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    sam = tmp_path / "bin" / "sam"
    # SAM uploads what the template names.
    sam.write_text('#!/bin/sh\ncp "$(dirname "$3")/../build/lambda.zip" uploaded.zip\n', encoding="utf-8")
    sam.chmod(0o755)
    settings = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest"}
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    done = lastbeat("deploy", "--bucket", "my-bucket", cwd=tmp_path, PATH=path, **settings)
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "uploaded.zip") as archive:
        names = set(archive.namelist())
    assert {"handler.py", "lastbeat/watch/watchdog.py", "lastbeat_lambda/events.py", "LICENSE"} <= names
    assert any(name.startswith("obstore/") for name in names)


def test_once_on_a_directory(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "training-runs")
    run.metadata()
    run.progress(minutes_old=15)
    done = lastbeat("watch", "--run-id", "run-1", "--once", "--root", str(run.root), cwd=tmp_path)
    assert done.stdout.splitlines()[0] == "Run run-1: RUNNING (WARNING)", done.stderr
    assert done.returncode == 1, done.stderr


def test_once_on_s3(tmp_path: Path, s3_server: S3Server) -> None:
    bucket = s3_server.bucket()
    s3_server.client().put_object(Bucket=bucket, Key="training-runs/run-1/_error", Body=b"CUDA out of memory")
    arguments = ("watch", "--run-id", "run-1", "--once", "--bucket", bucket, "--json")
    done = lastbeat(*arguments, cwd=tmp_path, **s3_server.environment())
    assert done.returncode == 2, done.stderr
    found = json.loads(done.stdout)
    assert (found["status"], found["cause"]) == ("FAILED", "oom")
