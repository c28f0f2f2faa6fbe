"""A run whose NCCL uses sockets though EFA is there has a condition, by its logs; a run without EFA never has it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lastbeat.model.status import Event, Status
from support.world import World

INFO = "ip-10-1-0-7:4711:4790 [0] NCCL INFO "
ASKED = "export FI_PROVIDER=efa\n"
SOCKETS = (
    f"{INFO}NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n"
    f"{INFO}NET/IB : No device found.\n"
    f"{INFO}NET/Socket : Using [0]eth0:10.1.0.7<0>\n"
    f"{INFO}Using network Socket\n"
)
EFA = (
    f"{INFO}NET/OFI Initializing aws-ofi-nccl 1.16.2\n"
    f"{INFO}NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n"
    f"{INFO}Using network Libfabric\n"
)
INFINIBAND = f"{INFO}NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.1.0.7<0>\n{INFO}Using network IB\n"


class Training:
    """A run that beats and prints. ``cold``: whoever looks knows no more than the record."""

    def __init__(self, *, cold: bool = False) -> None:
        self.world = World()
        self.cold = cold
        self.logs = dict[str, str]()
        self.step = 0
        self.beats = dict[str, int]()

    def says(self, text: str, log: str = "train.log") -> "Training":
        """It prints ``text``, and two steps after it."""
        self.logs[log] = self.logs.get(log, "") + text
        for _ in range(2):
            self.step += 1
            self.logs[log] += f"step {self.step}/1000 loss 2.5\n"
        self.world.beat(**self.beats)
        self.world.put(f"logs/{log}", self.logs[log])
        return self

    def raised(self) -> dict[str, str]:
        """The conditions that a look shows a minute later."""
        self.world.after(60)
        self.world.beat(**self.beats)
        outcome = self.world.fresh_watch(state=None if self.cold else self.world.state).tick()
        assert outcome.status is Status.RUNNING
        return dict(outcome.conditions)


FALLBACKS = [
    pytest.param(ASKED + SOCKETS, False, id="it is asked for, and no plugin is there"),
    pytest.param(EFA + SOCKETS, True, id="an attempt before it in the same log used it, by the record alone"),
]


@pytest.mark.parametrize(("text", "cold"), FALLBACKS)
def test_a_fallback_is_told_once_with_the_line_and_what_to_do(text: str, cold: bool) -> None:
    run = Training(cold=cold).says(text)
    for _ in range(3):
        assert list(run.raised()) == ["efa_fallback"]
        run.says("")
    (message,) = [each for each in run.world.channel.sent if each.event is Event.WARNING]
    told = message.conditions["efa_fallback"]
    assert told.startswith("NCCL uses sockets, though EFA is there or asked for: logs/train.log:")
    assert told.endswith("NCCL INFO Using network Socket")
    assert "NCCL_NET=ofi" in str(message.action)
    assert "/opt/amazon/ofi-nccl/lib/x86_64-linux-gnu" in str(message.action)


@pytest.mark.parametrize(
    ("cold", "then", "told"),
    [
        pytest.param(False, EFA, 1, id="with EFA, with a cache"),
        pytest.param(True, SOCKETS, 2, id="without it again, by the record alone"),
    ],
)
def test_a_new_attempt_in_the_same_log_is_not_judged_by_the_lines_of_the_last_one(
    then: str, told: int, cold: bool
) -> None:
    run = Training(cold=cold)
    run.beats = {"attempt": 1}
    run.says(ASKED + SOCKETS)
    assert "efa_fallback" in run.raised()
    run.beats = {"attempt": 2}
    for _ in range(3):
        run.says("loading the model\n")
        assert run.raised() == {}
    run.says(ASKED + then)
    assert ("efa_fallback" in run.raised()) == (then == SOCKETS)
    assert sum("efa_fallback" in each.conditions for each in run.world.channel.sent) == told


def test_the_log_that_was_written_last_counts() -> None:
    run = Training().says(ASKED + SOCKETS, "worker-a.out")
    assert "efa_fallback" in run.raised()
    run.world.after(600)
    run.says(EFA, "worker-b.out")
    assert run.raised() == {}


def test_it_stands_while_the_lines_that_told_it_are_out_of_reach() -> None:
    run = Training(cold=True).says(ASKED + SOCKETS)
    assert "efa_fallback" in run.raised()
    # A shipped window of the log that has moved on, and a reader that has never seen what lies before it.
    run.logs["train.log"] = ""
    run.says("")
    assert "efa_fallback" in run.raised()
    run.world.delete("logs/train.log")
    assert "efa_fallback" in run.raised()
    run.says(EFA)
    assert run.raised() == {}


def test_hostile_words_in_the_line_harm_nobody() -> None:
    hostile = f"{INFO}Using network Socket \x1b[31m<!channel> \u202e& <script> " + "x" * 20_000 + "\n"
    told = Training().says(ASKED + hostile).raised()["efa_fallback"]
    assert len(told) < 500
    assert "\x1b" not in told
    assert "\u202e" not in told


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from([ASKED, SOCKETS, EFA, INFINIBAND, ""]), min_size=1, max_size=6), st.booleans())
def test_what_was_told_last_counts_whoever_looks(texts: list[str], cold: bool) -> None:
    run = Training(cold=cold)
    expected = fallback = False
    for text in texts:
        expected = expected or text in {ASKED, EFA}
        fallback = fallback if text in {ASKED, ""} else text == SOCKETS
        run.says(text)
        assert ("efa_fallback" in run.raised()) == (fallback and expected)
