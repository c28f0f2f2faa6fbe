"""Has the Python of a pod do something for lastbeat: a program with a request goes in, an answer comes out.

    kubectl exec --stdin POD -- python3 -c LOADER      one line of stdin: modules and request, as JSON
                                                       one line of stdout: a mark, and the answer, packed

The program goes along with each request: a pod needs nothing but Python 3.8, and never has an older version of it. A
shell would do for starting a process, but not for telling one process from another that has its number. Whatever else
the pod prints counts for nothing, and an answer without its mark is none: some kubectl say that all is well when the
connection was cut.
"""

import base64
import json
import secrets
import signal
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Final

from lastbeat.jobs.launchers.kubectl import Kubectl
from lastbeat.jobs.launchers.port import JobRefusedError, LauncherError
from lastbeat.model.text import one_line

_MODULES: Final = ("processes", "local.keeper", "local.folder", "ray_pod.in_pod")
"""Below ``lastbeat.jobs.launchers``, in the order in which they need each other."""
_LOADER: Final = """\
import sys, json, types
m = json.loads(sys.stdin.buffer.readline())
base = "lastbeat.jobs.launchers"
for name in ("lastbeat", "lastbeat.jobs", base, base + ".local", base + ".ray_pod"):
    sys.modules[name] = types.ModuleType(name)
for name, text in m["modules"]:
    module = types.ModuleType(base + "." + name)
    sys.modules[module.__name__] = module
    package, _, short = module.__name__.rpartition(".")
    setattr(sys.modules[package], short, module)
    exec(compile(text, name + ".py", "exec"), module.__dict__)
said = module.answered(m["request"])
import base64, zlib
print("\\n" + m["mark"] + base64.b64encode(zlib.compress(json.dumps(said).encode(), 1)).decode(), flush=True)
"""
_PYTHON: Final = ("python3", "-I", "-S", "-X", "utf8", "-c", _LOADER)
"""Nothing that lies in the folder where commands begin, or that the image has set for Python, has a part in it."""
_AGAIN: Final = "try again in a moment; what runs in the pod may be in the way"
_MOST_WIRE: Final = 16 << 20
_MOST: Final = 64 << 20
"""Bytes of one answer, packed and unpacked."""
_EARLIER_S: Final = 2.0
"""Time in s by which it gives up before kubectl, so that nothing of it stays in the pod."""
_LATE: Final = 128 + signal.SIGALRM
_NO_PYTHON: Final = ("executable file not found", "no such file or directory")


class Said(dict[str, Any]):
    """An answer. What should be in it and is not was never said: :class:`LauncherError`."""

    def __missing__(self, key: str) -> Any:
        raise LauncherError(f"what was answered out of the pod has no {key!r}", _AGAIN)


@dataclass(frozen=True)
class PodPython:
    """The Python of one container, to which ``kubectl exec`` passes requests."""

    kubectl: Kubectl
    pod: str
    container: str = ""

    def ask(self, request: Mapping[str, Any]) -> "Said":
        """The answer to ``request``, as :mod:`lastbeat.jobs.launchers.ray_pod.in_pod` has it.

        Raises as :meth:`Kubectl.exec`; :class:`LauncherError` if there was no answer, :class:`JobRefusedError` if the
        container has no Python.
        """
        mark = secrets.token_hex(8) + ":"
        whole = {**request, "limit_s": max(1, int(self.kubectl.call_s - _EARLIER_S))}
        # JSON escapes whatever could end the line.
        line = json.dumps({"modules": _sources(), "request": whole, "mark": mark}) + "\n"
        said = self.kubectl.exec(self.pod, _PYTHON, container=self.container, stdin=line, most=_MOST_WIRE)
        if said.code in {126, 127} and said.says(_NO_PYTHON):
            raise JobRefusedError(
                f"the container of pod {self.pod} has no python3", "name with --container the one that has Ray"
            )
        if said.code == _LATE:
            raise LauncherError(
                f"pod {self.pod} did not do it within {whole['limit_s']} s",
                "a file system may hang there: try 'ls' in it",
            )
        _, found, packed = said.out.rpartition("\n" + mark)
        if not found:
            why = one_line(next(reversed([each for each in said.err.splitlines() if each.strip()]), "no word"))
            how = f"exit status {said.code}: {why[:200]}" if said.code else "the connection was cut"
            raise LauncherError(f"nothing was answered out of pod {self.pod}: {how}", _AGAIN)
        try:
            unpacked = zlib.decompressobj().decompress(base64.b64decode(packed), _MOST)
            answer = json.loads(unpacked)
        except (ValueError, zlib.error):
            answer = None
        if not isinstance(answer, dict):
            raise LauncherError(f"what was answered out of pod {self.pod} is not whole", _AGAIN)
        return Said(answer)


@cache
def _sources() -> tuple[tuple[str, str], ...]:
    folder = resources.files("lastbeat.jobs.launchers")
    files = {name: folder.joinpath(f"{name.replace('.', '/')}.py") for name in _MODULES}
    return tuple((name, file.read_text(encoding="utf-8")) for name, file in files.items())


def bytes_of(answer: Said) -> bytes:
    """Those of a file that an answer has. Raises :class:`LauncherError`."""
    try:
        return base64.b64decode(answer["body"], validate=True)
    except (ValueError, TypeError):
        raise LauncherError("what was answered out of the pod is no part of a file", _AGAIN) from None
