"""A Ray cluster, asked by the REST API of its dashboard."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray.gpus import Gpus, gpus_of
from lastbeat.jobs.launchers.ray.jobs import RayJobs
from lastbeat.jobs.launchers.ray.launcher import RayLauncher
from lastbeat.model.job import JobSpec
from lastbeat.model.text import one_line
from lastbeat.stores.port import Store

_MOST_NODES: Final = 512
_MOST_NETWORK_LOGS: Final = 16
_NETWORK_LINES: Final = 2000
_MOST_NETWORK_BYTES: Final = 1 << 18
_ALIVE: Final = "ALIVE"
_WORKER_LOG: Final = re.compile(r"worker-[^-]{1,100}-([0-9a-f]{8})-\d{1,10}\.", re.ASCII)
_NO_JOB: Final = "ffffffff"


class DashboardCluster:
    """The cluster of a dashboard."""

    def __init__(self, jobs: RayJobs) -> None:
        self.jobs = jobs

    def launcher(self, completed: Callable[[JobSpec], JobSpec]) -> RayLauncher:
        """The launcher of its jobs, as :class:`RayLauncher` has it."""
        return RayLauncher(self.jobs, completed=completed)

    def gpus(self) -> tuple[Sequence[Gpus], Sequence[str]]:
        """The GPUs of each place that could be asked, and why others could not."""
        found, faults = [], []
        for node in self._nodes():
            name = one_line(str(node.get("hostname") or node.get("ip") or "a node"))[:100]
            if "gpus" in node:
                found.append(gpus_of(node, name))
            else:
                faults.append(f"node {name}: the dashboard does not report its GPUs yet")
        return found, faults

    def files(self, path: str) -> Store | None:  # noqa: ARG002 - the dashboard shows no files but logs
        """A read-only store of a folder that only the cluster sees. None: the path is read from this machine."""
        return None

    def network_lines(self) -> str:
        """NCCL's lines in the logs of Ray's workers and drivers, the newest log last. Empty: there are none."""
        found: list[str] = []
        jobs = self.jobs.jobs()
        for node in self._nodes():
            raylet = node.get("raylet")
            node_id = raylet.get("nodeId") if isinstance(raylet, dict) else None
            if isinstance(node_id, str):
                found += self._network_lines_of(node_id, jobs)
            if sum(map(len, found)) > _MOST_NETWORK_BYTES:
                break
        return "\n".join(found)

    def _network_lines_of(self, node_id: str, jobs: Sequence[Mapping[str, Any]]) -> list[str]:
        found: list[str] = []
        for pattern in ("worker*.out", "job-driver-*.log"):
            listed = self.jobs.document(f"/api/v0/logs?{urlencode({'node_id': node_id, 'glob': pattern})}")
            # A listing has no order, and no times.
            for name in oldest_first(_names(listed), jobs)[-_MOST_NETWORK_LOGS:]:
                text, _ = self.jobs.file_tail(node_id, name, _NETWORK_LINES, _MOST_NETWORK_BYTES)
                found += [text.decode("utf-8", "replace")]
        return found

    def _nodes(self) -> list[dict[str, Any]]:
        """Those that live. Raises :class:`LauncherError`."""
        found = self.jobs.document("/nodes?view=summary").get("data")
        listed = found.get("summary") if isinstance(found, dict) else None
        if not isinstance(listed, list):
            raise LauncherError(f"{self.jobs.address} did not answer with a list of nodes", "is it Ray's dashboard?")
        nodes = [each for each in listed if isinstance(each, dict)]
        return [each for each in nodes if _lives(each)][:_MOST_NODES]


def _lives(node: Mapping[str, Any]) -> bool:
    raylet = node.get("raylet")
    return isinstance(raylet, dict) and raylet.get("state", _ALIVE) == _ALIVE


def _names(document: Mapping[str, Any]) -> list[str]:
    """The files in a listing of a node's logs, by kind."""
    data = document.get("data")
    kinds = data.get("result") if isinstance(data, dict) else None
    listed = (
        [name for names in kinds.values() if isinstance(names, list) for name in names]
        if isinstance(kinds, dict)
        else []
    )
    return [name for name in listed if isinstance(name, str)]


def oldest_first(logs: Iterable[str], jobs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of workers' and drivers' logs by when their job began, as far as that is known: by the number of the
    job, which Ray counts up, and by when the cluster says that it began (``jobs``, as the dashboard lists them)."""
    began = {
        each.get("submission_id"): each["start_time"]
        for each in jobs
        if isinstance(each.get("start_time"), int) and isinstance(each.get("submission_id"), str)
    }

    def age(name: str) -> tuple[int, str]:
        worker = _WORKER_LOG.match(name)
        if worker is None:
            return began.get(name.removeprefix("job-driver-").removesuffix(".log"), 0), name
        # One that no job has had yet has a number of its own.
        number = -1 if worker[1] == _NO_JOB else int.from_bytes(bytes.fromhex(worker[1]), "little")
        return number, name

    return sorted(logs, key=age)
