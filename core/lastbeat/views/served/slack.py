"""``/lastbeat`` and the buttons of alerts in Slack: they show the fleet and runs, and act on runs.

Only Slack's signed requests count, and of those only the ones from the channel that gets the alerts: who is a member of
it may act. Each acts at most once, and is answered within Slack's three seconds.
"""

import json
import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final

from lastbeat.alerts import web
from lastbeat.alerts.port import DeliveryError
from lastbeat.alerts.slack_blocks import escape
from lastbeat.alerts.slack_bot import SLACK_BOT_TOKEN, SLACK_CHANNEL
from lastbeat.alerts.slack_requests import NotSlackError, SlackCommand, SlackPress, verified
from lastbeat.alerts.weburl import LIMITS
from lastbeat.model.runid import check_run_id
from lastbeat.model.silence import LEAST_S, MOST_S, check_glob, check_why
from lastbeat.model.text import counted
from lastbeat.model.times import format_duration, parse_span
from lastbeat.model.view import FleetView
from lastbeat.settings import Settings, own_log
from lastbeat.stores.limited import ClosingStore
from lastbeat.stores.port import Store, StoreError, UnreachableError
from lastbeat.stores.timed_calls import call_with_timeout
from lastbeat.views.acting.acknowledging import acknowledge_runs
from lastbeat.views.acting.planned import ACTS
from lastbeat.views.acting.silencing import SilenceWish, make_silence
from lastbeat.views.acting.stopping import Lives, OutdatedError, none_lives
from lastbeat.views.lines.run import show_lines
from lastbeat.views.one_run import run_watch
from lastbeat.views.order import NEEDS_PEOPLE, need
from lastbeat.views.served.answer import Response, json_body, masked, refusal
from lastbeat.watch.record.repository import RecordRepository
from lastbeat.watch.record.slack_claims import claim

log = logging.getLogger(__name__)

LIMIT_S: Final = 2.5
"""Longest time for an answer, in seconds: Slack waits for three."""
_ROWS: Final = 15
_LINES: Final = 30
_CHARS: Final = 2800
"""Longest text of an answer, as Slack counts it."""
_TICK: Final = "\u02cb"
USAGE: Final = "/lastbeat fleet | show RUN | ack RUN [NOTE] | silence RUN-OR-GLOB [4h] [WHY]"
_SILENCE_S: Final = 4 * 3600.0
_LATE: Final = "The store takes long to answer. It may have been done all the same: look again in a moment."


