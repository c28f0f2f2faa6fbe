"""What stands round every command, seen from outside: a command that goes wrong in every way."""

import signal
import sys
import textwrap
from pathlib import Path

import pytest

from support.cli import call

SCRIPT = """
import logging, signal, sys
import click
from lastbeat.model.secrets import Redactor
from lastbeat_cli import frame, logs

@click.command()
@click.option("-v", "--verbose", is_flag=True)
def command(verbose):
    logs.verbose(on=verbose)
    logs.hide(Redactor(["hush-hush-hush"]))
    {body}

sys.exit(frame.run(command, sys.argv[1:], "test"))
"""

IN_AN_IMPORT = "try: signal.raise_signal(signal.SIGINT)\nexcept BaseException as fault: raise RuntimeError from fault"
"""As Python 3.11 does where a class is made, and some libraries as they are loaded."""


def run(tmp_path: Path, body: str, *arguments: str) -> tuple[int, str, str]:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT).replace("{body}", body))
    done = call([sys.executable, str(script)], *arguments, cwd=tmp_path)
    return done.returncode, done.stdout, done.stderr


def test_a_defect_is_one_plain_message_and_unknown(tmp_path: Path) -> None:
    code, _, err = run(tmp_path, "raise RuntimeError('no hush-hush-hush here')")
    assert code == 3, "1 and 2 would be a verdict on the run"
    assert err.startswith("Error: RuntimeError: no *** here\n")
    assert "Traceback" not in err
    _, _, err = run(tmp_path, "raise RuntimeError('no hush-hush-hush here')", "--verbose")
    assert "Traceback" in err
    assert "hush" not in err.replace("hush-hush-hush here')", ""), "only the source line itself may quote it"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param("return 2", 2, id="a command's own status"),
        pytest.param("return None", 0, id="or none"),
        pytest.param("signal.raise_signal(signal.SIGINT)", 128 + signal.SIGINT, id="Ctrl-C without a verdict"),
        pytest.param(f"exec({IN_AN_IMPORT!r})", 128 + signal.SIGINT, id="Ctrl-C that a library takes for a fault"),
        pytest.param("raise BrokenPipeError", 128 + signal.SIGPIPE, id="a reader that left"),
        pytest.param("raise PermissionError(13, 'Permission denied', 'x')", 3, id="a file that may not be read"),
        pytest.param("raise SystemExit(4)", 4, id="a status that somebody insists on"),
    ],
)
def test_the_exit_status(tmp_path: Path, body: str, code: int) -> None:
    status, out, err = run(tmp_path, body)
    assert status == code
    assert out == ""
    assert "Traceback" not in err


def test_logs_go_to_stderr_without_secrets_and_with_their_time(tmp_path: Path) -> None:
    body = "logging.getLogger('lastbeat.x').warning('key %s', 'hush-hush-hush'); logging.getLogger('y').info('quiet')"
    code, out, err = run(tmp_path, body, "-v")
    assert (code, out) == (0, "")
    assert err.endswith("Z WARNING key ***\n")
    assert err.count("\n") == 1
