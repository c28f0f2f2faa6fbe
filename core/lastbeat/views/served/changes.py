"""Changes that the page asks for, of runs and of the team's views: checks each request, carries it out and answers with
the result."""

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final, Literal

from lastbeat.jobs.restart_requests import NotRestartedError
from lastbeat.model.json_values import json_object
from lastbeat.model.named_view import PARTS, NamedView
from lastbeat.model.record import Acknowledgement
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.model.silence import (
    LEAST_S,
    MOST_S,
    InvalidSilenceError,
    Silence,
    check_glob,
    check_why,
)
from lastbeat.model.text import fit, one_line
from lastbeat.settings import Settings
from lastbeat.settings.own_log import redact
from lastbeat.stores.limited import ClosingStore
from lastbeat.stores.port import Store, StoreError, UnreachableError
from lastbeat.stores.timed_calls import call_with_timeout
from lastbeat.views.acting.planned import ACTS
from lastbeat.views.acting.silencing import NoSuchSilenceError, SilenceWish, lift_silence, make_silence
from lastbeat.views.acting.stopping import Lives, OutdatedError, none_lives
from lastbeat.views.documents import plain
from lastbeat.views.fleet_index import shown_silence
from lastbeat.views.named_views import InvalidViewError, save_view
from lastbeat.views.served.answer import Response, json_body, masked, refusal
from lastbeat.watch.record.acknowledging import NotAcknowledgedError, acknowledge, withdraw

log = logging.getLogger(__name__)

NAME_LIMIT: Final = 50
"""Longest name that a user may enter, in characters."""
WAIT_S: Final = 20.0
"""Longest time, in seconds, that a request waits for the store. Then the answer says that the outcome is unknown."""
_AT_ONCE: Final = 4
"""Most changes under way at the same time, including those that hang."""


class InvalidChangeError(ValueError):
    """The request is not a valid change; the message says why."""


@dataclass(frozen=True, slots=True)
class NewSilence:
    """Silence these runs."""

    wish: SilenceWish
    name: str
    """Name that the user entered, unchecked; may be empty."""


@dataclass(frozen=True, slots=True)
class LiftedSilence:
    """End the silence with this id."""

    id: str


@dataclass(frozen=True, slots=True)
class NewAcknowledgement:
    """Acknowledge a run, as of its last transition and the conditions that the user saw."""

    run_id: str
    transition: int
    conditions: tuple[str, ...]
    note: str
    name: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Withdraw the acknowledgement of a run."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Act:
    """End a run or restart its job; or only say what that would do."""

    what: Literal["stop", "restart"]
    run_id: str
    seen: str | None
    """What the user confirmed: the attempt or job that it was about. None: they ask what would happen."""
    why: str = ""
    name: str = ""


Change = NewSilence | LiftedSilence | NewAcknowledgement | Withdrawal | Act | NamedView


def read_change(body: bytes) -> Change:
    """The change in ``{"runs", "for_s", "why", "by"}``, ``{"lift"}``, ``{"withdraw"}``, ``{"acknowledge", "transition",
    "conditions", "note", "by"}``, ``{"stop" or "restart", "seen", "why", "by"}`` or ``{"view"}`` with the parts of a
    view. Raises :class:`InvalidChangeError`."""
    asked = json_object(body)
    if asked is None:
        raise InvalidChangeError("the request is no JSON object")
    if set(asked) == {"lift"}:
        which = asked["lift"]
        if not isinstance(which, str) or not 0 < len(which) <= 200:
            raise InvalidChangeError("which silence is to be lifted has to be said by its id")
        return LiftedSilence(which)
    if set(asked) == {"withdraw"}:
        return Withdrawal(_run(asked["withdraw"]))
    if "view" in asked:
        return _view(asked)
    act = next((each for each in ACTS if each in asked), None)
    if act is not None:
        return _act(act, asked)
    if "acknowledge" in asked:
        if not set(asked) <= {"acknowledge", "transition", "conditions", "note", "by"}:
            what = "an acknowledgement has a run, transition, conditions, note and by, and nothing else"
            raise InvalidChangeError(what)
        transition = asked.get("transition")
        if not isinstance(transition, int) or isinstance(transition, bool) or not 0 <= transition <= 10**9:
            raise InvalidChangeError("which transition was seen has to be said by its number")
        conditions = asked.get("conditions", [])
        if not isinstance(conditions, list) or not all(isinstance(each, str) for each in conditions):
            raise InvalidChangeError("which conditions were seen has to be said by their names")
        note, name = _said(asked.get("note", ""), asked.get("by", ""))
        return NewAcknowledgement(_run(asked["acknowledge"]), transition, tuple(conditions), note, name)
    if not {"runs", "for_s"} <= set(asked) <= {"runs", "for_s", "why", "by"}:
        raise InvalidChangeError("a silence has runs and for_s, perhaps why and by, and nothing else")
    return _wished(asked["runs"], asked["for_s"], asked.get("why", ""), asked.get("by", ""))


