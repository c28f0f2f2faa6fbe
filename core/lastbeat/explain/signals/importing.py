"""The log monitor of a Megatron launcher → a catalogue, and notes on what has no counterpart here.

Such a file (``class_name: SlurmLogMonitor``, or a job with ``log_events``) lists patterns with the state, the actions
and the metadata of each. There are three generations of it: ``log_signals`` with ``action`` and ``mode``;
``log_events`` with ``state`` and ``actions``; ``log_events`` with one ``action`` and a ``condition``. Hydra's
configurations name monitors and restart policies under ``defaults``.

``restarts.importing`` translates the actions, because it knows what a restart policy may contain.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple, get_args

import yaml
from pydantic import BeforeValidator, ConfigDict

from lastbeat.explain import handwritten
from lastbeat.explain.handwritten import TEXT_LIMIT, UNSAID, Document, HandwrittenModel, Text
from lastbeat.explain.scanning import literals
from lastbeat.explain.scanning.matching import matcher_of
from lastbeat.explain.signals import python_patterns
from lastbeat.explain.signals.error_types import TYPES, UNKNOWN
from lastbeat.explain.signals.hints import STANDING, fields_of
from lastbeat.explain.signals.loading import DEFAULT, CatalogueError, load, load_setting, names
from lastbeat.model.file_fault import FileFault
from lastbeat.model.signal import CONFIRMATION, Severity

DEPTH_LIMIT: Final = 24
"""Deepest nesting of a monitor's file."""
_SECTIONS: Final = ("monitoring", "monitor", "job")
"""Keys under which a whole configuration has its monitor."""
_ENTRIES: Final = ("log_signals", "log_events")
_POLICY_SECTIONS: Final = ("restart", "restart_policy")
"""Keys under which a whole configuration has its restart policy."""
_MONITOR_GROUPS: Final = ("monitoring", "monitor")
"""Hydra's groups of monitors. Those of restart policies are named as their sections."""
_DEFAULT: Final = re.compile(r"(?:(?:override|optional)\s+)*/?([^@]*)(?:@.*)?", re.DOTALL)
"""A group or a path under Hydra's ``defaults``: keywords, the name, and the package to which it goes."""
_LIMITS: Final = {
    "inactivity_threshold_seconds": "inactivity_s",
    "inactivity_timeout_s": "inactivity_s",
    "check_interval_seconds": "inactivity_check_s",
    "poll_interval_seconds": "poll_s",
}
_VERDICTS: Final = {
    "CrashState": "crash",
    "StalledState": "stalled",
    "TimeoutState": "timeout",
    "SuccessState": "success",
    "crash": "crash",
    "stall": "stalled",
    "timeout": "timeout",
    "success": "success",
    "run_finished": "success",
    "RestartAction": "crash",
    "CancelAction": "crash",
    "TerminationAction": "crash",
    "FinishAction": "success",
}
"""State, mode or action → the meaning of its line."""
_KINDS: Final = {"new_checkpoint": "checkpoint", "progress_update": "progress"}
_DONE: Final = (None, "completion", "completed", "complete", "done", "finished", "success")
_PARTICULAR: Final = ("traceback", "chain", "exception", "nan", "restart", "retry", "quiet", "announced", "expected")
"""Kinds with a special meaning in lastbeat."""
_SEVERITIES: Final = {**{name: name for name in get_args(Severity)}, "fatal": "critical", "warn": "warning"}
_ABOUT_RESTARTS: Final = ("RestartAction", "CancelAction", "TerminationAction")
_METADATA: Final = ("severity", "error_type", "subsystem", "kind")
_UNDERSTOOD: Final = (
    *("class_name", "state", "mode", "action", "actions", "metadata", "extract_groups"),
    *("inactivity_timeout_s", "progress_timeout_s", "progress_group", "progress_mode", "progress_polls"),
    *("condition", "conditions"),
)
"""Keys of an entry that are translated."""
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {}, False)

