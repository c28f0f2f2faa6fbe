# ruff: noqa: E501 - lines of logs are as long as they are
"""Only those that saw a peer go away are left to tell of it: who was it?"""

from lastbeat.model.cause import Explanation, LostPeer
from support.explained import cause_of, explained
from support.printed import STEPS
from support.row_by_row import check_each

GLOO = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/train.py", line 28, in <module>
[rank{rank}]:     dist.all_reduce(grads)
[rank{rank}]:   File "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2806, in all_reduce
[rank{rank}]:     work.wait()
[rank{rank}]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [{peer}]:22966. This is typically caused by a remote worker crashing.
"""
NCCL = "{host}:110:697 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer {peer}<55912>\n"
DIST = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/train.py", line 28, in <module>
[rank{rank}]:     dist.barrier()
[rank{rank}]: torch.distributed.DistBackendError: NCCL error in: /p/NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.26.2
[rank{rank}]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
[rank{rank}]: Last error:
[rank{rank}]: socketProgress: Connection closed by remote peer {peer}<55912>
"""
STORE = (
    "[W307 10:01:02.1 socket.cpp:464] [c10d] recvValue failed on SocketImpl(fd=67, addr=[n1]:51552, remote=[n17]:29500): failed to recv, got 0 bytes\n"
    "[rank{rank}]: Traceback (most recent call last):\n"
    '[rank{rank}]:   File "/srv/train.py", line 28, in <module>\n'
    "[rank{rank}]:     store.get('x')\n"
    "[rank{rank}]: torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?\n"
)
SRUN = "srun: error: host-17: task 3: Exited with exit code 1\nsrun: error: n1: task 0: Exited with exit code 1\n"
TORCHRUN = """\
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-03-01_10:00:02
  host      : n1
  rank      : 0 (local_rank: 0)
  exitcode  : 1 (pid: 4711)
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:00:01
  host      : host-17.cluster.local
  rank      : 3 (local_rank: 1)
  exitcode  : 1 (pid: 4712)
============================================================
"""
KEY_ERROR = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/srv/train.py\", line 9, in <module>\n[rank3]: KeyError: 'labels'\n"


def told_by(**files: str) -> Explanation:
    """What the logs of these files, ``rank0`` say, show together."""
    ranks = {name: int(name.removeprefix("rank")) if name.startswith("rank") else None for name in files}
    return explained(*((f"{name}.log".replace("_", "-"), STEPS + files[name], ranks[name]) for name in files))


CASES = {
    "gloo names an address": (LostPeer(None, "10.0.0.5"), {"rank0": GLOO.format(rank=0, peer="10.0.0.5")}),
    "an address of its own machine says nothing": (LostPeer(None, None),
                                                   {"rank0": GLOO.format(rank=0, peer="127.0.0.1")}),
    "NCCL names a host": (
        LostPeer(None, "host-17"),
        {
            "rank0": NCCL.format(host="n1", peer="host-17.cluster.local")
            + DIST.format(rank=0, peer="host-17.cluster.local")
        },
    ),
    "c10d names the store's host": (LostPeer(None, "n17"), {"rank2": STORE.format(rank=2)}),
    "srun knows the rank": (LostPeer(3, "host-17"), {"rank0": DIST.format(rank=0, peer="host-17"), "job": SRUN}),
    "torchrun names who failed first": (LostPeer(3, "host-17"),
                                        {"rank0": GLOO.format(rank=0, peer="10.0.0.5") + TORCHRUN}),
    "two survivors agree": (
        LostPeer(3, "host-17"),
        {"rank0": GLOO.format(rank=0, peer="10.0.0.5"), "rank1": GLOO.format(rank=1, peer="10.0.0.5") + TORCHRUN},
    ),
    "a survivor that ended is taken for dead by the next one: it is not who died first": (
        LostPeer(None, "n17"),
        {
            "rank0": DIST.format(rank=0, peer="n17"),
            "rank1": NCCL.format(host="n2", peer="n1") + NCCL.format(host="n1", peer="n17"),
        },
    ),
    "its own log is here, and says nothing": (LostPeer(3, "host-17", log="rank3.log"),
                                              {"rank0": DIST.format(rank=0, peer="host-17"), "job": SRUN, "rank3": ""}),
    "its own log by its host's name": (LostPeer(None, "host-17", log="train-host-17.log"),
                                       {"rank0": DIST.format(rank=0, peer="host-17"), "train_host_17": ""}),
    "the only log that tells of no trouble is its own": (
        LostPeer(2, None, log="rank2.log"),
        {"rank0": GLOO.format(rank=0, peer="127.0.0.1"), "rank1": GLOO.format(rank=1, peer="127.0.0.1"), "rank2": ""},
    ),
    "one that was stopped with the others is not it": (
        LostPeer(None, None),
        {
            "rank0": GLOO.format(rank=0, peer="127.0.0.1"),
            "rank1": GLOO.format(rank=1, peer="127.0.0.1"),
            "rank2": "Received SIGTERM\n",
        },
    ),
    "of two silent ones nobody knows which it is": (
        LostPeer(None, None, apart=False),
        {"rank0": GLOO.format(rank=0, peer="127.0.0.1"), "rank1": "", "rank2": ""},
    ),
    "one file for several ranks: it may be that of all": (
        LostPeer(None, "host-17", apart=False),
        {"job": DIST.format(rank=0, peer="host-17") + DIST.format(rank=1, peer="host-17")},
    ),
}  # fmt: skip


