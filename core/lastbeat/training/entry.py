"""Settings → a run that reports itself: the SDK's entry."""

import faulthandler
import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

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
from lastbeat.training import sdk
from lastbeat.training.sdk.beat_tasks import BeatTask, RunEnvironment, RunSharing
from lastbeat.training.sdk.ranks import rank_of
from lastbeat.training.sdk.reporter import Reporter
from lastbeat.training.sdk.run import Run
from lastbeat.training.sdk.safe_log import WarnOnce, fault_text, safe_log
from lastbeat.training.sdk.sections import LONGEST_LIMIT_MINUTES, SectionLimits
from lastbeat.training.sdk.threads import watch_threads
from lastbeat.training.sdk.timed_calls import call_with_timeout
from lastbeat.training.sdk.values import (
    ValueReader,
    as_bool,
    as_number,
    as_process_count,
    as_text,
    immediate_int,
    plain_str,
    safe_to_read,
    short_text,
    value_label,
)

if TYPE_CHECKING:
    from lastbeat.model.simulated_fault import FaultRequest

_OUTSIDE_S: Final = 300.0
_STARTING_S: Final = 1800.0
"""Least limit in s before the first step, while training loads data, compiles and warms up."""
_ARGUMENT_LIMIT_S = 2.0
"""Time limit in s for reading an argument of a start that may run training's code."""


def begin(  # noqa: PLR0913 - each is an argument of lastbeat.run
    run_id: str | None = None,
    *,
    total_steps: object = None,
    root: str | os.PathLike[str] | None = None,
    resume: bool = False,
    at_exit: bool = False,
    rank: object = None,
    world_size: object = None,
    log_file: str | os.PathLike[str] | None = None,
    capture: bool = False,
    stale_minutes: object = None,
    stall_minutes: object = None,
    owner: object = None,
    team: object = None,
    config: object = None,
    tags: object = None,
    notes: object = None,
    exit_signal: object = None,
    sections: object = None,
    out_of_section: object = None,
    learn: object = None,
    stragglers: object = None,
    simulate_fault: object = None,
) -> Run:
    """Begin an attempt of ``run_id``. Never raises; see :func:`lastbeat.run`.

    1. Load the settings and name the run now, because training may have changed its directory or environment before the
       beat thread runs. If the place of runs is wrong, log that and return a run that reports nothing. Any other wrong
       setting keeps its default, and a name that is no run id becomes one, each with a line in the log.
    2. Start the guardian now, before the beat thread. The process that starts it is briefly a child of this process,
       which training must not find when it waits for its own.
    3. Have native crashes print a traceback, and set up the log to ship.
    4. Start the beat thread. It connects to the store, so that training does not wait for that.
    5. Watch the end of threads, and with ``at_exit`` the end of the process.
    """
    try:
        settings = load(_root_setting(root), channels=False, training=True)
        name, renamed = _run_id(run_id, lambda: _own_run_id(settings, rank, world_size))
    except Exception as fault:  # noqa: BLE001 - whatever it is, training goes on
        expected = isinstance(fault, (ValueError, TypeError, OSError))
        what = "lastbeat is off, nothing watches this training: %s"
        safe_log(logging.ERROR, what, str(fault) if expected else fault_text(fault))
        return Run(short_text(run_id) if run_id is not None else "", None, total_steps)
    own_log.begin_in_training(settings)
    for mistake in (*settings.name_hints, *settings.ignored_told(), *filter(None, [renamed])):
        safe_log(logging.WARNING, "%s", mistake)
    warnings = WarnOnce()
    this = rank_of(settings.environ, "", immediate_int(rank), immediate_int(world_size))
    dumps = record_collectives(settings, name) if this.world > 1 else None
    guardian, sharing = _guardian(settings, name, dumps), _sharing(name)
    wanted, simulated = _stragglers(settings, stragglers), _fault(simulate_fault, settings)

    def prepare() -> RunEnvironment:
        # Imported in the beat thread, not while training starts.
        from lastbeat.training import features  # noqa: PLC0415 - as above

        reader = ValueReader(warnings=warnings)
        asked = [
            ("rank", rank, as_process_count),
            ("world_size", world_size, as_process_count),
            ("stale_minutes", stale_minutes, as_number),
            ("stall_minutes", stall_minutes, as_number),
            ("owner", owner, as_text),
            ("team", team, as_text),
            ("learn", learn, as_bool),
        ]
        given_rank, given_size, stale, stall, whose, of_team, learns = reader.read(asked)
        described = _described(reader, config, tags, notes)
        section_limits = _section_limits(settings, sections, out_of_section, reader)
        reader.close()
        learns = settings[LEARN] if learns is None else learns
        options = features.RunOptions(stall, section_limits, learns, wanted, simulated, told_place=tell)
        environment = features.run_environment(settings, rank=given_rank, world_size=given_size, options=options)
        identity = replace(
            environment.identity,
            own_limits={"stale_minutes": stale, "stall_minutes": stall},
            owner=_owner(whose) or environment.identity.owner,
            team=_owner(of_team) or environment.identity.team,
            described=described,
        )
        return replace(environment, identity=identity, sharing=sharing, resume=resume)

    def tell(url: str) -> str:
        return told_place(url, name, given=root is not None)

    enable_faulthandler()
    recorder = (sdk.flight_recorder.FlightDumps(dumps),) if dumps is not None else ()
    early_tasks = (*guardian, *recorder, *_log_tasks(log_file, captures=_flag("capture", capture)))

    def find_url() -> str | None:
        from lastbeat.settings import opening  # noqa: PLC0415 - only on request

        return opening.run_link(settings, name)

    run = Run(name, Reporter(prepare, early_tasks), total_steps, find_url)
    _take_times(run, learns=learn is True or (learn is None and settings[LEARN]), stragglers=wanted)
    run.world, run.leads = this.world, this.leads
    _heed_exit_signal(run, exit_signal, settings)
    try:
        watch_threads(run)
        if at_exit:
            sdk.process_exit.end_with_process(run)
    except Exception as fault:  # noqa: BLE001 - as above
        what = "lastbeat cannot see how this process ends; end the run yourself: %s"
        safe_log(logging.ERROR, what, fault_text(fault))
    return run


