"""A restart policy's file → :class:`RestartPolicy`, or all faults in it, each with its line."""

import re
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lastbeat.explain import handwritten
from lastbeat.explain.handwritten import UNSAID, Document, HandwrittenModel, Seconds, Text
from lastbeat.jobs.restarts.names import CONDITIONS, TRANSITIONS, KnownNames
from lastbeat.model.file_fault import FileFault
from lastbeat.model.reaction import CHECKPOINT_SAVED
from lastbeat.model.restart import Mode, Reaction, RestartPolicy, RestartRule
from lastbeat.model.text import nearest

VALUES: Final = ("run_id", "attempt", "status", "reason", "error_type", "signal", "step", "checkpoint", "job_id")
"""What ``{name}`` may stand for in a command or a note."""
MOST_ARGUMENTS: Final = 100

TOP_MODES: Final = (Mode.CRASH, Mode.STALL, Mode.TIMEOUT)
"""The modes of a policy with ``class_name`` at its top, which has no block for each."""

_NO_SIGNALS: Final = (*TRANSITIONS, CHECKPOINT_SAVED, *CONDITIONS)
"""What a policy's ``on:`` may name besides signals."""
_KINDS: Final[dict[str, Literal["never", "always", "selective"]]] = {
    "NoRestartPolicy": "never",
    "AlwaysRestartPolicy": "always",
    "SelectiveRestartPolicy": "selective",
}


def _listed(value: object) -> object:
    return [] if value is None else [value] if isinstance(value, str) else value


def _no_shell(value: object) -> object:
    said = "is text; it has to be a list, [program, argument, …], because no shell reads it"
    return value if not isinstance(value, str) else _refuse(said)


def _refuse(what: str) -> Any:
    raise ValueError(what)


def _known_values(text: str) -> str:
    for name in re.findall(r"\{(\w*)\}", text):
        if name not in VALUES:
            known = f"{nearest(name, VALUES)}; there are: {', '.join(VALUES)}"
            raise ValueError(f"names the value {{{name}}}, which does not exist{known}")
    return text


Names = Annotated[list[Text], BeforeValidator(_listed, json_schema_input_type=Text | list[Text] | None)]
Times = Annotated[int, Field(ge=0, le=1000)]
Told = Annotated[Text, AfterValidator(_known_values)]


class ImplementationEntry(HandwrittenModel):
    """What one mode leads to."""

    class_name: Literal["NoRestartPolicy", "AlwaysRestartPolicy", "SelectiveRestartPolicy"]
    max_retries: Times | None = UNSAID
    """Restarts in a row. Left out or null: as many as the other budgets allow; of a SelectiveRestartPolicy 3."""
    default_action: Literal["restart", "stop"] = UNSAID
    """In a SelectiveRestartPolicy: what a failure that is not named here leads to. Left out: stop."""
    restart_on_error_types: Names = UNSAID
    restart_on_subsystems: Names = UNSAID
    restart_on_signals: Names = UNSAID
    exclude_error_types: Names = UNSAID
    """These are never restarted, whatever else is said."""

    @model_validator(mode="after")
    def _fits_its_class(self) -> "ImplementationEntry":
        for key in self.stated(without=("class_name", "max_retries", "exclude_error_types")):
            if self.class_name != "SelectiveRestartPolicy":
                raise ValueError(f"{key} belongs to a SelectiveRestartPolicy; {self.class_name} chooses nothing")
        if self.class_name == "NoRestartPolicy" and self.stated(without=("class_name",)):
            raise ValueError("a NoRestartPolicy restarts nothing; take the other keys out, or name another class")
        return self


class ModeEntry(HandwrittenModel):
    """One mode's block."""

    mode: Literal["crash", "stall", "timeout", "success", "preempted"]
    implementation: ImplementationEntry


class WindowEntry(HandwrittenModel):
    """A budget over time, for the whole run."""

    restarts: Times
    hours: Annotated[float, Field(gt=0, le=10_000, strict=False)]


class BudgetsEntry(HandwrittenModel):
    """Budgets beside those of the modes."""

    error_types: dict[Text, Times] = UNSAID
    """Error type: restarts in a row because of it."""
    same_cause: Times = UNSAID
    """Restarts in a row because of one and the same cause."""
    window: WindowEntry | None = UNSAID
    """Left out: 10 in 24 h. null: none."""