_LOGS = "name logs with --log or LASTBEAT_LOGS, which take * and Slurm's %j, or let them lie in the run's logs/"
_BEGIN = "a watch may begin before its run does: LASTBEAT_START_MINUTES gives it time to its first heartbeat"
_ONCE = "not needed: lastbeat alerts once about each change of a run's status"
_ADVICE: Final = {
    **dict.fromkeys(("log_path", "log_path_template", "log_path_current", "output_paths"), _LOGS),
    **dict.fromkeys(("start_condition", "start_condition_cmd", "start_condition_interval_seconds"), _BEGIN),
    "termination_command": "run the program under 'lastbeat exec', or let it call 'lastbeat complete'",
    "state_events": "a job's state is not asked for: lastbeat learns of an end from sentinels, logs and silence",
    "match_once": _ONCE,
    "inactivity_polls": "not needed: inactivity is measured in seconds",
}
_MOST_OF: Final = 0.7
"""Share of a built-in signal's literal that a pattern must contain to get that signal's meaning."""
_LEFT_OUT = "left out; nothing here uses it"


class EntryAction(NamedTuple):
    """An action of an entry, as the file has it."""

    said: Mapping[str, Any]
    """The keys of the action, including ``class_name``."""
    conditions: tuple[Any, ...] = ()
    """Its conditions, and those of all actions around it."""

    @property
    def called(self) -> str:
        return _shown(self.said["class_name"]).removeprefix("Oellm")


class EntryActions(NamedTuple):
    """The actions of one entry, and the event that triggers them."""

    entry: str
    line: int
    actions: tuple[EntryAction, ...]
    signal: str = ""
    """The entry's signal in the catalogue. Empty for a state of the job, and for a stall."""
    state: str = ""
    """The verdict of the signal, or the state of the job as the file names it."""
    kind: str = ""
    error_type: str = UNKNOWN
    metadata: Mapping[str, Any] = MappingProxyType({})
    extract: tuple[str, ...] = ()
    """Names of the fields that the pattern extracts, which actions may use."""


class ImportedMonitor(NamedTuple):
    """A monitor as a catalogue, with notes for its user."""

    text: str
    """YAML. Empty if the file has no monitor, and names none."""
    notes: tuple[str, ...]
    """One per thing without a counterpart: where, what, and what to do instead."""
    wanted: tuple[EntryActions, ...] = ()
    policies: tuple[tuple[str, int], ...] = ()
    """Restart policies that ``defaults`` names, with their lines."""
    policy: Document | None = None
    """The restart policy in the file, or None."""


def import_monitor(text: str, file: str) -> ImportedMonitor:
    """Convert the monitor in ``text`` to a catalogue. Raises :class:`CatalogueError` if ``text`` has none."""
    faults: list[FileFault] = []
    document = handwritten.read(text, file, faults, depth=DEPTH_LIMIT)
    if document is None or faults:
        raise CatalogueError(faults)
    policy = _policy(document)
    section = _section(document, policy, faults)
    monitor = handwritten.checked(_Monitor, section, faults)[0] if section is not None else None
    if section is None or monitor is None or faults:
        raise CatalogueError(faults)
    importer = _Importer(monitor, section, policy)
    for each in (document, section) if section.value is not document.value else (document,):
        importer.defaults(each, of_policy=policy is not None and policy.value is document.value)
    catalogue = importer.catalogue()
    policies = tuple(importer.policies)
    if not section.value and not importer.extends:
        return ImportedMonitor("", tuple(importer.notes.lines()), tuple(importer.wanted), policies, policy)
    said = yaml.safe_dump(catalogue, sort_keys=False, allow_unicode=True, width=1000)
    head = f"# Taken over from {PurePath(file).name} by 'lastbeat signals import'."
    written = f"{head} 'extends: []' leaves out what lastbeat knows itself.\n{said}"
    # The result must be usable as it is.
    load_setting("./imported.yaml", lambda _: written)
    return ImportedMonitor(written, tuple(importer.notes.lines()), tuple(importer.wanted), policies, policy)


# The file.


def _texts(value: object) -> object:
    """A number as text, and null as empty text."""
    return "" if value is None else str(value) if isinstance(value, int | float) else value