class SlackConsole:
    """Answers Slack's requests for one fleet."""

    def __init__(  # noqa: PLR0913 - what it answers from, each by its name
        self,
        settings: Settings,
        store: Store,
        fleet: Callable[[float], FleetView],
        *,
        lives: Lives = none_lives,
        clock: Callable[[], float] = time.time,
        left_s: Callable[[], float] = lambda: LIMIT_S,
        post: Callable[[str, Mapping[str, object]], None] | None = None,
    ) -> None:
        """``fleet`` returns the fleet as it is read by a time of ``time.monotonic()``. ``clock`` is this machine's
        time, ``left_s`` the time in s for the answer to a request that is taken up now. ``post`` sends what updates a
        message."""
        self._post = post or _post
        app, channel = settings[SLACK_BOT_TOKEN], settings[SLACK_CHANNEL]
        self._secret = app.signing_secret if app is not None else ""
        self._channel = channel or ""
        self._settings = settings
        self._store = store
        self._lives = lives
        self._clock = clock
        self._left_s = left_s
        self._fleet = fleet

    def answer(self, body: bytes, timestamp: str, signature: str) -> Response:
        """The answer to a request with these headers: 200 for all that Slack has signed."""
        if not (self._secret and self._channel):
            why = "SLACK_BOT_TOKEN has no signing secret, or SLACK_CHANNEL is not set."
            return refusal("404 Not Found", "Slack is not answered here.", why, data=True)
        try:
            asked = verified(self._secret, timestamp, signature, body, self._clock())
        except NotSlackError as fault:
            return refusal("401 Unauthorized", f"This is no request of Slack's: {fault}.", data=True)
        left_s = self._left_s()
        # What was answered as late must not act later on, when a process that was frozen goes on.
        store = ClosingStore(self._store, time.monotonic() + left_s)
        if isinstance(asked, SlackPress):
            call_with_timeout(lambda: self._pressed(asked, store), left_s, None)
            return Response("200 OK", json_body({}))
        return call_with_timeout(lambda: self._answered(asked, store), left_s, _reply(_LATE))

    def _answered(self, asked: SlackCommand, store: ClosingStore) -> Response:
        if self._channel not in asked.channels:
            return _reply(f"Type it in the channel that gets the alerts ({self._channel}): its members may act.")
        verb, *words = asked.words or ("",)
        try:
            match verb, words:
                case "fleet", []:
                    return _reply(self._fleet_lines(store.until))
                case "show", [run_id]:
                    return _reply(self._run_lines(store, check_run_id(run_id)))
                case (("ack" | "silence"), [about, *rest]):
                    if not claim(store, asked.key, store.clock()):
                        return _reply("This was done already.")
                    done = self._acknowledge if verb == "ack" else _silence
                    return _reply(done(store, about, rest, asked.by), shared=True)
            return _reply(f"Use {USAGE}")
        except StoreError as fault:
            return _reply(_undone(fault))
        except ValueError as fault:
            return _reply(f"Not done: {fault}. Use {USAGE}")
        except Exception:
            log.exception("a command from Slack could not be answered")
            return _reply("Not known to be done: this is a defect of lastbeat.")

    def _pressed(self, press: SlackPress, store: Store) -> None:
        """Do what a button is for, and update its message; of what was not done tell its user alone."""
        document: dict[str, object] | None = None
        try:
            document = self._after(press, store)
        except StoreError as fault:
            document = _text(_undone(fault))
        except ValueError as fault:
            document = _text(f"Not done: {fault}.")
        except Exception:
            log.exception("a button in Slack could not be answered")
            document = _text("Not known to be done: this is a defect of lastbeat.")
        try:
            self._post(press.answer_to, {"replace_original": False, **document})
        except DeliveryError as fault:
            log.warning("a message in Slack could not be updated: %s", fault)

    def _after(self, press: SlackPress, store: Store) -> dict[str, object]:
        verb, run_id, attempt, status = (*press.words, "", "", "", "")[:4]
        if self._channel not in press.channels:
            return _text(f"Only the buttons in {self._channel} are answered.")
        if verb == "show":
            return _text(self._run_lines(store, check_run_id(run_id)))
        if not claim(store, press.key, store.clock()):
            return _text("This was done already.")
        record = RecordRepository.of_run(store, check_run_id(run_id)).reload()
        if record is None or (str(record.attempt.number), record.status) != (attempt, status):
            raise _outdated(run_id)
        match verb:
            case "ack":
                said = self._acknowledge(store, run_id, [], press.by)
            case "silence":
                said = _silence(store, run_id, [], press.by, extends=False)
            case "stop" | "restart":
                act = ACTS[verb](self._settings, store, run_id, self._lives)
                # Training may have begun another attempt that no pass has recorded yet.
                if act.attempt is not None and str(act.attempt) != attempt:
                    raise _outdated(run_id)
                said = " ".join((*act.confirmed(act.seen, press.by, "in Slack"), f"By {press.by}."))
            case _:
                raise OutdatedError(f"this lastbeat knows no button {verb[:40]!r}", "upgrade it")
        return press.updated(masked(said))

    def _fleet_lines(self, until: float) -> str:
        # Half of the time: what was read by then is shown.
        view = self._fleet((time.monotonic() + until) / 2)
        if view.fault is not None or view.at is None:
            return "The store cannot be read now."
        at = view.at
        needy = [row for row in view.rows if need(row, at) <= NEEDS_PEOPLE]
        lines = [f"{counted(len(view.rows), 'run')}, {len(needy)} need attention"]
        lines += [f"{row.shown}  {row.run_id}  {row.cause or row.reason}" for row in (needy or view.rows)[:_ROWS]]
        return "\n".join(lines)

    def _run_lines(self, store: Store, run_id: str) -> str:
        view = run_watch(self._settings, run_id, at=store).look(log_lines=5)
        if view is None:
            return f"There is no run {run_id}."
        return "\n".join("".join(text for text, _ in each) for each in show_lines(view, 80, own_log.masked)[:_LINES])

    def _acknowledge(self, store: Store, run_id: str, words: list[str], by: str) -> str:
        note = check_why(" ".join(words))
        acknowledge_runs(self._settings, store, (check_run_id(run_id),), note, by)
        return f"{run_id} is acknowledged by {by}{f': {note}' if note else ''}."


def _silence(store: Store, runs: str, words: list[str], by: str, *, extends: bool = True) -> str:
    length_s = parse_span(words[0], None) if words else _SILENCE_S
    if length_s is None or not LEAST_S <= length_s <= MOST_S:
        raise ValueError("its time is no time from 1m to 30d")
    wish = SilenceWish(check_glob(runs), timedelta(seconds=length_s), check_why(" ".join(words[1:])))
    made = make_silence(store, wish, by, store.clock(), extends=extends)
    return " ".join((f"{runs} is silenced for {format_duration(length_s)} by {by}.", *made.notes))


def _undone(fault: StoreError) -> str:
    """Says that something is not done, or not known to be done, and why."""
    done = "Not known to be done: look again in a moment." if isinstance(fault, UnreachableError) else "Not done."
    return f"{done} {fault}{f': {fault.advice}' if fault.advice else ''}"


def _outdated(run_id: str) -> OutdatedError:
    return OutdatedError(f"{run_id} has changed since this message", "look at it again: its thread tells more")


def _reply(text: str, *, shared: bool = False) -> Response:
    return Response("200 OK", json_body(_text(text, shared=shared)))


def _text(text: str, *, shared: bool = False) -> dict[str, object]:
    """An answer in a code block, where Slack formats nothing; ``shared``: for everybody in the channel."""
    lines = "\n".join(masked(line) if line.strip() else "" for line in text.replace("`", _TICK).split("\n"))
    return {"response_type": "in_channel" if shared else "ephemeral", "text": f"```\n{escape(lines, _CHARS)}\n```"}


def _post(url: str, document: Mapping[str, object]) -> None:
    """Send an answer to where Slack wants it. Raises :class:`DeliveryError`."""
    headers = {"Content-Type": "application/json; charset=utf-8"}
    web.posting.deliver(url, json.dumps(document).encode(), headers, to="Slack", limits=LIMITS, setting="", advice={})
