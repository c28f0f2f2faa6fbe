"""``signals import``: convert another launcher's log monitor and restart policy."""

import sys
from pathlib import Path

import click

from lastbeat.explain.signals import loading
from lastbeat.jobs.restarts.importing import ImportedConfiguration, import_configuration
from lastbeat.jobs.restarts.loading import RestartPolicyError
from lastbeat.settings import SettingsError
from lastbeat_cli import exits, logs, options

EPILOG = """\
Exit status:
  0  the files were written; stderr lists what has no counterpart
  3  PATH has neither a monitor nor a restart policy, or something is wrong with it

Examples:
  lastbeat signals import megatron_production.yaml -o cluster.yaml
  lastbeat signals import experiment.yaml -o cluster.yaml --policy-out restarts.yaml
  lastbeat signals check cluster.yaml
  lastbeat signals test slurm-4711.out --signals cluster.yaml
"""


@click.command("import", cls=options.Grouped, epilog=EPILOG)
@click.argument("file", metavar="PATH", type=click.Path(path_type=Path))
@options.option("-o --out PATH", "Write the catalogue to this file, not to stdout.", type=click.Path(path_type=Path))
@options.option("--policy-out PATH", "Write the restart policy to this file.", type=click.Path(path_type=Path))
@options.verbose
def command(*, file: Path, out: Path | None, policy_out: Path | None) -> int:
    """Convert PATH, a configuration of another launcher, to a catalogue and a restart policy.

    PATH is a log monitor (SlurmLogMonitor, or a job with log_events), a restart policy, or a Hydra configuration whose
    defaults name /monitoring and /restart. Patterns, states, metadata and limits become a catalogue. Restarts,
    commands, notes and stops become a policy. Entries without a counterpart are listed on stderr, with alternatives.
    """
    try:
        found = import_configuration(loading.read_file(str(file)), str(file))
    except UnicodeDecodeError as fault:
        raise SettingsError([f"{file} is not UTF-8 text ({fault.reason}); save it as that"]) from None
    except OSError as fault:
        raise SettingsError([f"{file} cannot be read: {fault.strerror}; check the path"]) from None
    except (loading.CatalogueError, RestartPolicyError) as fault:
        raise SettingsError(str(fault).splitlines()) from None
    _check_places(file, found, out, policy_out)
    for note in found.notes:
        print(logs.masked(note), file=sys.stderr)
    if policy_out is None and found.policy and found.catalogue:
        what = f"{file}: it also makes a restart policy, with {found.reactions} reactions under on:"
        print(f"{what}; --policy-out PATH writes it", file=sys.stderr)
    if out is not None:
        out.write_text(found.catalogue, encoding="utf-8")
    if policy_out is not None:
        policy_out.write_text(found.policy, encoding="utf-8")
    if out is None and (found.catalogue or policy_out is None):
        print(found.catalogue or found.policy, end="")
    return exits.OK


def _check_places(file: Path, found: ImportedConfiguration, out: Path | None, policy_out: Path | None) -> None:
    if out is not None and not found.catalogue:
        raise SettingsError([f"{file} has a restart policy and no signals; use --policy-out in place of --out"])
    if policy_out is not None and not found.policy:
        raise SettingsError([f"{file} says nothing of restarts; leave --policy-out out"])
    for place in (out, policy_out):
        if place is not None and place.exists() and place.samefile(file):
            raise SettingsError([f"{place} is the file that is taken over; give another name"])
    if out is not None and policy_out is not None and out.resolve() == policy_out.resolve():
        raise SettingsError([f"{out} cannot be both files; give --out and --policy-out two names"])
