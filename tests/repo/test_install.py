"""How the make targets come by their `.venv`: when they leave it alone, and what they say when they cannot make it."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.checkout import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but what the install reads, on a machine with no program but a few tools."""
    folder = tmp_path / "a checkout"
    shutil.copytree(ROOT / ".ci", folder / ".ci")
    shutil.copy2(ROOT / "pyproject.toml", folder)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("cmp", "dirname"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)


def venv(
    checkout: Path, level: str = "demo", python: str = "", folders: str = ""
) -> "subprocess.CompletedProcess[str]":
    environment = {"PATH": f"{checkout.parent / 'bin'}{folders}", "PYTHON": python, "HOME": str(checkout.parent)}
    command = [str(checkout / ".ci" / "venv"), level]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def installed(checkout: Path, level: str) -> None:
    """The mark of a complete install, beside a Python that works."""
    program(checkout / ".venv" / "bin" / "python", f'exec "{sys.executable}" "$@"')
    shutil.copy2(checkout / "pyproject.toml", checkout / ".venv" / f"installed-{level}.toml")


def test_a_complete_install_is_left_alone_without_a_word(checkout: Path) -> None:
    installed(checkout, "demo")
    done = venv(checkout)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_python_of_the_system_comes_before_another_that_is_earlier_on_the_path(checkout: Path) -> None:
    program(checkout.parent / "bin" / "python3", f'exec "{sys.executable}" "$@"')
    (checkout / ".ci" / "install.py").write_text("import sys; print(sys.executable)")
    system = "/usr/bin/python3"
    suits = "import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))"
    asked = [system, "-c", suits] if Path(system).exists() else ["false"]
    suitable = subprocess.run(asked, stderr=subprocess.DEVNULL, check=False).returncode == 0
    done = venv(checkout, folders=":/usr/bin")
    assert done.stdout.strip() == (system if suitable else sys.executable), done.stderr
    assert venv(checkout).stdout.strip() == sys.executable


def not_found(checkout: Path) -> None:
    """Nothing on the path."""


def too_old(checkout: Path) -> None:
    program(checkout.parent / "bin" / "python3", "exit 1")


def without_ensurepip(checkout: Path) -> None:
    # As Debian's python3 without python3-venv: whatever asks for ensurepip is told that it is not there.
    hide = (
        "import importlib.util as u, runpy, sys; real = u.find_spec; "
        "u.find_spec = lambda name, *rest: None if name == 'ensurepip' else real(name, *rest); "
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    program(
        checkout.parent / "bin" / "python3",
        f'case "$1$2" in -c*ensurepip*) exit 1;; -c*) exec "{sys.executable}" "$@";; esac\n'
        f'exec "{sys.executable}" -c "{hide}" "$@"',
    )


@pytest.mark.parametrize(
    ("machine", "message"),
    [
        pytest.param(not_found, "no Python from 3.10 on was found", id="no Python at all"),
        pytest.param(too_old, "no Python from 3.10 on was found", id="only one that is too old"),
        pytest.param(without_ensurepip, "apt-get install python3-venv", id="one that cannot make environments"),
    ],
)
def test_a_machine_without_a_suitable_python_is_told_what_to_do(
    checkout: Path, machine: Callable[..., Any], message: str
) -> None:
    machine(checkout)
    done = venv(checkout)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (checkout / ".venv" / "installed-demo.toml").exists()


def test_a_named_python_that_is_none_is_refused(checkout: Path) -> None:
    done = venv(checkout, python="python2.7")
    assert done.returncode == 1
    assert "PYTHON=python2.7 is not a Python from 3.10 on" in done.stderr


OUTDATED = [
    pytest.param(lambda text: text + "\n# changed\n", id="pyproject.toml changed since"),
    pytest.param(lambda text: text[: len(text) // 2], id="the mark is not whole"),
]


@pytest.mark.parametrize("change", OUTDATED)
def test_an_install_that_is_out_of_date_is_made_again(checkout: Path, change: Callable[..., Any]) -> None:
    installed(checkout, "demo")
    mark = checkout / ".venv" / "installed-demo.toml"
    mark.write_text(change(mark.read_text(encoding="utf-8")), encoding="utf-8")
    (checkout.parent / "bin" / "python3").symlink_to(sys.executable)
    # A uv that writes down what it was asked, in place of downloads.
    program(checkout.parent / "bin" / "uv", f'echo "$@" >> "{checkout.parent}/asked"')
    done = venv(checkout)
    assert done.returncode == 0, done.stderr
    asked = (checkout.parent / "asked").read_text(encoding="utf-8")
    assert "pip install" in asked
    assert "--group demo" in asked
    assert mark.read_bytes() == (checkout / "pyproject.toml").read_bytes()


def test_an_install_that_fails_leaves_no_mark(checkout: Path) -> None:
    installed(checkout, "demo")
    (checkout / "pyproject.toml").write_text("[project]\n", encoding="utf-8")
    program(checkout / ".venv" / "bin" / "python", 'case "$2" in *find_spec*) echo 3 11 True;; *) exit 1;; esac')
    (checkout.parent / "bin" / "python3").symlink_to(sys.executable)
    done = venv(checkout)
    assert done.returncode == 1
    assert "did not work" in done.stderr
    assert not (checkout / ".venv" / "installed-demo.toml").exists()


def test_a_bigger_install_serves_the_smaller_ones(checkout: Path) -> None:
    (checkout.parent / "bin" / "python3").symlink_to(sys.executable)
    program(checkout.parent / "bin" / "uv", "exit 0")
    installed(checkout, "other")
    done = venv(checkout, "dev")
    assert done.returncode == 0, done.stderr
    assert (checkout / ".venv" / "installed-demo.toml").exists()
    assert not (checkout / ".venv" / "installed-servers.toml").exists()
