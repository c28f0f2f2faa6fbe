"""Write ``requirements.txt``: the newest versions that ``requirements.in`` allows, with the hashes of the wheels that
run on Lambda, on both architectures. Needs the network; look at what changed before you commit it.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
# Wheels for any Python 3 alone, so that one zip serves every Python that Lambda has.
ANY_PYTHON = ("--implementation", "cp", "--abi", "abi3", "--abi", "none", "--only-binary=:all:")


def main() -> int:
    hashes: dict[str, set[str]] = {}
    for machine in ("aarch64", "x86_64"):
        for wheel in _resolved(machine):
            name, version = wheel["metadata"]["name"], wheel["metadata"]["version"]
            found = wheel["download_info"]["archive_info"]["hashes"]["sha256"]
            hashes.setdefault(f"{name.lower().replace('_', '-')}=={version}", set()).add(found)
    lines = ["# Made by `python infra/pin.py` from requirements.in."]
    for pinned in sorted(hashes):
        lines += [f"{pinned} \\", " \\\n".join(f"    --hash=sha256:{each}" for each in sorted(hashes[pinned]))]
    (HERE / "requirements.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0


def _resolved(machine: str) -> list[dict[str, Any]]:
    platforms = [word for glibc in ("manylinux2014", "manylinux_2_24") for word in ("--platform", f"{glibc}_{machine}")]
    # The oldest Python that the zip serves: a newer one needs no more than it.
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    command += ["--python-version", "3.11", *platforms, *ANY_PYTHON, "--target", "unused", "-r"]
    command += [str(HERE / "requirements.in")]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    wheels: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return wheels


if __name__ == "__main__":
    sys.exit(main())
