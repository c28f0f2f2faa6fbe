"""``beat``, ``fail``, ``complete`` and ``preempted``: report a run from a shell script or cron."""

import logging
import os
import sys
from collections.abc import Mapping
from typing import Final

import click

from lastbeat.model.preemption import Preemption
from lastbeat.model.secrets import mask_tokens
from lastbeat.training import entry as training
from lastbeat.training import features
from lastbeat.training.sdk import one_shot
from lastbeat.training.sdk.beat_tasks import RunEnvironment
from lastbeat.training.sdk.run_ids import job_run_id
from lastbeat_cli import exits, logs, options, values

log = logging.getLogger(__name__)

WHAT: Final = "What to report"
_HEAD_CHARS: Final = 4 * 1024
_TAIL_CHARS: Final = 24 * 1024
_EPILOG = """\
Exit status:
  0  the report was written
  3  the report could not be written; also wrong settings or arguments
"""
_EPILOG_BEAT = f"""\
{_EPILOG}
Examples:
  lastbeat beat nightly --start --phase data_prep
  lastbeat beat nightly --phase training --step 100 --total-steps 5000 --loss 2.31
"""
_EPILOG_FAIL = f"""\
{_EPILOG}
Examples:
  trap 'lastbeat fail nightly --exit-status $? "line $LINENO: $BASH_COMMAND"' ERR
  tail -n 40 train.log | lastbeat fail nightly -
"""
_EPILOG_PREEMPTED = f"""\
{_EPILOG}
Example:
  trap 'save && lastbeat preempted nightly --checkpoint ckpt/step_1500 --step 1500; exit' TERM
"""
_of_run = options.run(WHAT, "The run: its folder's name below the fleet root [the scheduler's job].")


@click.command("beat", cls=options.Grouped, epilog=_EPILOG_BEAT)
@_of_run
@options.option("--start", "Begin a new attempt; removes the sentinel of the last one.", WHAT)
@options.option("--phase P", "The run's phase [as before].", WHAT)
@options.option("--step N", "The current step; also writes progress.json.", WHAT)
@options.option("--total-steps N", "Number of steps of the run [as before].", WHAT)
@options.option("--loss F", "The loss at this step; may be nan.", WHAT)
@options.option("--learning-rate F", "The learning rate at this step.", WHAT)
@options.option("--attempt N", "The attempt; a higher number begins a new attempt.", WHAT)
@options.option("--owner NAME", "Whose run it is [as before].", WHAT)
@options.option("--team NAME", "The owner's team [as before].", WHAT)
@options.place
@options.verbose
def beat(  # noqa: PLR0913 - one for each option
    *,
    run_id: str | None,
    start: bool,
    phase: str | None,
    step: str | None,
    total_steps: str | None,
    loss: str | None,
    learning_rate: str | None,
    attempt: str | None,
    **given: str | None,
) -> int:
    """Write one heartbeat of a run, with its progress. Call it at least every few minutes: stale is 10 minutes."""
    faults: list[str] = []
    name = _name(run_id, faults)
    said = one_shot.Report(
        phase=phase,
        step=values.whole("--step", step, faults),
        total_steps=values.whole("--total-steps", total_steps, faults, least=1),
        loss=values.number("--loss", loss, faults),
        learning_rate=values.number("--learning-rate", learning_rate, faults),
        attempt=values.whole("--attempt", attempt, faults, least=1),
    )
    if step is None and (total_steps, loss, learning_rate) != (None, None, None):
        faults.append("--total-steps, --loss and --learning-rate belong to a step; give --step N, too")
    environment = _environment(given, faults)
    if one_shot.beat(environment, name, said, begin=start) and run_id is None:
        tell(environment.store.url, name, given)
    return exits.OK


@click.command("fail", cls=options.Grouped, epilog=_EPILOG_FAIL)
@options.option("--run-id ID", "The run, also as RUN before the message [the scheduler's job].", WHAT)
@options.option("--exit-status N", "Exit status to add to the message; in a trap it is $?.", WHAT)
@options.place
@options.verbose
@click.argument("words", nargs=-1, metavar="[RUN] [MESSAGE|-]")
def fail(*, run_id: str | None, exit_status: str | None, words: tuple[str, ...], **given: str | None) -> int:
    """Report that a run failed: write _error with MESSAGE, or with the text on stdin for '-'.

    A single word is the message; with two, the first one is the run.

    An alert shows the first line. If an attempt has several errors, the first one stays; it outranks a _complete of the
    same attempt.
    """
    faults: list[str] = []
    run_id, message = _run_and_message(run_id, words)
    name = _name(run_id, faults)
    if not name and run_id is None and message is not None:
        faults.append("a single word is the message; use for example lastbeat fail my-run 'it broke'")
    status = values.whole("--exit-status", exit_status, faults)
    if status == 0:
        faults.append("--exit-status=0 is no failure; use 'lastbeat complete'")
    if message is None and exit_status is None:
        faults.append("the message is missing; use for example 'training failed', or - to read it from stdin")
    environment = _environment(given, faults)
    text = mask_tokens(_stdin() if message == "-" else message or "").strip()
    if run_id is None:
        tell(environment.store.url, name, given)
    if not one_shot.fail(environment, name, _with_status(text, status)):
        print(f"lastbeat: {name} had failed already, and its first error stays", file=sys.stderr)
    return exits.OK


