"""``signals import``: the log monitor of another launcher, taken over as a catalogue."""

import sys
from pathlib import Path

import click

from lastbeat.model.secrets import mask_tokens
from lastbeat.settings import SettingsError
from lastbeat_cli import exits, logs, options

EPILOG = """\
\b
Exit status:
  0  the catalogue was made; stderr lists what has no counterpart
  3  FILE is no such monitor, or something is wrong with it

\b
Examples:
  lastbeat signals import megatron_production.yaml -o cluster.yaml
  lastbeat signals check cluster.yaml
  lastbeat signals test slurm-4711.out --signals cluster.yaml
"""


@click.command("import", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@options.option("-o", "--out", metavar="PATH", type=click.Path(path_type=Path), help="Write it there, not to stdout.")
@options.option("-v", "--verbose", is_flag=True, help="Say on stderr what is done, with tracebacks.")
def command(*, file: Path, out: Path | None, verbose: bool) -> int:
    """Make a catalogue of FILE, a launcher's log monitor (SlurmLogMonitor, or a job with log_events).

    Patterns, states, metadata and limits are converted. What has no counterpart is listed on stderr, with what to do
    instead.
    """
    logs.verbose(on=verbose)
    from lastbeat.signals import importing, loading  # noqa: PLC0415 - PyYAML and pydantic

    try:
        found = importing.import_monitor(loading.read_file(str(file)), str(file))
    except UnicodeDecodeError as fault:
        raise SettingsError([f"{file} is not UTF-8 text ({fault.reason}); save it as that"]) from None
    except OSError as fault:
        raise SettingsError([f"{file} cannot be read: {fault.strerror}; check the path"]) from None
    except loading.CatalogueError as fault:
        raise SettingsError(str(fault).splitlines()) from None
    for note in found.notes:
        print(mask_tokens(logs.redact(note)), file=sys.stderr)
    if out is None:
        print(found.text, end="")
        return exits.OK
    if out.exists() and out.samefile(file):
        raise SettingsError([f"{out} is the file that is taken over; give another name with --out"])
    out.write_text(found.text, encoding="utf-8")
    return exits.OK