def test_who_went_away() -> None:
    check_each(CASES.items(), goes_away)


def goes_away(peer: LostPeer, files: dict[str, str]) -> None:
    found = told_by(**files)
    assert cause_of(found).error_type in {"communication", "nccl"}
    # Several logs are all of one process each, or nobody knows.
    assert found.peer is not None
    assert (found.peer.rank, found.peer.host, found.peer.log) == (peer.rank, peer.host, peer.log)
    assert peer.apart or not found.peer.apart


def test_the_hint_names_it() -> None:
    found = told_by(rank0=DIST.format(rank=0, peer="host-17") + TORCHRUN)
    assert found.hint is not None
    assert "rank 3 on host-17" in found.hint


NONE = {
    "its own log is here and says why": (
        "exception",
        {"rank0": DIST.format(rank=0, peer="host-17"), "rank3": KEY_ERROR},
    ),
    "its own words are in the same file": ("exception", {"job": DIST.format(rank=0, peer="host-17") + KEY_ERROR}),
    "a web server is no peer": (
        "communication",
        {
            "job": 'Traceback (most recent call last):\n  File "/srv/train.py", line 9, in <module>\n    fetch()\nConnectionResetError: [Errno 104] Connection reset by peer\n'
        },
    ),
    "a stop from outside": ("cancelled", {"job": "Received SIGTERM\n" + TORCHRUN}),
    "a launcher knows how it ended": (
        "oom",
        {"rank0": GLOO.format(rank=0, peer="10.0.0.5"), "job": SRUN.replace("Exited with exit code 1", "Killed", 1)},
    ),
}


def test_nobody_is_looked_for_where_the_cause_is_known() -> None:
    check_each(NONE.items(), is_known)


def is_known(error_type: str, files: dict[str, str]) -> None:
    found = told_by(**files)
    assert (cause_of(found).error_type, found.peer) == (error_type, None)


def test_an_actor_that_died_without_a_word_is_named_by_its_address() -> None:
    text = (
        'Traceback (most recent call last):\n  File "/srv/main.py", line 31, in <module>\n    ray.get(worker.fit.remote())\n'
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: Worker\n\tpid: 319017\n\tip: 10.44.139.116\n"
        "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.\n"
    )
    found = told_by(job=text)
    assert found.peer is not None
    assert found.peer.host == "10.44.139.116"
    assert found.hint is not None
    assert "10.44.139.116" in found.hint


SAID = {
    "all that can be known": (LostPeer(3, "host-17"), "a peer died; its own log is not here: rank 3 on host-17"),
    "its log is here": (LostPeer(3, log="rank3.log"), "a peer died; its own log, rank3.log, does not say why: rank 3"),
    "the log may be of all": (LostPeer(3, apart=False), "a peer died; no line here comes from it: rank 3"),
}


def test_how_it_is_said() -> None:
    check_each(SAID.items(), is_said)


def is_said(peer: LostPeer, words: str) -> None:
    assert peer.told == words
