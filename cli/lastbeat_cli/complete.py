"""``complete``: report that a run succeeded."""

import sys

import click

from lastbeat.training.sdk import one_shot
from lastbeat_cli import exits, options, report


@click.command("complete", cls=options.Grouped, epilog=report.EPILOG)
@report.of_run
@options.place
@options.verbose
def command(*, run_id: str | None, **given: str | None) -> int:
    """Report that a run succeeded: write _complete. An _error of the same attempt outranks it."""
    faults: list[str] = []
    name = report.run_id(run_id, faults)
    environment = report.environment(given, faults)
    succeeded = one_shot.complete(environment, name)
    if run_id is None:
        report.tell(environment.store.url, name, given)
    if not succeeded:
        print(
            f"lastbeat: {name} stays FAILED: the _error of this attempt outranks _complete; "
            "'lastbeat beat RUN --start' begins a new attempt",
            file=sys.stderr,
        )
    return exits.OK
