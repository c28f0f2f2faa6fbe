"""``health``: check the health of a training run, on its Ray cluster or as a run of the fleet."""

import os
import sys
from typing import TYPE_CHECKING

import click

from lastbeat.explain.launchers.traits import RayHead
from lastbeat.jobs.health.clusters import health_of
from lastbeat.jobs.health.lines import lines
from lastbeat.jobs.health.runs import run_health
from lastbeat.jobs.launchers.port import LauncherError
from lastbeat.jobs.launchers.ray_exec.cluster import reach
from lastbeat.model import runid
from lastbeat.model.secrets import mask_tokens
from lastbeat.settings import Settings, SettingsError, opening
from lastbeat.stores.port import MissingStoreError
from lastbeat.views.one_run import run_watch
from lastbeat.watch.record.repository import RecordRepository
from lastbeat_cli import exits, logs, options, values
from lastbeat_cli.document import dump, masked_throughout
from lastbeat_cli.run import one_run

if TYPE_CHECKING:
    from lastbeat.model.training_health import TrainingHealth

WHOSE = "What to check"
EPILOG = """\
\b
Exit status, by the convention of monitoring plug-ins:
  0  healthy
  1  healthy, but there are warnings
  2  not healthy: GPUs missing or unused, or a run that failed or is silent
  3  it could not be observed; also wrong settings or arguments

\b
Examples:
  lastbeat check run llama
  lastbeat check cluster --ray-address http://10.0.0.7:8265 --checkpoint-dir s3://bucket/llama
  lastbeat check cluster --head-pod ray-head --namespace ml --pod worker-0 --pod worker-1
  lastbeat check cluster --head-pod ray-head --json | jq .issues

This command is read-only. For a RUN it reads record and heartbeats, and for a supervised run on Ray also its cluster.
"""


@click.command("health", cls=options.Grouped, epilog=EPILOG, context_settings=options.HELP)
@options.argument(
    "run",
    group=WHOSE,
    listed=("[RUN]", "A run of the fleet; for a cluster use one of the next two options."),
    metavar="[RUN]",
    required=False,
)
@options.option("--head-pod", metavar="POD", group=WHOSE, help="The pod of Ray's head, reached by kubectl.")
@options.option("--ray-address", metavar="URL", group=WHOSE, help="Address of Ray's dashboard: http://HOST:8265.")
@options.option(
    "--pod", "pods", multiple=True, metavar="POD", group=WHOSE, help="A pod with GPUs; may be repeated [the head's]."
)
@options.option("--namespace", metavar="NS", group=WHOSE, help="Namespace of the pods [kubectl's own].")
@options.option("--container", metavar="C", group=WHOSE, help="Container of the head's pod [its first].")
@options.option("--context", metavar="CTX", group=WHOSE, help="Context of kubectl [its current one].")
@options.checkpoint_dir(WHOSE)
@options.place
@options.form
def command(  # noqa: PLR0913 - each is an option
    *,
    run: str | None,
    head_pod: str | None,
    ray_address: str | None,
    pods: tuple[str, ...],
    namespace: str | None,
    container: str | None,
    context: str | None,
    checkpoint_dir: str | None,
    as_json: bool,
    verbose: bool,
    **given: str | None,
) -> int:
    """Check the health of a training run: GPU use, network, Ray's resources and checkpoints.

    Prints each problem with the remedy.
    """

    logs.verbose(on=verbose)
    faults: list[str] = []
    named = [each for each in (run, head_pod, ray_address) if each is not None]
    if len(named) != 1:
        many = "none is named" if not named else "name one of them"
        faults.append(f"whose health? RUN, --head-pod or --ray-address: {many}, as in lastbeat check run llama")
    if run is not None and (pods or namespace or container or context):
        faults.append("--pod, --namespace, --container and --context are of a cluster: leave them out for a RUN")
    if ray_address is not None and (container or context or (namespace and not pods)):
        faults.append("--namespace, --container and --context are of pods: leave them out for a --ray-address")
    if ray_address is not None and "://" not in ray_address:
        faults.append(f"--ray-address={ray_address[:80]} is no address; write it as http://HOST:8265")
    if head_pod is not None and "://" in head_pod:
        faults.append("--head-pod is a pod's name; name an address by --ray-address")
    if run is not None:
        found = _of_run(one_run.read(run, given, faults), run, checkpoint_dir)
    else:
        settings = values.settings(given, faults)
        logs.follow(settings)
        try:
            head = RayHead(ray_address or "", head_pod, namespace or "", container or "", context or "")
            found = health_of(reach(head, pods), checkpoint_dir)
        except LauncherError as error:
            raise SettingsError([error.told]) from None
    if as_json:
        print(dump(masked_throughout(dict(found), logs.redact)))
    else:
        print("\n".join(mask_tokens(logs.redact(each)) for each in lines(found)))
    sys.stdout.flush()
    return {"OK": exits.OK, "WARNING": exits.WARNING, "CRITICAL": exits.CRITICAL}.get(found.level, exits.UNKNOWN)


def _of_run(settings: Settings, run: str, checkpoint_dir: str | None) -> "TrainingHealth":

    store = opening.store(settings)
    try:
        view = run_watch(settings, run, at=store, places=True).look(log_lines=1)
    except MissingStoreError as fault:
        raise one_run.missing(fault) from None
    if view is None:
        raise one_run.unknown(store, run)
    record = RecordRepository(store, f"{run}/{runid.RECORD}", os.urandom(6).hex()).reload()
    return run_health(view, record.supervision if record is not None else None, checkpoint_dir)
