"""The fakes' ``kubectl``: a program that loads nothing, and one process a worker that forks for each call of it.

A call is still a process of its own, which ends with its program; loading Python's modules would take three times as
long as what it does.
"""

import atexit
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

from support.waiting import LIMIT_S

_PROGRAM = """\
#!{python} -IS
import _socket, os, sys
call = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
call.connect({address!r})
words = "\\0".join([{fake!r}, {folder!r}, *sys.argv[1:]]).encode("utf-8", "surrogateescape")
streams = b"".join(each.to_bytes(4, sys.byteorder) for each in range(3))
call.sendmsg([len(words).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
call.sendall(words)
os._exit(call.recv(1)[0])
"""
_READY_S = LIMIT_S


def program(fake: str, folder: Path) -> str:
    """The text of a kubectl that ``fake`` (see :mod:`support.kubectl_calls`) answers out of ``folder``."""
    return _PROGRAM.format(python=sys.executable, address=_server(), fake=fake, folder=str(folder))


@functools.cache
def _server() -> str:
    """The address of the process that forks; it ends with this one."""
    # A socket's path has to be short.
    scratch = tempfile.TemporaryDirectory(prefix="kubectl")
    address = str(Path(scratch.name, "s"))
    process = subprocess.Popen(
        [sys.executable, "-IS", "-W", "ignore", str(Path(__file__).with_name("kubectl_calls.py")), address],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def end() -> None:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_READY_S)
        scratch.cleanup()

    atexit.register(end)
    with process.stdout as said:
        assert said.read(1) == b"!", "the server of kubectl's calls did not start"
    return address
