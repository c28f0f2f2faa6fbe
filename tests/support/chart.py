"""The Helm chart, rendered by Helm's own library, and the plain manifests that are made of it.

``python -m support.chart`` writes the manifests.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.checkout import ROOT

CHART = ROOT / "infra" / "helm" / "lastbeat"
_HEAD = "# Made from infra/helm/lastbeat. Set image, root, and your settings in the Secret lastbeat-settings.\n"
_SHARED = {"secret": "lastbeat-settings"}
MANIFESTS: Mapping[str, Mapping[str, Any]] = {
    "deployment.yaml": {**_SHARED, "dashboard": {"enabled": True}},
    "cronjob.yaml": {**_SHARED, "sweep": {"kind": "CronJob"}},
    "agent.yaml": {**_SHARED, "sweep": {"kind": "None"}, "agent": {"enabled": True, "image": "lastbeat-kubectl:0.2.0"}},
}
"""File of infra/kubernetes → the values that it is made with."""


def rendered(values: Mapping[str, Any]) -> str:
    """What ``helm template lastbeat`` prints, without empty lines."""
    from helm_python import Chart  # noqa: PLC0415 - not on every machine

    with Chart.load(CHART) as chart:
        files = chart.render(dict(values), name="lastbeat", namespace="default")
    texts = (
        "\n".join(line.rstrip() for line in text.splitlines() if line.strip()) for _, text in sorted(files.items())
    )
    return "\n---\n".join(text for text in texts if text) + "\n"


def manifests() -> dict[Path, str]:
    """Each plain manifest → its text."""
    return {ROOT / "infra" / "kubernetes" / name: _HEAD + rendered(values) for name, values in MANIFESTS.items()}


if __name__ == "__main__":
    for path, text in manifests().items():
        path.write_text(text, encoding="utf-8")
