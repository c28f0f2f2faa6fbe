"""``make hunt``: the whole suite three times on busy cores, and a list of the tests that failed even once.

A test that fails once in a hundred runs costs a day, and most of those need a busy machine to show it.
"""

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

ROUNDS = 3
BUSY = 12
"""Processes that compute beside the suite, whatever the number of cores."""
_BURN = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))"


def main(arguments: Sequence[str]) -> int:
    """Run the suite with ``arguments`` of pytest's. Returns 1 if a test failed in any round."""
    failed: Counter[str] = Counter()
    broken = 0
    with tempfile.TemporaryDirectory(prefix="hunt-") as folder, _busy():
        for number in range(1, ROUNDS + 1):
            print(f"hunt: round {number} of {ROUNDS}, beside {BUSY} busy processes", flush=True)
            report = Path(folder, f"{number}.xml")
            command = [sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadscope", "--timeout=1200"]
            done = subprocess.run([*command, f"--junitxml={report}", *arguments], check=False)
            found = set(_failed(report)) if report.exists() else set()
            failed.update(found)
            # Some faults fail no test: of collecting, of a worker that died.
            broken += done.returncode != 0 and not found
    for name, times in failed.most_common():
        print(f"hunt: failed {times} of {ROUNDS} times: {name}")
    if broken:
        print(f"hunt: {broken} of {ROUNDS} rounds ended badly without a failed test; see above")
    if not failed and not broken:
        print(f"hunt: nothing failed in {ROUNDS} rounds")
    return 1 if failed or broken else 0


@contextmanager
def _busy() -> Iterator[None]:
    processes = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(BUSY)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()


def _failed(report: Path) -> Iterator[str]:
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            yield f"{case.get('classname', '').replace('.', os.sep)}::{case.get('name')}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