def _log_tasks(log_file: str | os.PathLike[str] | None, *, captures: bool) -> tuple[BeatTask, ...]:
    if log_file is None and not captures:
        return ()
    return sdk.log_shipping.log_tasks(log_file, capture=captures)


def _take_times(run: Run, *, learns: bool, stragglers: Stragglers) -> None:
    """Have the run measure its sections and steps from now on, if it learns limits or watches for stragglers."""
    if learns:
        # Not from the first beat on, because the start often takes longest.
        run.sections.times = sdk.learning.SpanTimes()
    if stragglers.mode != OFF:
        run.sections.steps = sdk.step_times.StepTimes(stragglers.every)


def _stragglers(settings: Settings, given: object) -> Stragglers:
    """The setting, with the mode that training gives."""
    stated = settings[STRAGGLERS]
    if given is None:
        return stated
    if given is True or given is False:
        return replace(stated, mode="on" if given else OFF)
    if type(given) is str:
        with suppress(ValueError):
            return replace(stated, mode=straggler_mode(given))
    what = 'lastbeat leaves stragglers out: %s is none of True, False, "on", "off" and "stop"'
    safe_log(logging.WARNING, what, value_label(given))
    return stated


def _heed_exit_signal(run: Run, given: object, settings: Settings) -> None:
    run.exit_signal = _exit_signal(given, settings)
    run.heeds_stop = run.exit_signal is not None


def _exit_signal(given: object, settings: Settings) -> int | None:
    if given is None:
        return settings[EXIT_SIGNAL]
    try:
        return model.posix_signals.signal_number(given)
    except ValueError as fault:
        safe_log(logging.WARNING, "lastbeat leaves exit_signal out: %s %s", value_label(given), fault)
        return settings[EXIT_SIGNAL]


def _fault(given: object, settings: Settings) -> "FaultRequest | None":
    if given is None:
        return settings[SIMULATE_FAULT]
    try:
        return model.simulated_fault.read_fault(plain_str(given)) if issubclass(type(given), str) else _no_fault()
    except ValueError as why:
        safe_log(logging.WARNING, "lastbeat leaves simulate_fault out: %s %s", value_label(given), why)
        return settings[SIMULATE_FAULT]


def _no_fault() -> NoReturn:
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


def _described(reader: ValueReader, config: object, tags: object, notes: object) -> dict[str, object]:
    """What training says of its run, for metadata.json."""
    if config is None and tags is None and notes is None:
        return {}
    asked = [
        ("config", config, sdk.configuration.as_config),
        ("tags", tags, sdk.configuration.as_tags),
        ("notes", notes, as_text),
    ]
    found = dict(zip(("config", "tags", "notes"), reader.read(asked), strict=True))
    if found["notes"] is not None:
        found["notes"] = model.secrets.mask_tokens(found["notes"])
    return {name: value for name, value in found.items() if value}


def _owner(given: str | None) -> str | None:
    if given is None:
        return None
    return model.text.owner_name(given)


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


def _own_run_id(settings: Settings, rank: object, world_size: object) -> str:
    """The run id of a run without a given one. Raises :class:`lastbeat.training.sdk.run_ids.NoRunIdError`."""
    import platform  # noqa: PLC0415 - as in run_environment

    if wrapped := os.environ.get("_LASTBEAT_EXEC_RUN"):
        # ``lastbeat exec`` reports this very command.
        return wrapped
    host = platform.node()
    which = rank_of(settings.environ, host, immediate_int(rank), immediate_int(world_size))
    return sdk.run_ids.own_run_id(settings.environ, sys.argv[0] if sys.argv else "", host, which)


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


def _flag(name: str, given: object) -> bool:
    if safe_to_read(given):
        value = as_bool(given)
    else:
        value = call_with_timeout(lambda: as_bool(given), _ARGUMENT_LIMIT_S, None)
    if value is None and given is not None:
        safe_log(logging.WARNING, "lastbeat leaves %s out: %s is neither true nor false", name, value_label(given))
    return bool(value)