def _act(act: Literal["stop", "restart"], asked: Mapping[str, object]) -> Act:
    if not set(asked) <= {act, "seen", "why", "by"}:
        raise InvalidChangeError(f"{act} has a run, seen, why and by, and nothing else")
    seen = asked.get("seen")
    if not (seen is None or (isinstance(seen, str) and len(seen) <= 300)):
        raise InvalidChangeError("what was seen has to be said as it was shown")
    return Act(act, _run(asked[act]), seen, *_said(asked.get("why", ""), asked.get("by", "")))


def _view(asked: Mapping[str, object]) -> NamedView:
    texts: dict[str, Any] = {
        part: each for part, each in asked.items() if part in {"view", *PARTS} and isinstance(each, str)
    }
    if set(asked) != set(texts):
        raise InvalidChangeError(f"a view has a name, perhaps {', '.join(PARTS)}, all of them texts, and nothing else")
    return NamedView(texts.pop("view"), **texts)


def _run(run_id: object) -> str:
    try:
        return check_run_id(run_id if isinstance(run_id, str) else "")
    except InvalidRunIdError as fault:
        raise InvalidChangeError(str(fault)) from None


def _said(why: object, name: object) -> tuple[str, str]:
    """The reason or note, and the name, each in one line."""
    if not (isinstance(why, str) and isinstance(name, str)):
        raise InvalidChangeError("a reason, a note and a name have to be texts")
    if len(one_line(name)) > NAME_LIMIT:
        raise InvalidChangeError(f"the name has {len(one_line(name))} characters; {NAME_LIMIT} is the most")
    try:
        return check_why(why), one_line(name)
    except InvalidSilenceError as fault:
        raise InvalidChangeError(str(fault)) from None


def _wished(runs: object, for_s: object, why: object, name: object) -> NewSilence:
    if not isinstance(runs, str):
        raise InvalidChangeError("runs has to be a text")
    why, name = _said(why, name)
    if not isinstance(for_s, int) or isinstance(for_s, bool) or not LEAST_S <= for_s <= MOST_S:
        raise InvalidChangeError(f"for_s has to be a whole number of seconds from {LEAST_S:.0f} to {MOST_S:.0f}")
    try:
        return NewSilence(SilenceWish(check_glob(runs), timedelta(seconds=for_s), why), name)
    except InvalidSilenceError as fault:
        raise InvalidChangeError(str(fault)) from None


def page_author(name: str, address: str, user: str = "") -> str:
    """The author of a change made on the page: the ``user`` that a proxy names, else the name that was entered. That is
    unchecked, so the client's address is shown."""
    if user:
        return fit(one_line(f"{redact(user)}, on the page"), 100)
    return fit(one_line(f"{redact(name) or 'token holder'}, on the page from {address or 'somewhere'}"), 100)


