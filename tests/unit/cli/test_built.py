"""What ``--version`` says of the commit: from git where there is a checkout, and nothing where git does not say."""

import re
import subprocess
from pathlib import Path

import pytest

from lastbeat_cli.built import of_checkout

KNOWN = re.compile(r"[0-9a-f]{12} \d{4}-\d\d-\d\d")


def git(root: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", "-C", str(root), *who, *words], check=True, capture_output=True)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    root = tmp_path / "a checkout"
    root.mkdir()
    git(root, "init", "--quiet")
    (root / "file").write_text("1")
    git(root, "add", "file")
    git(root, "commit", "--quiet", "-m", "first")
    return root


def test_a_checkout_has_its_commit_and_date(checkout: Path) -> None:
    assert KNOWN.fullmatch(of_checkout(checkout))
    git(checkout, "tag", "v9")
    assert KNOWN.fullmatch(of_checkout(checkout))


def test_a_change_that_is_not_committed_shows(checkout: Path) -> None:
    (checkout / "file").write_text("2")
    assert "-dirty " in of_checkout(checkout)


def test_a_folder_within_the_checkout_of_something_else_has_none(checkout: Path) -> None:
    (checkout / "unpacked").mkdir()
    assert of_checkout(checkout / "unpacked") == ""


def test_an_empty_repository_and_one_that_git_cannot_read_have_none(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    assert of_checkout(tmp_path) == ""
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / ".git").write_text("gitdir: /nowhere")
    assert of_checkout(tmp_path / "broken") == ""


def test_without_git_there_is_none(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert of_checkout(checkout) == ""
