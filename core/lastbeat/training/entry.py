"""Settings → a run that reports itself: the SDK's entry."""

import faulthandler
import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, SupportsFloat, SupportsInt, TypedDict, TypeVar

from lastbeat import model, stores
from lastbeat.model.runid import InvalidRunIdError, safe_run_id
from lastbeat.model.setting import MOST_OF_A_KEY
from lastbeat.settings import Settings, load, own_log
from lastbeat.settings.table import (
    EXIT_SIGNAL,
    FLIGHT_RECORDER,
    GUARDIAN,
    LEARN,
    MOST_SECTIONS,
    OFF,
    SECTION_TIMEOUTS,
    SIMULATE_FAULT,
    STRAGGLERS,
    Stragglers,
    straggler_mode,
)
from lastbeat.stores.timed_calls import call_with_timeout
from lastbeat.training import sdk
from lastbeat.training.sdk.beat_tasks import BeatTask, RunEnvironment, RunSharing
from lastbeat.training.sdk.ranks import Rank, rank_of
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text, safe_log
from lastbeat.training.sdk.sections import LONGEST_LIMIT_MINUTES, SectionLimits
from lastbeat.training.sdk.threads import watch_threads
from lastbeat.training.sdk.values import (
    ReadAs,
    ValueReader,
    as_bool,
    as_number,
    as_process_count,
    as_text,
    immediate_int,
    plain_str,
    read_within,
    short_text,
    value_label,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from lastbeat.model.simulated_fault import FaultRequest

_OUTSIDE_S: Final = 300.0
_STARTING_S: Final = 1800.0
"""Least limit in s before the first step, while training loads data, compiles and warms up."""
_ARGUMENT_LIMIT_S = 2.0
"""Time limit in s for reading an argument of a start that may run training's code."""
T = TypeVar("T")


class RunOptions(TypedDict, total=False):
    """The options of :func:`lastbeat.run`, which explains them. Training may give anything, so nothing trusts these
    types."""

    total_steps: SupportsInt | str | None
    root: str | os.PathLike[str] | None
    resume: bool
    rank: SupportsInt | str | None
    world_size: SupportsInt | str | None
    log_file: str | os.PathLike[str] | None
    capture: bool
    stale_minutes: SupportsFloat | str | None
    stall_minutes: SupportsFloat | str | None
    owner: str | None
    team: str | None
    config: object
    tags: Iterable[str] | str | None
    notes: str | None
    exit_signal: int | str | None
    sections: Mapping[str, float] | None
    out_of_section: SupportsFloat | None
    learn: bool | None
    stragglers: bool | str | None
    simulate_fault: str | None


_READ_AS: Final[Mapping[str, ReadAs]] = {
    "rank": as_process_count,
    "world_size": as_process_count,
    "stale_minutes": as_number,
    "stall_minutes": as_number,
    "owner": as_text,
    "team": as_text,
    "learn": as_bool,
}
"""Options that the beat thread reads."""


def begin(run_id: str | None = None, *, at_exit: bool = False, **options: "Unpack[RunOptions]") -> Run:
    """Begin an attempt of ``run_id``. Never raises for a value; see :func:`lastbeat.run`.

    1. Load the settings and name the run now, because training may have changed its directory or environment before the
       beat thread runs. If the place of runs is wrong, log that and return a run that reports nothing. Any other wrong
       setting keeps its default, and a name that is no run id becomes one, each with a line in the log.
    2. Start the guardian now, before the beat thread. The process that starts it is briefly a child of this process,
       which training must not find when it waits for its own.
    3. Have native crashes print a traceback, and set up the log to ship.
    4. Start the beat thread. It connects to the store, so that training does not wait for that.
    5. Watch the end of threads, and with ``at_exit`` the end of the process.
    """
    if unknown := options.keys() - RunOptions.__optional_keys__:
        raise TypeError(f"lastbeat.run has no option {min(unknown)}; it has {', '.join(RunOptions.__annotations__)}")
    total_steps, root, learn = options.get("total_steps"), options.get("root"), options.get("learn")
    try:
        settings = load(_root_setting(root), channels=False, training=True)
        this = rank_of(
            settings.environ, "", immediate_int(options.get("rank")), immediate_int(options.get("world_size"))
        )
        name, renamed = _run_id(run_id, lambda: _own_run_id(settings, this))
    except Exception as fault:  # noqa: BLE001 - whatever it is, training goes on
        expected = isinstance(fault, (ValueError, TypeError, OSError))
        what = "lastbeat is off, nothing watches this training: %s"
        safe_log(logging.ERROR, what, str(fault) if expected else fault_text(fault))
        return Run(short_text(run_id) if run_id is not None else "", None, total_steps)
    own_log.begin_in_training(settings)
    for mistake in (*settings.name_hints, *settings.ignored_told(), *filter(None, [renamed])):
        safe_log(logging.WARNING, "%s", mistake)
    dumps = record_collectives(settings, name) if this.world > 1 else None
    guardian, sharing, warnings = _guardian(settings, name, dumps), _sharing(name), WarnOnce()
    stragglers = _given_or(
        settings[STRAGGLERS], "stragglers", options.get("stragglers"), partial(_stragglers, settings)
    )
    simulated = _given_or(settings[SIMULATE_FAULT], "simulate_fault", options.get("simulate_fault"), _fault)

    def prepare() -> RunEnvironment:
        reader = ValueReader(warnings=warnings)
        environment = _environment(settings, name, options, reader, stragglers, simulated)
        reader.close()
        return replace(environment, sharing=sharing)

    def find_url() -> str | None:
        from lastbeat.settings import opening  # noqa: PLC0415 - only on request

        return opening.run_link(settings, name)

    enable_faulthandler()
    recorder = (sdk.flight_recorder.FlightDumps(dumps),) if dumps is not None else ()
    early_tasks = (*guardian, *recorder, *_log_tasks(options.get("log_file"), options.get("capture")))
    run = Run(name, Reporter(prepare, early_tasks), total_steps, find_url)
    if learn is True or (learn is None and settings[LEARN]):
        # Not from the first beat on, because the start often takes longest.
        run.sections.times = sdk.learning.SpanTimes()
    if stragglers.mode != OFF:
        run.sections.steps = sdk.step_times.StepTimes(stragglers.every)
    run.world, run.leads = this.world, this.leads
    run.exit_signal = _given_or(settings[EXIT_SIGNAL], "exit_signal", options.get("exit_signal"), _signal)
    run.heeds_stop = run.exit_signal is not None
    try:
        watch_threads(run)
        if at_exit:
            sdk.process_exit.end_with_process(run)
    except Exception as fault:  # noqa: BLE001 - as above
        what = "lastbeat cannot see how this process ends; end the run yourself: %s"
        safe_log(logging.ERROR, what, fault_text(fault))
    return run


def _environment(
    settings: Settings,
    run_id: str,
    options: RunOptions,
    reader: ValueReader,
    stragglers: Stragglers,
    simulated: "FaultRequest | None",
) -> RunEnvironment:
    """What the run is reported to, by settings and options. In the beat thread, which reads the options."""
    # Imported in the beat thread, not while training starts.
    from lastbeat.training import features  # noqa: PLC0415 - as above

    asked = [(option, options.get(option), read_as) for option, read_as in _READ_AS.items()]
    given = dict(zip(_READ_AS, reader.read(asked), strict=True))
    described = _described(reader, options)
    limits = _section_limits(settings, options.get("sections"), options.get("out_of_section"), reader)
    learns = settings[LEARN] if given["learn"] is None else given["learn"]
    rank, world_size, stall_minutes = given["rank"], given["world_size"], given["stall_minutes"]
    wanted = features.FeatureOptions(rank, world_size, stall_minutes, limits, learns, stragglers, simulated)
    environment = features.run_environment(settings, wanted)
    identity = replace(
        environment.identity,
        own_limits={name: given[name] for name in ("stale_minutes", "stall_minutes")},
        owner=model.text.owner_name(given["owner"]) or environment.identity.owner,
        team=model.text.owner_name(given["team"]) or environment.identity.team,
        described=described,
    )
    line = told_place(environment.store.url, run_id, given=options.get("root") is not None)
    tasks = (*environment.tasks, features.PlaceAnnouncement(line))
    return replace(environment, identity=identity, resume=options.get("resume"), tasks=tasks)


def _log_tasks(log_file: object, capture: object) -> tuple[BeatTask, ...]:
    captures = read_within(capture, as_bool, _ARGUMENT_LIMIT_S)
    if captures is None and capture is not None:
        safe_log(logging.WARNING, "lastbeat leaves capture out: %s is neither true nor false", value_label(capture))
    if log_file is None and not captures:
        return ()
    return sdk.log_shipping.log_tasks(log_file, capture=bool(captures))


def _given_or(stated: T, name: str, given: object, read: Callable[[object], T]) -> T:
    """What training gives, else the setting. A wrong value is left out, with a line in the log."""
    try:
        return stated if given is None else read(given)
    except ValueError as why:
        safe_log(logging.WARNING, "lastbeat leaves %s out: %s %s", name, value_label(given), why)
        return stated


def _stragglers(settings: Settings, given: object) -> Stragglers:
    """The setting, with the mode that training gives. Raises ValueError for none."""
    if given is True or given is False:
        return replace(settings[STRAGGLERS], mode="on" if given else OFF)
    with suppress(ValueError):
        if type(given) is str:
            return replace(settings[STRAGGLERS], mode=straggler_mode(given))
    raise ValueError('is none of True, False, "on", "off" and "stop"')


def _signal(given: object) -> int:
    return model.posix_signals.signal_number(given)


def _fault(given: object) -> "FaultRequest":
    if issubclass(type(given), str):
        return model.simulated_fault.read_fault(plain_str(given))
    raise ValueError("is no text, as rank_killed:2:30 is")


def section_limits(settings: Settings) -> SectionLimits:
    """The time limits of training's sections, by the settings."""
    reader = ValueReader()
    found = _section_limits(settings, None, None, reader)
    reader.close()
    return found


def _section_limits(settings: Settings, sections: object, outside: object, reader: ValueReader) -> SectionLimits:
    """The limit of each section by training's arguments, else by the settings."""
    named: dict[str, object] = {}
    if issubclass(type(sections), dict):
        items: list[Any] = list(dict.items(sections))[:MOST_SECTIONS]  # type: ignore[arg-type]
        named = {plain_str(name)[:MOST_OF_A_KEY]: value for name, value in items if issubclass(type(name), str)}
    elif sections is not None:
        what = 'lastbeat leaves sections out: %s is no dictionary; use sections={"checkpointing": 420}'
        safe_log(logging.WARNING, what, value_label(sections))
    asked = [(f"the limit of section {name!r}", value, as_number) for name, value in named.items()]
    *given, outside_s = reader.read([*asked, ("out_of_section", outside, as_number)])
    stated = settings[SECTION_TIMEOUTS]
    limits = dict(stated.sections)
    without = set[str]()
    for name, seconds in zip(named, given, strict=True):
        # 0 means no limit, regardless of the settings.
        limits.pop(name, None)
        if _is_span(seconds) and seconds > 0:
            limits[name] = float(seconds)
        elif _is_span(seconds):
            without.add(name)
    outside_s = outside_s if _is_span(outside_s) else stated.out_of_section
    by_hand = outside_s is not None
    if outside_s is None:
        outside_s = _OUTSIDE_S if limits else 0.0
    found = SectionLimits(limits, without=frozenset(without), outside_by_hand=by_hand)
    if not outside_s:
        return found
    return replace(found, outside_s=float(outside_s), starting_s=max(float(outside_s), _STARTING_S))


def _is_span(seconds: object) -> bool:
    return isinstance(seconds, (int, float)) and 0 <= seconds <= LONGEST_LIMIT_MINUTES * 60


def _described(reader: ValueReader, options: RunOptions) -> dict[str, object]:
    """What training says of its run, for metadata.json."""
    if all(options.get(name) is None for name in ("config", "tags", "notes")):
        return {}
    read_as = {"config": sdk.configuration.as_config, "tags": sdk.configuration.as_tags, "notes": as_text}
    asked = [(name, options.get(name), read) for name, read in read_as.items()]
    found = dict(zip(read_as, reader.read(asked), strict=True))
    if found["notes"] is not None:
        found["notes"] = model.secrets.mask_tokens(found["notes"])
    return {name: value for name, value in found.items() if value}


_LEVEL_OF: Final = {
    "error": "error", "failed": "error", "timed_out": "error", "critical": "error", "fatal": "error",
    "warning": "warning", "warn": "warning", "cancelled": "warning", "unknown": "warning",
}  # fmt: skip
"""Status word → level of the alert; any other word is info."""
_CONTEXT_MOST: Final = 20


def raise_alert(
    run_id: object, status: object, text: object, context: object, root: str | os.PathLike[str] | None
) -> bool:
    """See :func:`lastbeat.alert`. Never raises."""
    try:
        from lastbeat.settings import opening  # noqa: PLC0415 - few call this

        (name, _), word = safe_run_id(_as_run_id(run_id)), short_text(status).strip()
        settings = load(_root_setting(root), channels=False, training=True)
        lines = [short_text(text)] if text is not None else []
        if issubclass(type(context), dict):
            items: list[Any] = list(dict.items(context))[:_CONTEXT_MOST]  # type: ignore[arg-type]
            lines += [f"{short_text(key)}: {short_text(value)}" for key, value in items]
        level = _LEVEL_OF.get(word.lower(), "info")
        title = "" if word.lower() in {"info", "warning", "error"} else word
        store = stores.retrying.RetryingStore(opening.bare_store(settings, training=True))
        sdk.raising.add_alerts(store, name, [sdk.raising.new_alert(title, "\n".join(filter(None, lines)), level)])
    except Exception as fault:  # noqa: BLE001 - the script goes on
        safe_log(logging.ERROR, "lastbeat could not raise an alert: %s", fault_text(fault))
        return False
    return True


def told_place(url: str, run_id: str, *, given: bool = False) -> str:
    """The line for people at the begin of reporting. ``given`` says that the root differs from that of the settings."""
    root = f" --root {url}" if given else ""
    return f"lastbeat: reporting to {url} as run {run_id}; see it with: lastbeat show {run_id}{root}"


def enable_faulthandler() -> None:
    """Have a native crash (SIGSEGV, SIGABRT, …) print a Python traceback on stderr, unless that is set up already.

    A process that crashes can no longer ship anything. The text reaches the target of its stderr (``lastbeat exec``, a
    scheduler's log, a terminal), but not the store by itself.
    """
    # Without a stderr, or with one that is not a file (as in a notebook), nothing can be written.
    with suppress(Exception):
        if not faulthandler.is_enabled():
            faulthandler.enable()


def record_collectives(settings: Settings, run_id: str, command: str | None = None) -> str | None:
    """Have PyTorch record the ranks' collectives, in this process and those that it starts, such as ``command``.
    Returns the folder for its dumps, or None if lastbeat has nothing to do with them. Never raises."""
    if not settings[FLIGHT_RECORDER]:
        return None
    try:
        root = settings.root
        local = stores.registry.of(root).TRAITS.local
        recorder = sdk.flight_recorder
        version = recorder.torch_version(command)
        return recorder.record(os.environ, f"{root.path}/{run_id}" if local else None, version)
    except Exception as fault:  # noqa: BLE001 - training goes on without
        safe_log(logging.DEBUG, "the flight recorder is left alone: %s", fault_text(fault))
        return None


def _guardian(settings: Settings, run_id: str, dumps: str | None) -> tuple[BeatTask, ...]:
    if not settings[GUARDIAN]:
        return ()
    try:
        from lastbeat.training.guardian import start  # noqa: PLC0415 - only if it is on
    except Exception as fault:  # noqa: BLE001 - a process that can open no more files, for example
        safe_log(logging.DEBUG, "no guardian sees how this process ends: %s", fault_text(fault))
        return ()
    client = start.guardian_client(settings, run_id, dumps)
    return (client,) if client is not None else ()


def _sharing(run_id: str) -> RunSharing:
    """How this training shares its run, if ``lastbeat exec`` restarts it in place."""
    if "_LASTBEAT_IN_PLACE" not in os.environ:
        return RunSharing()
    return sdk.exec_in_place.started_by(run_id, os.environ.get("_LASTBEAT_EXEC_RUN")) or RunSharing()


def _own_run_id(settings: Settings, this: Rank) -> str:
    """The run id of a run without a given one. Raises :class:`lastbeat.training.sdk.run_ids.NoRunIdError`."""
    import platform  # noqa: PLC0415 - as in run_environment

    # ``lastbeat exec`` may report this very command.
    wrapped = os.environ.get("_LASTBEAT_EXEC_RUN")
    script = sys.argv[0] if sys.argv else ""
    return wrapped or sdk.run_ids.own_run_id(settings.environ, script, platform.node(), this)


def _run_id(given: object, find_own: Callable[[], str]) -> tuple[str, str]:
    """The id of a run that training calls ``given``, or its own id without a name, and a note for the log."""
    fault = None
    try:
        if given is not None:
            return safe_run_id(_as_run_id(given))
    except ValueError as wrong:
        fault = wrong
    name, renamed = safe_run_id(find_own())
    return name, f"{fault}; lastbeat calls this run {name}" if fault is not None else renamed


def _as_run_id(given: object) -> str:
    """``given`` as text. Raises ``ValueError``."""
    if issubclass(type(given), str):
        return plain_str(given)
    number = immediate_int(given)
    if number is None:
        raise InvalidRunIdError(f"the run id has to be text, and is {value_label(given)}")
    return str(number)


def _root_setting(root: object) -> dict[str, str]:
    if root is None:
        return {}
    # Encoded and decoded, because not every text can be a file name.
    text = call_with_timeout(lambda: os.fsdecode(os.fsencode(root)), _ARGUMENT_LIMIT_S, None)  # type: ignore[arg-type]
    if text is None or "\0" in text:
        raise TypeError(f"root has to be a path or the address of a bucket, and is {value_label(root)}")
    return {"MONITORING_ROOT": plain_str(text)} if text else {}
