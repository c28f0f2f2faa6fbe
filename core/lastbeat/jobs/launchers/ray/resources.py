"""What a Ray cluster has and has given out, as ``ray status`` prints it or its dashboard answers: pure.

All of it is hostile text. The wordings are those of Ray 2.3 to 2.60.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lastbeat.model.json_values import amount
from lastbeat.model.text import clean, fit, one_line
from lastbeat.model.training_health import RayResources

_MOST_PENDING: Final = 5
_NONE: Final = [0.0, 0.0]
_SUMMARY: Final = re.compile(r"^ResourceUsage: (.{1,2000})", re.MULTILINE)
_USAGE: Final = re.compile(r"^ {1,4}(\d+(?:\.\d+)?)/(\d+(?:\.\d+)?) (CPU|GPU)\b", re.MULTILINE)


def resources_in(text: str) -> RayResources | None:
    """The resources that ``ray status`` prints. None: it prints none."""
    text = clean(text)
    usage = _section(text, "Total Usage:") or _section(text, "Usage:") or _summary(text)
    told = {kind: (float(used), float(total)) for used, total, kind in _USAGE.findall(usage)}
    if not told:
        return None
    failed = [line for line in _section(text, "Recent failures:").splitlines() if line.strip()]
    failed = [line for line in failed if line.strip() != "(no failures)"]
    waiting = _section(text, "Pending Demands:") or _section(text, "Demands:")
    pending = [one_line(line)[:200] for line in waiting.splitlines() if line.strip()]
    pending = [line for line in pending if line not in {"(no resource demands)", "(none)"}]
    return _resources(told.get("CPU", (0.0, 0.0)), told.get("GPU", (0.0, 0.0)), len(failed), pending)


def _section(text: str, title: str) -> str:
    """The indented lines below ``title``."""
    lines = text.splitlines()
    heads = [number for number, line in enumerate(lines) if line.rstrip() == title]
    found: list[str] = []
    for line in lines[heads[0] + 1 :] if heads else ():
        if not line.startswith(" "):
            break
        found.append(line)
    return "\n".join(found)


def _summary(text: str) -> str:
    """The usage of an autoscaler that prints it on one line, as the lines of a section."""
    found = _SUMMARY.search(text)
    return "" if found is None else "\n".join(f" {each.strip()}" for each in found[1].split(","))


def resources_of(document: Mapping[str, Any]) -> RayResources | None:
    """The resources in the dashboard's answer to ``/api/cluster_status``. None: it has none."""
    data = document.get("data")
    report = _inside(data, "clusterStatus", "loadMetricsReport")
    usage = _inside(report, "usage")
    if not usage:
        # The newer autoscaler gives them only as text.
        text = data.get("autoscalingStatus") if isinstance(data, dict) else None
        return resources_in(text) if isinstance(text, str) else None
    cpus, gpus = _pair(usage.get("CPU", _NONE)), _pair(usage.get("GPU", _NONE))
    if cpus is None or gpus is None:
        return None
    failed = _inside(data, "clusterStatus", "autoscalerReport").get("failedNodes")
    demands = report.get("resourceDemand")
    pending = [_demand(each) for each in demands if _demand(each)] if isinstance(demands, list) else []
    return _resources(cpus, gpus, len(failed) if isinstance(failed, list) else 0, pending)


def _resources(
    cpus: tuple[float, float], gpus: tuple[float, float], failed: int, pending: Sequence[str]
) -> RayResources:
    healthy = gpus[1] > 0 and failed == 0
    return RayResources(gpus[1], gpus[0], cpus[1], cpus[0], healthy, failed, list(pending[:_MOST_PENDING]))


def _inside(value: object, *names: str) -> dict[str, Any]:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _pair(value: object) -> tuple[float, float] | None:
    """Used and total."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    used, total = (amount(each) for each in value)
    return None if used is None or total is None else (used, total)


def _demand(value: object) -> str:
    """``{'GPU': 64.0} (2 times)`` of ``[{"GPU": 64.0}, 2]``."""
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[0], dict):
        return ""
    wanted = ", ".join(f"{one_line(str(name))[:40]}: {one_line(str(many))[:20]}" for name, many in value[0].items())
    return fit(f"{{{wanted}}}: {one_line(str(value[1]))[:20]} pending", 200)
