"""The Lambda function at scale, and one run with very many ranks: requests are counted in memory, and arithmetic makes
seconds and dollars of them. Each size is a process of its own (``bench/scale_child.py``)."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from bench.server import CHECKOUT
from lastbeat.fleet.cost import MONTH_S
from lastbeat.fleet.worker_pool import THREADS
from lastbeat.stores.kind import S3_LIST

RUNS: Final = (1_000, 10_000, 100_000)
RANKS: Final = 16_384
S3_S: Final = 0.1
"""Seconds until S3 has answered a request. Pages of a listing follow each other; other requests are made by threads."""
MEMORY_MB: Final = 512
CPU_SHARE: Final = MEMORY_MB / 1769
"""Lambda gives a whole processor with 1,769 MB."""
HTTP_CPU_S: Final = {"LIST": 0.0076, "GET": 0.0007, "PUT": 0.0007}
"""What a request costs beyond one in memory, measured with obstore against moto."""
GB_S: Final = 0.0000133334
INVOCATION, MESSAGE = 0.2e-6, 0.4e-6 * 2.1
"""Dollars on arm64 in us-east-1; a message is received and deleted by itself, and sent with nine others."""
LOOKS_S: Final = 50.0
"""Seconds that a pass has for its listing and looks, in an invocation of 60 s."""
_KEYS_A_RUN: Final = 4


@dataclass(frozen=True)
class Took:
    cpu_s: float
    requests: Mapping[str, float]

    @classmethod
    def of(cls, found: Mapping[str, Any], factor: float = 1) -> "Took":
        return cls(found["cpu_s"] * factor, {kind: count * factor for kind, count in found["requests"].items()})

    @property
    def lambda_s(self) -> float:
        """How long it takes there: its computing, and after that its requests."""
        cpu_s = self.cpu_s + sum(HTTP_CPU_S[kind] * count for kind, count in self.requests.items())
        others = sum(count for kind, count in self.requests.items() if kind != "LIST")
        return cpu_s / CPU_SHARE + S3_S * (self.requests.get("LIST", 0) + others / THREADS)


def tables(progress: Callable[[str], None]) -> Iterator[str]:
    yield "| active runs, all of which beat each minute | " + " | ".join(f"{runs:,}" for runs in RUNS) + " |"
    yield f"|---|{'---:|' * len(RUNS)}"
    columns = []
    for runs in RUNS:
        progress(f"{runs:,} active runs in Lambda")
        columns.append(_fleet(runs, _child("fleet", runs)))
    for name in columns[0]:
        yield f"| {name} | " + " | ".join(column[name] for column in columns) + " |"
    progress(f"{RANKS:,} ranks of one run")
    yield ""
    yield from _ranks(_child("ranks", RANKS))


def _child(what: str, size: int) -> dict[str, Any]:
    paths = [str(CHECKOUT), *(str(CHECKOUT / name) for name in ("core", "lambda"))]
    command = [sys.executable, "-m", "bench.scale_child", what, str(size)]
    done = subprocess.run(command, env={"PYTHONPATH": ":".join(paths)}, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _fleet(runs: int, found: Mapping[str, Any]) -> dict[str, str]:
    parts, passes = found["parts"], [Took.of(one) for one in found["passes"]]
    split = Took.of(found["split"]) if parts > 1 else Took(0.0, {})
    each = _mean(passes)
    minute = Counter({kind: count * parts + split.requests.get(kind, 0) for kind, count in each.requests.items()})
    busy_s = each.lambda_s * parts + split.lambda_s
    s3 = S3_LIST.dollars(minute) * MONTH_S / 60
    function = (busy_s * MEMORY_MB / 1024 * GB_S + (parts + 1) * INVOCATION + parts * MESSAGE) * MONTH_S / 60
    listing = Took(0.0, {"LIST": _KEYS_A_RUN * runs / 1000})
    whole = Took.of(found["first"], runs / found["runs_present"])
    return {
        "parts of a pass, of at most 2,000 runs": f"{parts}",
        "requests a minute": ", ".join(f"{count:,.0f} {kind}" for kind, count in sorted(minute.items())),
        "requests a day": f"{sum(minute.values()) * 1440:,.0f}",
        "dollars a month: S3, and Lambda with SQS": f"{s3:,.2f} + {function:,.2f}",
        "CPU of one part, mean and most": f"{each.cpu_s:.2f} s, {max(one.cpu_s for one in passes):.2f} s",
        "Lambda's seconds for one part, mean and most": (
            f"{each.lambda_s:.1f} s, {max(one.lambda_s for one in passes):.1f} s"
        ),
        "Lambda's seconds to split the fleet": f"{split.lambda_s:.1f} s" if parts > 1 else "not split",
        "environments busy on average, of 10 and one more": f"{busy_s / 60:.1f}",
        "most memory of an environment": f"{found['base_mb'] + found['kept_mb']:.0f} MB of {MEMORY_MB}",
        f"a listing of everything, of {LOOKS_S:g} s in an invocation": f"{listing.lambda_s:.1f} s",
        "a look at every run, all of them new": f"{whole.lambda_s / 60:.1f} min",
    }


def _mean(all_of: list[Took]) -> Took:
    requests: Counter[str] = Counter()
    for one in all_of:
        requests.update(one.requests)
    cpu_s = sum(one.cpu_s for one in all_of)
    return Took(cpu_s / len(all_of), {kind: count / len(all_of) for kind, count in requests.items()})


def _ranks(found: Mapping[str, Any]) -> Iterator[str]:
    yield f"| one run of {RANKS:,} ranks | requests | CPU | bytes read | in Lambda |"
    yield "|---|---|---:|---:|---:|"
    listed = max(found["passes"], key=lambda one: one["requests"].get("LIST", 0))
    shown = {"first": "its first pass", "listed": "a pass that lists it", "page": "its page", "again": "the page again"}
    for name, text in shown.items():
        one = listed if name == "listed" else found[name]
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(one["requests"].items()))
        cpu, read = f"{one['cpu_s'] * 1e3:.0f} ms", f"{one['read_bytes'] / 1000:,.0f} KB"
        yield f"| {text} | {kinds} | {cpu} | {read} | {Took.of(one).lambda_s:.1f} s |"
    yield ""
    peak, page = found["base_mb"] + found["kept_mb"], found["page_bytes"] / 1000
    yield f"The pass takes {peak:.0f} MB, and the page's document {page:.0f} KB."
