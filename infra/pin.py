"""Write ``requirements.txt`` and ``requirements-fast.txt``: the newest versions that the files beside them, ``….in``,
allow, with the hashes of the wheels that run on Lambda, on both architectures. Needs the network; look at what changed
before you commit it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MACHINES = ("aarch64", "x86_64")
OLDEST = "3.11"
PYTHONS = (OLDEST, "3.12", "3.13", "3.14")
NO_WHEEL = (OLDEST, "x86_64")
"""google-re2 for it asks for glibc 2.27, and Lambda has 2.26 there."""


def main() -> int:
    # Wheels for any Python 3: what the oldest needs serves the newer ones. Then those that are made for one Python.
    _write("requirements", [_resolved("requirements", OLDEST, machine, "abi3") for machine in MACHINES])
    each = [(python, machine) for python in PYTHONS for machine in MACHINES if (python, machine) != NO_WHEEL]
    found = [_resolved("requirements-fast", *pair, f"cp{pair[0].replace('.', '')}") for pair in each]
    _write("requirements-fast", found)
    return 0


def _write(name: str, found: list[list[dict[str, Any]]]) -> None:
    hashes: dict[str, set[str]] = {}
    for wheel in (wheel for wheels in found for wheel in wheels):
        project, version = wheel["metadata"]["name"], wheel["metadata"]["version"]
        digest = wheel["download_info"]["archive_info"]["hashes"]["sha256"]
        hashes.setdefault(f"{project.lower().replace('_', '-')}=={version}", set()).add(digest)
    lines = [f"# Made by `python infra/pin.py` from {name}.in."]
    for pinned in sorted(hashes):
        lines += [f"{pinned} \\", " \\\n".join(f"    --hash=sha256:{each}" for each in sorted(hashes[pinned]))]
    (HERE / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _resolved(name: str, python: str, machine: str, abi: str) -> list[dict[str, Any]]:
    # As in package.sh: what the glibc of Lambda's python3.11 bears, and that of the newer ones.
    tags = ["manylinux2014", "manylinux_2_24"] if abi == "abi3" else ["manylinux_2_26"]
    tags += ["manylinux_2_28"] if python != OLDEST else []
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    command += ["--python-version", python, *(word for tag in tags for word in ("--platform", f"{tag}_{machine}"))]
    command += ["--implementation", "cp", "--abi", abi, "--abi", "none", "--only-binary=:all:", "--target", "unused"]
    done = subprocess.run([*command, "-r", str(HERE / f"{name}.in")], stdout=subprocess.PIPE, check=True)
    wheels: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return wheels


if __name__ == "__main__":
    sys.exit(main())