@click.command("complete", cls=options.Grouped, epilog=_EPILOG)
@_of_run
@options.place
@options.verbose
def complete(*, run_id: str | None, **given: str | None) -> int:
    """Report that a run succeeded: write _complete. An _error of the same attempt outranks it."""
    faults: list[str] = []
    name, environment = _name(run_id, faults), _environment(given, faults)
    succeeded = one_shot.complete(environment, name)
    if run_id is None:
        tell(environment.store.url, name, given)
    if not succeeded:
        print(
            f"lastbeat: {name} stays FAILED: the _error of this attempt outranks _complete; "
            "'lastbeat beat RUN --start' begins a new attempt",
            file=sys.stderr,
        )
    return exits.OK


@click.command("preempted", cls=options.Grouped, epilog=_EPILOG_PREEMPTED)
@_of_run
@options.option("--checkpoint PATH-OR-URL", "Folder or URL of the checkpoint.", WHAT)
@options.option("--step N", "The last step in the checkpoint.", WHAT)
@options.option("--why TEXT", "The reason why the run ended.", WHAT, also=("--reason",))
@options.place
@options.verbose
def preempted(
    *,
    run_id: str | None,
    checkpoint: str | None,
    step: str | None,
    why: str | None,
    **given: str | None,
) -> int:
    """Report that a run ended early and saved a checkpoint first: write _preempted. This is not a failure.

    An _error or a _complete of the same attempt outranks it.
    """
    faults: list[str] = []
    name, last = _name(run_id, faults), values.whole("--step", step, faults)
    environment = _environment(given, faults)
    one_shot.preempted(environment, name, Preemption(mask_tokens(checkpoint or ""), last, mask_tokens(why or "")))
    if run_id is None:
        tell(environment.store.url, name, given)
    return exits.OK


def tell(url: str, name: str, given: Mapping[str, str | None]) -> None:
    """Print to stderr which run is reported, if the user gave no id. ``given`` are the arguments."""
    print(logs.redact(training.told_place(url, name, given=given.get("root") is not None)), file=sys.stderr, flush=True)


def _name(text: str | None, faults: list[str]) -> str:
    """The checked run id, by default that of the scheduler's job. Adds what is wrong with it to ``faults``."""
    return values.named_run(job_run_id(os.environ) if text is None else text, faults)


def _environment(given: Mapping[str, str | None], faults: list[str]) -> RunEnvironment:
    """The environment of the report, with its store. Raises :class:`SettingsError` with ``faults`` and all other
    faults."""
    settings = values.settings(given, faults, training=True)
    for line in settings.ignored_told():
        log.warning("%s", line)
    return features.run_environment(settings)


def _run_and_message(run_id: str | None, words: tuple[str, ...]) -> tuple[str | None, str | None]:
    """The run, if one is named, and the message, if there is one. Raises :class:`click.UsageError` for more words."""
    if len(words) > 2:
        raise click.UsageError(f"the message has to be one word: put {' '.join(words[1:])[:80]!r} in quotes")
    if len(words) == 2:
        return options.one_run(words[0], run_id), words[1]
    return run_id, words[0] if words else None


def _with_status(text: str, status: int | None) -> str:
    first, _, rest = text.partition("\n")
    if status is not None:
        first = f"{first} (exit status {status})" if first else f"Failed with exit status {status}"
    return f"{first or 'Failed'}\n{rest}"


def _stdin() -> str:
    """The text on stdin; the beginning and the end of a long one."""
    if sys.stdin is None:
        return ""
    head = sys.stdin.buffer.read(_HEAD_CHARS)
    tail, missing = b"", False
    while chunk := sys.stdin.buffer.read(64 * 1024):
        tail += chunk
        if len(tail) > _TAIL_CHARS:
            tail, missing = tail[-_TAIL_CHARS:], True
    return (head + (b"\n[...]\n" if missing else b"") + tail).decode("utf-8", "replace")