class ReactionEntry(HandwrittenModel):
    """What to do: exactly one of note, action and command."""

    note: Told = UNSAID
    action: Literal["stop", "restart"] = UNSAID
    command: Annotated[list[Told], BeforeValidator(_no_shell), Field(min_length=1, max_length=MOST_ARGUMENTS)] = UNSAID
    """A program and its arguments; no shell reads them."""
    limit_s: Seconds = UNSAID

    @model_validator(mode="after")
    def _one(self) -> "ReactionEntry":
        said = self.stated(without=("limit_s",))
        if len(said) != 1:
            raise ValueError("has to say exactly one of note, action and command")
        if "limit_s" in self.model_fields_set and "command" not in said:
            raise ValueError("limit_s belongs to a command")
        return self


def _short(value: object) -> object:
    one = [value] if isinstance(value, str | dict) else value
    if isinstance(one, list):
        return [{"action": each} if isinstance(each, str) else each for each in one]
    return value


Reactions = Annotated[
    list[ReactionEntry],
    BeforeValidator(_short, json_schema_input_type=Literal["stop", "restart"] | ReactionEntry | list[ReactionEntry]),
]


class RestartPolicyFile(HandwrittenModel):
    """When a job is started again, and how often. In place of ``policies`` one implementation may stand at the top."""

    description: Text = UNSAID
    policies: Annotated[list[ModeEntry], Field(max_length=5)] = UNSAID
    budgets: BudgetsEntry = UNSAID
    same_step_times: Annotated[int, Field(ge=2, le=1000)] = UNSAID
    """The same cause at the same step so many times in a row stops early. Left out: 3."""
    least_confidence: Annotated[float, Field(ge=0, le=1, strict=False)] = UNSAID
    """A cause that is less sure counts as unknown. Left out: 0.4."""
    longest_delay_s: Seconds = UNSAID
    """The most that back-off grows to. Left out: 1800."""
    exclude_stragglers: Annotated[bool, Field(strict=True)] = UNSAID
    """A node on which ranks were slow (docs/stragglers.md) does not get the next job. Left out: false."""
    also: Names = UNSAID
    """Signals that every SelectiveRestartPolicy here restarts, though it excludes their error type."""
    on_permanent: Literal["end", "leave"] = UNSAID
    """What happens to a job that failed, is not restarted, and still runs. end: it is ended once it has shown neither
    a step nor a log line for three minutes. leave: it keeps its nodes, for a debugger. Left out: end."""
    on: dict[Text, Reactions] = UNSAID
    """Signal, transition or checkpoint_saved: what to do."""


def policy(text: str, file: str, name: str, known: KnownNames, faults: list[FileFault]) -> RestartPolicy | None:
    """The policy in ``text``. Its faults are added to ``faults``. A policy with faults must not be used, because the
    rest of it might restart failures that its author excluded."""
    document = handwritten.read(text, file, faults)
    if document is None:
        return None
    if document.value is None:
        faults.append(FileFault(file, 0, "the file is empty; it has to hold policies: with a block for each mode"))
        return None
    return of_document(document, name, known, faults)


def of_document(document: Document, name: str, known: KnownNames, faults: list[FileFault]) -> RestartPolicy | None:
    """The same of what was read already, as a part of another file."""
    top = None
    if isinstance(document.value, dict) and "class_name" in document.value:
        implementation, document = _split(document, faults)
        top, _ = handwritten.checked(ImplementationEntry, implementation, faults)
        if top is None:
            return None
    found, _ = handwritten.checked(RestartPolicyFile, document, faults)
    if found is None:
        return None
    return _Reader(document, known, faults).policy(found, name, top)


def _split(document: Document, faults: list[FileFault]) -> tuple[Document, Document]:
    """The implementation at the top of ``document``, and what stands beside it."""
    beside = RestartPolicyFile.model_fields.keys()
    if "policies" in document.value:
        what = "policies and class_name both stand here; give each mode its own block, or take policies out"
        faults.append(FileFault(document.file, document.key_line("policies"), what))
    top = {key: value for key, value in document.value.items() if key not in beside}
    rest = {key: value for key, value in document.value.items() if key in beside and key != "policies"}
    return replace(document, value=top), replace(document, value=rest)


