"""What ``lastbeat exec`` does: runs a command unchanged, and reports it as a run.

::

    wrapped      the command and its run
    once         runs it once ─────────┬── reporting   heartbeats, progress from its output, its sentinel
    in_place     restarts it when it   ┘
                 hangs or fails ───────── child        its process: streams, signals, terminal, exit

The command line only parses options, and prints lines for the user.
"""
