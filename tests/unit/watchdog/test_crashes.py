"""A watcher that dies at any of its calls loses nothing and decides nothing twice."""

from collections.abc import Callable

import pytest

from lastbeat.model.policy import Policy
from lastbeat.stores.port import Expect, UnreachableError
from support.channel import ListChannel
from support.memory import Killed
from support.scene import RUN, Scene

Story = Callable[[Scene], object]

STORIES: dict[str, tuple[Story, list[str]]] = {
    "a run fails": (lambda s: (s.both(1), s.put("_error", "boom"), s.put("logs/training_log_latest.txt", "x")),
                    ["FAILED"]),
    "a run never starts": (lambda s: None, ["TIMED_OUT"]),
    "a warning is raised": (lambda s: (s.beat(), s.progress(1, loss="nan")), ["WARNING"]),
}  # fmt: skip


def count_calls(story: Story) -> int:
    scene = Scene()
    story(scene)
    scene.store.calls.clear()
    scene.look()
    return len(scene.store.calls)


POINTS = [
    pytest.param(story, events, call, before, id=f"{name}, killed {'before' if before else 'after'} call {call}")
    for name, (story, events) in STORIES.items()
    for call in range(count_calls(story))
    for before in (True, False)
]


@pytest.mark.parametrize(("story", "events", "call", "before"), POINTS)
def test_killed_at_any_call(story: Story, events: list[str], call: int, before: bool) -> None:
    scene = Scene()
    story(scene)
    scene.store.die_at(call, before=before)
    with pytest.raises(Killed):
        scene.look()
    scene.store.heal()
    scene.look()
    scene.after(scene.policy.lease_s + 1)
    last = scene.look()
    assert set(scene.channel.events) == set(events), "delivered at least once"
    assert len(scene.channel.events) <= len(events) + 1, "a crash costs one repetition at most"
    assert len({message.key for message in scene.channel.sent}) == len(events), "decided once"
    assert last.record is not None
    assert last.record.transitions == 1
    assert last.pending == 0


@pytest.mark.parametrize(("story", "events"), [pytest.param(s, e, id=n) for n, (s, e) in STORIES.items()])
def test_killed_while_sending(story: Story, events: list[str]) -> None:
    scene = Scene()
    story(scene)

    class Dying(ListChannel):
        def send(self, message: object, receipt: object = None) -> None:
            for store in (scene.store, scene.state):
                store.die_at(0, before=True)

    channel, scene.channel = scene.channel, Dying()
    with pytest.raises(Killed):
        scene.look()
    for store in (scene.store, scene.state):
        store.heal()
    scene.channel = channel
    assert scene.look().pending == 1, "the claim of the dead still holds"
    assert channel.sent == []
    scene.after(scene.policy.lease_s + 1)
    scene.look()
    assert channel.events == events


@pytest.mark.parametrize(("story", "events", "call", "before"), POINTS)
def test_an_answer_lost_at_any_call(story: Story, events: list[str], call: int, before: bool) -> None:
    """Not killed: one call fails, whether or not the store did it, and the same watcher goes on."""
    scene = Scene()
    story(scene)
    left = call

    def fail_once(_operation: str, _key: str) -> None:
        nonlocal left
        left -= 1
        if left == -1:
            raise UnreachableError("connection reset")

    if before:
        scene.store.before = fail_once
    else:
        scene.store.after = fail_once
    scene.look()
    scene.store.heal()
    for _ in range(3):
        scene.look(restarted=False)
        scene.after(scene.policy.lease_s + 1)
    assert scene.channel.events == events, "no crash, so exactly once"
    record = scene.look().record
    assert record is not None
    assert record.transitions == 1


def test_a_write_whose_answer_got_lost_is_recognised_at_once() -> None:
    scene = Scene()
    scene.put("_error", "boom")
    lost = 0

    def lose_the_first(operation: str, _key: str) -> None:
        nonlocal lost
        if operation == "write" and not lost:
            lost += 1
            raise UnreachableError("connection reset")

    scene.store.after = lose_the_first
    assert scene.look().pending == 0
    assert scene.channel.events == ["FAILED"], "not only when the claim has run out"


@pytest.mark.parametrize("restarted", [True, False], ids=["--once", "loop"])
def test_a_claim_that_arrives_when_nobody_waits_for_it_any_more_delays_the_alert_and_no_more(restarted: bool) -> None:
    scene = Scene()
    scene.put("_error", "boom")
    at_once = scene.store.write
    late: list[Callable[[], str]] = []

    def hold_back(key: str, body: bytes, expect: Expect | str = Expect.ANYTHING) -> str:
        late.append(lambda: at_once(key, body, expect))
        raise UnreachableError("no answer")

    scene.store.write = hold_back  # type: ignore[method-assign]
    assert not scene.look().recorded
    scene.store.write = at_once  # type: ignore[method-assign]
    late[0]()
    for _ in range(3):
        scene.look(restarted=restarted)
    assert scene.channel.events == [], "whose claim it is, and whether they send, nobody knows"
    scene.after(scene.policy.lease_s + 1)
    for _ in range(3):
        scene.look(restarted=restarted)
    assert scene.channel.events == ["FAILED"]


def test_a_watcher_that_lost_the_race_says_nothing() -> None:
    scene = Scene()
    scene.put("_error", "boom")
    other = scene.fresh_watch()
    raced = False

    def race(operation: str, key: str) -> None:
        nonlocal raced
        if operation == "write" and key == f"{RUN}/_watchdog.json" and not raced:
            raced = True
            other.tick()

    scene.store.before = race
    outcome = scene.look()
    assert raced
    assert outcome.status.value == "FAILED"
    assert scene.channel.events == ["FAILED"]


def test_a_look_that_is_older_than_the_record_decides_nothing() -> None:
    """The other watcher saw the heartbeats return when this one had read them, but not the record yet."""
    scene = Scene()
    scene.both(1)
    scene.look()
    scene.after(700)
    scene.look()
    other, slow = scene.fresh_watch(), False

    def meanwhile(operation: str, key: str) -> None:
        nonlocal slow
        if operation == "read" and key.endswith("progress.json") and not slow:
            slow = True
            scene.both(2)
            other.tick()

    scene.store.after = meanwhile
    assert scene.look().status.value == "RUNNING"
    assert scene.channel.events == ["TIMED_OUT", "RECOVERED"]


def test_a_store_that_ignores_conditions_is_found_out_and_still_watched() -> None:
    scene = Scene(Policy())
    honest = scene.store.write
    scene.store.write = lambda key, body, expect=None: honest(key, body)  # type: ignore[method-assign]
    scene.both(1)
    assert any("ignores conditional writes" in note for note in scene.look().notes)
    scene.after(700)
    outcome = scene.look()
    assert any("ignores conditional writes" in note for note in outcome.notes)
    assert scene.channel.events == ["TIMED_OUT"]
