"""The process that answers the fakes' ``kubectl``: it has loaded them, and forks for each call.

Run as a script with the path of its socket it says ``!`` once it listens, and ends when its standard input does.
"""

import os
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import fake_kubectl, fake_kubernetes

_FAKES: dict[str, Callable[[str, Sequence[str]], int]] = {
    "pods": fake_kubectl.main,
    "kubernetes": fake_kubernetes.main,
}
_STREAMS = 3


def serve(address: str) -> None:
    """Fork for each call until the tests are over."""
    # What has ended needs nobody to wait for it.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(128)
        os.write(1, b"!")
        while True:
            ready, _, _ = select.select([listening.fileno(), 0], [], [])
            if 0 in ready:
                return
            call, _ = listening.accept()
            if os.fork() == 0:
                listening.close()
                _answer(call)
            call.close()


def _answer(call: socket.socket) -> NoReturn:
    """Do what kubectl was told to do, with its streams, and say its exit status."""
    status = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size, streams, _, _ = socket.recv_fds(call, 4, _STREAMS)
        words = b""
        while len(words) < int.from_bytes(size, "big"):
            words += call.recv(1 << 16)
        for number, each in enumerate(streams):
            os.dup2(each, number)
            os.close(each)
        threading.Thread(target=_end_with, args=(call,), daemon=True).start()
        fake, folder, *arguments = words.decode("utf-8", "surrogateescape").split("\0")
        status = _FAKES[fake](folder, arguments)
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - it is said where kubectl would say it
        traceback.print_exc()
    sys.stderr.flush()
    call.send(bytes([status]))
    os._exit(0)


def _end_with(call: socket.socket) -> None:
    """End when the program of this call has ended: it was killed."""
    call.recv(1)
    os._exit(1)


if __name__ == "__main__":
    serve(sys.argv[1])
