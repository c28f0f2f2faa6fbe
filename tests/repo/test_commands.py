"""The commands that the documents show are run as they stand.

A page's ``bash`` blocks run one after the other in one fresh copy of the checkout, with this Python and the
``lastbeat`` of this checkout first on the path. What a block's fence may say after ``bash``:

    (nothing)            the block must exit with 0
    exit=2               it must exit with 2
    no-run: why not      it is not run, and a reader of the source learns why

A ``text`` block straight after a block that ran is what it prints: each line must be there, in this order; ``…``
stands for anything.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.checkout import ROOMS, ROOT, TOP_FILES, documents
from support.markdown import Block, Document

LIMIT_S = 120
SHELL = ("bash", "sh", "shell", "console")
# A reader's own settings and AWS account have no part in this.
OTHERS_SETTINGS = ("AWS_", "LASTBEAT_", "MONITORING_", "SLACK_", "SNS_", "STALE_", "ALERT_", "PYTHON")

WITH_COMMANDS = [path for path in documents() if any(b.language in SHELL for b in Document.read(path).blocks)]


def how(block: Block) -> tuple[int | None, str]:
    """The exit status a block must have, None when it is not to be run; and what is wrong with its fence."""
    rest = block.info.removeprefix(block.language).strip()
    if block.language != "bash":
        return None, f"line {block.line}: ```{block.language} is not run; write ```bash, or ```text for no command"
    if rest.startswith("no-run"):
        reason = rest.removeprefix("no-run").lstrip(":").strip()
        return None, "" if reason else f"line {block.line}: no-run without a reason"
    if match := re.fullmatch(r"exit=(\d+)", rest):
        return int(match[1]), ""
    return 0, "" if not rest else f"line {block.line}: what is {rest!r}?"


def _expected(line: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in line.strip().split("…")))


def missing_line(shown: str, printed: str) -> str | None:
    """The first line of ``shown`` that ``printed`` does not have after the ones before it."""
    lines = iter(printed.splitlines())
    for wanted in filter(None, map(str.strip, shown.splitlines())):
        pattern = _expected(wanted)
        if not any(pattern.search(line) for line in lines):
            return wanted
    return None


def test_every_command_says_whether_it_can_be_run() -> None:
    found = [(page, how(block)[1]) for page in WITH_COMMANDS for block in Document.read(page).blocks
             if block.language in SHELL]  # fmt: skip
    assert [f"{page.relative_to(ROOT)}, {fault}" for page, fault in found if fault] == []


def _has_something_to_run(page: Path) -> bool:
    return any(how(block)[0] is not None for block in Document.read(page).blocks if block.language in SHELL)


@pytest.mark.parametrize(
    "page",
    [page for page in WITH_COMMANDS if _has_something_to_run(page)],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_commands_do_what_the_page_says(page: Path, tmp_path: Path) -> None:
    checkout = copy_of_checkout(tmp_path)
    environment = environment_of_a_reader(tmp_path)
    blocks = Document.read(page).blocks
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        status = how(block)[0] if block.language in SHELL else None
        if status is None:
            continue
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.text],
            cwd=checkout,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        where = f"{page.name}, line {block.line}:\n{block.text}\nprinted:\n{done.stdout}"
        assert done.returncode == status, where
        if after is not None and after.language == "text" and not after.gap.strip():
            assert missing_line(after.text, done.stdout) is None, where


def copy_of_checkout(tmp_path: Path) -> Path:
    """What a reader has after ``git clone`` and an install."""
    copy = tmp_path / "lastbeat"
    copy.mkdir()
    # Most files are those of the tests, which no command of a page changes.
    (copy / "tests").symlink_to(ROOT / "tests")
    for room in set(ROOMS) - {"tests"}:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    for name in TOP_FILES:
        if (ROOT / name).is_file():
            shutil.copy2(ROOT / name, copy / name)
    return copy


def environment_of_a_reader(tmp_path: Path) -> dict[str, str]:
    programs = tmp_path / "lastbeat" / ".venv" / "bin"
    programs.mkdir(parents=True)
    # Not symbolic links: a Python that is called through one does not find its virtual environment.
    for name in ("python", "python3"):
        _program(programs / name, f'exec "{sys.executable}" "$@"')
    start = "import sys; from lastbeat_cli.main import main; sys.exit(main())"
    _program(programs / "lastbeat", f'PYTHONPATH="{ROOT}/core:{ROOT}/cli" exec "{sys.executable}" -c "{start}" "$@"')
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS_SETTINGS)}
    return kept | {"PATH": f"{programs}:{kept['PATH']}", "HOME": str(tmp_path), "COLUMNS": "100"}


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    path.chmod(0o755)
