"""Actions change the world, at most once each. All functions here are pure.

    one executor                                  another, or the same one after its death
    ────────────                                  ────────────────────────────────────────
    write: decision + action                      (its own write of the same record fails: it reads again,
    write: claim                                   finds the action claimed, and leaves it alone)
    ask the world: has it happened?
    do it, under its name ──────────► world       when the claim has run out:
    write: done                                   write: claim; ask the world: it has happened; write: done

Nothing is done without a claim, and nothing begins that could outlast its claim. A claim is over before its time only
where its holder is known to be dead and to have nothing on its way. A later claim begins by asking the world, so the
action happens at most once wherever an executor dies. One case is left, which only the world could guard against: a
process that is suspended between its check of the clock and the action for longer than its claim lasts.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from lastbeat.model.action import Action
from lastbeat.model.data import dataclass
from lastbeat.model.record import Record
from lastbeat.model.times import backoff_s


class ExecutorError(Exception):
    """It is unknown whether the action happened, because there was no clear answer. ``str()`` is one line without
    secrets. The claim stands until it expires; then the world is asked by the action's name."""


class NotDoneError(ExecutorError):
    """The action certainly did not happen, and may be tried again, after ``retry_after_s`` at the earliest. ``begun``
    says that a part of it has happened, so that it must not be taken back."""

    def __init__(self, what: str, *, retry_after_s: float | None = None, begun: bool = False) -> None:
        super().__init__(what)
        self.retry_after_s = retry_after_s
        self.begun = begun


class RefusedError(ExecutorError):
    """The action certainly did not happen, and never will."""


class Executor(Protocol):
    """Carries out one kind of action."""

    @property
    def kind(self) -> str:
        """The kind of action it carries out, see :attr:`Action.kind`."""
        ...

    @property
    def limit_s(self) -> float:
        """Longest duration of one call in s. No call begins with less time left on the claim."""
        ...

    def find(self, action: Action) -> str | None:
        """The world's name for the action if it has happened, else None. Called before each :meth:`perform`.
        Raises :class:`ExecutorError` if that cannot be determined."""
        ...

    def perform(self, action: Action) -> str:
        """Perform it under its name. Returns the world's name for it. Raises :class:`ExecutorError`."""
        ...


KEPT: Final = 20
"""Number of settled actions of a kind that are kept. An unsettled action is kept regardless of its age."""
MOST_OPEN: Final = 20
"""Most unsettled actions of a kind. Further requests are refused, because a policy that requests endlessly is wrong."""
_BACKOFF_S: Final = 5.0
_BACKOFF_CAP_S: Final = 600.0
_RETRY_AFTER_CAP_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Performed:
    """The action has happened. ``result`` is the world's name for it."""

    result: str


ActionResult = Performed | ExecutorError
"""The result of a claimed action."""


def request(record: Record, action: Action) -> Record:
    """Record that ``action`` is wanted. The same name means the same action: it is recorded once."""
    if any(each.name == action.name for each in record.actions):
        return record
    still_open = [each for each in record.actions if each.kind == action.kind and not each.settled]
    if len(still_open) >= MOST_OPEN:
        action = replace(action, failed=f"refused: {len(still_open)} others have not been carried out yet")
    return replace(record, actions=_bounded((*record.actions, action)))


def due(action: Action, kinds: Collection[str], now: datetime) -> bool:
    """Whether a watcher with executors of ``kinds`` may claim it now."""
    waits_until = (action.claimed_until, action.not_before)
    return action.kind in kinds and not action.settled and all(at is None or at <= now for at in waits_until)


def claim(
    record: Record, kinds: Collection[str], token: str, now: datetime, lease_s: float
) -> tuple[Record, tuple[Action, ...]]:
    """Claim all due actions for the holder of ``token``. Returns the record, and the claimed actions as in it."""
    claimed: list[Action] = []

    def one(action: Action) -> Action:
        if not due(action, kinds, now):
            return action
        until = now + timedelta(seconds=lease_s)
        mine = replace(
            action,
            claimed_by=token,
            claimed_until=until,
            claims=action.claims + 1,
            in_doubt=action.in_doubt or action.claimed_by is not None,
        )
        claimed.append(mine)
        return mine

    actions = tuple(map(one, record.actions))
    return (replace(record, actions=actions), tuple(claimed)) if claimed else (record, ())


def freed(record: Record, token: str) -> Record:
    """``record`` without the claims of the holder of ``token``, which is certainly dead, with no request under way. The
    actions that it began stay in doubt: the next holder of a claim asks the world first."""
    actions = tuple(
        replace(each, claimed_until=None) if each.claimed_by == token and not each.settled else each
        for each in record.actions
    )
    return record if actions == record.actions else replace(record, actions=actions)


def settle(record: Record, answers: Mapping[str, ActionResult], token: str, now: datetime) -> Record:
    """Record the results of the actions that the holder of ``token`` had claimed: action's name → result."""

    def one(action: Action) -> Action:
        answer = answers.get(action.name)
        if answer is None or action.settled:
            return action
        if isinstance(answer, Performed):
            # True even if another watcher has the claim now.
            return _ended(action, done_at=now, result=answer.result)
        if action.claimed_by != token:
            # Another watcher has claimed it since, and has newer knowledge.
            return action
        if isinstance(answer, RefusedError):
            return _ended(action, failed=str(answer))
        if isinstance(answer, NotDoneError):
            return replace(
                action,
                claimed_by=None,
                claimed_until=None,
                last_error=str(answer),
                in_doubt=False,
                begun=action.begun or answer.begun,
                not_before=now + timedelta(seconds=_wait_s(action, answer)),
            )
        return replace(action, last_error=str(answer))

    actions = _bounded(tuple(map(one, record.actions)))
    return record if actions == record.actions else replace(record, actions=actions)


def wake_at(record: Record, kinds: Collection[str], now: datetime) -> datetime | None:
    """The next time at which a watcher with executors of ``kinds`` can act; None if not before a change."""
    times = [
        max([now, *(at for at in (action.claimed_until, action.not_before) if at is not None)])
        for action in record.actions
        if action.kind in kinds and not action.settled
    ]
    return min(times, default=None)


def _ended(
    action: Action, *, done_at: datetime | None = None, result: str | None = None, failed: str | None = None
) -> Action:
    return replace(
        action,
        claimed_by=None,
        claimed_until=None,
        not_before=None,
        last_error=None,
        in_doubt=False,
        done_at=done_at,
        result=result,
        failed=failed,
    )


def _wait_s(action: Action, answer: NotDoneError) -> float:
    if answer.retry_after_s is not None:
        return min(max(answer.retry_after_s, 0.0), _RETRY_AFTER_CAP_S)
    return backoff_s(max(action.claims, 1), _BACKOFF_S, _BACKOFF_CAP_S)


def _bounded(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    over: list[Action] = []
    for kind in {action.kind for action in actions}:
        over += [action for action in actions if action.kind == kind and action.settled][:-KEPT]
    return tuple(action for action in actions if action not in over) if over else actions
