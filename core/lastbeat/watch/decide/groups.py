"""Groups runs that timed out together, and composes the notices about them. Pure.

As in Alertmanager, the first notice of a group goes out at once and later ones at least ``group_s`` after the last. A
group that is still timed out is repeated only if ``repeat_s`` is set.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from lastbeat.model.group import FACTS, DeferredAlert, Group, Ledger, Member, MemberState, Notice, SingleTimeout
from lastbeat.model.policy import FleetPolicy
from lastbeat.model.status import Event, Status

OPEN_LIMIT = 20
MEMBER_LIMIT = 20_000
_QUIET_S = 24 * 3600.0
_KEPT_S = 3600.0
"""Seconds that a closed group is kept: a pass may have died before it recorded which alerts the group covered."""
_ALONE_LIMIT = 1000
_TOLD_LIMIT = 10
_VALUES_LIMIT = 50
_SHARED_FROM = 0.8
"""A fact is shared from this share of the members on."""

Numbers = Mapping[str, tuple[int, ...]]
"""Run id → numbers of alerts in its record."""


@dataclass(frozen=True, slots=True)
class GroupDecision:
    """What to do with each deferred alert: send it on its own, cover it by a notice, or hold it for the next notice."""

    ledger: Ledger
    changed: bool
    """``ledger`` has to be written, with ``notices`` added to its outbox in their order."""
    notices: tuple[Notice, ...]
    release: Numbers
    told: Mapping[str, Mapping[int, tuple[int, ...]]]
    """Run id → number of the notice → alerts that it covers."""
    wait: Mapping[str, tuple[tuple[int, ...], datetime]]
    """Run id → alerts that the next notice covers, and until when they are deferred for it."""


def idle(ledger: Ledger) -> bool:
    """Whether there is nothing to decide until new alerts are deferred."""
    return all(group.closed_at is not None for group in ledger.groups)


def decide_groups(
    ledger: Ledger,
    deferred: Sequence[DeferredAlert],
    status_of: Callable[[str], Status | None],
    now: datetime,
    policy: FleetPolicy,
) -> GroupDecision:
    """Decide on every alert of ``deferred``, and on the notices that are due now.

    ``status_of`` gives the known status of a run, or None.

    1. Let each new time-out join a group that still grows, open a group, or go out on its own.
    2. Note members that ended, or came back without an alert.
    3. Drop what waited for a notice so long that it went out on its own.
    4. Compose the notices that are due.
    5. Close groups without timed-out runs, and those that no longer change.
    """
    before = _pruned(ledger, now, policy)
    draft = _Draft(before, status_of, now, policy)
    # A look that outlasted its pass may have found the same alerts as the next one.
    once = {(each.run_id, each.number): each for each in deferred}
    draft.take([once[key] for key in sorted(once)])
    draft.note_departures()
    draft.drop_expired({(each.run_id, each.number) for each in deferred})
    draft.tell()
    draft.close()
    after = replace(before, groups=tuple(draft.groups.values()), alone=tuple(draft.alone), opened=draft.opened)
    return GroupDecision(
        after,
        after != before,
        tuple(draft.notices),
        {run_id: tuple(sorted(numbers)) for run_id, numbers in draft.release.items()},
        {run_id: {by: tuple(sorted(set(them))) for by, them in told.items()} for run_id, told in draft.told.items()},
        draft.wait,
    )


def _pruned(ledger: Ledger, now: datetime, policy: FleetPolicy) -> Ledger:
    # A time in the future came from a wrong clock and must not defer anything until then.
    groups = [
        replace(g, grew_at=min(g.grew_at, now), told_at=min(g.told_at, now) if g.told_at is not None else None)
        for g in ledger.groups
    ]
    groups = [g for g in groups if g.closed_at is None or (now - g.closed_at).total_seconds() <= _KEPT_S]
    closed = [g.number for g in groups if g.closed_at is not None]
    groups = [g for g in groups if g.number not in closed[:-OPEN_LIMIT]]
    alone = [each for each in ledger.alone if (now - each.at).total_seconds() <= policy.group_s]
    return replace(ledger, groups=tuple(groups), alone=tuple(alone[-_ALONE_LIMIT:]))


class _Draft:
    """The ledger while it is being changed."""

    def __init__(
        self, ledger: Ledger, status_of: Callable[[str], Status | None], now: datetime, policy: FleetPolicy
    ) -> None:
        self.groups = {group.number: group for group in ledger.groups}
        self.alone = list(ledger.alone)
        self.opened = ledger.opened
        self.notices: list[Notice] = []
        self.release: dict[str, list[int]] = {}
        self.told: dict[str, dict[int, list[int]]] = {}
        self.wait: dict[str, tuple[tuple[int, ...], datetime]] = {}
        self._members = {group.number: dict(group.members) for group in ledger.groups}
        self._alerts = ledger.alerts
        self._status_of = status_of
        self._now = now
        self._policy = policy
        self._held_up: set[str] = set()

    def take(self, deferred: Sequence[DeferredAlert]) -> None:
        self._held_up = {each.run_id for each in deferred if each.holds_up}
        fresh = [each for each in deferred if not self._is_decided(each)]
        lost = [each for each in fresh if each.event is Event.TIMED_OUT]
        newcomers = {each.run_id: each for each in lost if self._home(each.run_id) is None}
        target = self._group_for(newcomers.keys())
        if target is not None:
            self._join(target, newcomers)
        for each in fresh:
            home = self._home(each.run_id)
            member = self._members[home].get(each.run_id) if home is not None else None
            is_back = each.event in {Event.RECOVERED, Event.STARTED}
            if home is None or member is None or (is_back and member.state is not MemberState.OUT):
                self._release(each)
            elif is_back:
                changed = replace(member, state=MemberState.BACK, back=(*member.back, each.number))
                self._members[home][each.run_id] = changed
            else:
                changed = replace(member, state=MemberState.OUT, waiting=(*member.waiting, each.number))
                self._members[home][each.run_id] = changed
                self.groups[home] = replace(self.groups[home], grew_at=self._now)

    def note_departures(self) -> None:
        """Mark members that are no longer timed out as left: those that ended have their own alert, the others need
        none."""
        for number in self._open():
            members = self._members[number]
            for run_id, member in members.items():
                if member.state is MemberState.OUT and self._has_left(run_id):
                    members[run_id] = replace(member, state=MemberState.LEFT)

    def drop_expired(self, deferred: set[tuple[str, int]]) -> None:
        """If no pass came in time for a notice, the alerts that waited for it became due and went out on their own."""
        for number in self._open():
            group, members = self.groups[number], self._members[number]
            if group.told_at is None or self._now < self._deferred_until(group):
                continue
            for run_id, member in members.items():
                if member.waiting or member.back:
                    waiting = tuple(each for each in member.waiting if (run_id, each) in deferred)
                    back = tuple(each for each in member.back if (run_id, each) in deferred)
                    members[run_id] = replace(member, waiting=waiting, back=back)

    def tell(self) -> None:
        for number in self._open():
            group = replace(self.groups[number], members=self._members[number])
            lost = tuple(run_id for run_id, member in group.members.items() if member.waiting)
            back = tuple(run_id for run_id, member in group.members.items() if member.back)
            since_s = None if group.told_at is None else (self._now - group.told_at).total_seconds()
            if since_s is not None and since_s < self._policy.group_s:
                self._keep_waiting(group, {*lost, *back})
                continue
            repeat_s = self._policy.repeat_s
            again = repeat_s is not None and since_s is not None and since_s >= repeat_s and bool(group.out)
            if lost or again:
                self._notice(group, Event.TIMED_OUT, lost or group.out, repeated=not lost)
            if back:
                self._notice(group, Event.RECOVERED, back)
            if lost or back or again:
                group = replace(group, told_at=self._now)
            self.groups[number] = group

    def close(self) -> None:
        for number in self._open():
            members = self._members[number]
            group = replace(self.groups[number], members=members)
            waiting = any(member.waiting or member.back for member in members.values())
            quiet_s = (self._now - group.grew_at).total_seconds()
            if not waiting and (not group.out or quiet_s > _QUIET_S):
                group = replace(group, closed_at=self._now)
            self.groups[number] = group

    def _is_decided(self, each: DeferredAlert) -> bool:
        """Whether an earlier pass that could not finish, or a concurrent sweep, has decided on the alert. That decision
        stands."""
        if any((row.run_id, row.number) == (each.run_id, each.number) for row in self.alone):
            self.release.setdefault(each.run_id, []).append(each.number)
            return True
        for number, members in self._members.items():
            member = members.get(each.run_id)
            if member is None:
                continue
            told_at = self.groups[number].told_at
            # A run that was deleted and recreated counts its alerts from 1 again, so this one is new.
            if each.number in member.told and told_at is not None and each.message.at <= told_at:
                self._tell_of(each.run_id, member.told[each.number], (each.number,))
                return True
            if each.number in member.waiting or each.number in member.back:
                return True
        return False

    def _open(self) -> list[int]:
        return [number for number, group in self.groups.items() if group.closed_at is None]

    def _home(self, run_id: str) -> int | None:
        return next((number for number in reversed(self._open()) if run_id in self._members[number]), None)

    def _group_for(self, newcomers: Iterable[str]) -> int | None:
        """The group for runs that time out now: one that still grows, a new one, or none."""
        runs = set(newcomers)
        if not runs:
            return None
        newest = max(self._open(), key=lambda number: self.groups[number].grew_at, default=None)
        if newest is not None:
            grows = (self._now - self.groups[newest].grew_at).total_seconds() <= self._policy.group_s
            if grows or len(self._open()) >= OPEN_LIMIT:
                return newest
        earlier = {each.run_id: each for each in self.alone if self._home(each.run_id) is None}
        if len(runs | earlier.keys()) < self._policy.group_runs:
            return None
        self.opened += 1
        self.groups[self.opened] = Group(self.opened, self._now, self._now)
        # One notice covers their return and that of the others.
        self._members[self.opened] = {
            each.run_id: Member(MemberState.BACK if each.back else MemberState.OUT)
            for each in earlier.values()
            if each.run_id not in runs
        }
        return self.opened

    def _join(self, number: int, newcomers: Mapping[str, DeferredAlert]) -> None:
        group, members = self.groups[number], self._members[number]
        room = max(0, MEMBER_LIMIT - len(members))
        joining = list(newcomers.values())[:room]
        members.update({each.run_id: Member() for each in joining})
        self.groups[number] = count_facts(group, [each.facts for each in joining])

    def _release(self, each: DeferredAlert) -> None:
        self.release.setdefault(each.run_id, []).append(each.number)
        if each.event is Event.TIMED_OUT:
            self.alone.append(SingleTimeout(each.run_id, each.number, self._now))
        else:
            self.alone = [replace(row, back=True) if row.run_id == each.run_id else row for row in self.alone]

    def _has_left(self, run_id: str) -> bool:
        status = self._status_of(run_id)
        return status is not None and status not in {Status.TIMED_OUT, Status.UNKNOWN}

    def _keep_waiting(self, group: Group, runs: Iterable[str]) -> None:
        until = self._deferred_until(group)
        for run_id in runs:
            member = group.members[run_id]
            numbers = (*member.waiting, *member.back)
            if run_id in self._held_up:
                # Its newer alert must not wait for the notice.
                self.release.setdefault(run_id, []).extend(numbers)
                self._members[group.number][run_id] = replace(member, waiting=(), back=())
            else:
                self.wait[run_id] = (numbers, until)

    def _deferred_until(self, group: Group) -> datetime:
        """Three passes after the next notice is due: by then one of them has sent it, or no pass runs any more."""
        seconds = self._policy.group_s + 3 * self._policy.interval_s
        return (group.told_at or self._now) + timedelta(seconds=seconds)

    def _notice(self, group: Group, event: Event, runs: tuple[str, ...], *, repeated: bool = False) -> None:
        self._alerts += 1
        lost = event is Event.TIMED_OUT
        known = set(runs) | set(group.out)
        self.notices.append(
            Notice(
                number=self._alerts,
                event=event,
                runs=runs,
                out=group.out,
                size=len(group.members),
                opened_at=group.opened_at,
                first=group.told_at is None,
                repeated=repeated,
                earlier=len(known) - len(runs) if lost and group.told_at is None else 0,
                shared=shared_facts(group) if lost else {},
                group=group.number,
            )
        )
        members = self._members[group.number]
        for run_id in () if repeated else runs:
            member = members[run_id]
            numbers = member.waiting if lost else member.back
            self._tell_of(run_id, self._alerts, numbers)
            latest = {**member.told, **dict.fromkeys(numbers, self._alerts)}
            kept = dict(sorted(latest.items())[-_TOLD_LIMIT:])
            told = replace(member, told=kept)
            members[run_id] = replace(told, waiting=()) if lost else replace(told, back=())

    def _tell_of(self, run_id: str, notice: int, numbers: Iterable[int]) -> None:
        self.told.setdefault(run_id, {}).setdefault(notice, []).extend(numbers)


def count_facts(group: Group, joining: Sequence[Mapping[str, str]]) -> Group:
    """``group`` with the facts of the runs that join it counted. Counts of rare values may be lost."""
    facts, having = dict(group.facts), dict(group.having)
    for name in FACTS:
        values = Counter(each[name] for each in joining if each.get(name))
        having[name] = having.get(name, 0) + values.total()
        values.update(facts.get(name, {}))
        facts[name] = dict(values.most_common(_VALUES_LIMIT))
    return replace(group, facts=facts, having=having)


def shared_facts(group: Group) -> dict[str, str]:
    """Facts that at least four in five members share, of those whose value is known: fact → value and count."""
    found = {}
    for name in FACTS:
        total = group.having.get(name, 0)
        value, count = max(group.facts.get(name, {}).items(), key=lambda item: item[1], default=("", 0))
        if total >= 2 and count >= _SHARED_FROM * total:
            how_many = f"all {count}" if count == total else f"{count} of {total}"
            known = "" if total >= len(group.members) else " where it is known"
            found[name] = f"{value} ({how_many}{known})"
    return found
