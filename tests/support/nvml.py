"""NVIDIA's driver, as far as tests need it: a small C library of the same name, compiled here, whose answers stand in a
file. No test of it runs on a real GPU."""

import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from support.checkout import ROOT

_LIMIT_S = 60


@dataclass(frozen=True)
class StubDriver:
    """The library's folder, and the file of what it answers."""

    folder: Path
    values: Path

    def says(self, *lines: str) -> "StubDriver":
        """Let it answer otherwise from now on: ``1.temperature 91``, ``0.ecc_uncorrected error 15``, ``init hang``."""
        new = self.values.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        new.replace(self.values)
        return self

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to meet it."""
        return {"LD_LIBRARY_PATH": str(self.folder), "STUB_VALUES": str(self.values)}


def compiled(folder: Path) -> StubDriver:
    """The driver, compiled into ``folder``. Skips where there is no C compiler, which .ci/run installs, or where
    nvidia-ml-py is missing."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if importlib.util.find_spec("pynvml") is None:
        pytest.skip("nvidia-ml-py (the extra gpu) is not installed")
    if compiler is None:
        if os.environ.get("CI"):
            pytest.fail("there is no C compiler here, and .ci/run is to install one")
        pytest.skip("there is no C compiler here")
    source = ROOT / "tests" / "support" / "nvml.c"
    command = [
        compiler,
        "-shared",
        "-fPIC",
        "-O1",
        "-Wall",
        "-Werror",
        "-o",
        str(folder / "libnvidia-ml.so.1"),
        str(source),
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=_LIMIT_S)
    return StubDriver(folder, folder / "values").says()