def _lists(value: object) -> object:
    return [] if value is None else value


class _Event(HandwrittenModel):
    """One entry. It may have any other keys, and unknown ones are noted."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[Text, BeforeValidator(_texts)]
    pattern: Annotated[str, BeforeValidator(_texts)] = ""
    pattern_type: Annotated[str, BeforeValidator(_texts)] = ""


class _Monitor(HandwrittenModel):
    """The part of a file about logs."""

    model_config = ConfigDict(extra="allow")

    log_signals: Annotated[list[_Event], BeforeValidator(_lists)] = UNSAID
    log_events: Annotated[list[_Event], BeforeValidator(_lists)] = UNSAID


def _section(document: Document, policy: Document | None, faults: list[FileFault]) -> Document | None:
    """The monitor in ``document``, empty if there is only a policy or only names. Adds a fault and returns None if
    there is none of these."""
    whole = document.value if isinstance(document.value, dict) else {}
    for key, value in (((), whole), *(((name,), whole.get(name)) for name in _SECTIONS)):
        if isinstance(value, dict) and value.keys() & {*_ENTRIES, "inactivity_threshold_seconds", "state_events"}:
            return _part(document, key, value)
    if policy is not None or any(_names_monitor_or_policy(each) for each in _listed(whole.get("defaults"))):
        return Document(document.file, {}, {})
    where = f"neither it nor {', '.join(_SECTIONS)} in it has {' or '.join(_ENTRIES)}"
    others = "a restart policy (policies, class_name), or a configuration whose defaults name /monitoring or /restart"
    faults.append(FileFault(document.file, 0, f"{where}; name the file of a log monitor, {others}"))
    return None


def _policy(document: Document) -> Document | None:
    """The restart policy in ``document``, which may be the whole of it, or None."""
    whole = document.value if isinstance(document.value, dict) else {}
    for key, value in (((), whole), *(((name,), whole.get(name)) for name in _POLICY_SECTIONS)):
        if not isinstance(value, dict) or value.keys() & {*_ENTRIES}:
            continue
        if "policies" in value or str(value.get("class_name")).endswith("RestartPolicy"):
            return _part(document, key, value)
    return None


def _part(document: Document, key: tuple[str, ...], value: Mapping[str, Any]) -> Document:
    lines = {place[len(key) :]: at for place, at in document.lines.items() if place[: len(key)] == key}
    return Document(document.file, value, lines)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _names_monitor_or_policy(default: Any) -> bool:
    groups = default if isinstance(default, dict) else [str(default).rpartition("/")[0]]
    return any(_group(str(each)) in {*_MONITOR_GROUPS, *_POLICY_SECTIONS} for each in groups)


def _group(text: str) -> str:
    """The group or file path in an entry of Hydra's ``defaults``."""
    found = _DEFAULT.fullmatch(text)
    return found[1].strip() if found is not None else ""


# What has no counterpart.


@dataclass
class ImportNotes:
    """Notes on what has no counterpart. The same note about many entries is one."""

    file: str
    _found: dict[tuple[str, str], tuple[int, list[str]]] = field(default_factory=dict)

    def add(self, line: int, what: str, advice: str, entry: str = "") -> None:
        """Note that ``what`` at ``line``, in the entry ``entry``, has no counterpart. ``advice`` says what to do."""
        _, entries = self._found.setdefault((what, advice), (line, []))
        if entry and entry not in entries:
            entries.append(entry)

    def lines(self) -> Iterator[str]:
        for (what, advice), (line, entries) in sorted(self._found.items(), key=lambda each: each[1][0]):
            named = ", ".join([*entries[:3], *(["…"] if len(entries) > 3 else [])])
            of = f" ({len(entries)} entries: {named})" if len(entries) > 1 else f" ({named})" if named else ""
            yield str(FileFault(self.file, line, f"{what}{of}: {advice}"))


# The translation.


