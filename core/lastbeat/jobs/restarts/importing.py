"""The restart policy and the actions in another launcher's file → a restart policy.

It is the policy in the file, else the built-in one that ``defaults`` names, else one that restarts what the file's
actions restart. Those actions become reactions under ``on:``.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import yaml

from lastbeat.explain import handwritten
from lastbeat.explain.handwritten import Document
from lastbeat.explain.signals import loading as catalogues
from lastbeat.explain.signals.importing import EntryAction, EntryActions, ImportedMonitor, ImportNotes, import_monitor
from lastbeat.jobs.restarts import files
from lastbeat.jobs.restarts.loading import RestartPolicyError, names, shipped_text
from lastbeat.jobs.restarts.names import TRANSITIONS, KnownNames
from lastbeat.model.file_fault import FileFault
from lastbeat.model.reaction import CHECKPOINT_SAVED
from lastbeat.model.text import nearest

RETRIES: Final = 3
"""Restarts in a row, for a file that has actions and no policy."""
_REACTIONS: Final = {
    **dict.fromkeys(("ErrorNoteAction", "LogAction", "LogMessageAction"), "note"),
    **dict.fromkeys(("ExecutionAction", "RunCommandAction"), "command"),
    "RestartAction": "restart",
    **dict.fromkeys(("TerminationAction", "CancelAction"), "stop"),
}
_USED: Final = {"note": ("note", "message"), "command": ("command",), "restart": ("reason",), "stop": ("reason",)}
"""Keys of an action that a reaction or a hint is made of."""
_ALWAYS_USED: Final = ("class_name", "condition", "conditions")
_TRANSITIONS: Final = {
    **dict.fromkeys(("success", "succeeded", "completed", "finished", "SuccessState"), "succeeded"),
    **dict.fromkeys(("crash", "crashed", "failed", "CrashState"), "failed"),
    **dict.fromkeys(("stall", "stalled", "StalledState", "timeout", "TimeoutState"), "timed_out"),
    **dict.fromkeys(("started", "running", "StartedState"), "started"),
    **dict.fromkeys(("cancelled", "CancelledState"), "cancelled"),
    "preempted": "preempted",
}
"""A state of a job, as launchers name it → the change of the run."""
_MODES: Final = {
    **dict.fromkeys(("stall", "stalled", "StalledState"), "stall"),
    **dict.fromkeys(("timeout", "TimeoutState"), "timeout"),
}
"""A state of a job → the mode of a restart policy. All others are crashes."""
_VALUES: Final = {**{name: name for name in files.VALUES}, "job_name": "run_id", "event_name": "signal"}
"""A place in an action's text → the value that fills it here."""
_OF_CHECKPOINTS: Final = ((("path", "dir", "file"), "checkpoint"), (("iteration", "step"), "step"))
"""Words in a place's name that a checkpoint's line fills → the value."""
_REASONS: Final = ("reason", "message", "restart_reason", "stop_reason")
_LEFT_OUT: Final = "left out; nothing here uses it"
_BY_HAND: Final = "left out; write it under on: of the policy if it holds always"
_OTHER_ACTION: Final = "lastbeat alerts people; what LASTBEAT_WEBHOOK_URL calls can do the rest"
_POLICY_DECIDES: Final = "the restart policy decides whether a job is started again, and how often"
_NO_POLICY: Final = f"the file names no restart policy, so policies: allows at most {RETRIES} restarts in a row"
_CHECKPOINTS: Final = "it follows on checkpoint_saved, for which 'lastbeat restart supervise' needs --checkpoint-dir"


class ImportedConfiguration(NamedTuple):
    """A launcher's file as lastbeat's own files, with notes for its user."""

    catalogue: str
    """YAML. Empty if the file has no monitor, and names none."""
    policy: str
    """YAML. Empty if the file has no restart policy, and no action that a policy can carry out."""
    reactions: int
    """Count of the reactions under ``on:``."""
    notes: tuple[str, ...]
    """One per thing without a counterpart: where, what, and what to do instead."""


