"""Scripted lives under one watch after another, most of which are killed: what was told of them, and what was not."""

import json
import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lastbeat.model.fleet import PassReport
from lastbeat.model.policy import Policy
from lastbeat.model.status import Event
from lastbeat.stores.retrying import RetryingStore
from support.lives import Life, Told
from support.lives import faults as faults_of
from support.trouble import Trouble, TroubledChannel, name, out_of_order, throttled
from support.world import ScriptedWorld

PASS_S = 60.0
FIRST_CALLS = 400
"""Of a pass over a fleet that is new to it, about; later ones are as long as those before them."""

_TO_MAKE_UP = 20
"""Passes at the end for the deaths that did not come about."""
_MOST_IN_A_ROW = 5
"""Ten minutes without a pass that lives to its end, and it would be right to say that the watchdog is blind."""
_QUIET_S = 40 * 60.0
"""Longer than any back-off, and than heartbeats that only move on go unread."""
_MOST_QUIET_PASSES = 120

Sent = tuple[str, str]
"""(channel, name of an alert)"""


@dataclass(frozen=True)
class Plan:
    """What goes wrong, and when. Times are in passes."""

    seed: int
    kills: int = 100
    passes: int = 240
    restarted: bool = False
    """Each pass is a process of its own, as a Lambda or a cron job is."""
    sns_down: tuple[tuple[int, int], ...] = ((45, 55), (110, 120), (170, 180))
    """From this pass on, until that one."""
    storm_each: int = 20
    """As often Slack begins to answer 429 …"""
    storm: int = 6
    """… and as many passes long."""