class _Importer:
    def __init__(self, monitor: _Monitor, document: Document, policy: Document | None) -> None:
        self.notes = ImportNotes(document.file)
        self._policy = policy.value if policy is not None else None
        self._document = document
        self._settings = monitor.model_extra or {}
        self._events = [
            _Entry(event, document.line(key, index), self.notes)
            for key in _ENTRIES
            for index, event in enumerate(getattr(monitor, key) or ())
        ]
        self._origin = f"Taken over from {PurePath(document.file).name}."
        self.extends: list[str] = []
        self.policies: list[tuple[str, int]] = []
        self.wanted: list[EntryActions] = []
        self._limits: dict[str, float] = {}
        self._types: dict[str, dict[str, Any]] = {}
        self._signals: dict[str, dict[str, Any]] = {}

    def catalogue(self) -> dict[str, Any]:
        """The monitor as values of a catalogue file."""
        for key, value in self._settings.items():
            if value not in _NOTHING and key != "defaults" and value is not self._policy:
                self._setting(key, value, self._document.key_line(key))
        # Patterns without a type are plain text in jobs of the latest generation, which have no class_name.
        latest = any(isinstance(entry.extras.get("action"), dict) for entry in self._events)
        default = "substring" if latest and "class_name" not in self._settings else "regex"
        for entry in self._events:
            self._entry(entry, default)
        parts = {"error_types": self._types, "signals": self._signals, "limits": self._limits}
        whole = {"description": self._origin, "extends": self.extends or [DEFAULT], **parts}
        return {key: value for key, value in whole.items() if value}

    def _setting(self, key: str, value: Any, line: int) -> None:
        if key in _LIMITS:
            self._limit(key, value, line)
        elif key == "termination_string" and python_patterns.unfit(str(value), substring=True) is None:
            self._put(key, {"substring": str(value), "verdict": "success", "kind": "done"}, line)
        elif key == "state_events":
            for index, each in enumerate(_listed(value)):
                said = each if isinstance(each, dict) else {}
                name, its_line = _shown(said.get("name")), self._document.line(key, index)
                self.notes.add(its_line, key, _ADVICE[key], name)
                state = said.get("state") or said.get("name")
                state = state.get("class_name") if isinstance(state, dict) else state
                self.wanted.append(EntryActions(name, its_line, _Actions.of(said).found, state=_shown(state)))
        elif key != "class_name":
            self.notes.add(line, key, _ADVICE.get(key, _LEFT_OUT))
        elif value == "NullMonitor":
            self.notes.add(line, "class_name: NullMonitor, which watches nothing", "lastbeat watches all the same")

    def _limit(self, key: str, value: Any, line: int) -> None:
        name = _LIMITS[key]
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= 10**9:
            # Of several limits, the one that expires first counts.
            self._limits[name] = min(value, self._limits.get(name, value))
        else:
            self.notes.add(line, f"{key}: {_shown(value)}", f"that is no number of seconds; write {name} under limits")

    def defaults(self, document: Document, *, of_policy: bool) -> None:
        """Translate Hydra's ``defaults`` in ``document``. A name without a group is of the document's own kind."""
        said = document.value.get("defaults")
        for index, each in enumerate(_listed(said)):
            line = document.line("defaults", index)
            if isinstance(each, dict):
                for group, options in each.items():
                    for option in _listed(options):
                        self._default(_group(group), option, line)
            elif isinstance(each, str):
                group, _, name = _group(each).rpartition("/")
                self._default(group or ("restart" if of_policy else ""), name, line)
            elif each is not None:
                self.notes.add(line, f"defaults: {_shown(each)}", "that is no name; left out")

    def _default(self, group: str, option: Any, line: int) -> None:
        # null selects nothing. Of several, the last one wins in Hydra, and the first one under extends.
        name = str(option).removesuffix(".yaml")
        if option is None or name == "_self_":
            return
        shown = f"defaults: {f'/{group}: ' if group else ''}{_shown(name)}"
        if group in _POLICY_SECTIONS:
            self.policies.append((name, line))
        elif group and group not in _MONITOR_GROUPS:
            self.notes.add(line, "defaults of other groups", _LEFT_OUT, f"{_shown(group)}: {_shown(name)}")
        elif name in names():
            if name not in self.extends:
                self.extends.insert(0, name)
            if name != DEFAULT:
                advice = f"lastbeat's own catalogue stands in for it, see 'lastbeat signals show {name}'"
                self.notes.add(line, shown, advice)
        else:
            self.notes.add(line, shown, "import that file as well, and name its catalogue under extends")

    def _entry(self, entry: "_Entry", default: str) -> None:
        kind = entry.event.pattern_type or default
        entry.note_keys()
        if kind == "inactivity":
            self._inactivity(entry)
        elif kind == "progress":
            self._progress(entry)
        elif kind not in {"regex", "substring"}:
            advice = "it is none of regex, substring, inactivity, progress; write that signal by hand"
            entry.note(f"pattern_type: {_shown(kind)}", advice)
        else:
            found = entry.search(substring=kind == "substring")
            if found is not None:
                meaning = entry.meaning(found)
                self._declare(meaning, entry)
                signal = self._put(entry.event.name, {**found, **meaning}, entry.line)
                self._want(entry, signal, meaning, tuple(found.get("extract", ())))

    def _want(self, entry: "_Entry", signal: str, meaning: Mapping[str, Any], extract: tuple[str, ...] = ()) -> None:
        metadata = entry.extras.get("metadata")
        self.wanted.append(
            EntryActions(
                _shown(entry.event.name),
                entry.line,
                entry.actions.found,
                signal,
                meaning.get("verdict", ""),
                meaning.get("kind", ""),
                meaning.get("error_type", UNKNOWN),
                metadata if isinstance(metadata, dict) else {},
                extract,
            )
        )

    def _inactivity(self, entry: "_Entry") -> None:
        self._want(entry, "", {"verdict": "stalled"})
        own = entry.extras.get("inactivity_timeout_s")
        if own not in _NOTHING:
            self._limit("inactivity_timeout_s", own, entry.line)
        elif "inactivity_s" not in self._limits:
            entry.note("pattern_type: inactivity", "it says no time; write inactivity_s under limits")

    def _progress(self, entry: "_Entry") -> None:
        self._want(entry, "", {"verdict": "stalled"})
        seconds = entry.extras.get("progress_timeout_s")
        minutes = f"={seconds / 60:g}" if isinstance(seconds, int | float) and seconds > 0 else ""
        entry.note(
            "pattern_type: progress",
            f"set LASTBEAT_STALL_MINUTES{minutes}: a run without a new step for that long is stalled",
        )
        found = entry.search(substring=False, groups={"step": entry.extras.get("progress_group", 1)})
        if found is not None and {**found, "kind": "progress"} not in self._signals.values():
            self._put(entry.event.name, {**found, "kind": "progress"}, entry.line)

    def _declare(self, meaning: Mapping[str, Any], entry: "_Entry") -> None:
        """Declare an error type that lastbeat does not know."""
        name = meaning.get("error_type", UNKNOWN)
        if name not in TYPES and name not in self._types:
            self._types[name] = {key: meaning[key] for key in meaning if key == "restartable"}
            self._types[name]["meaning"] = self._origin
            advice = "it is none of lastbeat's; say under error_types what it means, and what to do"
            self.notes.add(entry.line, f"error_type: {name}", advice)

    def _put(self, name: str, fields: dict[str, Any], line: int) -> str:
        """Add a signal. Returns its name, which may differ from ``name``."""
        plain = re.sub(r"[^\w.-]+", "_", name).strip("_.-")[:90]
        plain = plain if re.match(r"[A-Za-z0-9]", plain) else f"signal_{plain}".rstrip("_")
        chosen, count = plain, 1
        while chosen in self._signals:
            count += 1
            chosen = f"{plain}_{count}"
        if chosen != name:
            self.notes.add(line, f"name: {_shown(name)}", f"its signal is called {chosen}")
        self._signals[chosen] = fields
        return chosen


