"""``preempted``: report that a run ended early on request, and saved a checkpoint first."""

import click

from lastbeat.model.preemption import Preemption
from lastbeat.model.secrets import mask_tokens
from lastbeat.training.sdk import one_shot
from lastbeat_cli import exits, options, report, values

EPILOG = f"""\
{report.EPILOG}
\b
Example:
  trap 'save && lastbeat preempted nightly --checkpoint ckpt/step_1500 --step 1500; exit' TERM
"""


@click.command("preempted", cls=options.Grouped, epilog=EPILOG)
@report.of_run
@options.option("--checkpoint", metavar="PATH-OR-URL", group=report.WHAT, help="Folder or URL of the checkpoint.")
@options.option("--step", metavar="N", group=report.WHAT, help="The last step in the checkpoint.")
@options.option("--why", also=("--reason",), metavar="TEXT", group=report.WHAT, help="The reason why the run ended.")
@options.place
@options.verbose
def command(
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
    name = report.run_id(run_id, faults)
    last = values.whole("--step", step, faults)
    environment = report.environment(given, faults)
    one_shot.preempted(environment, name, Preemption(mask_tokens(checkpoint or ""), last, mask_tokens(why or "")))
    if run_id is None:
        report.tell(environment.store.url, name, given)
    return exits.OK
