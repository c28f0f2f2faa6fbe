"""``beat``: one heartbeat, from a shell script or cron."""

import click

from lastbeat.training.sdk import one_shot
from lastbeat_cli import exits, options, report, values

EPILOG = f"""\
{report.EPILOG}
\b
Examples:
  lastbeat beat nightly --start --phase data_prep
  lastbeat beat nightly --phase training --step 100 --total-steps 5000 --loss 2.31
"""


@click.command("beat", cls=options.Grouped, epilog=EPILOG)
@report.of_run
@options.option(
    "--start", is_flag=True, group=report.WHAT, help="Begin a new attempt; removes the sentinel of the last one."
)
@options.option("--phase", metavar="P", group=report.WHAT, help="The run's phase [as before].")
@options.option("--step", metavar="N", group=report.WHAT, help="The current step; also writes progress.json.")
@options.option("--total-steps", metavar="N", group=report.WHAT, help="Number of steps of the run [as before].")
@options.option("--loss", metavar="F", group=report.WHAT, help="The loss at this step; may be nan.")
@options.option("--learning-rate", metavar="F", group=report.WHAT, help="The learning rate at this step.")
@options.option("--attempt", metavar="N", group=report.WHAT, help="The attempt; a higher number begins a new attempt.")
@options.option("--owner", metavar="NAME", group=report.WHAT, help="Whose run it is [as before].")
@options.option("--team", metavar="NAME", group=report.WHAT, help="The owner's team [as before].")
@options.place
@options.verbose
def command(  # noqa: PLR0913 - one for each option
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
    name = report.run_id(run_id, faults)
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
    environment = report.environment(given, faults)
    if one_shot.beat(environment, name, said, begin=start) and run_id is None:
        report.tell(environment.store.url, name, given)
    return exits.OK