@dataclass
class _Entry:
    """One entry of the monitor, and its translation."""

    event: _Event
    line: int
    notes: ImportNotes
    actions: "_Actions" = field(init=False)
    """The actions on a matching line."""

    def __post_init__(self) -> None:
        self.actions = _Actions.of(self.extras)

    @property
    def extras(self) -> Mapping[str, Any]:
        """The keys besides name, pattern and pattern_type."""
        return self.event.model_extra or {}

    def note(self, what: str, advice: str) -> None:
        self.notes.add(self.line, what, advice, _shown(self.event.name))

    def note_keys(self) -> None:
        """Note the keys that are not translated."""
        for key, value in self.extras.items():
            if value not in _NOTHING and key not in _UNDERSTOOD:
                self.note(key, _ADVICE.get(key, _LEFT_OUT))

    def search(self, *, substring: bool, groups: Mapping[str, object] | None = None) -> dict[str, Any] | None:
        """The fields of a signal's search, or None, with a note, if the pattern is unusable."""
        # A block of YAML ends in a newline, as each line does.
        pattern = self.event.pattern.removesuffix("\n")
        wanted = self._groups() if groups is None else groups
        fault = python_patterns.unfit(pattern, substring=substring)
        if fault is None and substring:
            if wanted:
                self.note("extract_groups", "plain text has no groups; alerts show the line")
            return {"substring": pattern}
        if fault is None:
            made = python_patterns.translate_pattern(pattern, wanted)
            for group in made.missing:
                self.note(f"extract_groups: {_shown(group)}", "the pattern has no such group; left out")
            if re.search(r"\[(?:rank|default|trainer)", pattern.replace("\\", "")):
                self.note(
                    "the prefix of a rank in a pattern", "lines are searched without it ([rank3]:, 3:); take it out"
                )
            if made.fault is None:
                return dict(made.fields)
            fault = made.fault
        self.notes.add(self.line, f"{_shown(self.event.name)}: {fault}", "left out; write that signal by hand")
        return None

    def _groups(self) -> dict[str, object]:
        given = self.extras.get("extract_groups")
        if given in _NOTHING:
            return {}
        if not isinstance(given, dict):
            self.note("extract_groups", "it has to be 'field: group' lines; left out")
            return {}
        return {name: group for key, group in given.items() if (name := _word(key)) is not None}

    def meaning(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of the meaning of a line that the search ``found`` matches."""
        metadata = self._metadata()
        verdict = self._verdict()
        severity = _SEVERITIES.get(str(metadata.get("severity")).lower())
        error_type = _word(metadata.get("error_type"))
        kind = self._kind(metadata, verdict)
        known = _builtin_meaning(found) if error_type is None else None
        if verdict == "success" and self.actions.classes and known is not None:
            self.note("FinishAction", "the line reports a failure, and is taken for one")
            verdict, kind = "crash", None
        told = kind is None and known is not None
        healthy = verdict == "success" or not (verdict or error_type or told or severity not in {None, "info"})
        if healthy:
            if verdict == "success" and kind not in _DONE:
                self.note(f"SuccessState of kind {kind}", "it is no end of training here; kind: done would be one")
                return {"kind": kind}
            return {"verdict": "success", "kind": "done"} if verdict else {"kind": kind or "event"}
        if kind is not None:
            self.note(f"metadata.kind: {kind}", "lines that have a kind are no failures; left out")
        if error_type is None and known is None:
            self.note("no error_type", f"{UNKNOWN} is written; name one of lastbeat's or of your own")
        subsystem = _word(metadata.get("subsystem"))
        fields = {
            **(known or {"error_type": error_type or UNKNOWN}),
            "subsystem": subsystem,
            "severity": severity,
            "verdict": verdict,
            "hint": self._hint(found),
            "restartable": self.actions.restartable,
        }
        return {key: value for key, value in fields.items() if value is not None}

    def _metadata(self) -> Mapping[str, Any]:
        given = self.extras.get("metadata")
        metadata = given if isinstance(given, dict) else {}
        for key in (key for key in metadata if key not in _METADATA):
            self.note(f"metadata.{_shown(key)}", "alerts tell error type, subsystem and hint; write it into a hint")
        return metadata

    def _verdict(self) -> str | None:
        state = self.extras.get("state")
        called = state.get("class_name") if isinstance(state, dict) else state
        if called not in _NOTHING and str(called) not in _VERDICTS:
            self.note(f"state: {_shown(called)}", "left out; a run is RUNNING as long as it beats")
        words = [called, self.extras.get("mode"), self.extras.get("action"), *self.actions.classes]
        return next((_VERDICTS[word] for word in words if isinstance(word, str) and word in _VERDICTS), None)

    def _kind(self, metadata: Mapping[str, Any], verdict: str | None) -> str | None:
        kind = _word(metadata.get("kind")) or _KINDS.get(str(self.extras.get("action")))
        if kind in _PARTICULAR and verdict is None:
            self.note(f"metadata.kind: {kind}", "that word has a meaning of its own here; left out")
            return None
        return kind

    def _hint(self, found: Mapping[str, Any]) -> str | None:
        reason = self.actions.reason
        if "${" in reason or fields_of(reason) - found.get("extract", {}).keys() - STANDING:
            self.note("a reason with places to fill", "left out; write a hint with what extract names")
            return None
        return reason[:TEXT_LIMIT] or None


@dataclass
class _Actions:
    """The actions of an entry, and the reason that they state."""

    found: tuple[EntryAction, ...] = ()
    reason: str = ""

    @classmethod
    def of(cls, said: Mapping[str, Any]) -> "_Actions":
        """The actions in the keys ``said`` of an entry. The entry's own conditions apply to each of them."""
        actions = [each for key in ("action", "actions") for each in _actions(said.get(key), _conditions(said))]
        reasons = (each.said["reason"] for each in actions if isinstance(each.said.get("reason"), str))
        return cls(tuple(actions), " ".join(next(reasons, "").replace("\0", " ").split()))

    @property
    def classes(self) -> list[str]:
        return [each.called for each in self.found]

    @property
    def restartable(self) -> bool | None:
        """Whether the actions restart the same run; None if they do not say, or contradict each other."""
        said = {name == "RestartAction" for name in self.classes if name in _ABOUT_RESTARTS}
        return said.pop() if len(said) == 1 else None


def _actions(action: Any, conditions: tuple[Any, ...]) -> Iterator[EntryAction]:
    if isinstance(action, list):
        for each in action:
            yield from _actions(each, conditions)
    elif isinstance(action, dict) and "action" in action:
        yield from _actions(action["action"], (*conditions, *_conditions(action)))
    elif isinstance(action, dict) and isinstance(action.get("class_name"), str):
        yield EntryAction(action, (*conditions, *_conditions(action)))


def _conditions(said: Mapping[str, Any]) -> tuple[Any, ...]:
    found = (each for key in ("condition", "conditions") for each in _listed(said.get(key)))
    return tuple(each for each in found if each not in _NOTHING)


def _builtin_meaning(found: Mapping[str, Any]) -> dict[str, str] | None:
    """The meaning of the pattern's required text in the built-in catalogue; None without one, or for no failure."""
    plain = found.get("substring")
    texts = (plain,) if plain else literals.required(found["pattern"], ignore_case=False, substring=False)[:8]
    catalogue = load(DEFAULT)
    failures = [s for s in catalogue.signals if s.kind is None and (s.error_type is not None or s.role == CONFIRMATION)]
    for text in texts:
        matched = {signal.name for signal, _ in matcher_of(catalogue).matches(text)}
        for signal in failures:
            # The text may also be most of what lastbeat itself searches for.
            near = any(text in each and len(text) > _MOST_OF * len(each) for each in signal.literals)
            if signal.name in matched or near:
                told = {"error_type": signal.error_type, "role": signal.role}
                return {key: value for key, value in told.items() if value is not None}
    return None


def _word(value: Any) -> str | None:
    """``value`` as a word that a catalogue accepts, or None."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    word = re.sub(r"[^\w.-]+", "_", str(value).strip())[:100]
    return word if re.match(r"[A-Za-z0-9]", word) else None


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return _shown(value.get("class_name") or value.get("name") or ", ".join(map(str, value)))
    text = " ".join(str(value).split())
    return text if len(text) <= 60 else f"{text[:60]}…"
