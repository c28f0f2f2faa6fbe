"""Make ``.venv`` and install what a level of pyproject.toml asks for. Standard library only, Python 3.10 on.

An interrupted install leaves no mark, so the next call does it again; of several calls at once one installs
and the others wait for it.
"""

import argparse
import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"

# Each level holds the ones before it, and names its dependency groups.
LEVELS = {"demo": ["demo"], "dev": ["dev"], "docs": ["dev", "docs"], "servers": ["dev", "docs", "servers"]}
PIP_WITH_GROUPS = (25, 1)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog=".ci/install.py", description=__doc__)
    parser.add_argument("level", choices=list(LEVELS))
    parser.add_argument("--chosen", action="store_true", help="a person named this interpreter")
    args = parser.parse_args(argv)
    # The lock lies on a file that is always there, and ends with this process however it ends.
    with PYPROJECT.open("rb") as pyproject:
        fcntl.flock(pyproject, fcntl.LOCK_EX)
        wanted = pyproject.read()
        if _usable(chosen=args.chosen):
            if _mark(args.level).is_file() and _mark(args.level).read_bytes() == wanted:
                return 0
        elif not _create():
            return 1
        return _install(args.level, wanted)


def _mark(level: str) -> Path:
    return VENV / f"installed-{level}.toml"


def _usable(*, chosen: bool) -> bool:
    """Whether ``.venv`` works, can be installed into, and is of the version that a person asked for."""
    probe = "import sys, importlib.util as u; print(*sys.version_info[:2], bool(u.find_spec('pip')))"
    if not VENV_PYTHON.exists():
        return False
    ran = subprocess.run([str(VENV_PYTHON), "-c", probe], capture_output=True, text=True, check=False)
    words = ran.stdout.split()
    if ran.returncode != 0 or len(words) != 3:
        return False
    version = (int(words[0]), int(words[1]))
    if version < (3, 10) or (chosen and version != sys.version_info[:2]):
        return False
    return words[2] == "True" or _uv() is not None


def _create() -> bool:
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"Making .venv with Python {version} ({sys.executable})", flush=True)
    shutil.rmtree(VENV, ignore_errors=True)
    uv = _uv()
    if uv is not None and _run([uv, "venv", "--quiet", "--python", sys.executable, str(VENV)]):
        return True
    if importlib.util.find_spec("ensurepip") is None or importlib.util.find_spec("venv") is None:
        print(
            f"Python {version} at {sys.executable} has no venv and ensurepip, so it cannot make .venv;\n"
            f"install them (on Debian and Ubuntu: apt-get install python3-venv), install uv,\n"
            "or name a Python that has them: make PYTHON=/path/to/python3",
            file=sys.stderr,
        )
        return False
    return _run([sys.executable, "-m", "venv", "--clear", str(VENV)])


def _install(level: str, wanted: bytes) -> int:
    print(f"Installing lastbeat and what `{level}` needs into .venv; the next time this is skipped", flush=True)
    began = time.monotonic()
    for known in LEVELS:
        _mark(known).unlink(missing_ok=True)
    if not (_install_with_uv(level) or _install_with_pip(level)):
        print(f"The install into {VENV} did not work; the lines above say why.", file=sys.stderr)
        return 1
    names = list(LEVELS)
    for known in names[: names.index(level) + 1]:
        # Written beside and moved, so that a mark is there whole or not at all.
        beside = _mark(known).with_suffix(".new")
        beside.write_bytes(wanted)
        beside.replace(_mark(known))
    print(f"Installed in {time.monotonic() - began:.0f} s", flush=True)
    return 0


def _groups(level: str) -> list[str]:
    return [word for group in LEVELS[level] for word in ("--group", group)]


def _install_with_uv(level: str) -> bool:
    uv = _uv()
    if uv is None:
        return False
    command = [
        uv,
        "pip",
        "install",
        "--quiet",
        "--python",
        str(VENV_PYTHON),
        "--editable",
        ".",
        *_groups(level),
    ]
    if _run(command):
        return True
    print("uv could not install it; trying pip", file=sys.stderr)
    return False


def _install_with_pip(level: str) -> bool:
    pip = [str(VENV_PYTHON), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    if not _has_pip() and not _run([str(VENV_PYTHON), "-m", "ensurepip", "--upgrade"], quiet=True):
        return False
    least = ".".join(map(str, PIP_WITH_GROUPS))
    # The pip that Python 3.10 to 3.13 bring does not know dependency groups yet.
    if _pip_version() < PIP_WITH_GROUPS and not _run([*pip, "install", f"pip>={least}"]):
        return False
    return _run([*pip, "install", "--editable", ".", *_groups(level)])


def _has_pip() -> bool:
    return _run([str(VENV_PYTHON), "-c", "import pip"], quiet=True)


def _pip_version() -> tuple[int, ...]:
    command = [str(VENV_PYTHON), "-c", "import pip; print(pip.__version__)"]
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return tuple(int(word) for word in said.strip().split(".")[:2] if word.isdigit())


def _uv() -> str | None:
    return shutil.which("uv")


def _run(command: Sequence[str], *, quiet: bool = False) -> bool:
    out = subprocess.DEVNULL if quiet else None
    # A virtual environment that happens to be active is not the one that is meant.
    clean = {name: value for name, value in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONHOME"}}
    done = subprocess.run(list(command), cwd=ROOT, env=clean, stdout=out, stderr=out, check=False)
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
