"""Who has seen to native crashes already keeps it."""

import subprocess
import sys

import pytest

from support.checkout import ROOT
from support.waiting import LIMIT_S

PROBE = (
    "import sys, faulthandler; sys.path.insert(0, {core!r}); from lastbeat.training.entry import enable_faulthandler; "
)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        pytest.param("enable_faulthandler(); faulthandler._sigsegv()", "Fatal Python error",
                     id="by default it is told"),
        pytest.param("faulthandler.enable(open('mine.txt', 'w')); enable_faulthandler(); faulthandler._sigsegv()", "",
                     id="elsewhere"),
        pytest.param("import io; sys.stderr = io.StringIO(); enable_faulthandler()", "", id="it is no file"),
        pytest.param("sys.stderr = type('Odd', (), {'fileno': lambda self: 'none', 'flush': lambda self: 1 / 0})()\n"
                     "enable_faulthandler()", "", id="it is any object"),
    ],
)  # fmt: skip
def test_a_native_crash_is_told_on_stderr_unless_somebody_sees_to_it(
    script: str, said: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    program = PROBE.format(core=str(ROOT / "core")) + script
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path_factory.mktemp("x"),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert said in done.stderr
    assert bool(said) == ("Fatal" in done.stderr)
    assert "Traceback" not in done.stderr
