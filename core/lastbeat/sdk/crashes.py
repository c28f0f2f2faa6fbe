"""Native crashes: what Python can still say of them."""

import faulthandler
from contextlib import suppress


def faults_into_stderr() -> None:
    """Have a native crash (SIGSEGV, SIGABRT, …) say on stderr where Python was, unless somebody has seen to it.

    A process that died so can ship nothing any more: this text reaches whatever keeps its stderr, as ``lastbeat exec``,
    a scheduler's log or a terminal does, and not the store by itself.
    """
    # Without a stderr, or with one that is no file (a notebook's, or any object of training's), there is nowhere to
    # write to.
    with suppress(Exception):
        if not faulthandler.is_enabled():
            faulthandler.enable()