def description(text: str, file: str) -> str:
    """What the policy in ``text`` is for, in its author's words."""
    document = handwritten.read(text, file, [])
    value = document.value if document is not None else None
    told = value.get("description") if isinstance(value, dict) else None
    return told if isinstance(told, str) else ""


class _Reader:
    def __init__(self, document: Document, known: KnownNames, faults: list[FileFault]) -> None:
        self._document = document
        self._known = known
        self._faults = faults

    def policy(self, found: RestartPolicyFile, name: str, top: ImplementationEntry | None) -> RestartPolicy:
        rules: dict[Mode, RestartRule] = {}
        if top is not None:
            rules = dict.fromkeys(TOP_MODES, self._rule(top))
        for index, block in enumerate(found.policies or ()):
            mode = Mode(block.mode)
            if mode in rules:
                self._fault(f"the mode {block.mode} has a block already; put both into one", "policies", index, "mode")
            rules[mode] = self._rule(block.implementation, "policies", index, "implementation")
        budgets = found.budgets or BudgetsEntry()
        for error_type in budgets.error_types or ():
            self._error_type(error_type, "budgets", "error_types", error_type)
        said = found.stated(without=("description", "policies", "budgets", "also", "on"))
        if "window" in budgets.model_fields_set:
            window = budgets.window
            said["window_restarts"] = window.restarts if window is not None else None
            said["window_s"] = 3600.0 * float(window.hours) if window is not None else 86400.0
        return RestartPolicy(
            name,
            rules,
            also={each: self._signal(each, "also", at) for at, each in enumerate(found.also or ())},
            type_budgets=dict(budgets.error_types or {}),
            cause_budget=budgets.same_cause,
            reactions={event: self._reactions(event, each) for event, each in (found.on or {}).items()},
            reaction_signals={event: self._known.signal(event) for event in found.on or {} if event not in _NO_SIGNALS},
            **said,
        )

    def _rule(self, entry: ImplementationEntry, *place: str | int) -> RestartRule:
        kind = _KINDS[entry.class_name]
        usual = {"never": 0, "always": None, "selective": 3}[kind]
        for key in ("restart_on_error_types", "exclude_error_types"):
            for at, error_type in enumerate(getattr(entry, key) or ()):
                self._error_type(error_type, *place, key, at)
        subsystems, signals = entry.restart_on_subsystems or (), entry.restart_on_signals or ()
        return RestartRule(
            kind,
            entry.max_retries if "max_retries" in entry.model_fields_set else usual,
            entry.default_action or "stop",
            frozenset(entry.restart_on_error_types or ()),
            {each: self._subsystem(each, *place, "restart_on_subsystems", at) for at, each in enumerate(subsystems)},
            {each: self._signal(each, *place, "restart_on_signals", at) for at, each in enumerate(signals)},
            frozenset(entry.exclude_error_types or ()),
        )

    def _reactions(self, event: str, entries: list[ReactionEntry]) -> tuple[Reaction, ...]:
        if event not in _NO_SIGNALS:
            known = (*_NO_SIGNALS, *self._known.all_signals())
            if not self._known.signal(event):
                self._fault(
                    f"on: there is no signal, condition or transition {event!r}{nearest(event, known)}", "on", event
                )
        return tuple(Reaction(**each.stated()) if each.command is None else _command(each) for each in entries)

    def _error_type(self, name: str, *place: str | int) -> None:
        if name not in self._known.error_types:
            self._fault(f"there is no error type {name!r}{nearest(name, sorted(self._known.error_types))}", *place)

    def _subsystem(self, name: str, *place: str | int) -> frozenset[str]:
        found = self._known.subsystem(name)
        if not found:
            self._fault(f"there is no subsystem {name!r}{nearest(name, self._known.all_subsystems())}", *place)
        return found

    def _signal(self, name: str, *place: str | int) -> frozenset[str]:
        found = self._known.signal(name)
        if not found:
            self._fault(f"there is no signal {name!r}{nearest(name, self._known.all_signals())}", *place)
        return found

    def _fault(self, what: str, *place: str | int) -> None:
        self._faults.append(FileFault(self._document.file, self._document.line(*place), what))


def _command(entry: ReactionEntry) -> Reaction:
    said: dict[str, Any] = {**entry.stated(), "command": tuple(entry.command)}
    return Reaction(**said)
