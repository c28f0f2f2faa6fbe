"""What DataLoader workers and other children call so that stop signals do not end them."""

import signal


def ignore_stop_signals(_worker: object = None) -> None:
    """See :func:`lastbeat.ignore_stop_signals`."""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