def import_configuration(text: str, file: str) -> ImportedConfiguration:
    """Convert the monitor and the restart policy in ``text``. Raises :class:`CatalogueError` if there is neither, and
    :class:`RestartPolicyError` if the policy has faults."""
    found = import_monitor(text, file)
    importer = _Importer(found, file)
    value = importer.policy()
    written = ""
    if value:
        head = f"# Taken over from {PurePath(file).name} by 'lastbeat signals import'."
        said = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=1000)
        # PyYAML quotes the key, because YAML 1.1 reads it as true; lastbeat does not.
        written = f"{head}\n{said}".replace("\n'on':\n", "\non:\n")
        faults: list[FileFault] = []
        files.policy(written, file, "imported", importer.known, faults)
        if faults:
            raise RestartPolicyError(faults)
    if not (found.text or written):
        what = "there is nothing to take over; import the files that its defaults name"
        raise RestartPolicyError([FileFault(file, 0, what)])
    reactions = sum(map(len, value.get("on", {}).values()))
    return ImportedConfiguration(found.text, written, reactions, (*found.notes, *importer.notes.lines()))


class _Importer:
    def __init__(self, found: ImportedMonitor, file: str) -> None:
        self.notes = ImportNotes(file)
        text = found.text
        catalogue = (
            catalogues.load_setting("./imported.yaml", lambda _: text) if text else catalogues.load(catalogues.DEFAULT)
        )
        self.known = KnownNames.of(catalogue)
        self._found = found
        self._file = file
        self._on: dict[str, list[dict[str, Any]]] = {}
        self._restarted: dict[str, list[str]] = {}
        """Mode → signals that are restarted. An empty name: every end of that mode."""
        self._retries: dict[str, int] = {}
        """Mode → the most restarts in a row."""
        self._budgets: dict[str, int] = {}
        """Error type → restarts in a row because of it."""

    def policy(self) -> dict[str, Any]:
        """The policy as its file says it; empty if there is nothing to say."""
        for wanted in self._found.wanted:
            for action in wanted.actions:
                self._action(action, wanted)
        value = self._base()
        for on, reactions in self._on.items():
            value.setdefault("on", {}).setdefault(on, []).extend(reactions)
        for error_type, times in self._budgets.items():
            budgets = value.setdefault("budgets", {}).setdefault("error_types", {})
            budgets[error_type] = min(times, budgets.get(error_type, times))
        return {"description": f"Taken over from {PurePath(self._file).name}.", **value} if value else {}

    # When jobs are restarted.

    def _base(self) -> dict[str, Any]:
        """The policy without the reactions of entries."""
        if self._found.policy is not None:
            for name, line in self._found.policies:
                self.notes.add(line, f"defaults: /restart: {_shown(name)}", "the policy in the file replaces it")
            return self._own_policy(self._found.policy)
        if not self._found.policies:
            return self._of_actions()
        # The last one wins, in Hydra.
        *_, (name, line) = self._found.policies
        if name in names():
            advice = f"lastbeat's own policy stands in for it, see 'lastbeat policy show {name}'"
            self.notes.add(line, f"defaults: /restart: {name}", advice)
            shipped = handwritten.read(shipped_text(name), name, [])
            return _whole(shipped.value) if shipped is not None else {}
        what = f"import that file as well, and put its policies: into this one{nearest(name, names())}"
        self.notes.add(line, f"defaults: /restart: {_shown(name)}", what)
        return {}

    def _own_policy(self, document: Document) -> dict[str, Any]:
        """The policy in the file, without what has no counterpart. Raises :class:`RestartPolicyError`."""
        value = {key: each for key, each in document.value.items() if key != "defaults"}
        if "class_name" in value:
            value = self._implementation(value, document)
        elif isinstance(value.get("policies"), list):
            blocks = enumerate(value["policies"])
            value["policies"] = [self._block(block, document, "policies", index) for index, block in blocks]
        faults: list[FileFault] = []
        files.of_document(replace(document, value=value), "imported", self.known, faults)
        if faults:
            raise RestartPolicyError(faults)
        return _whole(value)

    def _block(self, block: Any, document: Document, *place: str | int) -> Any:
        if not isinstance(block, dict) or not isinstance(block.get("implementation"), dict):
            return block
        found = self._implementation(block["implementation"], document, *place, "implementation")
        return {**block, "implementation": found}

    def _implementation(self, said: Mapping[str, Any], document: Document, *place: str | int) -> dict[str, Any]:
        found = dict(said)
        for key in _REASONS:
            if found.pop(key, None) is not None:
                self.notes.add(document.key_line(*place, key), key, "left out; lastbeat says why in its own words")
        exist = {
            "restart_on_error_types": ("error type", self.known.error_types.__contains__),
            "exclude_error_types": ("error type", self.known.error_types.__contains__),
            "restart_on_subsystems": ("subsystem", self.known.subsystem),
            "restart_on_signals": ("signal", self.known.signal),
        }
        for key, (what, exists) in exist.items():
            listed = found.get(key)
            if isinstance(listed, list) and all(isinstance(each, str) for each in listed):
                found[key] = [each for each in listed if exists(each)]
                for at, name in enumerate(listed):
                    if not exists(name):
                        advice = f"there is no such {what} here; left out"
                        self.notes.add(document.line(*place, key, at), f"{key}: {_shown(name)}", advice)
        return found

    def _of_actions(self) -> dict[str, Any]:
        """A policy that restarts what actions restart, and nothing else."""
        blocks = []
        for mode, signals in self._restarted.items():
            retries = self._retries.get(mode, RETRIES)
            implementation: dict[str, Any] = {"class_name": "AlwaysRestartPolicy", "max_retries": retries}
            if "" not in signals:
                chosen = {"default_action": "stop", "restart_on_signals": signals}
                implementation = {**implementation, "class_name": "SelectiveRestartPolicy", **chosen}
            blocks.append({"mode": mode, "implementation": implementation})
        return {"policies": blocks} if blocks else {}

    # What else is done.

    def _action(self, action: EntryAction, wanted: EntryActions) -> None:
        """Adds what ``action`` becomes, or a note that says why it becomes nothing."""
        kind = _REACTIONS.get(action.called)
        if kind is None:
            if action.called != "FinishAction":
                self._note(wanted, action.called, _OTHER_ACTION)
            return
        on = self._occasion(action, wanted)
        if on is None:
            return
        open_ = [_called(each) for each in action.conditions if not self._holds(each, kind, on, wanted)]
        if open_:
            self._note(wanted, f"{action.called} under {', '.join(open_)}", _BY_HAND)
            return
        for key in action.said.keys() - {*_ALWAYS_USED, *_USED[kind]}:
            if action.said[key] not in (None, "", [], {}, False):
                self._note(wanted, f"{action.called}.{_shown(key)}", _LEFT_OUT)
        if kind == "restart":
            self._restart(on, action, wanted)
        elif (reaction := self._reaction(kind, action, wanted, on)) is not None:
            self._react(on, reaction)
            if on == CHECKPOINT_SAVED:
                self._note(wanted, action.called, _CHECKPOINTS)

    def _occasion(self, action: EntryAction, wanted: EntryActions) -> str | None:
        """What ``on:`` calls that which ``wanted`` finds, or None if it has no word for it."""
        if wanted.kind == "checkpoint":
            return CHECKPOINT_SAVED
        if wanted.signal in (*TRANSITIONS, CHECKPOINT_SAVED):
            advice = f"left out; under on: {wanted.signal} is a change of the run. Rename the entry, and import again"
            self._note(wanted, action.called, advice)
            return None
        on = wanted.signal or _TRANSITIONS.get(wanted.state)
        if on is None:
            self._note(wanted, f"{action.called} on {wanted.state}", f"left out; on: has {', '.join(TRANSITIONS)}")
        return on

    def _holds(self, condition: Any, kind: str, on: str, wanted: EntryActions) -> bool:
        """Whether ``condition`` holds wherever the policy reacts to ``on``."""
        said = condition if isinstance(condition, dict) else {}
        called = said.get("class_name")
        if called == "MetadataCondition":
            key = said.get("key")
            return isinstance(key, str) and "equals" in said and wanted.metadata.get(key) == said["equals"]
        if called == "MaxAttemptsCondition" and kind == "restart":
            return _attempts(condition) > 0
        if called == "MaxActionFiresCondition":
            # A signal is answered once an attempt.
            return _count(said.get("max_fires")) > 0
        # A checkpoint is answered when it is there, and complete.
        return called == "AlwaysTrueCondition" or (called == "FileExistsCondition" and on == CHECKPOINT_SAVED)

    def _restart(self, on: str, action: EntryAction, wanted: EntryActions) -> None:
        if wanted.state in {"success", "SuccessState"} or on in {CHECKPOINT_SAVED, "succeeded", "started"}:
            self._note(wanted, "RestartAction", f"left out; {on} ends nothing that could be restarted")
            return
        signals = self._restarted.setdefault(_mode(wanted), [])
        if wanted.signal not in signals:
            signals.append(wanted.signal)
        if wanted.signal:
            self._react(on, {"action": "restart"})
        limits, name = (self._budgets, wanted.error_type) if wanted.signal else (self._retries, _mode(wanted))
        for attempts in filter(None, map(_attempts, action.conditions)):
            # The first attempt is no restart. A policy takes 1,000 at most.
            limits[name] = min(attempts - 1, 1000, limits.get(name, 1000))
        named = self._found.policy is not None or self._found.policies
        self._note(wanted, "RestartAction", _POLICY_DECIDES if named else _NO_POLICY)

    def _reaction(self, kind: str, action: EntryAction, wanted: EntryActions, on: str) -> dict[str, Any] | None:
        """A reaction as a policy says it, or None, with a note, if it cannot say that."""
        if kind == "stop":
            return {"action": "stop"}
        said = next((action.said[key] for key in _USED[kind] if key in action.said), None)
        if isinstance(said, list):
            said = [str(each) if isinstance(each, int | float) else each for each in said]
        texts = said if isinstance(said, list) else [said]
        unknown = sorted({name for text in texts for name in _unknown(text, wanted, on)})
        if unknown:
            known = ", ".join(f"{{{name}}}" for name in files.VALUES)
            what = f"left out; lastbeat does not know {', '.join(unknown)}. Write it under on: with {known}"
            self._note(wanted, f"{action.called}: {kind}", what)
            return None
        filled = [_filled(text, wanted, on) for text in texts]
        reaction = {kind: filled if isinstance(said, list) else filled[0]}
        faults: list[FileFault] = []
        handwritten.checked(files.ReactionEntry, Document(self._file, reaction, {}), faults)
        for fault in faults[:1]:
            self._note(wanted, action.called, f"left out; {fault.what}")
        return reaction if not faults else None

    def _react(self, on: str, reaction: dict[str, Any]) -> None:
        reactions = self._on.setdefault(on, [])
        if reaction not in reactions:
            reactions.append(reaction)

    def _note(self, wanted: EntryActions, what: str, advice: str) -> None:
        self.notes.add(wanted.line, what, advice, wanted.entry)


