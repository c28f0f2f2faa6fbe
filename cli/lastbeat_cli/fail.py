"""``fail``: report that a run failed, and why."""

import sys

import click

from lastbeat.model.secrets import mask_tokens
from lastbeat.training.sdk import one_shot
from lastbeat_cli import exits, options, report, values

_HEAD_CHARS = 4 * 1024
_TAIL_CHARS = 24 * 1024

EPILOG = f"""\
{report.EPILOG}
\b
Examples:
  trap 'lastbeat fail nightly --exit-status $? "line $LINENO: $BASH_COMMAND"' ERR
  tail -n 40 train.log | lastbeat fail nightly -
"""


@click.command("fail", cls=options.Grouped, epilog=EPILOG)
@options.option(
    "--run-id", metavar="ID", group=report.WHAT, help="The run, also as RUN before the message [the scheduler's job]."
)
@options.option(
    "--exit-status", metavar="N", group=report.WHAT, help="Exit status to add to the message; in a trap it is $?."
)
@options.place
@options.verbose
@click.argument("words", nargs=-1, metavar="[RUN] [MESSAGE|-]")
def command(*, run_id: str | None, exit_status: str | None, words: tuple[str, ...], **given: str | None) -> int:
    """Report that a run failed: write _error with MESSAGE, or with the text on stdin for '-'.

    A single word is the message; with two, the first one is the run.

    An alert shows the first line. If an attempt has several errors, the first one stays; it outranks a _complete of the
    same attempt.
    """
    faults: list[str] = []
    run_id, message = _run_and_message(run_id, words)
    name = report.run_id(run_id, faults)
    if not name and run_id is None and message is not None:
        faults.append("a single word is the message; use for example lastbeat fail my-run 'it broke'")
    status = values.whole("--exit-status", exit_status, faults)
    if status == 0:
        faults.append("--exit-status=0 is no failure; use 'lastbeat complete'")
    if message is None and exit_status is None:
        faults.append("the message is missing; use for example 'training failed', or - to read it from stdin")
    environment = report.environment(given, faults)
    text = mask_tokens(_stdin() if message == "-" else message or "").strip()
    if run_id is None:
        report.tell(environment.store.url, name, given)
    if not one_shot.fail(environment, name, _with_status(text, status)):
        print(f"lastbeat: {name} had failed already, and its first error stays", file=sys.stderr)
    return exits.OK


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
