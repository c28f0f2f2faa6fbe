"""Children of a training process: they neither beat nor end the run."""

import pytest

from support.training import Site

WORKERS = """\
import multiprocessing, os, sys, time
import lastbeat

def work(number):
    # A fork has the handle, a spawned child imports this file again.
    run = globals().get("run")
    if run is not None:
        run.step(1000 + number)
        run.fail("the worker's own")
    if number % 2:
        sys.exit(3)
    raise RuntimeError("the worker's own")

if __name__ == "__main__":
    context = multiprocessing.get_context(METHOD)
    run = lastbeat.start("run-1")
    run.step(1)
    children = [context.Process(target=work, args=(n,)) for n in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join(300)
    assert [child.exitcode for child in children] == [1, 3], [child.exitcode for child in children]
    run.step(2)
"""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_end_without_ending_the_run(directory: Site, method: str) -> None:
    trained = directory.train(WORKERS.replace("METHOD", repr(method)))
    assert trained.exit == 0, trained.said
    found = directory.look()
    assert (found["status"], found["step"], found["attempt"]) == ("SUCCEEDED", 2, 1)
    assert directory.read("_error") is None


def test_forks_in_the_middle_of_beats(site: Site) -> None:
    # Beats without a pause, forks without a pause: each fork falls into a beat. The children live on, as workers do,
    # and die in all ways that there are.
    script = """\
    import os, signal, sys, time
    import lastbeat
    run = lastbeat.start("run-1")
    children, parent = [], os.getpid()
    for n in range(24):
        run.step(n)
        pid = os.fork()
        if pid == 0:
            # Nobody tidies up after a test that was cut off.
            while not os.path.exists("go") and os.getppid() == parent:
                time.sleep(0.01)
            if n % 4 == 0:
                os._exit(0)
            if n % 4 == 1:
                os.kill(os.getpid(), signal.SIGTERM)
            if n % 4 == 2:
                raise ValueError("a child")
            sys.exit(9)
        children.append(pid)
    # With all of them alive, and whatever they hold, the run goes on beating.
    run.step(24)
    deadline = time.monotonic() + 60
    while run._reporter._rank is None or run._reporter._rank._written_steps < run.steps:
        assert time.monotonic() < deadline, "a child holds the beat up"
        time.sleep(0.01)
    open("go", "w").close()
    for n, pid in enumerate(children):
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert status == (0, -signal.SIGTERM, 1, 9)[n % 4], (n, status)
    """
    trained = site.train(script, LASTBEAT_BEAT_SECONDS="0.001")
    assert trained.exit == 0, trained.said
    assert "lastbeat cannot" not in trained.said
    found = site.look()
    assert (found["status"], found["step"]) == ("SUCCEEDED", 24)


def test_a_fork_right_after_the_start_does_not_inherit_an_import(directory: Site) -> None:
    # The beat thread is importing then. A child that imports the same must not wait for it for ever.
    script = """\
    import os, sys
    import lastbeat
    run = lastbeat.start("run-1")
    for n in range(10):
        pid = os.fork()
        if pid == 0:
            import platform, fcntl, lastbeat.watch.configured, lastbeat.stores.directory, lastbeat.training.sdk.ranks
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
    """
    assert directory.train(script).exit == 0


def test_a_child_that_begins_a_run_of_its_own(directory: Site) -> None:
    script = """\
    import os, sys
    import lastbeat
    run = lastbeat.start("run-1")
    run.step(1)
    if os.fork() == 0:
        own = lastbeat.start("run-2")
        own.step(7)
        sys.exit(4)
    assert os.waitstatus_to_exitcode(os.wait()[1]) == 4
    """
    assert directory.train(script).exit == 0
    assert directory.look("run-1")["status"] == "SUCCEEDED"
    found = directory.look("run-2")
    assert (found["status"], found["step"]) == ("FAILED", 7)


def test_a_fork_in_the_middle_of_a_log_line_leaves_the_child_its_streams(directory: Site) -> None:
    script = """\
    import io, logging, os, signal, sys, threading, time
    import lastbeat
    writing = threading.Event()
    class Slow(io.RawIOBase):
        def writable(self):
            return True
        def write(self, data):
            writing.set()
            time.sleep(0.05)
            return len(data)
    stream = io.TextIOWrapper(io.BufferedWriter(Slow()), line_buffering=True)
    logging.getLogger("lastbeat").addHandler(logging.StreamHandler(stream))
    with lastbeat.run("run-1") as run:
        assert writing.wait(300)
        child = os.fork()
        if child == 0:
            stream.flush()
            os._exit(0)
        deadline = time.monotonic() + 30
        ended = 0
        while not ended and time.monotonic() < deadline:
            ended, status = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
        if not ended:
            os.kill(child, signal.SIGKILL)
            sys.exit("the child waits for a lock that nobody has")
    """
    trained = directory.train(script)
    assert trained.exit == 0, trained.said
