"""Settings → a run that reports itself: the SDK's entry, as ``wire`` is the watchdog's."""

import logging
import os
from dataclasses import replace
from typing import TYPE_CHECKING

from lastbeat import own_log
from lastbeat.model.runid import InvalidRunIdError, check_run_id
from lastbeat.model.version import __version__
from lastbeat.sdk.aside import once
from lastbeat.sdk.crashes import faults_into_stderr
from lastbeat.sdk.describing import described_shortly
from lastbeat.sdk.reading import Reader
from lastbeat.sdk.reporter import Guard, Reporter, Surroundings
from lastbeat.sdk.run import Run
from lastbeat.sdk.saying import Complaints, say, why
from lastbeat.sdk.threads import watch_threads
from lastbeat.sdk.values import at_hand, count, plain_text, shown, truth
from lastbeat.settings import Settings, load
from lastbeat.settings.table import BEAT_SECONDS, GUARDIAN, RANK_BEAT_SECONDS

if TYPE_CHECKING:
    from lastbeat.sdk.extra import Extra

_LOOK_S = 2.0
"""How long a start looks at what it was given, where that is something that has to be asked."""


def begin(  # noqa: PLR0913 - each is a word of lastbeat.run
    run_id: str,
    *,
    total_steps: object = None,
    root: str | os.PathLike[str] | None = None,
    resume: bool = False,
    at_exit: bool = False,
    rank: object = None,
    world_size: object = None,
    log_file: str | os.PathLike[str] | None = None,
    capture: bool = False,
) -> Run:
    """Begin an attempt of ``run_id``. Never raises; see :func:`lastbeat.run`."""
    try:
        name = _run_id(run_id)
        # Here and not in the beat thread: by then training may have changed directory or environment.
        found = load(_place(root), channels=False)
    except Exception as fault:  # noqa: BLE001 - whatever it is, training goes on
        expected = isinstance(fault, (ValueError, TypeError, OSError))
        what = "lastbeat is off, nothing watches this training: %s"
        say(logging.ERROR, what, str(fault) if expected else why(fault))
        return Run(described_shortly(run_id), None, total_steps)
    own_log.begin_in_training(found)
    complaints = Complaints()
    # Here and not in the beat thread, where it would be a child of this process for a moment that nobody knows.
    guard = _guard(found, name)

    def prepare() -> Surroundings:
        # In the beat thread: connecting must not hold up the start of training.
        reader = Reader(complaints=complaints)
        its_rank, size = reader.told([("rank", rank, count), ("world_size", world_size, count)])
        reader.close()
        return replace(surroundings(found, rank=its_rank, world_size=size), guard=guard)

    faults_into_stderr()
    extras: tuple[Extra, ...] = ()
    captures = _yes("capture", capture)
    if log_file is not None or captures:
        from lastbeat.sdk.logs import training_log  # noqa: PLC0415 - only where a log is shipped

        extras = training_log(log_file, capture=captures)
    run = Run(name, Reporter(prepare, extras, resume=resume), total_steps)
    try:
        watch_threads(run)
        if at_exit:
            from lastbeat.sdk.endings import watch_the_end  # noqa: PLC0415 - only scripts without a block need it

            watch_the_end(run)
    except Exception as fault:  # noqa: BLE001 - as above
        say(logging.ERROR, "lastbeat will not see how this process ends; end the run yourself: %s", why(fault))
    return run


def surroundings(settings: Settings, *, rank: int | None = None, world_size: int | None = None) -> Surroundings:
    """What a training process reports to: the fleet root, made if it is a directory that is not there yet. Raises as
    :func:`lastbeat.opening.store`."""
    import platform  # noqa: PLC0415 - asked in the beat thread, and not while training starts

    from lastbeat import opening  # noqa: PLC0415 - as above
    from lastbeat.sdk import instance  # noqa: PLC0415 - as above
    from lastbeat.sdk.attempts import restarts  # noqa: PLC0415 - as above
    from lastbeat.sdk.ranks import rank_of  # noqa: PLC0415 - as above

    known = instance.at_once(settings.environ, platform.node())
    return Surroundings(
        # Without retries of its own: a beat that failed is tried again by the beat thread, with what is new by then.
        store=opening.bare_store(settings, training=True),
        instance_id=known.id,
        restarts=restarts(settings.environ),
        beat_s=settings[BEAT_SECONDS],
        version=__version__,
        ask=lambda: instance.ask(settings.environ, known),
        extras=_extras(settings),
        rank=rank_of(settings.environ, platform.node(), rank, world_size),
        rank_beat_s=settings[RANK_BEAT_SECONDS],
    )


def _guard(settings: Settings, run_id: str) -> Guard | None:
    if not settings[GUARDIAN]:
        return None
    from lastbeat.guardian import start  # noqa: PLC0415 - only where it is on

    return start.guard(settings, run_id)


def _extras(settings: Settings) -> "tuple[Extra, ...]":
    from lastbeat.sdk.watched import WatchdogWatched  # noqa: PLC0415 - as above

    stall_s = settings.policy.stall_s
    if stall_s is None:
        return (WatchdogWatched(),)
    from lastbeat.sdk.stacks import Stacks  # noqa: PLC0415 - only where stalls are watched

    return (Stacks(stall_s, settings[BEAT_SECONDS]), WatchdogWatched())


def _run_id(given: object) -> str:
    if not issubclass(type(given), str):
        raise InvalidRunIdError(f"the run id is {shown(given)}, and has to be a text")
    return check_run_id(plain_text(given))


def _place(root: object) -> dict[str, str]:
    if root is None:
        return {}
    # There and back: not every text can be the name of a file.
    text = once(lambda: os.fsdecode(os.fsencode(root)), _LOOK_S, None)  # type: ignore[arg-type]
    if text is None or "\0" in text:
        raise TypeError(f"root is {shown(root)}, and has to be a path or the address of a bucket")
    return {"MONITORING_ROOT": plain_text(text)} if text else {}


def _yes(name: str, given: object) -> bool:
    said = truth(given) if at_hand(given) else once(lambda: truth(given), _LOOK_S, None)
    if said is None and given is not None:
        say(logging.WARNING, "lastbeat leaves %s out: %s says neither yes nor no", name, shown(given))
    return bool(said)
