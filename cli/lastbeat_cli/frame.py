"""Runs every command: an error becomes one plain message and exit status 3, never a traceback.

Python's own status for an uncaught exception is 1 and click's for a wrong option is 2, which a monitoring
system would read as WARNING and CRITICAL.
"""

import logging
import os
import sys
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

import click

from lastbeat.model.document import masked
from lastbeat.model.secrets import Redactor
from lastbeat.model.text import did_you_mean, near_names
from lastbeat.settings import SettingsError, secrets_in
from lastbeat.stores.port import StoreError
from lastbeat_cli import document, exits, logs, options

_SHORTEST_SECRET: Final = 16
"""Shortest value, in characters, that is masked. Shorter ones are placeholders, and may be part of words."""


def run(command: click.Command, arguments: Sequence[str], name: str) -> int:
    """Run ``command`` and return its exit status. Raises only SystemExit."""
    logs.start()
    # Until the settings are read, mask every value of an environment variable that may hold a secret.
    logs.hide(Redactor(text for text in secrets_in(os.environ) if len(text) >= _SHORTEST_SECRET))
    for stream in (sys.stdout, sys.stderr):
        # Text from training may not fit the terminal's encoding.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    as_json = "--json" in takewhile(lambda each: each != "--", arguments)
    try:
        status = _invoke(command, arguments, name, as_json=as_json)
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        hush()
        return exits.READER_LEFT
    except OSError as fault:
        # Most likely a full disk behind stdout. The interpreter's last flush would fail again.
        hush()
        _say(f"{fault.strerror or fault}{f': {fault.filename}' if fault.filename else ''}")
        return exits.UNKNOWN
    except KeyboardInterrupt:
        return exits.INTERRUPTED
    except Exception as fault:
        if _interrupted(fault):
            return exits.INTERRUPTED
        logging.getLogger(__name__).debug("traceback of the error below", exc_info=fault)
        advice = "This is a defect of lastbeat; --verbose shows where it happened."
        _fail(f"{type(fault).__name__}: {fault}", advice, as_json=as_json)
        raise SystemExit(exits.UNKNOWN) from fault
    finally:
        _drop_unwritable()
    return status


def _interrupted(fault: BaseException) -> bool:
    """Whether a Ctrl-C caused ``fault``.

    Python 3.11 turns a Ctrl-C during the creation of a class into a RuntimeError, and libraries may wrap one that
    occurs during their import.
    """
    seen: set[int] = set()
    each: BaseException | None = fault
    while each is not None and id(each) not in seen:
        if isinstance(each, KeyboardInterrupt):
            return True
        seen.add(id(each))
        each = each.__cause__ or each.__context__
    return False


def _invoke(command: click.Command, arguments: Sequence[str], name: str, *, as_json: bool) -> int:
    try:
        # click's own main() would turn a broken pipe into exit status 1.
        with command.make_context(name, list(arguments)) as context:
            return int(command.invoke(context) or 0)
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.UsageError as fault:
        where = fault.ctx.command_path if fault.ctx is not None else name
        _fail(_message(fault), f"'{where} --help' lists what there is.", as_json=as_json)
    except SettingsError as fault:
        many = len(fault.faults) > 1
        what = f"{len(fault.faults)} things are wrong, and nothing was done:\n{fault}" if many else str(fault)
        _fail(what, faults=fault.faults, as_json=as_json)
    except StoreError as fault:
        _fail(str(fault), fault.advice, as_json=as_json)
    return exits.UNKNOWN


def _message(fault: click.UsageError) -> str:
    """click's message, except for a mistyped option and a missing argument."""
    where = fault.ctx
    if isinstance(fault, click.NoSuchOption) and where is not None:
        known = [*options.listed(where.command, where), *sorted(options.unlisted(where.command, where))]
        begun = [each for each in known if each.startswith(fault.option_name)]
        near = did_you_mean((begun or near_names(fault.option_name, known, cutoff=0.75))[:1])
        return f"No such option: {fault.option_name}{near and f'. {near}'}"
    if isinstance(fault, click.MissingParameter) and isinstance(fault.param, click.Argument) and where is not None:
        word = (fault.param.metavar or fault.param.human_readable_name).strip("[].…")
        return options.missing_run(where) if word == "RUN" else f"{word} is missing"
    return fault.format_message()


def _fail(what: str, advice: str = "", faults: Sequence[str] = (), *, as_json: bool) -> None:
    """Say on stderr what is wrong, and with ``--json`` on stdout, too: ``faults``, or else ``what``."""
    _say(what, advice)
    if as_json and sys.stdout is not None:
        errors = [(each, advice) for each in faults or [what]]
        print(document.dump(masked(document.enveloped({}, errors), logs.masked)), flush=True)


def _say(what: str, advice: str = "") -> None:
    if sys.stderr is not None:
        print(logs.masked(f"Error: {what}" + (f"\n{advice}" if advice else "")), file=sys.stderr)


def hush() -> None:
    """Redirect a stdout whose reader has closed it, so that the interpreter's last flush does not fail."""
    if sys.stdout is not None:
        _to_nowhere(sys.stdout.fileno())


def _drop_unwritable() -> None:
    """Flush stderr, or discard its output: a failure in the interpreter's last flush would change the exit status."""
    try:
        if sys.stderr is not None:
            sys.stderr.flush()
    except OSError:
        _to_nowhere(sys.stderr.fileno())


def _to_nowhere(descriptor: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