class StoredChanges:
    """Silences and acknowledges runs in ``store``, ends and restarts them, for all browsers."""

    def __init__(self, settings: Settings, store: Store, *, lives: Lives = none_lives, wait_s: float = WAIT_S) -> None:
        self._settings = settings
        self._store = store
        self._lives = lives
        self._wait_s = wait_s
        self._places = threading.BoundedSemaphore(_AT_ONCE)

    def answer(self, asked: bytes, address: str, user: str = "") -> Response:
        """Carry out a change and answer with its outcome: 200 only if it is in the store."""
        try:
            change = read_change(asked)
        except InvalidChangeError as fault:
            return refusal("400 Bad Request", _sentence(str(fault)), data=True)
        if not self._places.acquire(blocking=False):
            advice = "The store takes long to answer; try again in a moment."
            return refusal("503 Service Unavailable", "Other changes are under way.", advice, data=True)

        # What was answered as unsure must not act later on, when a process that was frozen goes on.
        store = ClosingStore(self._store, time.monotonic() + self._wait_s)

        def work() -> Response:
            try:
                return self._done(change, store, address, user)
            finally:
                self._places.release()

        # In a thread of its own, because a store may never answer and the server has few threads.
        silent = _unsure(f"The store has not answered for {self._wait_s:.0f} s.", "Check that it answers.")
        return call_with_timeout(work, self._wait_s, silent)

    def _done(self, change: Change, store: Store, address: str, user: str) -> Response:
        try:
            return self._made(change, store, address, user)
        except InvalidViewError as fault:
            return refusal("400 Bad Request", _sentence(str(fault)), data=True)
        except NoSuchSilenceError:
            return refusal("404 Not Found", "There is no such silence any more: it is over, or was lifted.", data=True)
        except (NotAcknowledgedError, NotRestartedError, OutdatedError) as fault:
            return refusal("409 Conflict", _sentence(masked(str(fault))), masked(fault.advice), data=True)
        except UnreachableError as fault:
            return _unsure(masked(str(fault)), masked(fault.advice))
        except StoreError as fault:
            return refusal("503 Service Unavailable", masked(str(fault)), masked(fault.advice), data=True)
        except Exception:
            log.exception("a change could not be made")
            return refusal("500 Internal Server Error", "This is a defect of lastbeat.", data=True)

    def _made(self, change: Change, store: Store, address: str, user: str) -> Response:
        now = store.clock()
        match change:
            case Withdrawal(run_id):
                withdraw(store, run_id, page_author("", address, user))
                log.info("the acknowledgement of %s was withdrawn on the page from %s", run_id, address)
                return Response("200 OK", json_body({"acknowledged": None}))
            case NewAcknowledgement(run_id, transition, conditions, note, name):
                by = page_author(name, address, user)
                given = Acknowledgement(now, by, redact(note), transition, conditions)
                acknowledge(store, run_id, given)
                log.info("%s was acknowledged on the page from %s", run_id, address)
                return Response("200 OK", json_body({"acknowledged": plain(given)}))
            case LiftedSilence(which):
                lifted = lift_silence(store, which, now)
                for each in lifted:
                    log.info("the silence %s of %s was lifted on the page from %s", each.id, each.runs, address)
                return _changed(lifted)
            case NewSilence(wish, name):
                made = make_silence(store, wish, page_author(name, address, user), now)
                return _changed((made.silence,), made.covered, made.notes)
            case NamedView() as view:
                done = save_view(store, replace(view, by=page_author("", address, user)))
                log.info("the view %s: %s on the page from %s", one_line(view.name), done.lower(), address)
                return Response("200 OK", json_body({"done": done}))
            case Act(what, run_id, seen, why, name):
                act = ACTS[what](self._settings, store, run_id, self._lives)
                if seen is None:
                    return Response("200 OK", json_body({"seen": act.seen, "outlook": list(map(masked, act.outlook))}))
                came = act.confirmed(seen, page_author(name, address, user), redact(why))
                log.info("%s of %s was asked for on the page from %s", what, run_id, address)
                return Response("200 OK", json_body({"done": list(map(masked, came))}))


def _changed(silences: Sequence[Silence], covered: int | None = None, notes: Sequence[str] = ()) -> Response:
    document: Mapping[str, object] = {
        "silences": [plain(shown_silence(each, redact)) for each in silences],
        "matches": covered,
        "notes": [masked(note) for note in notes],
    }
    return Response("200 OK", json_body(document))


def _unsure(error: str, advice: str) -> Response:
    # The write may have happened, though its answer was lost.
    return refusal("504 Gateway Timeout", error, advice, data=True)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