def _mode(wanted: EntryActions) -> str:
    return _MODES.get(wanted.state, "crash")


def _called(condition: Any) -> str:
    return _shown(condition.get("class_name") if isinstance(condition, dict) else condition)


def _attempts(condition: Any) -> int:
    """The attempts that ``condition`` allows, or 0 if it does not limit them."""
    limits = isinstance(condition, dict) and condition.get("class_name") == "MaxAttemptsCondition"
    return _count(condition.get("max_attempts", 1)) if limits else 0


def _count(value: Any) -> int:
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _shown(value: object) -> str:
    return " ".join(str(value).split())[:60]


def _places(text: Any) -> Iterator[str]:
    """The places in ``text``: ``{name}``, and the beginning of ``${…}``, which Hydra fills in."""
    yield from re.findall(r"\$\{[^}]{0,60}|\{\w*\}", text) if isinstance(text, str) else ()


def _value(place: str, wanted: EntryActions, on: str) -> str | None:
    """The value that fills ``place`` here, or None if there is none."""
    name = place.strip("{}")
    if on == CHECKPOINT_SAVED and (name in wanted.extract or name.startswith("checkpoint")):
        for words, value in _OF_CHECKPOINTS:
            if any(word in name for word in words):
                return value
    # What a line says is not known where the policy is carried out, but for the step.
    return None if name in wanted.extract and name != "step" else _VALUES.get(name)


def _unknown(text: Any, wanted: EntryActions, on: str) -> Iterator[str]:
    for place in _places(text):
        if place.startswith("$") or _value(place, wanted, on) is None:
            yield f"{place}}}" if place.startswith("$") else place


def _filled(text: Any, wanted: EntryActions, on: str) -> Any:
    if not isinstance(text, str):
        return text
    return re.sub(r"\{\w*\}", lambda place: f"{{{_value(place[0], wanted, on)}}}", text)


def _whole(value: Mapping[str, Any]) -> dict[str, Any]:
    """A policy as its file says it, with each reaction of its own as a list."""
    found = {key: each for key, each in value.items() if key != "description"}
    if isinstance(found.get("on"), dict):
        found["on"] = {on: each if isinstance(each, list) else [each] for on, each in found["on"].items()}
    return found
