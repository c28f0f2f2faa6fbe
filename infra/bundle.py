"""From a folder of installed wheels and this checkout to the function's zip: prune, compile, pack, the same bytes from
the same input. Standard library only; ``package.sh`` calls it.
"""

import argparse
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

TASK_ROOT = "/var/task"
"""Where Lambda unpacks it: so tracebacks name files as they lie there."""
LIMIT_BYTES = 50_000_000
"""The most that Lambda takes as a direct upload."""
# Command-line wrappers, type stubs, and what pip notes for itself: nothing that runs. The licences stay.
LEFT_OUT_FOLDERS = {"__pycache__", "bin", "tests", "integrations"}
LEFT_OUT_NAMES = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "py.typed", ".lock"}
EPOCH = (1980, 1, 1, 0, 0, 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("root", "stage", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--version", required=True, help="of the Python that will run it: 3.13")
    parser.add_argument("--compiled", default="", help="a catalogue with users' own, in the place of the built-in one")
    args = parser.parse_args()
    _stage(args.root, args.stage)
    if args.compiled:
        shutil.copy(args.compiled, args.stage / "lastbeat" / "explain" / "signals" / "catalog" / "compiled.json")
    _prune(args.stage)
    _compile(args.stage, args.version)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    beside = args.out.with_name(f"{args.out.name}.{os.getpid()}.new")
    try:
        _pack(args.stage, beside)
        beside.replace(args.out)
    finally:
        beside.unlink(missing_ok=True)
    size, unpacked = args.out.stat().st_size, sum(path.stat().st_size for path in _files(args.stage))
    print(f"{args.out}: {size / 1e6:.1f} MB, unpacked {unpacked / 1e6:.1f} MB")
    if size > LIMIT_BYTES:
        print(f"Lambda takes at most {LIMIT_BYTES / 1e6:.0f} MB", file=sys.stderr)
        return 1
    return 0


def _stage(root: Path, stage: Path) -> None:
    shutil.copytree(root / "core" / "lastbeat", stage / "lastbeat")
    shutil.copytree(root / "lambda" / "lastbeat_lambda", stage / "lastbeat_lambda")
    shutil.copy(root / "lambda" / "handler.py", stage)
    shutil.copy(root / "LICENSE", stage)


def _prune(stage: Path) -> None:
    for path in sorted(stage.rglob("*"), reverse=True):
        if path.is_dir() and path.name in LEFT_OUT_FOLDERS:
            shutil.rmtree(path)
        elif path.is_file() and (path.name in LEFT_OUT_NAMES or path.suffix in {".pyi", ".pyc"}):
            path.unlink()


def _compile(stage: Path, version: str) -> None:
    """Bytecode for the Python that will run it, and for the one at hand, which may try it out.

    It is never checked against its source: the times of files in a zip say nothing, and nobody edits them there.
    """
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    wanted = _find(version)
    if wanted is None:
        print(
            f"There is no Python {version} on this machine, so the zip holds no bytecode for it: it works, and each "
            f"cold start takes about a third of a second longer. Install Python {version}, or name one that is here: "
            f"--runtime python{here}",
            file=sys.stderr,
        )
    for python in dict.fromkeys(filter(None, [wanted, sys.executable])):
        # One process and a fixed seed, or sets of constants would be written in another order each time.
        command = [python, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash"]
        command += ["-s", str(stage), "-p", TASK_ROOT, str(stage)]
        environment = {**os.environ, "PYTHONHASHSEED": "0"}
        # Which would put the bytecode elsewhere than beside the modules.
        environment.pop("PYTHONPYCACHEPREFIX", None)
        subprocess.run(command, env=environment, check=True)


def _find(version: str) -> str | None:
    """An interpreter of ``version`` that runs: this one, one of the path, one that pyenv or uv keeps."""
    kept = Path(os.environ.get("PYENV_ROOT") or "~/.pyenv").expanduser()
    candidates = [sys.executable, shutil.which(f"python{version}")]
    candidates += [str(path) for path in sorted(kept.glob(f"versions/{version}.*/bin/python"), reverse=True)]
    if uv := shutil.which("uv"):
        found = subprocess.run([uv, "python", "find", version], capture_output=True, text=True, check=False)
        candidates.append(found.stdout.strip())
    return next((each for each in candidates if each and _is(each, version)), None)


def _is(python: str, version: str) -> bool:
    probe = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        said = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return said.returncode == 0 and said.stdout.strip() == version


def _files(stage: Path) -> Iterator[Path]:
    yield from sorted(path for path in stage.rglob("*") if path.is_file())


def _pack(stage: Path, out: Path) -> None:
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path in _files(stage):
            entry = zipfile.ZipInfo(str(path.relative_to(stage)), EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            # Readable by the user that Lambda runs the function as; libraries are loaded, not executed.
            entry.external_attr = (0o100644 if path.suffix != ".so" else 0o100755) << 16
            archive.writestr(entry, path.read_bytes())


if __name__ == "__main__":
    sys.exit(main())