class WatchedWorld(ScriptedWorld):
    """Plays ``lives`` while passes look at them."""

    def __init__(self, lives: Sequence[Life], plan: Plan) -> None:
        # Four passes in ten are killed and one look in eight is refused: that for ten minutes on end no pass both saw
        # a certain run and lived to say so does happen, and is no false alarm about the run.
        super().__init__(Policy(alert_on=frozenset(Event), blind_s=3600.0))
        self.lives, self.plan, self.chance = lives, plan, random.Random(plan.seed)
        self.trouble = Trouble(plan.seed, self.go_on)
        self.trouble.around(self.store, fails=True)
        self.trouble.around(self.state, fails=False)
        self.slack = TroubledChannel("slack:1", self.trouble)
        self.sns = TroubledChannel("sns:1", self.trouble)
        self.channels = [self.slack, self.sns]
        self.kills = self.passes = 0
        self.unsettled_deaths: Counter[Sent] = Counter()
        """How often a process was killed after it sent this and before that was written down."""
        self.unsettled_members: Counter[tuple[str, str, str]] = Counter()
        """(channel, run, event) → how often a process was killed after a group's alert told of the run, and before that
        was written down in the run's own record: then the run may be told of by itself as well."""
        for life in lives:
            for when_s, do in life.deeds:
                self.at(when_s, partial(do, self.run(life.run_id, skew_s=life.skew_s)))
        self._usual_calls = FIRST_CALLS
        self._deaths = self.chance.sample(range(plan.passes - _TO_MAKE_UP), plan.kills)
        self._in_a_row = 0
        self._reborn = False
        self._settled: set[Sent] = set()
        self._read: dict[tuple[object, str], str] = {}
        """Of which documents it is known what they say, and of which version of each."""
        self._quiet_s = plan.passes * PASS_S + _QUIET_S
        self.through = RetryingStore(self.store, sleep=lambda _seconds: None)

    def go_on(self, seconds: float) -> None:
        """Time passes, and trainings do what they do in it."""
        self.play(self.now_s + seconds)

    def whole_story(self) -> PassReport:
        """The whole story, and then passes without any trouble until nothing is left to tell. The last one's report."""
        self.play(min(when_s for life in self.lives for when_s, _ in life.deeds))
        self.play(0.0)
        for number in range(self.plan.passes):
            self.slack.down = throttled() if number % self.plan.storm_each < self.plan.storm else None
            self.sns.down = out_of_order() if any(a <= number < b for a, b in self.plan.sns_down) else None
            self.one_pass(kill=self._is_killed(number))
            self.play(max(self.now_s, (number + 1) * PASS_S))
        if self._due:
            raise AssertionError("the watch ended before the lives did")
        return self._quiet_end()

    def _is_killed(self, number: int) -> bool:
        """At random over the whole story; a death that did not come about is made up for."""
        due = sum(planned <= number for planned in self._deaths)
        return self.kills < due and self._in_a_row < _MOST_IN_A_ROW

    def one_pass(self, *, kill: bool = False) -> PassReport | None:
        """None: it was killed."""
        after = self.chance.random() < 0.5
        # Every third death is aimed at the narrow place, a sending; the others fall anywhere in a pass of usual length.
        at_send = self.chance.randrange(2) if self.chance.random() < 0.33 else None
        at_call = self.chance.randrange(self._usual_calls) if at_send is None else None
        if kill:
            self.trouble.next_pass(die_at_call=at_call, die_at_send=at_send, after=after)
        else:
            self.trouble.next_pass()
        self.passes += 1
        report = self.sweep(restarted=self.plan.restarted or self._reborn)
        self._reborn = self.trouble.dead
        self._in_a_row = self._in_a_row + 1 if self.trouble.dead else 0
        if self.trouble.dead:
            self.kills += 1
            self.unsettled_deaths.update(self._unsettled())
            self.unsettled_members.update(self._unsettled_members())
            return None
        self._usual_calls = max(4, self.trouble.calls)
        return report

    def _quiet_end(self) -> PassReport:
        self.trouble.heal()
        self.slack.down = self.sns.down = None
        for _ in range(_MOST_QUIET_PASSES):
            report = self.one_pass()
            if report is not None and report.pending == 0 and report.complete and self.now_s > self._quiet_s:
                return report
            self.play(self.now_s + PASS_S)
        raise AssertionError(
            f"after {_MOST_QUIET_PASSES} passes without trouble there still is something to tell: {report}"
        )

    def _unsettled(self) -> Iterator[Sent]:
        """What has been sent and is not written down as sent."""
        for store in (self.store, self.state):
            for key, held in tuple(store.held.items()):
                if "_watchdog" in key and self._read.get((store, key)) != held.version:
                    self._settled.update(_settled_in(held.body))
                    self._read[store, key] = held.version
        for channel in (self.slack, self.sns):
            yield from (
                (channel.identity, key) for key in channel.sendings if (channel.identity, key) not in self._settled
            )

    def _unsettled_members(self) -> Iterator[tuple[str, str, str]]:
        for channel in (self.slack, self.sns):
            for message in {message.key: message for message in channel.sent if message.members}.values():
                for run_id in message.members:
                    record = self.run(run_id).record
                    alerts = [alert for alert in record.outbox if alert.event is message.event] if record else []
                    if any(
                        channel.identity not in a.deliveries or not a.deliveries[channel.identity].settled
                        for a in alerts
                    ):
                        yield channel.identity, run_id, message.event.value

    def figures(self) -> str:
        """What happened, in numbers."""
        counts = self.trouble.counts
        twice = sum(times - 1 for channel in (self.slack, self.sns) for times in channel.sendings.values())
        grouped = sum(len(message.members) for message in {m.key: m for m in self.slack.sent if m.members}.values())
        return (
            f"seed {self.plan.seed}: {len(self.lives)} runs, {self.passes} passes, {self.kills} killed; "
            f"{counts['requests']:,} requests, {counts['refused']:,} refused, {counts['lost']:,} answers lost; "
            f"{sum(life.told.total() for life in self.lives)} transitions to be told on 2 channels, "
            f"{grouped} of them by groups; {counts['not sent']:,} sendings in vain, {counts['sent']:,} that arrived, "
            f"{twice} of them again after a death"
        )

    def faults(self) -> list[str]:
        """What is wrong with what people were told; empty if all is well."""
        found = []
        for channel in (self.slack, self.sns):
            told = told_by(channel)
            known = {life.run_id for life in self.lives}
            for life in self.lives:
                both = Counter(event for at, run_id, event in self.unsettled_members.elements()
                               if (at, run_id) == (channel.identity, life.run_id))  # fmt: skip
                found += [f"{channel.identity}: {fault}" for fault in faults_of(life, told[life.run_id], both)]
            found += [
                f"{channel.identity}: told of {run_id}, which is no run" for run_id in told if run_id not in known
            ]
            for key, times in channel.sendings.items():
                if times - 1 > self.unsettled_deaths[channel.identity, key]:
                    found.append(f"{channel.identity}: {key} told {times} times without a death in between")
        return found


def told_by(channel: TroubledChannel) -> defaultdict[str, Told]:
    """Run id → what was told of it, each alert counted once. A group's alert tells of all of its members, and names
    no attempt (0)."""
    told: defaultdict[str, Told] = defaultdict(Counter)
    alerts = {(message.key, message.event, message.run_id, message.attempt): message for message in channel.sent}
    for message in alerts.values():
        for run_id in message.members:
            told[run_id][message.event.value, 0] += 1
        if not message.members:
            told[message.run_id][message.event.value, message.attempt] += 1
    return told


def _settled_in(body: bytes) -> Iterator[Sent]:
    """Whatever in a document has an alert's message and what became of it."""
    try:
        waiting = [json.loads(body)]
    except ValueError:
        return
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            message, deliveries = value.get("message"), value.get("deliveries")
            if isinstance(message, dict) and isinstance(deliveries, dict):
                for identity, delivery in deliveries.items():
                    if delivery.get("sent_at"):
                        yield identity, name(str(message.get("key")), str(value.get("event")))
