"""What infra/ deploys besides the function: checked by the tools of those who will run it."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
import pytest
import yaml

from lastbeat import __version__, settings
from lastbeat_cli.main import lastbeat
from lastbeat_cli.metrics import table
from support import chart
from support.checkout import ROOT
from support.http_sink import Answer, closed_port, http_sink

INFRA = ROOT / "infra"
UNITS = sorted((INFRA / "systemd").glob("*.service"))
DOCKERFILE = INFRA / "docker" / "Dockerfile"
PROGRAM = "/opt/lastbeat/bin/lastbeat"


def test_hadolint_finds_nothing() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed; the group dev has it where it has a build of it")
    done = subprocess.run([hadolint, DOCKERFILE], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def test_the_container_is_no_root_and_needs_no_shell() -> None:
    _, _, last = DOCKERFILE.read_text(encoding="utf-8").rpartition("\nFROM ")
    assert re.search(r"^USER 65532:65532$", last, re.MULTILINE)
    assert "\nRUN " not in last
    for word in ("HEALTHCHECK .* CMD", "ENTRYPOINT", "CMD"):
        (call,) = re.findall(rf"^{word} (.*)$", last, re.MULTILINE)
        assert isinstance(json.loads(call), list)


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_systemd_takes_the_unit(unit: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / unit.name
    # systemd asks whether the program is there, and where lastbeat is not installed, it is not.
    copy.write_text(unit.read_text(encoding="utf-8").replace(PROGRAM, "/bin/true"), encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if unit.name in line] == []
    assert done.returncode == 0, done.stderr


def pods(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for each in documents:
        spec = each.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", spec).get("template")
        if template is not None:
            yield template["spec"]


def manifests() -> dict[str, list[dict[str, Any]]]:
    folder = INFRA / "kubernetes"
    return {path.name: list(yaml.safe_load_all(path.read_text(encoding="utf-8"))) for path in sorted(folder.iterdir())}


def test_the_plain_manifests_are_what_the_chart_renders() -> None:
    pytest.importorskip(
        "helm_python", reason="Helm's library is not installed; the group dev has it for Linux on x86_64"
    )
    for path, text in chart.manifests().items():
        again = "PYTHONPATH=core:cli:tests .venv/bin/python -m support.chart"
        assert path.read_text(encoding="utf-8") == text, f"write them again: {again}"


VALUES: list[Any] = [
    pytest.param({}, id="as it is"),
    pytest.param({"sweep": {"scraped": True}, "settings": {"ALERT_ON": "failed"}, "secret": "s"}, id="with settings"),
    pytest.param({"serviceAccount": {"annotations": {"a/b": "c: d"}}, "image": {"tag": "1"}}, id="with a role"),
    *(pytest.param(values, id=name) for name, values in chart.MANIFESTS.items()),
]


@pytest.mark.parametrize("values", VALUES)
def test_the_chart_makes_what_kubernetes_takes(values: dict[str, Any]) -> None:
    pytest.importorskip(
        "helm_python", reason="Helm's library is not installed; the group dev has it for Linux on x86_64"
    )
    validate = pytest.importorskip(
        "kubernetes_validate", reason="Kubernetes' schemas are large: the group servers has them"
    )
    for document in yaml.safe_load_all(chart.rendered(values)):
        validate.validate(document, validate.latest_version(), strict=True)


REFUSED = [
    pytest.param({"root": "/mnt/runs"}, "root", id="a directory, which a pod does not have"),
    pytest.param({"sweep": {"kind": "DaemonSet"}}, "kind", id="a kind that there is not"),
    pytest.param({"setings": {}}, "setings", id="a mistyped value"),
    pytest.param({"settings": {"SLACK_WEBHOOK_URL": "x"}}, "SLACK_WEBHOOK_URL", id="a secret outside of the Secret"),
    pytest.param({"agent": {"enabled": True}}, "image", id="an agent without an image that has kubectl"),
]


@pytest.mark.parametrize(("values", "named"), REFUSED)
def test_the_chart_refuses(values: dict[str, Any], named: str) -> None:
    helm = pytest.importorskip(
        "helm_python", reason="Helm's library is not installed; the group dev has it for Linux on x86_64"
    )
    with helm.Chart.load(chart.CHART) as loaded, pytest.raises(helm.HelmError, match=named):
        loaded.validate_schema(loaded.merge_values(values))


@pytest.mark.parametrize(("name", "documents"), list(manifests().items()))
def test_a_pod_may_do_no_more_than_it_needs(name: str, documents: list[dict[str, Any]]) -> None:
    found = list(pods(documents))
    assert found
    for pod in found:
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]
        assert (container["name"] == "agent") == pod.get("automountServiceAccountToken", True)
    rules = [rule for each in documents for rule in each.get("rules", [])]
    assert "*" not in json.dumps(rules)
    assert bool(rules) == (name == "agent.yaml")


def commands() -> Iterator[list[str]]:
    """Every call of lastbeat in infra/."""
    for unit in UNITS:
        yield from map(shlex.split, re.findall(rf"^ExecStart={PROGRAM} (.*)$", unit.read_text("utf-8"), re.MULTILINE))
    for script in (INFRA / "slurm").iterdir():
        yield from map(shlex.split, re.findall(r'"\$LASTBEAT" (.*)$', script.read_text("utf-8"), re.MULTILINE))
    yield json.loads(re.findall(r"^CMD (.*)$", DOCKERFILE.read_text("utf-8"), re.MULTILINE)[-1])
    for documents in manifests().values():
        for pod in pods(documents):
            program, *rest = pod["containers"][0]["command"]
            yield rest if program == PROGRAM else yaml.safe_load(re.findall(r"main\((\[.*?\])\)", rest[1])[0])


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_a_call_is_one_that_lastbeat_has(words: list[str]) -> None:
    words = ["0" if each == "$GPUS" else each for each in words]
    group: click.Command = lastbeat
    context = click.Context(lastbeat)
    while isinstance(group, click.Group):
        word, *words = words
        found = group.get_command(context, word)
        assert found is not None, word
        group = found
    group.make_context(group.name, words)


def test_every_variable_is_a_setting() -> None:
    known = {each.name for each in settings.every_setting()}
    texts = [path.read_text("utf-8") for path in (*UNITS, DOCKERFILE, *(INFRA / "kubernetes").iterdir())]
    named = {name for text in texts for name in re.findall(r"\b(?:LASTBEAT|MONITORING)_[A-Z_]+\b", text)}
    assert named
    assert named <= known


def test_image_and_chart_have_this_version() -> None:
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert (about["version"], about["appVersion"]) == (__version__, __version__)
    assert f"ARG VERSION={__version__}\n" in DOCKERFILE.read_text(encoding="utf-8")


def passes(ago_s: float, interval_s: int = 60) -> str:
    seen, interval = table.SEEN.name, table.INTERVAL.name
    return f'{seen}{{fleet="s3://b/r"}} {time.time() - ago_s!r}\n{interval}{{fleet="s3://b/r"}} {interval_s}.0\n'


HEALTH = [
    pytest.param(passes(30), 0, id="a pass has just seen the fleet"),
    pytest.param(passes(2000), 1, id="passes have stopped"),
    pytest.param(passes(2000, 3600), 0, id="passes are an hour apart"),
    pytest.param("", 1, id="no pass has seen the fleet yet"),
    pytest.param(None, 1, id="nothing answers"),
]


@pytest.mark.parametrize(("body", "status"), HEALTH)
def test_a_container_is_healthy_if(body: str | None, status: int) -> None:
    with http_sink() as sink:
        sink.otherwise = Answer(200, (body or "").encode())
        address = urlsplit(sink.url).netloc if body is not None else f"127.0.0.1:{closed_port()}"
        command = [sys.executable, str(INFRA / "docker" / "health.py"), address]
        done = subprocess.run(command, env={}, capture_output=True, check=False)
    assert done.returncode == status
