"""What ``lastbeat exec`` does: runs a command unchanged, and reports it as a run.

::

    command      the steps of a run: start, wait, end ──┬── start    one start: heartbeats, progress, its sentinel
    in_place     adds judging and gathering, and starts ┘   child    its process: streams, signals, terminal, exit
                 it again when it hangs or fails

The command line only parses options, and prints lines for the user.
"""
