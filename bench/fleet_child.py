"""One who watches a fleet, in a process of its own: ``python -m bench.fleet_child sweep|poller [RUN-LIST]``.

Makes one pass for each line of its standard input, and answers with a line of JSON: what the pass took. ``sweep`` is
lastbeat with the settings of its environment. ``poller`` is what today's scripts do: for each run two HEADs for the
sentinels and two GETs for the heartbeats, with boto3, on 16 threads; which runs, it is told in a file.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from bench.server import BUCKET, PREFIX

THREADS = 16
_STALE = timedelta(minutes=10)
_MISSING = {"404", "NoSuchKey", "NotFound"}


def sweep() -> Callable[[], dict[str, Any]]:
    from lastbeat import settings  # noqa: PLC0415 - each process loads its own
    from lastbeat.fleet.configured import configured_sweep  # noqa: PLC0415 - as above
    from lastbeat.settings.channels import configured_channels  # noqa: PLC0415 - as above

    given = settings.load()
    ours = configured_sweep(given, configured_channels(given), clock=lambda: datetime.now(timezone.utc))

    def one_pass() -> dict[str, Any]:
        report = ours.run()
        if report.blind or not report.complete or report.unreadable_count:
            raise RuntimeError(f"the sweep could not do its work: {report}")
        return {
            "statuses": dict(report.statuses),
            "looked": report.looked,
            "plan": report.plan,
            "requests": dict(report.requests),
        }

    return one_pass


def poller(runs: Path) -> Callable[[], dict[str, Any]]:
    import boto3  # noqa: PLC0415 - as above
    from botocore.config import Config  # noqa: PLC0415
    from botocore.exceptions import ClientError  # noqa: PLC0415

    s3 = boto3.client("s3", config=Config(max_pool_connections=THREADS))
    names = runs.read_text(encoding="utf-8").split()

    def exists(key: str) -> bool:
        try:
            s3.head_object(Bucket=BUCKET, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return False
            raise
        return True

    def age(key: str) -> timedelta | None:
        try:
            answer = s3.get_object(Bucket=BUCKET, Key=key)
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise
        json.loads(answer["Body"].read())
        return datetime.now(timezone.utc) - answer["LastModified"]

    def status(run: str) -> str:
        folder = f"{PREFIX}/{run}"
        failed, complete = exists(f"{folder}/_error"), exists(f"{folder}/_complete")
        ages = [found for name in ("metadata", "progress") if (found := age(f"{folder}/{name}.json")) is not None]
        if failed or complete:
            return "FAILED" if failed else "SUCCEEDED"
        return "TIMED_OUT" if all(found > _STALE for found in ages) else "RUNNING"

    def one_pass() -> dict[str, Any]:
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(status, names))
        return {"statuses": {name: found.count(name) for name in set(found)}, "requests": {"GET": 4 * len(names)}}

    return one_pass


def main(argv: list[str]) -> None:
    one_pass = sweep() if argv[0] == "sweep" else poller(Path(argv[1]))
    for _ in sys.stdin:
        began, cpu = time.perf_counter(), time.process_time()
        found = one_pass()
        took = {
            "wall_s": time.perf_counter() - began,
            "cpu_s": time.process_time() - cpu,
            "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        }
        print(json.dumps(took | found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
